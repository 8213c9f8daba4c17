//! What holds for every component and every object: names, labels, owners, images, templates.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{
    super::{
        Component, ComponentError, Desired, MANAGED_BY, MANAGED_BY_LABEL, ObjectName, Owners,
        Renderer, SWITCHES, Switches,
    },
    World, variants,
};

#[test]
fn a_new_cluster_gets_webhooks_daemon_and_device_plugin() {
    let on: Vec<Component> = World::new()
        .all()
        .into_iter()
        .filter(|(_, outcome)| matches!(outcome, Ok(Desired::On(_))))
        .map(|(component, _)| component)
        .collect();
    assert_eq!(on, &Component::ALL[..4]);
}

#[test]
fn the_catalogue_holds_exactly_what_can_be_rendered() {
    let mut seen: BTreeMap<Component, BTreeSet<(String, String, String)>> = BTreeMap::new();
    let mut switches = BTreeSet::new();
    let key = |object: &Value| {
        let text = |pointer| {
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap()
                .to_owned()
        };
        (text("/apiVersion"), text("/kind"), text("/metadata/name"))
    };
    for (_, world) in variants::all() {
        for (component, outcome) in world.all() {
            if let Ok(Desired::On(rendered)) = outcome {
                seen.entry(component)
                    .or_default()
                    .extend(rendered.objects.iter().map(key));
                switches.extend(rendered.created_once.iter().map(key));
                let places: Vec<usize> = rendered
                    .objects
                    .iter()
                    .map(key)
                    .map(|rendered| {
                        component
                            .objects()
                            .iter()
                            .position(|o| {
                                (o.api_version, o.kind, o.name)
                                    == (&rendered.0, &rendered.1, &rendered.2)
                            })
                            .unwrap()
                    })
                    .collect();
                assert!(
                    places.is_sorted(),
                    "{component} in the order of the catalogue"
                );
            }
        }
    }
    let name = |o: &ObjectName| {
        (
            o.api_version.to_owned(),
            o.kind.to_owned(),
            o.name.to_owned(),
        )
    };
    for component in Component::ALL {
        let listed: BTreeSet<_> = component.objects().iter().map(name).collect();
        assert_eq!(seen.remove(&component), Some(listed), "{component}");
    }
    assert_eq!(switches, BTreeSet::from([name(&SWITCHES)]));
}

#[test]
fn everything_carries_our_label_and_goes_with_its_owner() {
    for (variant, mut world) in variants::all() {
        world.owners = World::new().owners;
        for (component, outcome) in world.all() {
            let Ok(Desired::On(rendered)) = outcome else {
                continue;
            };
            for object in rendered.objects.iter().chain(&rendered.created_once) {
                let metadata = &object["metadata"];
                assert_eq!(
                    metadata["labels"][MANAGED_BY_LABEL], MANAGED_BY,
                    "{variant} {component}"
                );
                let owner = &metadata["ownerReferences"][0]["kind"];
                match (metadata["namespace"].as_str(), object["kind"].as_str()) {
                    (Some(namespace), _) => {
                        assert_eq!((namespace, owner), ("sriov", &json!("SriovOperatorConfig")));
                    }
                    (None, Some("MachineConfig")) => assert_eq!(owner, &Value::Null),
                    (None, _) => assert_eq!(owner, "Namespace"),
                }
            }
        }
    }
}

#[test]
fn what_is_only_printed_has_no_owner() {
    let mut world = World::new();
    world.owners = Owners::default();
    for object in world.rendered(Component::OperatorWebhook).objects {
        assert_eq!(object["metadata"].get("ownerReferences"), None);
    }
}

#[test]
fn a_component_without_its_image_keeps_none_of_the_others_back() {
    for (variable, failing) in [
        (
            "SRIOV_NETWORK_CONFIG_DAEMON_IMAGE",
            vec![Component::ConfigDaemon, Component::DevicePlugin],
        ),
        ("SRIOV_CNI_IMAGE", vec![Component::ConfigDaemon]),
        ("SRIOV_INFINIBAND_CNI_IMAGE", vec![Component::ConfigDaemon]),
        ("SRIOV_DEVICE_PLUGIN_IMAGE", vec![Component::DevicePlugin]),
        ("METRICS_EXPORTER_IMAGE", vec![Component::MetricsExporter]),
        (
            "METRICS_EXPORTER_KUBE_RBAC_PROXY_IMAGE",
            vec![Component::MetricsExporter],
        ),
        (
            "SRIOV_NETWORK_WEBHOOK_IMAGE",
            vec![Component::OperatorWebhook],
        ),
        (
            "NETWORK_RESOURCES_INJECTOR_IMAGE",
            vec![Component::Injector],
        ),
    ] {
        let world = World::new()
            .gate("metricsExporter", true)
            .with("ADMISSION_SERVING", "dedicated")
            .with(variable, "");
        for (component, outcome) in world.all() {
            let expected = failing
                .contains(&component)
                .then_some(ComponentError::ImageNotSet { variable });
            assert_eq!(outcome.err(), expected, "{component} without {variable}");
        }
    }
    let in_process = World::new().with("SRIOV_NETWORK_WEBHOOK_IMAGE", "");
    assert!(
        in_process.outcome(Component::OperatorWebhook).is_ok(),
        "it needs no image"
    );
}

#[test]
fn a_directory_of_templates_replaces_those_built_in() {
    let directory = tempfile::tempdir().unwrap();
    for component in Component::directories() {
        let path = directory.path().join(component);
        std::fs::create_dir(&path).unwrap();
        let text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: only\n  namespace: {{ namespace }}\n";
        std::fs::write(path.join("010-only.yaml"), text).unwrap();
        std::fs::write(path.join("README.md"), "not a template {{").unwrap();
    }
    let renderer = Renderer::from_dir(directory.path()).unwrap();
    let switches = Switches {
        namespace: "a: b".to_owned(),
    };
    let objects = renderer.switches(&switches, &Owners::default()).unwrap();
    assert_eq!(objects[0]["metadata"]["namespace"], "a: b");

    let file = directory.path().join("injector-switches/010-only.yaml");
    std::fs::write(&file, "a: 1\nb: {{ namespace }}\nc: {{ nobody }}\n").unwrap();
    let renderer = Renderer::from_dir(directory.path()).unwrap();
    let error = renderer
        .switches(&switches, &Owners::default())
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "template injector-switches/010-only.yaml, line 3: undefined value: `nobody` is undefined"
    );
    std::fs::write(&file, "a: {{ }").unwrap();
    let error = Renderer::from_dir(directory.path())
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.starts_with("template injector-switches/010-only.yaml, line 1"),
        "{error}"
    );
    std::fs::remove_file(&file).unwrap();
    let error = Renderer::from_dir(directory.path())
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("injector-switches"), "{error}");
}
