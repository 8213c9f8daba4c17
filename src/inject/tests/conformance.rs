//! The answers that a real API server gave, case by case.
//!
//! What the API server adds by itself is added here to the extent that it meets what is injected.

use super::*;

const WORLD: &str = include_str!("../../../tests/data/conformance/world.json");
const CASES: &str = include_str!("../../../tests/data/conformance/pod.json");

/// The NADs and switches of the conformance world.
fn world() -> World {
    let data: Value = serde_json::from_str(WORLD).unwrap();
    let mut nads = Nads::default();
    let mut switches = None;
    for object in data["objects"].as_array().unwrap() {
        let metadata = &object["metadata"];
        match object["kind"].as_str().unwrap() {
            "NetworkAttachmentDefinition" => {
                let keys = ["k8s.v1.cni.cncf.io/resourceName".to_owned()];
                let nad = Nad::new(&keys, |key| metadata["annotations"][key].as_str());
                nads.insert(
                    metadata["namespace"].as_str().unwrap(),
                    metadata["name"].as_str().unwrap(),
                    nad,
                );
            }
            "ConfigMap" if metadata["name"] == "nri-control-switches" => {
                let loaded =
                    Loaded::parse(object["data"][CONFIG_KEY].as_str(), &Switches::default());
                assert_eq!(loaded.set_aside.len(), 4, "{:?}", loaded.set_aside);
                switches = Some(loaded.switches);
            }
            _ => {}
        }
    }
    World {
        nads,
        switches: switches.unwrap(),
        namespace: "",
    }
}

/// What the API server does to a pod before and after admission: limits are requested, defaults are written.
fn defaulted(mut pod: Value) -> Value {
    let spec = pod["spec"].as_object_mut().unwrap();
    for (field, value) in [
        ("dnsPolicy", json!("ClusterFirst")),
        ("enableServiceLinks", json!(true)),
        ("preemptionPolicy", json!("PreemptLowerPriority")),
        ("priority", json!(0)),
        ("restartPolicy", json!("Always")),
        ("schedulerName", json!("default-scheduler")),
        ("securityContext", json!({})),
        ("terminationGracePeriodSeconds", json!(30)),
    ] {
        spec.entry(field).or_insert(value);
    }
    for container in spec["containers"].as_array_mut().unwrap() {
        let container = container.as_object_mut().unwrap();
        for (field, value) in [
            ("imagePullPolicy", json!("Always")),
            ("resources", json!({})),
            ("terminationMessagePath", json!("/dev/termination-log")),
            ("terminationMessagePolicy", json!("File")),
        ] {
            container.entry(field).or_insert(value);
        }
        let resources = container["resources"].as_object_mut().unwrap();
        if let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() {
            let requests = resources.entry("requests").or_insert_with(|| json!({}));
            for (resource, amount) in limits {
                requests
                    .as_object_mut()
                    .unwrap()
                    .entry(resource)
                    .or_insert(amount);
            }
        }
    }
    for volume in spec
        .get_mut("volumes")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(volume) = volume.get_mut("downwardAPI") {
            volume["defaultMode"] = json!(420);
            for item in volume["items"].as_array_mut().unwrap() {
                if let Some(field) = item.get_mut("fieldRef") {
                    field["apiVersion"] = json!("v1");
                }
            }
        }
    }
    pod
}

/// What a case compares, with the items of volumes in the order of their paths.
fn comparable(pod: &Value) -> Value {
    let mut comparable = json!({"metadata": {}, "spec": pod["spec"]});
    for part in ["annotations", "labels"] {
        if let Some(map) = pod["metadata"].get(part) {
            comparable["metadata"][part] = map.clone();
        }
    }
    let volumes = comparable["spec"]
        .get_mut("volumes")
        .and_then(Value::as_array_mut);
    for volume in volumes.into_iter().flatten() {
        if let Some(items) = volume
            .pointer_mut("/downwardAPI/items")
            .and_then(Value::as_array_mut)
        {
            items.sort_by_key(|item| item["path"].to_string());
        }
    }
    comparable
}

#[test]
fn all_cases() {
    let world = world();
    let cases: Vec<Value> = serde_json::from_str(CASES).unwrap();
    assert!(cases.len() > 70);
    for case in cases {
        let id = case["id"].as_str().unwrap();
        let expect = &case["expect"];
        let pod = defaulted(case["object"].clone());
        if expect["by"] == "webhook" {
            let message = world.denied(&pod);
            assert!(!message.is_empty(), "{id}");
            continue;
        }
        let (admitted, _) = world.admit(&pod);
        if expect["allowed"] == true {
            let admitted = defaulted(admitted);
            assert_eq!(comparable(&admitted), comparable(&expect["result"]), "{id}");
            assert!(
                matches!(world.decide(&admitted), Outcome::Unchanged { .. }),
                "{id}, the second time"
            );
        }
    }
}
