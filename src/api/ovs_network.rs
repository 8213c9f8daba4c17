//! `OVSNetwork`: a network for pods through Open vSwitch, made into a network attachment definition.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{condition::ConditionsStatus, resource::custom_resource};

custom_resource!(
    /// A network that pods attach to through virtual functions behind an Open vSwitch bridge.
    OVSNetwork,
    "ovsnetworks",
    Option<OVSNetworkSpec>,
    ConditionsStatus
);

/// Desired network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OVSNetworkSpec {
    /// Name of the Open vSwitch bridge. Default: found through the physical function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridge: Option<String>,
    /// Capabilities of the CNI plugin, a JSON object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<String>,
    /// Type of the interface in Open vSwitch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface_type: Option<String>,
    /// IPAM configuration, a JSON object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipam: Option<String>,
    /// Configurations of CNI plugins chained behind this one, JSON objects separated by commas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta_plugins: Option<String>,
    /// MTU of the bridge port, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<i64>,
    /// Namespace of the network attachment definition. Only for networks in the operator's namespace; default: the network's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_namespace: Option<String>,
    /// Name of the resource, without its prefix, whose virtual functions are used.
    pub resource_name: String,
    /// VLANs of a trunk port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trunk: Option<Vec<Trunk>>,
    /// VLAN id of the bridge port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4095))]
    pub vlan: Option<i64>,
}

/// One VLAN of a trunk port, or a range of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trunk {
    /// A VLAN id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4095))]
    pub id: Option<i64>,
    /// Last VLAN id of a range.
    #[serde(default, rename = "maxID", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4095))]
    pub max_id: Option<i64>,
    /// First VLAN id of a range.
    #[serde(default, rename = "minID", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4095))]
    pub min_id: Option<i64>,
}
