//! What each node is to be: the spec of its `SriovNetworkNodeState`, the resources of its device plugin, and whether a
//! device plugin runs there. Pure: a view of one node goes in, a [`Plan`] comes out.
//!
//! ```text
//! policies that select the node -> order -> merge (per NIC) -> groups of VFs -> spec.interfaces
//!                                     |                             '-------> plugin: resources
//!                                     '--> bridges                        '-> enabled, if there is any
//! pools -> rdma -> spec.system
//! ```
//!
//! Which NICs a policy means, what its names resolve to and which virtual functions they name is asked of
//! [`crate::policy`], where admission asks it too: what is admitted is what is done.
//!
//! # The rules
//!
//! - Policies apply from the weakest (priority 99) to the strongest (0), by name among equals: of two with one priority the
//!   later name is the stronger. The order in which anything is listed does not matter.
//! - A NIC is what one PCI address is, by whatever names it is meant. Where entries of one policy name the same virtual
//!   functions of a NIC twice, the entry that comes first in the list counts.
//! - On a NIC, a policy takes its virtual functions from the weaker ones: a weaker group that overlaps is dropped whole,
//!   one that does not stays. Ranges never overlap.
//! - Policies *share* a NIC when a weaker group stays, or when they have one priority. Then MTU and number of virtual
//!   functions are the greatest of all, and a setting that the stronger leaves open is the weaker's. Otherwise the
//!   stronger's settings count alone.
//! - A resource consists of the groups of its name, and of nothing else; so a policy that was overruled on a node, or
//!   that has no NIC there, offers nothing there.
//! - A node whose daemon lists no NIC keeps what it has of the policies that still select it.
//! - What is malformed counts for nothing and harms nothing else.

mod bridges;
mod kept;
pub mod meaning;
mod merge;
pub mod plugin;
pub mod rdma;
pub mod situation;

use crate::{
    api::{
        SriovNetworkNodeStateSpec,
        node_state::{Bridges, Interface, System, VfGroup},
    },
    policy::{
        NicIds, ParsedPolicy,
        nic::Nic,
        node_policy::{DEFAULT_POLICY_NAME, bridge_fault, resource_name_fault},
    },
};
use merge::{Group, Merged};
pub use plugin::Resource;

/// What is known of one node.
#[derive(Clone, Copy, Debug)]
pub struct NodeView<'a> {
    /// Its NICs, by PCI address. Empty when its config daemon lists none: it has not reported yet, or is starting.
    pub nics: &'a [Nic],
    /// The policies that select it, in any order.
    pub policies: &'a [&'a ParsedPolicy],
    /// The supported NICs, which say what the virtual functions of a physical function are called.
    pub nic_ids: &'a NicIds,
    /// Whether software bridges are managed (gate `manageSoftwareBridges`).
    pub bridges: bool,
    /// The RDMA mode that it is to have.
    pub rdma_mode: Option<&'a str>,
    /// The stored spec of its state. Only asked for when there are no NICs.
    pub stored: Option<&'a SriovNetworkNodeStateSpec>,
}

/// What a node is to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The spec of its state.
    pub spec: SriovNetworkNodeStateSpec,
    /// Whether a device plugin is to run there.
    pub enabled: bool,
    /// What the device plugin offers. None: what it offers already, since the NICs are not known.
    pub resources: Option<Vec<Resource>>,
    /// What of the policies is not done on this node.
    pub problems: Vec<Problem>,
}

/// Something about a policy that its author should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Name of the policy.
    pub policy: Box<str>,
    /// What it is, in one line that begins with a field path.
    pub text: String,
}

/// Makes the plan of a node.
pub fn plan(view: &NodeView<'_>) -> Plan {
    let mut policies: Vec<&ParsedPolicy> = view
        .policies
        .iter()
        .copied()
        .filter(|policy| policy.name() != DEFAULT_POLICY_NAME)
        .collect();
    policies.sort_by(|a, b| {
        b.priority()
            .cmp(&a.priority())
            .then_with(|| a.name().cmp(b.name()))
    });
    let system = System {
        rdma_mode: view.rdma_mode.map(str::to_owned),
    };
    if view.nics.is_empty() {
        return unreported(view, &policies, system);
    }
    policies.retain(|policy| policy.vf_count() > 0);
    let mut problems = Vec::new();
    let merged = merge::merge(view.nics, &policies, &mut problems);
    let bridges = if view.bridges {
        bridges::of(view.nics, &policies)
    } else {
        Bridges::default()
    };
    Plan {
        enabled: !merged.is_empty(),
        resources: Some(plugin::resources(view.nics, &merged, view.nic_ids)),
        spec: SriovNetworkNodeStateSpec {
            bridges: Some(bridges),
            interfaces: Some(merged.iter().map(interface).collect()),
            system: Some(system),
        },
        problems,
    }
}

/// A node without NICs keeps what it has of the policies that still select it: its daemon lists none while it starts.
fn unreported(view: &NodeView<'_>, policies: &[&ParsedPolicy], system: System) -> Plan {
    let (interfaces, bridges) = kept::of(view.stored, policies, view.bridges);
    let enabled = !interfaces.is_empty();
    Plan {
        spec: SriovNetworkNodeStateSpec {
            bridges: Some(bridges),
            interfaces: Some(interfaces),
            system: Some(system),
        },
        enabled,
        resources: (!enabled).then(Vec::new),
        problems: Vec::new(),
    }
}

/// What of a policy is not done anywhere, and why.
pub fn faults(policy: &ParsedPolicy, bridges: bool) -> Vec<String> {
    let spec = policy.spec();
    let mut faults = Vec::new();
    if policy.name() == DEFAULT_POLICY_NAME {
        return faults;
    }
    if policy.vf_count() == 0 {
        faults.push("spec.numVfs is 0: the policy has no effect".to_owned());
    }
    if policy.nics().is_barren() {
        faults.push("spec.nicSelector selects by nothing: the policy has no effect".to_owned());
    }
    if let Some(fault) = resource_name_fault(&spec.resource_name) {
        faults.push(format!(
            "spec.resourceName {:?} {fault}: the virtual functions are made and not offered",
            spec.resource_name
        ));
    }
    if let Some(fault) = bridge_fault(spec).filter(|_| bridges) {
        faults.push(format!("{fault}: the bridge is left as it is"));
    }
    faults
}

fn interface(merged: &Merged<'_>) -> Interface {
    let set = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Interface {
        e_switch_mode: merged.e_switch_mode.map(str::to_owned),
        externally_managed: merged.externally_managed.then_some(true),
        link_type: merged.link_type.map(str::to_owned),
        mtu: merged.mtu,
        name: set(&merged.nic.name),
        num_vfs: Some(merged.num_vfs),
        pci_address: merged.nic.pci_address.clone().into(),
        vf_groups: Some(merged.groups.iter().map(vf_group).collect()),
    }
}

fn vf_group(group: &Group<'_>) -> VfGroup {
    let spec = group.policy.spec();
    let set = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    VfGroup {
        device_type: spec.device_type.as_deref().and_then(set),
        is_rdma: spec.is_rdma.filter(|rdma| *rdma),
        mtu: spec.mtu.filter(|mtu| *mtu != 0),
        policy_name: Some(group.policy.name().to_owned()),
        resource_name: set(&spec.resource_name),
        vdpa_type: spec.vdpa_type.as_deref().and_then(set),
        vf_range: Some(group.range.to_string()),
    }
}

#[cfg(test)]
mod tests;
