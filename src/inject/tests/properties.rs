//! What holds for every pod.

use k8s_openapi::api::core::v1::Pod;
use proptest::{option, prelude::*, sample::select};

use super::*;

/// A world in which each network of [`networks`] exists, with labels `inject-…` that add others.
fn world(honor_existing: bool) -> World {
    let mut world = World::new()
        .selecting("sel", "rack=a")
        .injecting("inject-nets", NETWORKS, "bar,foo")
        .injecting("inject-team", "team", "net");
    world.nad(
        "default/odd",
        &[
            ("k8s.v1.cni.cncf.io/resourceName", "a~b/c"),
            ("example.com/second", "d"),
        ],
    );
    world.switches.honor_existing = honor_existing;
    world
}

fn networks() -> impl Strategy<Value = String> {
    let network = select(vec![
        "foo",
        "foo2",
        "bar",
        "plain",
        "odd",
        "sel",
        "tenant/foo",
        "foo@net1.100",
        " ",
    ]);
    prop::collection::vec(network, 0..5).prop_map(|networks| networks.join(","))
}

fn amounts() -> impl Strategy<Value = Value> {
    let resource = select(vec![
        "example.com/foo",
        "example.com/bar",
        "a~b/c",
        "cpu",
        "hugepages-1Gi",
        "hugepages-64Ki",
    ]);
    let amount = select(vec!["0", "1", "2", "1k", "0.5", "1e1", "3000m", "1Ki"]);
    let map = prop::collection::btree_map(resource, amount, 0..4);
    prop_oneof![Just(Value::Null), map.prop_map(|map| json!(map))]
}

fn container() -> impl Strategy<Value = Value> {
    let resources = option::of((amounts(), amounts()));
    let mounts = option::of(prop::collection::vec(
        select(vec![
            ("v", "/v"),
            ("podnetinfo", "/etc/podnetinfo"),
            ("v", "/etc/podnetinfo/"),
            ("podnetinfo", "/else"),
        ]),
        0..2,
    ));
    let env = option::of(prop::collection::vec(
        select(vec!["A", "CONTAINER_NAME"]),
        0..2,
    ));
    let policy = option::of(select(vec!["Always", "Never"]));
    ("[a-z]{1,5}", resources, mounts, env, policy).prop_map(|(name, resources, mounts, env, policy)| {
        let mut container = json!({"name": name, "image": "registry.example.com/x:1", "command": ["a", 1.5e300, null]});
        if let Some((requests, limits)) = resources {
            container["resources"] = json!({"requests": requests, "limits": limits, "claims": [{"name": "x"}]});
        }
        if let Some(mounts) = mounts {
            let mounts: Vec<Value> = mounts.into_iter().map(|(name, path)| json!({"name": name, "mountPath": path})).collect();
            container["volumeMounts"] = json!(mounts);
        }
        if let Some(env) = env {
            let env: Vec<Value> = env.into_iter().map(|name| json!({"name": name, "value": "\u{1}é"})).collect();
            container["env"] = json!(env);
        }
        if let Some(policy) = policy {
            container["restartPolicy"] = json!(policy);
        }
        container
    })
}

fn pods() -> impl Strategy<Value = Value> {
    let labels = option::of(prop::collection::btree_map(
        select(vec!["inject-nets", "inject-team", "app"]),
        select(vec!["true", "TRUE", "false", "x"]),
        0..3,
    ));
    let volumes = option::of(prop::collection::vec(select(vec!["v", "podnetinfo"]), 0..2));
    let selector = option::of(prop::collection::btree_map(
        select(vec!["rack", "zone"]),
        select(vec!["a", "b"]),
        0..2,
    ));
    let containers = prop::collection::vec(container(), 0..4);
    let sidecars = option::of(prop::collection::vec(container(), 0..3));
    let annotations = option::of((
        option::of(networks()),
        option::of(select(vec!["foo", "cluster-wide", ""])),
    ));
    (labels, annotations, volumes, selector, containers, sidecars).prop_map(
        |(labels, annotations, volumes, selector, containers, init_containers)| {
            let mut pod = json!({
                "metadata": {"name": "p", "uid": "1", "finalizers": []},
                "spec": {"containers": containers, "priority": 5, "affinity": {"a": [{}]}},
                "status": {"phase": "Pending"},
            });
            if let Some(labels) = labels {
                pod["metadata"]["labels"] = json!(labels);
            }
            if let Some((networks, default)) = annotations {
                pod["metadata"]["annotations"] = json!({"note": "\"quoted\" \\ \u{7f} <&>"});
                for (key, value) in [
                    (NETWORKS, networks),
                    (DEFAULT_NETWORK, default.map(str::to_owned)),
                ] {
                    if let Some(value) = value {
                        pod["metadata"]["annotations"][key] = json!(value);
                    }
                }
            }
            if let Some(volumes) = volumes {
                let volumes: Vec<Value> = volumes
                    .into_iter()
                    .map(|name| json!({"name": name, "emptyDir": {}}))
                    .collect();
                pod["spec"]["volumes"] = json!(volumes);
            }
            if let Some(selector) = selector {
                pod["spec"]["nodeSelector"] = json!(selector);
            }
            if let Some(init_containers) = init_containers {
                pod["spec"]["initContainers"] = json!(init_containers);
            }
            pod
        },
    )
}

/// The containers of a list of the spec.
fn containers<'p>(pod: &'p Value, list: &str) -> impl Iterator<Item = &'p Value> {
    pod["spec"][list].as_array().into_iter().flatten()
}

