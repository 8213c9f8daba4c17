//! `SriovOperatorConfig`: what the operator rolls out. Only the object named `default` in the operator's namespace counts.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{condition::Condition, resource::custom_resource};

custom_resource!(
    /// Configures the operator: which components run, where and how.
    SriovOperatorConfig,
    "sriovoperatorconfigs",
    SriovOperatorConfigSpec,
    SriovOperatorConfigStatus
);

/// Desired state of the operator's components.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SriovOperatorConfigSpec {
    /// Environment variables added to the config daemon's container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_daemon_env_vars: Option<BTreeMap<String, String>>,
    /// Labels of the nodes on which config daemon and device plugin run. Default: Linux workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_daemon_node_selector: Option<BTreeMap<String, String>>,
    /// How the config daemon configures a node: in its pod (daemon, the default) or also by host services (systemd).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["daemon", "systemd"]))]
    pub configuration_mode: Option<String>,
    /// Configure nodes without draining them first. Workloads that use virtual functions may be disrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disable_drain: Option<bool>,
    /// Vendor plugins of the config daemon that stay off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("items" = {"type": "string", "enum": ["mellanox"]}))]
    pub disable_plugins: Option<Vec<String>>,
    /// Inject network resources into pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_injector: Option<bool>,
    /// Default and validate the custom resources of this group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_operator_webhook: Option<bool>,
    /// Not used. Kept for objects that set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_ovs_offload: Option<bool>,
    /// Feature gates by name. A gate that is not named has its default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feature_gates: Option<BTreeMap<String, bool>>,
    /// Verbosity of the logs: 0 is info, 1 debug, 2 trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 2))]
    pub log_level: Option<i64>,
    /// Let the device plugin use the Container Device Interface.
    #[serde(default, rename = "useCDI", skip_serializing_if = "Option::is_none")]
    pub use_cdi: Option<bool>,
}

/// Observed state of the operator's components.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SriovOperatorConfigStatus {
    /// The latest observations of the operator's state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Not used. Kept for objects that carry it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub injector: Option<String>,
    /// Not used. Kept for objects that carry it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator_webhook: Option<String>,
}
