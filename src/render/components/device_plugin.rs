//! The device plugin, which offers virtual functions to the kubelet.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{ComponentError, ComponentInput, Facts, Workload, required_image};
use crate::render::catalogue::{APPS, CORE, ObjectName, RBAC, object};
use crate::{api::DEVICE_PLUGIN_LABEL, features::Feature};

/// Input of `templates/device-plugin`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DevicePlugin {
    /// The operator's namespace.
    pub namespace: String,
    /// Image and what goes with it.
    #[serde(flatten)]
    pub workload: Workload,
    /// Waits until the node is configured; `None` without the gate.
    pub init_image: Option<String>,
    /// What stands before the slash in resource names.
    pub resource_prefix: String,
    /// Whether devices are described by the Container Device Interface.
    pub use_cdi: bool,
    /// Where it runs.
    pub node_selector: BTreeMap<String, String>,
}

impl ComponentInput for DevicePlugin {
    const NAME: &'static str = "device-plugin";
    const OBJECTS: &'static [ObjectName] = &[
        object(CORE, "ServiceAccount", "sriov-device-plugin"),
        object(RBAC, "Role", "sriov-plugin"),
        object(RBAC, "RoleBinding", "sriov-device-plugin"),
        object(RBAC, "Role", "sriov-device-plugin-pod-access"),
        object(RBAC, "RoleBinding", "sriov-device-plugin-pod-access"),
        object(APPS, "DaemonSet", "sriov-device-plugin"),
    ];

    fn from_facts(facts: &Facts<'_>) -> Result<Option<Self>, ComponentError> {
        let settings = &facts.settings.components;
        let images = &settings.images;
        let waits = facts
            .features
            .is_enabled(Feature::BlockDevicePluginUntilConfigured);
        let init_image = waits
            .then(|| required_image(&images.config_daemon, "SRIOV_NETWORK_CONFIG_DAEMON_IMAGE"))
            .transpose()?;
        let mut node_selector = facts.node_selector().cloned().unwrap_or_else(|| {
            BTreeMap::from([("kubernetes.io/os".to_owned(), "linux".to_owned())])
        });
        node_selector.insert(DEVICE_PLUGIN_LABEL.to_owned(), "Enabled".to_owned());
        Ok(Some(Self {
            namespace: facts.namespace(),
            workload: Workload::new(facts, &images.device_plugin, "SRIOV_DEVICE_PLUGIN_IMAGE")?,
            init_image,
            resource_prefix: settings.resource_prefix.clone(),
            use_cdi: facts.config.use_cdi == Some(true),
            node_selector,
        }))
    }
}
