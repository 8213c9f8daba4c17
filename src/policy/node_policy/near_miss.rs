//! What to say when a policy selects no node or no NIC: what there is instead, and what it was that did not fit.

use std::collections::BTreeMap;

use super::{ParsedPolicy, Place};
use crate::{
    api::SriovNetworkNodePolicySpec,
    policy::{
        Verdict,
        cluster::{Node, Nodes},
        fault::{Fault, Places, quoted},
        nic::{Nic, NicQuery, Refusal},
        nic_ids::{CONFIG_MAP, NicIds},
        vf_range::Entry,
    },
};

/// NICs of a node that are listed.
const MAX_NICS: usize = 8;

/// A selected node with its NICs.
pub(super) type Reported<'a> = (&'a Node, &'a [Nic]);

/// The fault of a node selector that selects nothing.
pub(super) fn no_node(selector: &BTreeMap<String, String>, nodes: &Nodes) -> Fault {
    let unknown: Vec<String> = selector
        .iter()
        .filter(|(key, value)| nodes.with_label(key, value) == 0)
        .map(|(key, value)| {
            let values: Places = nodes.values_of(key).map(quoted).collect();
            let there = if values.is_empty() {
                format!("no node has the label {}", quoted(key))
            } else {
                format!("there is {}", values.joined(", "))
            };
            format!("no node has {key}={value} ({there})")
        })
        .take(MAX_NICS)
        .collect();
    let detail = if nodes.is_empty() {
        "there is no node".into()
    } else if unknown.is_empty() {
        "no node has all of these labels".into()
    } else {
        unknown.join("; ")
    };
    Fault::invalid("spec.nodeSelector", selector, detail)
}

/// The faults of a policy that matches no NIC of any selected node. `nodes` are those that reported NICs.
pub(super) fn no_nic(
    spec: &SriovNetworkNodePolicySpec,
    policy: &ParsedPolicy,
    nodes: &[Reported<'_>],
    ids: &NicIds,
    verdict: &mut Verdict,
) {
    let Some(first) = nodes.first() else {
        verdict.fault(Fault::invalid(
            "spec.nodeSelector",
            &spec.node_selector,
            "no selected node has a SriovNetworkNodeState: the config daemon does not run there",
        ));
        return;
    };
    let mut names: Vec<(&str, Entry)> = policy.nics.names().collect();
    names.sort_unstable_by_key(|(_, entry)| *entry);
    for (name, entry) in &names {
        let bearer = find_nic(nodes, |nic| NicQuery::is_called(name, nic, *entry));
        let detail = match bearer {
            Some((node, nic)) => why_not(policy, node, nic, ids),
            None => format!("is on no selected node; {}", nics_of(first, *entry)),
        };
        verdict.fault(Fault::invalid(entry.path(), name, detail));
    }
    if !names.is_empty() {
        return;
    }
    let refused = find_nic(nodes, |nic| policy.nics.selects(nic));
    if let Some(filter) = policy.nics.net_filter() {
        let detail = match refused {
            Some((node, nic)) => why_not(policy, node, nic, ids),
            None => format!(
                "no NIC of the selected nodes is attached to this network; {}",
                networks(nodes)
            ),
        };
        verdict.fault(Fault::invalid(
            "spec.nicSelector.netFilter",
            filter.to_string(),
            detail,
        ));
        return;
    }
    let detail = match refused {
        Some((node, nic)) => why_not(policy, node, nic, ids),
        None => format!(
            "no NIC of the selected nodes has these ids; {}",
            ids_of(first)
        ),
    };
    verdict.fault(Fault::invalid(
        "spec.nicSelector",
        &spec.nic_selector,
        detail,
    ));
}

fn find_nic<'a>(
    nodes: &[Reported<'a>],
    wanted: impl Fn(&Nic) -> bool,
) -> Option<(&'a Node, &'a Nic)> {
    nodes
        .iter()
        .find_map(|(node, nics)| nics.iter().find(|nic| wanted(nic)).map(|nic| (*node, nic)))
}

/// What keeps a policy from a NIC that it might mean.
fn why_not(policy: &ParsedPolicy, node: &Node, nic: &Nic, ids: &NicIds) -> String {
    let place = Place {
        node: node.name(),
        nic,
    };
    match policy.nics.refusal(nic) {
        Some(Refusal::Vendor) => format!("{place} has vendor {}", nic.vendor),
        Some(Refusal::Device) => format!("{place} has deviceID {}", nic.device_id),
        Some(Refusal::RootDevices) => {
            format!(
                "{place} has PCI address {}, which is not in rootDevices",
                nic.pci_address
            )
        }
        Some(Refusal::PfNames) => format!("{place} is not in pfNames"),
        Some(Refusal::NetFilter) => format!("{place} is attached to another network"),
        None if !ids.has_vf(&nic.vendor, &nic.device_id) => format!(
            "{place} is {} {}, which is no PF in the ConfigMap {CONFIG_MAP}",
            nic.vendor, nic.device_id
        ),
        None => match policy.nics.net_filter() {
            None => format!(
                "{place} is {} {}, a VF in the ConfigMap {CONFIG_MAP}: on virtual machines NICs are selected by netFilter",
                nic.vendor, nic.device_id
            ),
            Some(filter) => format!(
                "{place} is {} {}, a VF in the ConfigMap {CONFIG_MAP}, but providerID {} is not {}",
                nic.vendor,
                nic.device_id,
                quoted(node.provider_id()),
                filter.provider.as_str()
            ),
        },
    }
}

fn nics_of((node, nics): &Reported<'_>, entry: Entry) -> String {
    let shown = nics.iter().map(|nic| match entry {
        Entry::PfName(_) if nic.alt_names.is_empty() => nic.label().to_owned(),
        Entry::PfName(_) => format!("{} ({})", nic.label(), nic.alt_names.join(", ")),
        Entry::RootDevice(_) => format!("{} ({})", nic.pci_address, nic.label()),
    });
    format!("node {} has {}", node.name(), limited(shown))
}

fn ids_of((node, nics): &Reported<'_>) -> String {
    let shown = nics
        .iter()
        .map(|nic| format!("{} {} ({})", nic.vendor, nic.device_id, nic.label()));
    format!("node {} has {}", node.name(), limited(shown))
}

fn networks(nodes: &[Reported<'_>]) -> String {
    let attached = nodes.iter().flat_map(|(node, nics)| {
        nics.iter().filter_map(|nic| {
            let filter = nic.net_filter.as_ref()?;
            Some(format!(
                "{} to {filter}",
                Place {
                    node: node.name(),
                    nic
                }
            ))
        })
    });
    let attached: Places = attached.collect();
    if attached.is_empty() {
        "none is attached to any, as on bare metal".into()
    } else {
        format!("attached are {}", attached.joined("; "))
    }
}

fn limited(mut items: impl Iterator<Item = String>) -> String {
    let shown = items.by_ref().take(MAX_NICS).collect::<Vec<_>>().join(", ");
    match items.count() {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
