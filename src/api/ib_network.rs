//! `SriovIBNetwork`: an InfiniBand network for pods, made into a network attachment definition.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{condition::ConditionsStatus, resource::custom_resource};

custom_resource!(
    /// An InfiniBand network that pods attach to through virtual functions.
    SriovIBNetwork,
    "sriovibnetworks",
    Option<SriovIBNetworkSpec>,
    ConditionsStatus
);

/// Desired network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SriovIBNetworkSpec {
    /// Capabilities of the CNI plugin, a JSON object such as `{"infinibandGUID": true}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<String>,
    /// IPAM configuration, a JSON object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipam: Option<String>,
    /// Link state of the virtual function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["auto", "enable", "disable"]))]
    pub link_state: Option<String>,
    /// Configurations of CNI plugins chained behind this one, JSON objects separated by commas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta_plugins: Option<String>,
    /// Namespace of the network attachment definition. Only for networks in the operator's namespace; default: the network's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_namespace: Option<String>,
    /// Name of the resource, without its prefix, whose virtual functions are used.
    pub resource_name: String,
}
