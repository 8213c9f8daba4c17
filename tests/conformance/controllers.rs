//! Cases of the other controllers: a network and the attachment definition that comes of it; a set of policies and
//! the node states, device plugin configuration and node labels that come of it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{Outcome, compare, data, judge, not_yet};
use crate::support::cluster::Cluster;
use crate::support::kinds::{CONFIG_MAP, NAD, NODE, NODE_STATE, POLICY, text};
use crate::support::scene::Scene;
use crate::support::user::User;
use crate::support::wait::eventually;
use crate::support::world;

const EXPECTED: Duration = Duration::from_secs(20);
/// What no controller makes is not there after a moment either.
const NOT_YET: Duration = Duration::from_millis(300);
const PLUGIN_LABEL: &str = "sriovnetwork.openshift.io/device-plugin";

#[tokio::test]
async fn every_recorded_controller_case_comes_out_as_recorded() -> Result<()> {
    let mut scene = Scene::bare(Cluster::boot().await?).await?;
    let admin = scene.admin();
    let recorded = data("controllers.json")?;
    let mut objects = recorded["world"].as_array().context("no world")?.clone();
    for node in objects.iter_mut().filter(|object| object["kind"] == "Node") {
        node["metadata"]["labels"]["node-role.kubernetes.io/worker"] = "".into();
    }
    install_nads(admin).await?;
    world::load(admin, &objects).await?;
    // The policies are about what controllers make of them; admission would refuse NICs that are not listed.
    let without_webhooks = json!({ "enableInjector": false, "enableOperatorWebhook": false });
    scene.configure(&without_webhooks).await?;
    scene.operator.start()?;
    scene.is_ready().await?;

    let admin = scene.admin();
    let mut outcomes = Vec::new();
    let networks = recorded["networks"].as_array().context("no networks")?;
    for case in networks {
        // The recorded world leaves out the namespaces that networks are for.
        let name = text(&case["nad"], "/metadata/namespace");
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        admin.ensure(&namespace).await?;
        admin.create(&case["network"]).await?;
    }
    for case in networks {
        let id = format!("networks/{}", text(&case["network"], "/metadata/name"));
        let fault = settled(&id, async || attachment(admin, &case["nad"]).await).await?;
        outcomes.push(Outcome { id, fault });
    }
    for (name, set) in recorded["policies"].as_object().context("no policies")? {
        let id = format!("policies/{name}");
        let policies = set["policies"].as_array().context("an empty set")?;
        for policy in policies {
            admin.create(policy).await?;
        }
        let fault = settled(&id, async || policy_set(admin, set).await).await?;
        outcomes.push(Outcome { id, fault });
        for policy in policies {
            admin.delete(POLICY, text(policy, "/metadata/name")).await?;
        }
    }
    judge(&outcomes)
}

/// The fault that is left after the time that the case has.
async fn settled(id: &str, check: impl AsyncFn() -> Result<()>) -> Result<Option<String>> {
    let within = if not_yet()?.contains_key(id) {
        NOT_YET
    } else {
        EXPECTED
    };
    let end = eventually(within, "the recorded outcome", check).await;
    Ok(end.err().map(|error| format!("{error:#}")))
}

async fn attachment(admin: &User, expected: &Value) -> Result<()> {
    let name = format!(
        "{}/{}",
        text(expected, "/metadata/namespace"),
        text(expected, "/metadata/name")
    );
    let mut actual = admin.must_get(NAD, &name).await?;
    let config: Value = serde_json::from_str(text(&actual, "/spec/config"))?;
    actual["spec"]["config"] = config;
    same(&subset(&actual, expected), expected, &name)
}

async fn policy_set(admin: &User, set: &Value) -> Result<()> {
    for (node, label) in set["labels"].as_object().into_iter().flatten() {
        let actual = admin.must_get(NODE, node).await?;
        let actual = actual["metadata"]["labels"].get(PLUGIN_LABEL);
        same(
            actual.unwrap_or(&Value::Null),
            label,
            &format!("label of {node}"),
        )?;
    }
    for (node, state) in set["states"].as_object().into_iter().flatten() {
        let actual = admin.must_get(NODE_STATE, node).await?;
        same(
            &subset(&actual, state),
            state,
            &format!("node state {node}"),
        )?;
    }
    if let Some(plugin) = set.get("device_plugin") {
        let stored = admin.must_get(CONFIG_MAP, "device-plugin-config").await?;
        for (node, expected) in plugin.as_object().into_iter().flatten() {
            let actual: Value = serde_json::from_str(text(&stored["data"], &format!("/{node}")))?;
            let (actual, expected) = (unordered(&actual), unordered(expected));
            same(&actual, &expected, &format!("device plugin of {node}"))?;
        }
    }
    Ok(())
}

/// Those parts of the object that were recorded: the recorded fields of `metadata` (of owners, too), and `spec`.
fn subset(actual: &Value, expected: &Value) -> Value {
    let pick = |from: &Value, like: &Value| -> Value {
        like.as_object()
            .into_iter()
            .flatten()
            .map(|(key, _)| (key.clone(), from[key].clone()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let mut metadata = pick(&actual["metadata"], &expected["metadata"]);
    if let (Some(owners), Some(like)) = (
        metadata["ownerReferences"].as_array().cloned(),
        expected.pointer("/metadata/ownerReferences/0"),
    ) {
        metadata["ownerReferences"] = owners.iter().map(|owner| pick(owner, like)).collect();
    }
    json!({ "metadata": metadata, "spec": actual["spec"] })
}

fn unordered(plugin: &Value) -> Value {
    let mut plugin = plugin.clone();
    if let Some(resources) = plugin["resourceList"].as_array_mut() {
        resources.sort_by_key(ToString::to_string);
    }
    plugin
}

fn same(actual: &Value, expected: &Value, what: &str) -> Result<()> {
    let (actual, expected) = (
        compare::without_empty(actual),
        compare::without_empty(expected),
    );
    let difference = compare::difference(&actual, &expected);
    ensure!(
        difference.is_none(),
        "{what}: {}",
        difference.unwrap_or_default()
    );
    Ok(())
}

/// The recorded world has no definition of its own for attachment definitions; the seed does.
async fn install_nads(admin: &User) -> Result<()> {
    let seed = world::seeds()?;
    let wanted = |object: &Value| {
        object["kind"] == "CustomResourceDefinition"
            || object["metadata"]["name"] == "supported-nic-ids"
    };
    let objects: Vec<Value> = seed.into_iter().filter(wanted).collect();
    world::load(admin, &objects).await
}
