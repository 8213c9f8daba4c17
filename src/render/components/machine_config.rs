//! The host services of systemd mode on OpenShift, as a `MachineConfig`.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{ComponentError, ComponentInput, Facts};
use crate::render::catalogue::{MACHINE_CONFIGURATION, ObjectName, object};

/// Input of `templates/machine-config`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MachineConfig {
    /// The operator's namespace.
    pub namespace: String,
    /// The node selector, and always the role: without it no pool takes the object.
    pub labels: BTreeMap<String, String>,
}

impl ComponentInput for MachineConfig {
    const NAME: &'static str = "machine-config";
    const OBJECTS: &'static [ObjectName] = &[object(
        MACHINE_CONFIGURATION,
        "MachineConfig",
        "sriov-config-service",
    )];

    fn from_facts(facts: &Facts<'_>) -> Result<Option<Self>, ComponentError> {
        if !facts.is_openshift() || !facts.is_systemd_mode() {
            return Ok(None);
        }
        if facts.hypershift {
            return Err(ComponentError::Unsupported(
                "spec.configurationMode is systemd, which a hosted control plane (Hypershift) does not support: \
                 it must be daemon",
            ));
        }
        let mut labels = facts.node_selector().cloned().unwrap_or_default();
        labels.insert(
            "machineconfiguration.openshift.io/role".to_owned(),
            "worker".to_owned(),
        );
        Ok(Some(Self {
            namespace: facts.namespace(),
            labels,
        }))
    }
}
