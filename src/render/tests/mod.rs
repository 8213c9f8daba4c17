//! What a config and an environment come to, as objects.

mod golden;
mod properties;
mod variants;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::*;
use crate::{
    api::SriovOperatorConfigSpec,
    features::Features,
    settings::{Flags, Settings, tls::TlsOptions},
};

/// An environment in which every component that is switched on has its image.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("NAMESPACE", "sriov"),
    ("CLUSTER_TYPE", "kubernetes"),
    ("RESOURCE_PREFIX", "openshift.io"),
    ("RELEASE_VERSION", "4.20.0"),
    (
        "SRIOV_NETWORK_CONFIG_DAEMON_IMAGE",
        "example.com/config-daemon",
    ),
    ("SRIOV_CNI_IMAGE", "example.com/sriov-cni"),
    ("SRIOV_INFINIBAND_CNI_IMAGE", "example.com/ib-sriov-cni"),
    ("SRIOV_DEVICE_PLUGIN_IMAGE", "example.com/device-plugin"),
    ("SRIOV_NETWORK_WEBHOOK_IMAGE", "example.com/sriov-operator"),
    (
        "NETWORK_RESOURCES_INJECTOR_IMAGE",
        "example.com/sriov-operator",
    ),
    ("METRICS_EXPORTER_IMAGE", "example.com/metrics-exporter"),
    (
        "METRICS_EXPORTER_KUBE_RBAC_PROXY_IMAGE",
        "example.com/kube-rbac-proxy",
    ),
];

/// Everything that rendering depends on, owned, to be changed by a test.
pub(super) struct World {
    config: Value,
    environment: BTreeMap<String, String>,
    hypershift: bool,
    cluster_tls: Option<TlsOptions>,
    operator: Registration,
    injector: Registration,
    owners: Owners,
}

impl World {
    /// All webhooks on, in process, self-signed.
    fn new() -> Self {
        let owner = |name: &str, uid: &str| {
            Some(Owner {
                name: name.to_owned(),
                uid: uid.to_owned(),
            })
        };
        let bundle = Registration {
            ca_bundle: Some("the bundle\n".to_owned()),
            failure_policy: None,
        };
        Self {
            config: json!({"enableInjector": true, "enableOperatorWebhook": true}),
            environment: ENVIRONMENT
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            hypershift: false,
            cluster_tls: None,
            operator: bundle.clone(),
            injector: bundle,
            owners: Owners {
                config: owner("default", "0c0f"),
                namespace: owner("sriov", "0a0b"),
            },
        }
    }

    fn with(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.to_owned(), value.to_owned());
        self
    }

    fn config(mut self, field: &str, value: Value) -> Self {
        self.config[field] = value;
        self
    }

    fn gate(mut self, name: &str, enabled: bool) -> Self {
        self.config["featureGates"][name] = enabled.into();
        self
    }

    fn openshift(mut self) -> Self {
        self.operator = Registration::default();
        self.injector = Registration::default();
        self.with("CLUSTER_TYPE", "openshift")
    }

    fn all(&self) -> Vec<(Component, Result<Desired, ComponentError>)> {
        let spec: SriovOperatorConfigSpec = serde_json::from_value(self.config.clone()).unwrap();
        let settings = Settings::read(&Flags::default(), self.environment.clone()).unwrap();
        let features = Features::new(spec.feature_gates.iter().flatten());
        let facts = Facts {
            config: &spec,
            settings: &settings,
            features: &features,
            hypershift: self.hypershift,
            cluster_tls: self.cluster_tls.as_ref(),
            operator_registration: &self.operator,
            injector_registration: &self.injector,
            injector_condition: &injector_condition([]),
        };
        all(&Renderer::embedded().unwrap(), &facts, &self.owners)
    }

    fn outcome(&self, component: Component) -> Result<Desired, ComponentError> {
        let mut all = self.all();
        let index = all.iter().position(|(each, _)| *each == component).unwrap();
        all.swap_remove(index).1
    }

    fn rendered(&self, component: Component) -> Rendered {
        match self.outcome(component).unwrap() {
            Desired::On(rendered) => rendered,
            Desired::Off => panic!("{component} is off"),
        }
    }

    /// The one object of this kind that a component renders.
    fn object(&self, component: Component, kind: &str) -> Value {
        let mut objects = self.rendered(component).objects;
        objects.retain(|object| object["kind"] == kind);
        assert!(!objects.is_empty(), "{component} renders no {kind}");
        objects.remove(0)
    }

    /// `kind/name` of what a component applies, in order.
    fn names(&self, component: Component) -> Vec<String> {
        let objects = self.rendered(component).objects;
        objects
            .iter()
            .map(|object| {
                let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap();
                format!("{}/{}", text("/kind"), text("/metadata/name"))
            })
            .collect()
    }
}

