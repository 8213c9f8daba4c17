//! The operator's roles grant exactly what its templates make, by name: no more, and no less.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sriov_operator::apply::Kind;
use sriov_operator::render::{Component, ObjectName, SWITCHES};

use super::helm::{Objects, RELEASE, render};

/// API group, resource and name.
type Right = (String, String, String);

const SECRETS: [&str; 3] = [
    "sriov-operator-ca",
    "operator-webhook-cert",
    "network-resources-injector-cert",
];
/// What is made by a POST, which cannot be granted by name.
const POSTED: [(&str, &str); 5] = [
    ("", "configmaps"),
    ("", "secrets"),
    ("", "pods/eviction"),
    ("coordination.k8s.io", "leases"),
    ("events.k8s.io", "events"),
];
/// What is called like a network, or like a node.
const NAMED_BY_USERS: [(&str, &str); 2] = [
    ("k8s.cni.cncf.io", "network-attachment-definitions"),
    ("sriovnetwork.openshift.io", "sriovnetworknodestates"),
];
/// The configuration of the nodes' device plugins, which no template makes.
const PLUGIN_CONFIG: (&str, &str, &str) = ("", "configmaps", "device-plugin-config");

#[test]
fn roles_grant_writes_on_exactly_the_objects_that_the_templates_make() -> Result<()> {
    for dedicated in [false, true] {
        for openshift in [false, true] {
            let objects = render(&json!({ "operator": {
                "clusterType": if openshift { "openshift" } else { "kubernetes" },
                "admissionControllers": { "serving": if dedicated { "dedicated" } else { "in-process" } },
            } }))?;
            let rules = rules(&objects)?;
            let catalogue: Vec<ObjectName> = Component::ALL
                .into_iter()
                .flat_map(Component::objects)
                .copied()
                .collect();
            let made = catalogue
                .iter()
                .copied()
                .filter(|object| dedicated || !is_of_dedicated_webhooks(*object));
            let made: BTreeSet<Right> = made.map(right).collect();
            let handed_out: BTreeSet<Right> = made
                .iter()
                .filter(|(_, resource, _)| resource == "roles" || resource == "clusterroles")
                .cloned()
                .collect();
            let secrets =
                SECRETS.map(|name| (String::new(), "secrets".to_owned(), name.to_owned()));

            ensure!(
                granted(&rules, "create") == made,
                "dedicated: {dedicated}, OpenShift: {openshift}"
            );
            let mut patched = made.clone();
            patched.extend(secrets.clone());
            patched.insert(right(SWITCHES));
            patched.insert(plugin_config());
            ensure!(
                granted(&rules, "patch") == patched,
                "dedicated: {dedicated}, OpenShift: {openshift}"
            );
            ensure!(
                granted(&rules, "escalate") == handed_out && granted(&rules, "bind") == handed_out
            );
            let mut deleted: BTreeSet<Right> = catalogue.iter().copied().map(right).collect();
            deleted.extend(secrets);
            deleted.insert(right(SWITCHES));
            deleted.insert(plugin_config());
            ensure!(
                granted(&rules, "delete") == deleted,
                "dedicated: {dedicated}, OpenShift: {openshift}"
            );
        }
    }
    Ok(())
}

#[test]
fn what_is_granted_without_a_name_is_reading_posting_and_the_configuration() -> Result<()> {
    let rules = rules(&render(&json!({}))?)?;
    let posted: BTreeSet<(&str, &str)> = POSTED.into();
    for rule in &rules {
        ensure!(texts(rule, "verbs").all(|verb| verb != "*"), "{rule}");
        ensure!(
            texts(rule, "resources").all(|resource| resource != "*"),
            "{rule}"
        );
        if texts(rule, "resourceNames").next().is_some() {
            continue;
        }
        let (group, resource) = (
            texts(rule, "apiGroups").next(),
            texts(rule, "resources").next(),
        );
        let key = group.zip(resource);
        let may_post = key.is_some_and(|key| posted.contains(&key));
        for verb in texts(rule, "verbs") {
            let fine = match verb {
                "get" | "list" | "watch" => resource != Some("secrets"),
                "create" | "patch" | "delete"
                    if key.is_some_and(|key| NAMED_BY_USERS.contains(&key)) =>
                {
                    true
                }
                "create" => may_post,
                // An Event that repeats is counted up.
                "patch" if resource == Some("events") => true,
                // A node is labelled for its device plugin, whose pods are restarted, and cordoned for its drain.
                "patch" if key == Some(("", "nodes")) => true,
                "delete" if key == Some(("", "pods")) => true,
                "patch" => group == Some("sriovnetwork.openshift.io"),
                "update" => resource == Some("sriovoperatorconfigs/finalizers"),
                _ => false,
            };
            ensure!(fine, "{verb} without a name: {rule}");
        }
    }
    Ok(())
}

#[test]
fn secrets_and_roles_follow_the_values() -> Result<()> {
    let values = json!({ "operator": { "admissionControllers": { "certificates": {
        "secretNames": { "operator": "mine", "injector": "yours" },
        "certManager": { "enabled": true },
    } } } });
    let rules = rules(&render(&values)?)?;
    let secrets: Vec<&Value> = rules
        .iter()
        .filter(|rule| texts(rule, "resources").any(|resource| resource == "secrets"))
        .collect();
    ensure!(
        secrets.len() == 1,
        "nothing makes a Secret here: {secrets:?}"
    );
    ensure!(texts(secrets[0], "resourceNames").eq(["sriov-operator-ca", "mine", "yours"]));
    Ok(())
}

/// Objects of the webhooks' own workloads, which in-process serving only removes.
fn is_of_dedicated_webhooks(object: ObjectName) -> bool {
    let webhooks = [Component::OperatorWebhook, Component::Injector];
    let shared = [
        "Service",
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
    ];
    webhooks
        .iter()
        .any(|component| component.objects().contains(&object))
        && !shared.contains(&object.kind)
}

fn plugin_config() -> Right {
    let (group, resource, name) = PLUGIN_CONFIG;
    (group.to_owned(), resource.to_owned(), name.to_owned())
}

fn right(object: ObjectName) -> Right {
    let group = object
        .api_version
        .split_once('/')
        .map_or("", |(group, _)| group);
    let plural = Kind::find(object.api_version, object.kind).map_or("unknown", |kind| kind.plural);
    (group.to_owned(), plural.to_owned(), object.name.to_owned())
}

/// The rules of the operator's Role and `ClusterRole`.
fn rules(objects: &Objects) -> Result<Vec<Value>> {
    let mut rules = Vec::new();
    for kind in ["Role", "ClusterRole"] {
        rules.extend(
            objects.get(kind, RELEASE)?["rules"]
                .as_array()
                .cloned()
                .unwrap_or_default(),
        );
    }
    Ok(rules)
}

/// What a verb is granted on by name.
fn granted(rules: &[Value], verb: &str) -> BTreeSet<Right> {
    let mut rights = BTreeSet::new();
    for rule in rules
        .iter()
        .filter(|rule| texts(rule, "verbs").any(|granted| granted == verb))
    {
        for group in texts(rule, "apiGroups") {
            for resource in texts(rule, "resources") {
                for name in texts(rule, "resourceNames") {
                    rights.insert((group.to_owned(), resource.to_owned(), name.to_owned()));
                }
            }
        }
    }
    rights
}

fn texts<'a>(rule: &'a Value, field: &str) -> impl Iterator<Item = &'a str> {
    rule[field]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}
