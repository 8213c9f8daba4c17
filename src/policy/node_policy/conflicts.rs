//! What a policy and the others must agree on. Conflicts are judged per node and NIC, after names are resolved through
//! the node state: it does not matter by what a NIC is named. A NIC that a policy only means by vendor, device or
//! network is not named: there the stronger priority decides, as documented.

use std::{borrow::Cow, collections::BTreeMap};

use super::{DEFAULT_POLICY_NAME, ParsedPolicy, Place, entry_text};
use crate::{
    api::SriovNetworkNodePolicySpec,
    policy::{
        Verdict, View,
        cluster::{Node, Nodes, Selection},
        fault::{Fault, Places, quoted},
        vf_range::{Claim, Claims, Entry, VfRange},
    },
};

/// The other policies, with their node selectors made ready.
pub(super) struct Others<'a>(Vec<(Selection, &'a ParsedPolicy)>);

impl<'a> Others<'a> {
    /// All but those called like `policy`, which it replaces, and those that select no node.
    pub(super) fn beside(policy: &'a ParsedPolicy, view: View<'a>) -> Self {
        let nodes = view.cluster.nodes();
        let mut others: Vec<_> = view
            .policies_beside(policy.name())
            .filter(|other| other.name() != DEFAULT_POLICY_NAME)
            .filter_map(|other| Some((nodes.selection(&other.node_selector)?, other)))
            .collect();
        others.sort_by(|(_, a), (_, b)| a.name.cmp(&b.name));
        Self(others)
    }

    /// Those that select the node.
    pub(super) fn on(&self, node: &Node) -> Vec<&'a ParsedPolicy> {
        self.0
            .iter()
            .filter(|(selection, _)| Nodes::selects(selection, node))
            .map(|(_, other)| *other)
            .collect()
    }
}

/// A setting of a whole NIC that policies sharing it should agree on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Setting {
    Mtu,
    LinkType,
    ESwitchMode,
}

