//! `SriovNetwork`: an Ethernet network for pods, made into a network attachment definition.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{condition::ConditionsStatus, resource::custom_resource};

custom_resource!(
    /// An Ethernet network that pods attach to through virtual functions.
    SriovNetwork,
    "sriovnetworks",
    Option<SriovNetworkSpec>,
    ConditionsStatus
);

/// Desired network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SriovNetworkSpec {
    /// Capabilities of the CNI plugin, a JSON object such as `{"mac": true}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<String>,
    /// IPAM configuration, a JSON object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipam: Option<String>,
    /// Link state of the virtual function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["auto", "enable", "disable"]))]
    pub link_state: Option<String>,
    /// Path of the CNI plugin's log file on the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_file: Option<String>,
    /// Log level of the CNI plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["panic", "error", "warning", "info", "debug", ""], "default" = "info"))]
    pub log_level: Option<String>,
    /// Maximum transmit rate of the virtual function, in Mbit/s; 0 switches rate limiting off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_tx_rate: Option<i64>,
    /// Configurations of CNI plugins chained behind this one, JSON objects separated by commas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta_plugins: Option<String>,
    /// Minimum transmit rate of the virtual function, in Mbit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub min_tx_rate: Option<i64>,
    /// Namespace of the network attachment definition. Only for networks in the operator's namespace; default: the network's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_namespace: Option<String>,
    /// Name of the resource, without its prefix, whose virtual functions are used.
    pub resource_name: String,
    /// MAC spoof checking of the virtual function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["on", "off"]))]
    pub spoof_chk: Option<String>,
    /// Trust mode of the virtual function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["on", "off"]))]
    pub trust: Option<String>,
    /// VLAN id of the virtual function; 0 is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4094))]
    pub vlan: Option<i64>,
    /// VLAN protocol of the virtual function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["802.1q", "802.1Q", "802.1ad", "802.1AD"]))]
    pub vlan_proto: Option<String>,
    /// VLAN quality of service of the virtual function.
    #[serde(default, rename = "vlanQoS", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 7))]
    pub vlan_qos: Option<i64>,
}
