//! `SriovNetworkNodeState`: what the config daemon of a node is to configure, and what it found. One object a node, named like it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    node_policy::{OvsBridge, OvsInterface},
    resource::custom_resource,
};

custom_resource!(
    /// The SR-IOV state of the node of the same name.
    SriovNetworkNodeState,
    "sriovnetworknodestates",
    SriovNetworkNodeStateSpec,
    SriovNetworkNodeStateStatus
);

/// Desired state of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SriovNetworkNodeStateSpec {
    /// Software bridges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridges: Option<Bridges>,
    /// Physical functions with their groups of virtual functions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interfaces: Option<Vec<Interface>>,
    /// Settings of the whole node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<System>,
}

/// Observed state of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SriovNetworkNodeStateStatus {
    /// Software bridges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridges: Option<Bridges>,
    /// Physical functions that the node has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interfaces: Option<Vec<InterfaceStatus>>,
    /// Why the last synchronisation failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_sync_error: Option<String>,
    /// Where the synchronisation stands: Succeeded, Failed or InProgress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_status: Option<String>,
    /// Settings of the whole node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<System>,
}

/// Software bridges of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bridges {
    /// Open vSwitch bridges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ovs: Option<Vec<OvsBridgeState>>,
}

/// An Open vSwitch bridge of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OvsBridgeState {
    /// Settings of the bridge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridge: Option<OvsBridge>,
    /// Name of the bridge.
    pub name: String,
    /// Its uplinks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplinks: Option<Vec<OvsUplinkState>>,
}

/// An uplink of an Open vSwitch bridge.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OvsUplinkState {
    /// Settings of the uplink's interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<OvsInterface>,
    /// Name of the physical function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// PCI address of the physical function.
    pub pci_address: String,
}

/// A physical function that is to be configured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Interface {
    /// Mode of the NIC's embedded switch: legacy or switchdev.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub e_switch_mode: Option<String>,
    /// The physical function is configured by somebody else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub externally_managed: Option<bool>,
    /// Link type of the physical function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_type: Option<String>,
    /// MTU of the physical function, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<i64>,
    /// Name of the physical function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Number of virtual functions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_vfs: Option<i64>,
    /// PCI address of the physical function.
    pub pci_address: String,
    /// Groups of virtual functions, each offered as one resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vf_groups: Option<Vec<VfGroup>>,
}

/// A group of virtual functions of one physical function.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VfGroup {
    /// Driver type of the virtual functions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_type: Option<String>,
    /// Offer the virtual functions as RDMA devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_rdma: Option<bool>,
    /// MTU of the virtual functions, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<i64>,
    /// The policy that asks for the group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_name: Option<String>,
    /// The resource that the group is offered as, without its prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_name: Option<String>,
    /// Kind of vDPA device made of the virtual functions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vdpa_type: Option<String>,
    /// First and last virtual function, such as `0-3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vf_range: Option<String>,
}

/// A physical function that a node has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InterfaceStatus {
    /// The virtual functions that exist.
    #[serde(default, rename = "Vfs", skip_serializing_if = "Option::is_none")]
    pub vfs: Option<Vec<VirtualFunction>>,
    /// Alternative names of the physical function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alt_names: Option<Vec<String>>,
    /// PCI device id.
    #[serde(default, rename = "deviceID", skip_serializing_if = "Option::is_none")]
    pub device_id: Option<String>,
    /// Driver in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Mode of the NIC's embedded switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub e_switch_mode: Option<String>,
    /// The physical function is configured by somebody else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub externally_managed: Option<bool>,
    /// Administrative state of the link: up or down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_admin_state: Option<String>,
    /// Speed of the link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_speed: Option<String>,
    /// Type of the link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_type: Option<String>,
    /// MAC address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// MTU, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<i64>,
    /// Name of the physical function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Network of a virtual machine's NIC, such as `openstack/NetworkID:<id>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub net_filter: Option<String>,
    /// Number of virtual functions that exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_vfs: Option<i64>,
    /// PCI address.
    pub pci_address: String,
    /// Number of virtual functions that the NIC can have.
    #[serde(default, rename = "totalvfs", skip_serializing_if = "Option::is_none")]
    pub total_vfs: Option<i64>,
    /// PCI vendor id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
}

/// A virtual function that exists.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VirtualFunction {
    /// VLAN id.
    #[serde(default, rename = "Vlan", skip_serializing_if = "Option::is_none")]
    pub vlan: Option<i64>,
    /// What the virtual function is assigned to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assigned: Option<String>,
    /// PCI device id.
    #[serde(default, rename = "deviceID", skip_serializing_if = "Option::is_none")]
    pub device_id: Option<String>,
    /// Driver in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// InfiniBand GUID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guid: Option<String>,
    /// MAC address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// MTU, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<i64>,
    /// Name of the network device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// PCI address.
    pub pci_address: String,
    /// Name of the representor in switchdev mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub representor_name: Option<String>,
    /// Kind of vDPA device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vdpa_type: Option<String>,
    /// PCI vendor id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// Index of the virtual function in its physical function, from 0.
    #[serde(rename = "vfID")]
    pub vf_id: i64,
}

/// Settings of a whole node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct System {
    /// Network namespace mode of the RDMA subsystem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["shared", "exclusive"]))]
    pub rdma_mode: Option<String>,
}