/// Conflicts found so far, each with the places where it shows.
pub(super) struct Conflicts<'a> {
    policy: &'a ParsedPolicy,
    clashes: BTreeMap<(Entry, Entry), Places>,
    overlaps: BTreeMap<(Entry, &'a str), Places>,
    management: BTreeMap<&'a str, Places>,
    topology: BTreeMap<&'a str, Places>,
    settings: BTreeMap<(&'a str, Setting), Places>,
}

impl<'a> Conflicts<'a> {
    pub(super) fn new(policy: &'a ParsedPolicy) -> Self {
        Self {
            policy,
            clashes: BTreeMap::new(),
            overlaps: BTreeMap::new(),
            management: BTreeMap::new(),
            topology: BTreeMap::new(),
            settings: BTreeMap::new(),
        }
    }

    /// One resource of one node is reported with its topology or without, whichever NICs are in it.
    pub(super) fn compare_resources(&mut self, node: &str, here: &[&'a ParsedPolicy]) {
        for other in here {
            if other.resource_name == self.policy.resource_name
                && other.exclude_topology != self.policy.exclude_topology
            {
                let places = self.topology.entry(other.name()).or_default();
                places.add(|| format!("node {node}"));
            }
        }
    }

    /// Compares the policy with itself and with the others on a NIC that it selects.
    pub(super) fn compare_nic(&mut self, place: &Place<'_>, here: &[&'a ParsedPolicy]) {
        let ours = self.policy.nics.named(place.nic);
        // Entries of one name are compared once for all; only several names of one NIC give something new.
        if let Some(Cow::Owned(claims)) = &ours {
            for (earlier, later) in claims.clashes() {
                let places = self
                    .clashes
                    .entry((later.entry, earlier.entry))
                    .or_default();
                places.add(|| place.to_string());
            }
        }
        for other in here.iter().filter(|other| other.nics.selects(place.nic)) {
            let theirs = other.nics.named(place.nic);
            if let (Some(ours), Some(theirs)) = (&ours, &theirs) {
                self.compare_named(place, ours, other, theirs);
            }
            if shares(self.policy, ours.as_deref(), other, theirs.as_deref()) {
                self.compare_settings(place, other);
            }
        }
    }

    fn compare_named(
        &mut self,
        place: &Place<'_>,
        ours: &Claims,
        other: &'a ParsedPolicy,
        theirs: &Claims,
    ) {
        if other.externally_managed != self.policy.externally_managed {
            let places = self.management.entry(other.name()).or_default();
            places.add(|| place.to_string());
        }
        for their in theirs {
            for our in ours.overlapping(their.range) {
                let places = self.overlaps.entry((our.entry, other.name())).or_default();
                places.add(|| format!("VFs {} of {place}", their.range));
            }
        }
    }

    fn compare_settings(&mut self, place: &Place<'_>, other: &'a ParsedPolicy) {
        let both = |a: Option<&str>, b: Option<&str>| match (a, b) {
            (Some(a), Some(b)) => !a.eq_ignore_ascii_case(b),
            _ => false,
        };
        let ours = self.policy;
        let differences = [
            (
                Setting::Mtu,
                ours.mtu.zip(other.mtu).is_some_and(|(a, b)| a != b),
            ),
            (
                Setting::LinkType,
                both(ours.link_type.as_deref(), other.link_type.as_deref()),
            ),
            (
                Setting::ESwitchMode,
                ours.e_switch_mode != other.e_switch_mode,
            ),
        ];
        for (setting, _) in differences.into_iter().filter(|(_, differs)| *differs) {
            let places = self.settings.entry((other.name(), setting)).or_default();
            places.add(|| place.to_string());
        }
    }

    /// Compares names as texts, for a node that has not reported its NICs: one text is one NIC there.
    pub(super) fn compare_texts(&mut self, node: &str, here: &[&'a ParsedPolicy]) {
        for other in here {
            for (our, theirs) in self.policy.nics.common_claims(&other.nics) {
                let places = self.overlaps.entry((our.entry, other.name())).or_default();
                places.add(|| format!("VFs {theirs} there on node {node}"));
            }
        }
    }

    pub(super) fn report(&self, spec: &SriovNetworkNodePolicySpec, verdict: &mut Verdict) {
        for ((later, earlier), places) in &self.clashes {
            let earlier = format!(
                "{} ({})",
                earlier.path(),
                quoted(entry_text(spec, *earlier))
            );
            verdict.fault(Fault::invalid(
                later.path(),
                entry_text(spec, *later),
                format!(
                    "overlaps {earlier}, which is the same NIC: {}",
                    places.joined("; ")
                ),
            ));
        }
        for ((entry, other), places) in &self.overlaps {
            verdict.fault(Fault::invalid(
                entry.path(),
                entry_text(spec, *entry),
                format!(
                    "overlaps policy {}, which names {}",
                    quoted(other),
                    places.joined("; ")
                ),
            ));
        }
        for (other, places) in &self.management {
            let ours = self.policy.externally_managed;
            verdict.fault(Fault::invalid(
                "spec.externallyManaged",
                ours,
                format!(
                    "policy {} has {} for the same NIC: {}",
                    quoted(other),
                    !ours,
                    places.joined("; ")
                ),
            ));
        }
        for (other, places) in &self.topology {
            let ours = self.policy.exclude_topology;
            verdict.fault(Fault::invalid(
                "spec.excludeTopology",
                ours,
                format!(
                    "policy {} has {} for the same resourceName: {}",
                    quoted(other),
                    !ours,
                    places.joined("; ")
                ),
            ));
        }
        for ((other, setting), places) in &self.settings {
            let field = match setting {
                Setting::Mtu => "spec.mtu",
                Setting::LinkType => "spec.linkType",
                Setting::ESwitchMode => "spec.eSwitchMode",
            };
            verdict.warn(format!(
                "{field}: differs from that of policy {}, which shares {}",
                quoted(other),
                places.joined("; ")
            ));
        }
    }
}

/// Whether both policies keep virtual functions of the NIC. Where they claim the same ones, one of them is refused or
/// gives way altogether.
fn shares(
    us: &ParsedPolicy,
    ours: Option<&Claims>,
    them: &ParsedPolicy,
    theirs: Option<&Claims>,
) -> bool {
    let ours = ours.map_or_else(|| whole(us), Cow::Borrowed);
    let theirs = theirs.map_or_else(|| whole(them), Cow::Borrowed);
    let apart = theirs
        .iter()
        .all(|their| ours.overlapping(their.range).next().is_none());
    apart && ours.iter().next().is_some() && theirs.iter().next().is_some()
}

/// What a policy takes of a NIC that it does not name.
fn whole<'a>(policy: &ParsedPolicy) -> Cow<'a, Claims> {
    let claim = VfRange::whole(policy.vf_count()).map(|range| Claim {
        range,
        entry: Entry::PfName(0),
    });
    Cow::Owned(claim.into_iter().collect())
}