/// The pod spec of a `DaemonSet`.
fn pod(daemon_set: &Value) -> &Value {
    &daemon_set["spec"]["template"]["spec"]
}

fn arguments(container: &Value) -> Vec<&str> {
    let arguments = container["args"].as_array().unwrap();
    arguments.iter().map(|a| a.as_str().unwrap()).collect()
}

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
fn in_process_webhooks_are_a_service_and_their_configurations() {
    let world = World::new().with("WEBHOOK_BIND_ADDRESS", ":9443");
    assert_eq!(
        world.names(Component::OperatorWebhook),
        [
            "Service/operator-webhook-service",
            "MutatingWebhookConfiguration/sriov-operator-webhook-config",
            "ValidatingWebhookConfiguration/sriov-operator-webhook-config",
        ]
    );
    assert_eq!(
        world.names(Component::Injector),
        [
            "Service/network-resources-injector-service",
            "MutatingWebhookConfiguration/network-resources-injector-config",
        ]
    );
    let service = world.object(Component::Injector, "Service");
    assert_eq!(service["spec"]["ports"][0]["targetPort"], 9443);
    assert_eq!(
        service["spec"]["selector"],
        json!({"app.kubernetes.io/name": "sriov-operator"})
    );
}

#[test]
fn a_configuration_follows_its_backend_in_both_serving_modes() {
    for serving in ["in-process", "dedicated"] {
        let world = World::new().with("ADMISSION_SERVING", serving);
        for component in [Component::OperatorWebhook, Component::Injector] {
            let names = world.names(component);
            let first = names.iter().position(|name| name.contains("Webhook"));
            let last = names.iter().rposition(|name| !name.contains("Webhook"));
            assert!(first > last, "{names:?}");
        }
    }
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
fn who_fills_in_the_bundle_decides_whether_it_is_rendered() {
    let configuration =
        |world: &World| world.object(Component::Injector, "MutatingWebhookConfiguration");
    let own = configuration(&World::new());
    assert_eq!(
        own["webhooks"][0]["clientConfig"]["caBundle"],
        "dGhlIGJ1bmRsZQo="
    );
    assert_eq!(own["metadata"].get("annotations"), None);

    let mut world = World::new()
        .with(
            "ADMISSION_CONTROLLERS_CERTIFICATES_CERT_MANAGER_ENABLED",
            "true",
        )
        .with(
            "ADMISSION_CONTROLLERS_CERTIFICATES_INJECTOR_SECRET_NAME",
            "pair",
        );
    world.injector = Registration {
        ca_bundle: None,
        failure_policy: Some(crate::settings::FailurePolicy::Ignore),
    };
    let cert_manager = configuration(&world);
    let client = cert_manager["webhooks"][0]["clientConfig"]
        .as_object()
        .unwrap();
    assert!(
        !client.contains_key("caBundle"),
        "an empty one would wipe that of the CA injector"
    );
    assert_eq!(
        cert_manager["metadata"]["annotations"],
        json!({"cert-manager.io/inject-ca-from": "sriov/pair"})
    );

    let openshift = World::new().openshift();
    assert_eq!(
        configuration(&openshift)["metadata"]["annotations"],
        json!({"service.beta.openshift.io/inject-cabundle": "true"})
    );
    let service = openshift.object(Component::OperatorWebhook, "Service");
    assert_eq!(
        service["metadata"]["annotations"],
        json!({"service.alpha.openshift.io/serving-cert-secret-name": "operator-webhook-cert"})
    );
}

#[test]
fn the_injectors_failure_policy() {
    let policy = |world: &World| {
        world.object(Component::Injector, "MutatingWebhookConfiguration")["webhooks"][0]
            ["failurePolicy"]
            .clone()
    };
    let gate = "resourceInjectorMatchCondition";
    assert_eq!(policy(&World::new()), "Ignore");
    assert_eq!(policy(&World::new().gate(gate, true)), "Fail");
    let setting = "INJECTOR_FAILURE_POLICY";
    assert_eq!(policy(&World::new().with(setting, "Fail")), "Fail");
    let mut unanswered = World::new().gate(gate, true).with(setting, "Fail");
    unanswered.injector.failure_policy = Some(crate::settings::FailurePolicy::Ignore);
    assert_eq!(policy(&unanswered), "Ignore");
}

#[test]
fn pods_of_the_system_are_exempt() {
    let world = World::new().with("INJECTOR_EXEMPT_NAMESPACES", "b,a,kube-system");
    let configuration = world.object(Component::Injector, "MutatingWebhookConfiguration");
    assert_eq!(
        configuration["webhooks"][0]["namespaceSelector"]["matchExpressions"][0]["values"],
        json!(["a", "b", "kube-system", "sriov"])
    );
}

#[test]
fn the_match_conditions_gate_adds_a_condition() {
    let conditions = |world: &World| {
        world.object(Component::Injector, "MutatingWebhookConfiguration")["webhooks"][0]
            ["matchConditions"]
            .clone()
    };
    assert_eq!(conditions(&World::new()), Value::Null);
    let gated = World::new().gate("resourceInjectorMatchCondition", true);
    assert_eq!(conditions(&gated)[0]["name"], "include-networks-annotation");
    assert_eq!(conditions(&gated)[0]["expression"], injector_condition([]));
}

#[test]
fn an_empty_node_selector_is_none() {
    for selector in [Value::Null, json!({})] {
        let world = World::new()
            .gate("metricsExporter", true)
            .config("configDaemonNodeSelector", selector);
        let linux_workers =
            json!({"kubernetes.io/os": "linux", "node-role.kubernetes.io/worker": ""});
        for component in [Component::ConfigDaemon, Component::MetricsExporter] {
            let daemon_set = world.object(component, "DaemonSet");
            assert_eq!(pod(&daemon_set)["nodeSelector"], linux_workers);
        }
        assert_eq!(
            pod(&world.object(Component::DevicePlugin, "DaemonSet"))["nodeSelector"],
            json!({"kubernetes.io/os": "linux", "sriovnetwork.openshift.io/device-plugin": "Enabled"})
        );
    }
}

#[test]
fn a_node_selector_replaces_the_defaults() {
    let world = World::new().gate("metricsExporter", true).config(
        "configDaemonNodeSelector",
        json!({"a": "b", "sriovnetwork.openshift.io/device-plugin": "x"}),
    );
    for component in [Component::ConfigDaemon, Component::MetricsExporter] {
        assert_eq!(
            pod(&world.object(component, "DaemonSet"))["nodeSelector"],
            json!({"a": "b", "sriovnetwork.openshift.io/device-plugin": "x"})
        );
    }
    assert_eq!(
        pod(&world.object(Component::DevicePlugin, "DaemonSet"))["nodeSelector"],
        json!({"a": "b", "sriovnetwork.openshift.io/device-plugin": "Enabled"})
    );
}

#[test]
fn a_variable_that_shadows_a_fixed_one_is_left_out_with_a_warning() {
    let world = World::new().config(
        "configDaemonEnvVars",
        json!({"NODE_NAME": "x", "ZED": "1", "ALPHA": "2", "USE_EXTERNAL_DRAINER": "true"}),
    );
    let rendered = world.rendered(Component::ConfigDaemon);
    let names: Vec<&Value> = pod(&rendered.objects[0])["containers"][0]["env"]
        .as_array()
        .unwrap()
        .iter()
        .map(|variable| &variable["name"])
        .collect();
    assert_eq!(
        names,
        [
            "NODE_NAME",
            "NAMESPACE",
            "CLUSTER_TYPE",
            "DEV_MODE",
            "ALPHA",
            "ZED"
        ]
    );
    let told: Vec<String> = rendered.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 2);
    assert!(
        told[0].starts_with("spec.configDaemonEnvVars[NODE_NAME]"),
        "{told:?}"
    );
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
fn systemd_mode() {
    let kubernetes = World::new().config("configurationMode", json!("systemd"));
    let daemon_set = kubernetes.object(Component::ConfigDaemon, "DaemonSet");
    assert!(arguments(&pod(&daemon_set)["containers"][0]).contains(&"--use-systemd-service"));
    assert_eq!(
        kubernetes.outcome(Component::MachineConfig),
        Ok(Desired::Off)
    );

    let openshift = World::new()
        .openshift()
        .config("configurationMode", json!("systemd"))
        .config("configDaemonNodeSelector", json!({"a": "b"}));
    let labels =
        openshift.object(Component::MachineConfig, "MachineConfig")["metadata"]["labels"].clone();
    assert_eq!(labels["machineconfiguration.openshift.io/role"], "worker");
    assert_eq!(labels["a"], "b");

    let mut hypershift = openshift;
    hypershift.hypershift = true;
    let error = hypershift.outcome(Component::MachineConfig).unwrap_err();
    assert!(matches!(error, ComponentError::Unsupported(_)));
    assert!(hypershift.outcome(Component::ConfigDaemon).is_ok());
    let daemon_mode = hypershift.config("configurationMode", json!("daemon"));
    assert_eq!(
        daemon_mode.outcome(Component::MachineConfig),
        Ok(Desired::Off)
    );
}

#[test]
fn tls_of_the_cluster_replaces_that_of_the_environment() {
    let mut world = World::new()
        .gate("metricsExporter", true)
        .with("ADMISSION_SERVING", "dedicated")
        .with("TLS_MIN_VERSION", "VersionTLS13")
        .with(
            "TLS_CIPHER_SUITES",
            "AES128-SHA,ECDHE-RSA-AES128-GCM-SHA256",
        )
        .with("TLS_CURVE_PREFERENCES", "X25519");
    let proxy = |world: &World| {
        let daemon_set = world.object(Component::MetricsExporter, "DaemonSet");
        pod(&daemon_set)["containers"][1].clone()
    };
    let webhook = |world: &World| {
        let daemon_set = world.object(Component::OperatorWebhook, "DaemonSet");
        pod(&daemon_set)["containers"][0].clone()
    };
    assert!(
        arguments(&proxy(&world))
            .contains(&"--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")
    );
    assert!(arguments(&webhook(&world)).contains(&"--tls-curve-preferences=X25519"));
    let warnings = world.rendered(Component::MetricsExporter).warnings;
    assert!(
        warnings[0]
            .to_string()
            .contains("TLS_RSA_WITH_AES_128_CBC_SHA")
    );
    world.cluster_tls = Some(TlsOptions::default());
    for container in [proxy(&world), webhook(&world)] {
        assert!(
            !arguments(&container)
                .iter()
                .any(|a| a.starts_with("--tls-min-version"))
        );
    }
}

#[test]
fn the_switches_are_made_once_and_apart() {
    let rendered = World::new().rendered(Component::Injector);
    assert!(
        !rendered
            .objects
            .iter()
            .any(|object| object["kind"] == "ConfigMap")
    );
    let switches: Value = serde_json::from_str(
        rendered.created_once[0]["data"]["config.json"]
            .as_str()
            .unwrap(),
    )
    .unwrap();
    assert_eq!(
        switches,
        json!({"features": {"enableHugePageDownApi": true}})
    );
}

#[test]
fn a_directory_of_templates_replaces_those_built_in() {
    let directory = tempfile::tempdir().unwrap();
    for component in Component::DIRECTORIES {
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
