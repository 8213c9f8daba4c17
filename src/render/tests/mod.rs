//! What a config and an environment come to, as objects.

mod daemons;
mod every_object;
mod golden;
mod properties;
mod settings;
mod variants;
mod webhooks;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::{
    api::SriovOperatorConfigSpec,
    features::Features,
    inject::{Switches, match_condition},
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
            validating_registration: &self.operator,
            injector_registration: &self.injector,
            injector_condition: &match_condition(&Switches::default()),
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
