//! Where a policy would be applied: the nodes and NICs it selects must be there and able to do what it asks.
//!
//! One pass over the selected nodes, which also feeds [`super::conflicts`].

use super::{
    ParsedPolicy, Place,
    conflicts::{Conflicts, Others},
    near_miss,
};
use crate::{
    api::SriovNetworkNodePolicySpec,
    policy::{
        Rules, Verdict, View,
        cluster::Node,
        fault::{Fault, Places, quoted},
        nic::{MELLANOX, Nic, NicQuery},
        vf_range::Entry,
    },
};

pub(super) fn check(
    spec: &SriovNetworkNodePolicySpec,
    policy: &ParsedPolicy,
    view: View<'_>,
    rules: &Rules,
    verdict: &mut Verdict,
) {
    let cluster = view.cluster;
    let selected: Vec<&Node> = selected(policy, view);
    if selected.is_empty() {
        if !verdict.is_faulty("spec.nodeSelector") {
            verdict.fault(near_miss::no_node(&policy.node_selector, cluster.nodes()));
        }
        return;
    }

    let others = Others::beside(policy, view);
    let mut conflicts = Conflicts::new(policy);
    let mut limits = Limits::default();
    let mut presence = Presence::of(&policy.nics);
    let mut unreported = Places::default();
    let mut reported = Vec::new();
    let mut matched = false;
    for node in selected {
        let here = others.on(node);
        conflicts.compare_resources(node.name(), &here);
        match cluster.nics(node.name()) {
            None => {}
            Some([]) => {
                unreported.add(|| node.name().to_owned());
                conflicts.compare_texts(node.name(), &here);
            }
            Some(nics) => {
                reported.push((node, nics));
                presence.look(node.name(), nics);
                for nic in nics.iter().filter(|nic| policy.nics.selects(nic)) {
                    let place = Place {
                        node: node.name(),
                        nic,
                    };
                    conflicts.compare_nic(&place, &here);
                    if rules.dev_mode
                        || policy
                            .nics
                            .supports(nic, node.provider_id(), cluster.nic_ids())
                    {
                        matched = true;
                        limits.compare(spec, &place);
                    }
                }
            }
        }
    }

    limits.report(spec, verdict);
    conflicts.report(spec, verdict);
    if matched {
        presence.report(reported.len(), verdict);
    } else if unreported.is_empty() && !verdict.is_faulty("spec.nicSelector") {
        near_miss::no_nic(spec, policy, &reported, cluster.nic_ids(), verdict);
    }
    if !unreported.is_empty() {
        verdict.warn(format!(
            "not checked against nodes that have not reported their NICs yet: {}",
            unreported.joined(", ")
        ));
    }
}

/// The nodes that a policy selects, by name.
pub(super) fn selected<'a>(policy: &ParsedPolicy, view: View<'a>) -> Vec<&'a Node> {
    let nodes = view.cluster.nodes();
    nodes
        .selection(&policy.node_selector)
        .map(|selection| nodes.selected(&selection))
        .unwrap_or_default()
}

/// NICs that cannot do what the policy asks of them.
#[derive(Default)]
struct Limits {
    num_vfs: Places,
    vdpa: Places,
    fixed_num_vfs: Places,
    fixed_mtu: Places,
    fixed_link: Places,
}

impl Limits {
    fn compare(&mut self, spec: &SriovNetworkNodePolicySpec, place: &Place<'_>) {
        let nic: &Nic = place.nic;
        let most = nic.max_vfs();
        if spec.num_vfs > most {
            self.num_vfs.add(|| format!("{place} has {most} VFs"));
        }
        if spec.vdpa_type.as_ref().is_some_and(|v| !v.is_empty()) && &*nic.vendor != MELLANOX {
            self.vdpa
                .add(|| format!("{place} has vendor {}", nic.vendor));
        }
        if spec.externally_managed != Some(true) {
            return;
        }
        if spec.num_vfs > nic.num_vfs {
            self.fixed_num_vfs
                .add(|| format!("{place} was given {}", nic.num_vfs));
        }
        if spec.mtu.is_some_and(|mtu| mtu > nic.mtu) {
            self.fixed_mtu.add(|| format!("{place} has {}", nic.mtu));
        }
        if let Some(link) = &spec.link_type
            && !link.is_empty()
            && !link.eq_ignore_ascii_case(&nic.link_type)
        {
            self.fixed_link
                .add(|| format!("{place} has {}", quoted(&nic.link_type)));
        }
    }

    fn report(&self, spec: &SriovNetworkNodePolicySpec, verdict: &mut Verdict) {
        let mut report = |field: &str, value: serde_json::Value, why: &str, places: &Places| {
            if !places.is_empty() {
                verdict.fault(Fault::invalid(
                    field,
                    value,
                    format!("{why}{}", places.joined("; ")),
                ));
            }
        };
        report("spec.numVfs", spec.num_vfs.into(), "", &self.num_vfs);
        report(
            "spec.numVfs",
            spec.num_vfs.into(),
            "an externally managed PF must have as many VFs already: ",
            &self.fixed_num_vfs,
        );
        report(
            "spec.mtu",
            spec.mtu.into(),
            "an externally managed PF must have at least this MTU already: ",
            &self.fixed_mtu,
        );
        report(
            "spec.linkType",
            spec.link_type.clone().into(),
            "an externally managed PF must have this link type already: ",
            &self.fixed_link,
        );
        report(
            "spec.vdpaType",
            spec.vdpa_type.clone().into(),
            "vDPA needs Mellanox NICs (vendor 15b3): ",
            &self.vdpa,
        );
    }
}

/// On how many of the selected nodes each PF name or PCI address exists.
struct Presence<'a> {
    names: Vec<(&'a str, Entry, usize, Places)>,
}

impl<'a> Presence<'a> {
    fn of(query: &'a NicQuery) -> Self {
        let names = query
            .names()
            .map(|(name, entry)| (name, entry, 0, Places::default()))
            .collect();
        Self { names }
    }

    fn look(&mut self, node: &str, nics: &[Nic]) {
        for (name, entry, found, missing) in &mut self.names {
            if nics
                .iter()
                .any(|nic| NicQuery::is_called(name, nic, *entry))
            {
                *found += 1;
            } else {
                missing.add(|| node.to_owned());
            }
        }
    }

    /// Warns of names that some node lacks, in the order of the entries.
    fn report(mut self, nodes: usize, verdict: &mut Verdict) {
        self.names.sort_unstable_by_key(|(_, entry, _, _)| *entry);
        for (name, entry, found, missing) in self.names {
            if found < nodes {
                let on = if found == 0 {
                    "no".into()
                } else {
                    format!("only {found} of {nodes}")
                };
                verdict.warn(format!(
                    "{}: {} exists on {on} selected nodes; missing on {}",
                    entry.path(),
                    quoted(name),
                    missing.joined(", ")
                ));
            }
        }
    }
}
