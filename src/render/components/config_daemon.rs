//! The daemon that configures the network cards of a node and installs the CNI plugins.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{ComponentError, ComponentInput, Facts, Workload, required_image};
use crate::render::catalogue::{APPS, ObjectName, object};
use crate::{features::Feature, render::Warning};

/// Variables of the config daemon that a config cannot set.
pub const RESERVED_ENVIRONMENT: &[&str] = &[
    "NODE_NAME",
    "NAMESPACE",
    "CLUSTER_TYPE",
    "DEV_MODE",
    "USE_EXTERNAL_DRAINER",
];

/// Input of `templates/config-daemon`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the template"
)]
pub struct ConfigDaemon {
    /// The operator's namespace.
    pub namespace: String,
    /// Image and what goes with it.
    #[serde(flatten)]
    pub workload: Workload,
    /// Installs the SR-IOV CNI plugin.
    pub sriov_cni_image: String,
    /// Installs the InfiniBand SR-IOV CNI plugin.
    pub infiniband_cni_image: String,
    /// Installs the OVS CNI plugin; empty: it is not installed.
    pub ovs_cni_image: String,
    /// Installs the RDMA CNI plugin; empty: it is not installed.
    pub rdma_cni_image: String,
    /// Where CNI plugins are on a node.
    pub cni_bin_path: String,
    /// Whether host services configure the cards at boot.
    pub systemd: bool,
    /// Vendor plugins that stay off, between commas; empty: none.
    pub disabled_plugins: String,
    /// The gate of that name.
    pub parallel_nic_config: bool,
    /// The gate of that name.
    pub manage_software_bridges: bool,
    /// `CLUSTER_TYPE`.
    pub cluster_type: &'static str,
    /// `DEV_MODE`.
    pub dev_mode: String,
    /// Whether another controller drains.
    pub use_external_drainer: bool,
    /// The config's variables, by name.
    pub environment: Vec<Variable>,
    /// Where it runs.
    pub node_selector: BTreeMap<String, String>,
    /// Variables of the config that were set aside.
    #[serde(skip)]
    pub reserved: Vec<String>,
}

/// An environment variable of a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

impl ComponentInput for ConfigDaemon {
    const NAME: &'static str = "config-daemon";
    const OBJECTS: &'static [ObjectName] =
        &[object(APPS, "DaemonSet", "sriov-network-config-daemon")];

    fn from_facts(facts: &Facts<'_>) -> Result<Option<Self>, ComponentError> {
        let settings = &facts.settings.components;
        let images = &settings.images;
        let variables = facts.config.config_daemon_env_vars.iter().flatten();
        let (reserved, environment): (Vec<_>, Vec<_>) =
            variables.partition(|(name, _)| RESERVED_ENVIRONMENT.contains(&name.as_str()));
        let mut disabled_plugins = facts.config.disable_plugins.clone().unwrap_or_default();
        disabled_plugins.sort();
        disabled_plugins.dedup();
        Ok(Some(Self {
            namespace: facts.namespace(),
            workload: Workload::new(
                facts,
                &images.config_daemon,
                "SRIOV_NETWORK_CONFIG_DAEMON_IMAGE",
            )?,
            sriov_cni_image: required_image(&images.sriov_cni, "SRIOV_CNI_IMAGE")?,
            infiniband_cni_image: required_image(
                &images.infiniband_cni,
                "SRIOV_INFINIBAND_CNI_IMAGE",
            )?,
            ovs_cni_image: images.ovs_cni.clone(),
            rdma_cni_image: images.rdma_cni.clone(),
            cni_bin_path: settings.cni_bin_path.clone(),
            systemd: facts.is_systemd_mode(),
            disabled_plugins: disabled_plugins.join(","),
            parallel_nic_config: facts.features.is_enabled(Feature::ParallelNicConfig),
            manage_software_bridges: facts.features.is_enabled(Feature::ManageSoftwareBridges),
            cluster_type: settings.cluster_type.as_str(),
            dev_mode: facts.settings.admission.dev_mode.as_str().to_owned(),
            use_external_drainer: settings.use_external_drainer,
            environment: environment
                .into_iter()
                .map(|(name, value)| Variable {
                    name: name.clone(),
                    value: value.clone(),
                })
                .collect(),
            node_selector: facts.worker_selector(),
            reserved: reserved.into_iter().map(|(name, _)| name.clone()).collect(),
        }))
    }

    fn warnings(&self) -> Vec<Warning> {
        self.reserved
            .iter()
            .cloned()
            .map(Warning::ReservedVariable)
            .collect()
    }
}
