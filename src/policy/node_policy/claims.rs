//! What a policy would take: the table that `sriov-operator check` shows.

use super::{ParsedPolicy, placement::selected};
use crate::policy::{Rules, View, vf_range::VfRange};

/// A NIC that a policy would be applied to.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NicClaim {
    /// Name of the node.
    pub node: String,
    /// Name of the physical function.
    pub interface: String,
    /// Its PCI address.
    pub pci_address: String,
    /// The virtual functions, in order.
    #[serde(serialize_with = "as_texts")]
    pub vfs: Vec<VfRange>,
    /// Whether PF names or PCI addresses name the NIC; else a stronger policy may take it over.
    pub named: bool,
}

fn as_texts<S: serde::Serializer>(ranges: &[VfRange], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(ranges.iter().map(ToString::to_string))
}

/// The supported NICs that a policy selects, by node and PCI address, with what it takes of each.
pub fn claims(policy: &ParsedPolicy, view: View<'_>, rules: &Rules) -> Vec<NicClaim> {
    let cluster = view.cluster;
    let whole = VfRange::whole(policy.vf_count());
    selected(policy, view)
        .into_iter()
        .flat_map(|node| {
            let nics = cluster.nics(node.name()).unwrap_or_default();
            nics.iter().map(move |nic| (node, nic))
        })
        .filter(|(node, nic)| {
            policy.nics.selects(nic)
                && (rules.dev_mode
                    || policy
                        .nics
                        .supports(nic, node.provider_id(), cluster.nic_ids()))
        })
        .map(|(node, nic)| {
            let named = policy.nics.named(nic);
            NicClaim {
                node: node.name().to_owned(),
                interface: nic.label().to_owned(),
                pci_address: nic.pci_address.to_string(),
                named: named.is_some(),
                vfs: match named {
                    Some(claims) => claims.iter().map(|claim| claim.range).collect(),
                    None => whole.into_iter().collect(),
                },
            }
        })
        .collect()
}
