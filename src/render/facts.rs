//! What rendering depends on: the config, the settings, and what the reconciler has found out.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};

use crate::{
    api::SriovOperatorConfigSpec,
    features::Features,
    settings::{ClusterType, FailurePolicy, Settings, tls::TlsOptions},
};

/// Everything that the objects of the components follow from.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The spec of the config.
    pub config: &'a SriovOperatorConfigSpec,
    /// Flags and environment.
    pub settings: &'a Settings,
    /// The feature gates of the config.
    pub features: &'a Features,
    /// Whether the control plane is hosted elsewhere (OpenShift's Hypershift).
    pub hypershift: bool,
    /// What the cluster's TLS profile asks for; it replaces that of the settings as a whole.
    pub cluster_tls: Option<&'a TlsOptions>,
    /// How far the webhook that defaults custom resources is.
    pub operator_registration: &'a Registration,
    /// How far the webhook that validates custom resources is.
    pub validating_registration: &'a Registration,
    /// How far the injector's webhook is.
    pub injector_registration: &'a Registration,
    /// The CEL expression that lets through the pods that need the injector, for the match-condition gate.
    pub injector_condition: &'a str,
}

/// How a webhook can be registered at the moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registration {
    /// PEM certificates for `caBundle`; `None` leaves the field to whoever fills it in.
    pub ca_bundle: Option<String>,
    /// The policy for as long as the webhook cannot be answered, in place of its own.
    pub failure_policy: Option<FailurePolicy>,
}

impl Registration {
    /// The bundle as `caBundle` has it.
    pub(super) fn encoded_bundle(&self) -> Option<String> {
        self.ca_bundle.as_ref().map(|pem| STANDARD.encode(pem))
    }
}

/// An object that owns others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

/// The owners of what is rendered. Without them nothing has an owner, as when it is only printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owners {
    /// The config, which controls what lives in its namespace.
    pub config: Option<Owner>,
    /// The operator's namespace, which owns what is cluster-wide.
    pub namespace: Option<Owner>,
}

impl Facts<'_> {
    pub(super) fn namespace(&self) -> String {
        self.settings.process.namespace.clone()
    }

    pub(super) fn is_openshift(&self) -> bool {
        self.settings.components.cluster_type == ClusterType::OpenShift
    }

    pub(super) fn is_systemd_mode(&self) -> bool {
        self.config.configuration_mode.as_deref() == Some("systemd")
    }

    pub(super) fn tls(&self) -> &TlsOptions {
        self.cluster_tls.unwrap_or(&self.settings.admission.tls)
    }

    /// The config's node selector. An empty one counts as none, for every component.
    pub(super) fn node_selector(&self) -> Option<&BTreeMap<String, String>> {
        self.config
            .config_daemon_node_selector
            .as_ref()
            .filter(|selector| !selector.is_empty())
    }

    /// The config's node selector, or that of Linux workers.
    pub(super) fn worker_selector(&self) -> BTreeMap<String, String> {
        self.node_selector().cloned().unwrap_or_else(|| {
            BTreeMap::from([
                ("kubernetes.io/os".to_owned(), "linux".to_owned()),
                ("node-role.kubernetes.io/worker".to_owned(), String::new()),
            ])
        })
    }
}