/// What the pod's running containers ask for together.
fn total(pod: &Value, resource: &str) -> Quantity {
    let sidecars = containers(pod, "initContainers")
        .filter(|container| container["restartPolicy"] == "Always");
    let mut total = Quantity::ZERO;
    for container in containers(pod, "containers").chain(sidecars) {
        let resources = &container["resources"];
        let amount = resources["requests"][resource]
            .as_str()
            .or(resources["limits"][resource].as_str());
        total = total.plus(amount.unwrap_or("0").parse().unwrap()).unwrap();
    }
    total
}

/// How many attachments of the pod need `example.com/foo`: its networks are all in the list form.
fn foos(pod: &Value) -> u64 {
    let annotations = &pod["metadata"]["annotations"];
    let networks = annotations[NETWORKS]
        .as_str()
        .unwrap_or_default()
        .split(',');
    let all = networks.chain(annotations[DEFAULT_NETWORK].as_str());
    let foos = all.filter(|network| matches!(*network, "foo" | "foo2" | "foo@net1.100"));
    foos.count().try_into().unwrap()
}

/// The pod without anything that injection may add or replace.
fn not_ours(mut pod: Value) -> Value {
    let strip = |map: &mut Value, keys: &[&str]| {
        if let Some(map) = map.as_object_mut() {
            map.retain(|key, _| !keys.contains(&key.as_str()));
        }
    };
    let strip_list = |list: &mut Value, name: &str| {
        if let Some(list) = list.as_array_mut() {
            list.retain(|item| item["name"] != name);
        }
    };
    let drop_empty = |parent: &mut Value, key: &str| {
        let empty = match &parent[key] {
            Value::Object(map) => map.is_empty(),
            Value::Array(list) => list.is_empty(),
            other => other.is_null(),
        };
        if empty && let Some(parent) = parent.as_object_mut() {
            parent.remove(key);
        }
    };
    strip(
        &mut pod["metadata"]["annotations"],
        &[NETWORKS, "team", INJECTED_RESOURCES],
    );
    drop_empty(&mut pod["metadata"], "annotations");
    strip(&mut pod["spec"]["nodeSelector"], &["rack"]);
    drop_empty(&mut pod["spec"], "nodeSelector");
    strip_list(&mut pod["spec"]["volumes"], "podnetinfo");
    drop_empty(&mut pod["spec"], "volumes");
    for list in ["containers", "initContainers"] {
        for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
            strip_list(&mut container["volumeMounts"], "podnetinfo");
            strip_list(&mut container["env"], "CONTAINER_NAME");
            for field in ["requests", "limits"] {
                strip(
                    &mut container["resources"][field],
                    &[
                        "example.com/foo",
                        "example.com/bar",
                        "example.com/tenant",
                        "example.com/wide",
                        "a~b/c",
                        "d",
                    ],
                );
                drop_empty(&mut container["resources"], field);
            }
            for field in ["volumeMounts", "env", "resources"] {
                drop_empty(container, field);
            }
        }
    }
    pod
}

/// The pod in its type; it has arguments that no API server takes.
fn typed(pod: &Value) -> Pod {
    let mut pod = pod.clone();
    for list in ["containers", "initContainers"] {
        for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
            container.as_object_mut().unwrap().remove("command");
        }
    }
    serde_json::from_value(pod).unwrap()
}

proptest! {
    #[test]
    fn the_patch_makes_the_pod_that_the_rules_say(pod in pods(), honor in any::<bool>()) {
        let (admitted, _) = world(honor).admit(&pod);
        prop_assert_eq!(typed(&admitted), model::admitted(&typed(&pod), honor), "{}", pod);
    }

    #[test]
    fn injecting_the_result_again_changes_nothing(pod in pods(), honor in any::<bool>()) {
        let world = world(honor);
        let (once, _) = world.admit(&pod);
        let outcome = world.ask(&once);
        prop_assert!(matches!(outcome, Outcome::Unchanged { .. }), "{once}: {outcome:?}");
    }

    #[test]
    fn totals_never_fall_below_the_attachments(pod in pods(), honor in any::<bool>()) {
        let (admitted, _) = world(honor).admit(&pod);
        if containers(&pod, "containers").next().is_some() {
            let before = total(&pod, "example.com/foo");
            let after = total(&admitted, "example.com/foo");
            let wanted = Quantity::from(foos(&admitted));
            prop_assert!(after >= wanted);
            let exactly = if honor { before.plus(wanted).unwrap() } else { before.max(wanted) };
            prop_assert_eq!(after, exactly);
        }
    }

    #[test]
    fn fields_of_others_come_back_as_they_were(pod in pods(), honor in any::<bool>()) {
        let (admitted, _) = world(honor).admit(&pod);
        prop_assert_eq!(not_ours(admitted), not_ours(pod));
    }

    #[test]
    fn names_and_paths_stay_unique(pod in pods()) {
        let (admitted, _) = world(false).admit(&pod);
        for list in ["containers", "initContainers"] {
            for (before, after) in containers(&pod, list).zip(containers(&admitted, list)) {
                for (field, name) in [("volumeMounts", "podnetinfo"), ("env", "CONTAINER_NAME")] {
                    let count = |container: &Value| {
                        let items = container[field].as_array().into_iter().flatten();
                        items.filter(|item| item["name"] == name).count()
                    };
                    prop_assert!(count(after) <= count(before).max(1));
                }
            }
        }
    }

    #[test]
    fn any_annotations_get_an_answer(networks in any::<String>(), default in any::<String>(), record in any::<String>()) {
        let mut pod = pod(&networks);
        pod["metadata"]["annotations"][DEFAULT_NETWORK] = json!(default);
        pod["metadata"]["annotations"][INJECTED_RESOURCES] = json!(record);
        for world in [world(false), world(true)] {
            if let Outcome::Denied { message, .. } = world.decide(&pod) {
                prop_assert!(!message.contains(char::is_control), "{:?}", message);
                prop_assert!(message.len() < 20_000);
            }
        }
    }
}
