//! `SriovNetworkPoolConfig`: how the nodes of a pool are configured together.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::{condition::EmptyStatus, resource::custom_resource};

/// The MachineConfigPool of the control plane, whose nodes get no hardware offload.
pub const CONTROL_PLANE_POOL: &str = "master";

custom_resource!(
    /// Settings of a pool of nodes: how many may be configured at a time, RDMA mode, OVS hardware offload.
    SriovNetworkPoolConfig,
    "sriovnetworkpoolconfigs",
    SriovNetworkPoolConfigSpec,
    EmptyStatus
);

/// Desired state of a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SriovNetworkPoolConfigSpec {
    /// How many nodes of the pool may be drained at a time: a number from 0, or a percentage from `1%` to `100%`.
    /// Absent means all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "int_or_string")]
    pub max_unavailable: Option<IntOrString>,
    /// The nodes of the pool. Absent or empty means every node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub node_selector: Option<LabelSelector>,
    /// OVS hardware offload of a MachineConfigPool, on OpenShift.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ovs_hardware_offload_config: Option<OvsHardwareOffloadConfig>,
    /// Network namespace mode of the RDMA subsystem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["shared", "exclusive"]))]
    pub rdma_mode: Option<String>,
}

impl SriovNetworkPoolConfigSpec {
    /// The MachineConfigPool whose nodes get OVS hardware offload. Such a pool chooses no nodes by itself.
    pub fn offload_pool(&self) -> Option<&str> {
        let name = self.ovs_hardware_offload_config.as_ref()?.name.as_deref()?;
        (!name.is_empty()).then_some(name)
    }
}

/// OVS hardware offload of a MachineConfigPool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OvsHardwareOffloadConfig {
    /// Name of the MachineConfigPool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A query over labels: all requirements must hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabelSelector {
    /// Requirements as expressions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub match_expressions: Option<Vec<LabelSelectorRequirement>>,
    /// Labels with their values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub match_labels: Option<BTreeMap<String, String>>,
}

/// A requirement on one label.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LabelSelectorRequirement {
    /// The label's key.
    pub key: String,
    /// In, NotIn, Exists or DoesNotExist.
    pub operator: String,
    /// Values for In and NotIn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub values: Option<Vec<String>>,
}

fn int_or_string(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": true,
    })
}
