//! `SriovNetworkNodePolicy`: which NICs of which nodes are split into virtual functions, and how.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{condition::EmptyStatus, resource::custom_resource};

custom_resource!(
    /// Splits the selected NICs of the selected nodes into virtual functions and names the resource they are offered as.
    SriovNetworkNodePolicy,
    "sriovnetworknodepolicies",
    Option<SriovNetworkNodePolicySpec>,
    EmptyStatus
);

/// Desired virtual functions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SriovNetworkNodePolicySpec {
    /// The software bridge that the physical functions become uplinks of. Needs eSwitchMode switchdev.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridge: Option<Bridge>,
    /// Driver type of the virtual functions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["netdevice", "vfio-pci"], "default" = "netdevice"))]
    pub device_type: Option<String>,
    /// Mode of the NIC's embedded switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["legacy", "switchdev"]))]
    pub e_switch_mode: Option<String>,
    /// Do not report the NUMA node of the virtual functions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude_topology: Option<bool>,
    /// The physical function is configured by somebody else: its virtual functions are used as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub externally_managed: Option<bool>,
    /// Offer the virtual functions as RDMA devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_rdma: Option<bool>,
    /// Link type of the physical function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["eth", "ETH", "ib", "IB"]))]
    pub link_type: Option<String>,
    /// MTU of the physical and virtual functions, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub mtu: Option<i64>,
    /// Mount `/dev/vhost-net` into pods that use the resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub need_vhost_net: Option<bool>,
    /// Which NICs are meant.
    pub nic_selector: NicSelector,
    /// Labels of the nodes that are meant. Empty means every node.
    pub node_selector: BTreeMap<String, String>,
    /// Number of virtual functions of each physical function.
    #[schemars(range(min = 0))]
    pub num_vfs: i64,
    /// Order among policies: 0 is the strongest, 99 the weakest. Admission fills in 99 where it is not set; in a policy
    /// that was stored without admission, not set means 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 99))]
    pub priority: Option<i64>,
    /// Name of the resource, without its prefix, that the virtual functions are offered as.
    pub resource_name: String,
    /// Kind of vDPA device made of the virtual functions. Needs eSwitchMode switchdev.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["virtio", "vhost"]))]
    pub vdpa_type: Option<String>,
}

/// Which NICs a policy means. All that is set must hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NicSelector {
    /// PCI device id of the physical function, four lower-case hexadecimal digits such as `158b`.
    #[serde(default, rename = "deviceID", skip_serializing_if = "Option::is_none")]
    pub device_id: Option<String>,
    /// Network of a virtual machine's NIC: `openstack/NetworkID:<id>` or `aws/NetworkID:<id>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub net_filter: Option<String>,
    /// Names of physical functions, each with an optional range of virtual functions: `ens1f0` or `ens1f0#0-3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pf_names: Option<Vec<String>>,
    /// PCI addresses of physical functions, such as `0000:18:00.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_devices: Option<Vec<String>>,
    /// PCI vendor id, four lower-case hexadecimal digits such as `8086`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
}

/// A software bridge.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bridge {
    /// An Open vSwitch bridge. Present, even empty, means that a bridge is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ovs: Option<OvsConfig>,
}

/// An Open vSwitch bridge and its uplink.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OvsConfig {
    /// Settings of the bridge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridge: Option<OvsBridge>,
    /// Settings of the uplink.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink: Option<OvsUplink>,
}

/// Settings of an Open vSwitch bridge.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OvsBridge {
    /// Column `datapath_type` of the bridge's row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datapath_type: Option<String>,
    /// Column `external_ids` of the bridge's row.
    #[serde(
        default,
        rename = "externalIDs",
        skip_serializing_if = "Option::is_none"
    )]
    pub external_ids: Option<BTreeMap<String, String>>,
    /// Column `fail_mode` of the bridge's row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["secure", "standalone"]))]
    pub fail_mode: Option<String>,
    /// Column `other_config` of the bridge's row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_config: Option<BTreeMap<String, String>>,
}

/// Settings of an Open vSwitch bridge's uplink.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OvsUplink {
    /// Settings of the uplink's interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<OvsInterface>,
}

/// Settings of an interface in Open vSwitch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OvsInterface {
    /// Column `external_ids` of the interface's row.
    #[serde(
        default,
        rename = "externalIDs",
        skip_serializing_if = "Option::is_none"
    )]
    pub external_ids: Option<BTreeMap<String, String>>,
    /// Column `mtu_request` of the interface's row, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu_request: Option<i64>,
    /// Column `options` of the interface's row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<BTreeMap<String, String>>,
    /// Column `other_config` of the interface's row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_config: Option<BTreeMap<String, String>>,
    /// Column `type` of the interface's row.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
}
