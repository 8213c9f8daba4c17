//! The custom resources of group `sriovnetwork.openshift.io/v1`: one file a kind, and [`crd`] that makes their definitions.
//!
//! Types decode what any client wrote: fields may be absent, unknown ones are dropped, closed sets of words are plain
//! text here and closed in the schema only, so that an object that an older schema let in still decodes.
//! Nothing here judges, defaults or does I/O.

pub mod condition;
pub mod crd;
pub mod ib_network;
pub mod network;
pub mod node_policy;
pub mod node_state;
pub mod operator_config;
pub mod ovs_network;
pub mod pool_config;
mod resource;

pub use condition::Condition;
pub use ib_network::{SriovIBNetwork, SriovIBNetworkSpec};
pub use network::{SriovNetwork, SriovNetworkSpec};
pub use node_policy::{SriovNetworkNodePolicy, SriovNetworkNodePolicySpec};
pub use node_state::{
    SriovNetworkNodeState, SriovNetworkNodeStateSpec, SriovNetworkNodeStateStatus,
};
pub use operator_config::{SriovOperatorConfig, SriovOperatorConfigSpec};
pub use ovs_network::{OVSNetwork, OVSNetworkSpec};
pub use pool_config::{SriovNetworkPoolConfig, SriovNetworkPoolConfigSpec};

/// The API group of every kind here.
pub const GROUP: &str = "sriovnetwork.openshift.io";
/// The only version served and stored.
pub const VERSION: &str = "v1";
/// `group/version`, as objects carry it.
pub const API_VERSION: &str = "sriovnetwork.openshift.io/v1";
/// The one `SriovOperatorConfig` that counts, in the operator's own namespace.
pub const DEFAULT_CONFIG_NAME: &str = "default";
/// Finalizer of `SriovOperatorConfig/default`.
pub const OPERATOR_CONFIG_FINALIZER: &str = "operatorconfig.finalizers.sriovnetwork.openshift.io";
/// Finalizer of a `SriovNetworkPoolConfig` with OVS hardware offload.
pub const POOL_CONFIG_FINALIZER: &str = "poolconfig.finalizers.sriovnetwork.openshift.io";

/// Finalizer of the network kinds, for their network attachment definitions.
pub const NETWORK_FINALIZER: &str = "netattdef.finalizers.sriovnetwork.openshift.io";
/// The label of nodes that the device plugin's `DaemonSet` selects by: `Enabled` or `Disabled`.
pub const DEVICE_PLUGIN_LABEL: &str = "sriovnetwork.openshift.io/device-plugin";

/// Finalizer of pools, for their machine configuration.
pub const POOL_FINALIZER: &str = "poolconfig.finalizers.sriovnetwork.openshift.io";

#[cfg(test)]
mod tests;
