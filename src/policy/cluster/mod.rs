//! What admission and the controllers know of the cluster, as plain data that is updated piece by piece: nodes, node states, policies and
//! the list of supported NICs, of the operator's namespace where they have one.
//!
//! Every update costs in proportion to what it changes, every question in proportion to its answer. Nothing here
//! watches, waits or judges.

mod dump;
mod nodes;
mod reports;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::Deserialize;

#[cfg(test)]
pub(crate) use self::nodes::work;
pub use self::nodes::{Node, Nodes, Selection};
use self::reports::Reports;
use super::{
    SetAside,
    nic::Nic,
    nic_ids::NicIds,
    node_policy::{Malformed, ParsedPolicy},
};
use crate::api::SriovNetworkNodePolicy;

/// `syncStatus` of a node that is being configured, and drained for it.
const IN_PROGRESS: &str = "InProgress";

/// The status of a node state, cut down to what admission asks for. Decodes from `status`; a node state that has none
/// is [`ReportedState::default`]: the config daemon has not reported yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReportedState {
    /// The node's physical functions.
    pub interfaces: Vec<Nic>,
    /// `Succeeded`, `Failed` or `InProgress`.
    pub sync_status: Box<str>,
}

/// The cluster, as far as admission is concerned.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    nodes: Nodes,
    states: Reports,
    in_progress: BTreeSet<Box<str>>,
    policies: BTreeMap<Box<str>, Arc<ParsedPolicy>>,
    /// Policies that are not understood, with the reason.
    malformed: BTreeMap<Box<str>, String>,
    nic_ids: NicIds,
}

impl Cluster {
    /// Takes in a new or changed node, and says whether it differs from what was known.
    pub fn insert_node<'a>(
        &mut self,
        name: &str,
        labels: impl IntoIterator<Item = (&'a str, &'a str)>,
        provider_id: &str,
    ) -> bool {
        self.nodes.insert(name, labels, provider_id)
    }

    /// Forgets a node.
    pub fn remove_node(&mut self, name: &str) {
        self.nodes.remove(name);
    }

    /// Forgets the nodes that `keep` does not want, after a fresh list.
    pub fn retain_nodes(&mut self, keep: impl Fn(&str) -> bool) {
        self.nodes.retain(keep);
    }

    /// Takes in a new or changed node state, and says whether its NICs differ from those known. They are ordered by PCI
    /// address, so that no answer depends on the order in which a node listed them.
    pub fn insert_state(&mut self, name: &str, state: ReportedState) -> bool {
        if &*state.sync_status != IN_PROGRESS {
            self.in_progress.remove(name);
        } else if !self.in_progress.contains(name) {
            self.in_progress.insert(name.into());
        }
        let mut nics = state.interfaces;
        nics.sort_by(|a, b| (&a.pci_address, &a.name).cmp(&(&b.pci_address, &b.name)));
        self.states.insert(name, nics)
    }

    /// Forgets a node state.
    pub fn remove_state(&mut self, name: &str) {
        self.states.remove(name);
        self.in_progress.remove(name);
    }

    /// Forgets the node states that `keep` does not want, after a fresh list.
    pub fn retain_states(&mut self, keep: impl Fn(&str) -> bool) {
        self.states.retain(&keep);
        self.in_progress.retain(|name| keep(name));
    }

    /// Takes in a new or changed policy of the operator's namespace. One that cannot be understood is set aside: what
    /// was known of it before is gone, and it takes part in no verdict.
    pub fn insert_policy(&mut self, policy: &SriovNetworkNodePolicy) -> Result<(), SetAside> {
        let name = policy.metadata.name.as_deref().unwrap_or_default();
        match ParsedPolicy::new(policy) {
            Ok(parsed) => {
                self.policies.insert(name.into(), Arc::new(parsed));
                self.malformed.remove(name);
                Ok(())
            }
            Err(Malformed(reason)) => {
                self.policies.remove(name);
                self.malformed.insert(name.into(), reason.clone());
                Err(SetAside {
                    what: "SriovNetworkNodePolicy",
                    name: name.into(),
                    reason,
                })
            }
        }
    }

    /// Forgets a policy.
    pub fn remove_policy(&mut self, name: &str) {
        self.policies.remove(name);
        self.malformed.remove(name);
    }

    /// Forgets the policies that `keep` does not want, after a fresh list.
    pub fn retain_policies(&mut self, keep: impl Fn(&str) -> bool) {
        self.policies.retain(|name, _| keep(name));
        self.malformed.retain(|name, _| keep(name));
    }

    /// Replaces the list of supported NICs.
    pub fn set_nic_ids(&mut self, ids: NicIds) {
        self.nic_ids = ids;
    }

    /// The nodes.
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// The NICs of a node, by PCI address; nothing when there is no node state, empty when it lists none.
    pub fn nics(&self, node: &str) -> Option<&[Nic]> {
        self.states.get(node)
    }

    /// How many nodes have a node state.
    pub fn state_count(&self) -> usize {
        self.states.len()
    }

    /// Names of the nodes that are being configured, in order.
    pub fn in_progress(&self) -> impl ExactSizeIterator<Item = &str> {
        self.in_progress.iter().map(AsRef::as_ref)
    }

    /// A policy that is stored and understood.
    pub fn policy(&self, name: &str) -> Option<&Arc<ParsedPolicy>> {
        self.policies.get(name)
    }

    /// The policies that are stored and understood, by name.
    pub fn policies(&self) -> impl Iterator<Item = &Arc<ParsedPolicy>> {
        self.policies.values()
    }

    /// The policies that select a node, by name.
    pub fn policies_of(&self, node: &Node) -> Vec<&ParsedPolicy> {
        self.policies
            .values()
            .filter(|policy| {
                let selection = self.nodes.selection(policy.node_selector());
                selection.is_some_and(|selection| Nodes::selects(&selection, node))
            })
            .map(AsRef::as_ref)
            .collect()
    }

    /// Names of the policies that are stored and not understood, each with the reason.
    pub fn malformed_policies(&self) -> impl Iterator<Item = (&str, &str)> {
        self.malformed
            .iter()
            .map(|(name, reason)| (name.as_ref(), reason.as_str()))
    }

    /// Why a stored policy is not understood.
    pub fn malformed_policy(&self, name: &str) -> Option<&str> {
        self.malformed.get(name).map(String::as_str)
    }

    /// The supported NICs.
    pub fn nic_ids(&self) -> &NicIds {
        &self.nic_ids
    }
}

/// What a review is judged against: the stored cluster, and policies that were admitted so recently that the store does
/// not show them yet. One of these replaces the stored policy of its name.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// What the stores show.
    pub cluster: &'a Cluster,
    /// What was just admitted.
    pub admitted: &'a [Arc<ParsedPolicy>],
}

impl<'a> View<'a> {
    /// Every policy that counts, those just admitted last, except those called `name`. Where a policy was admitted
    /// more than once, its last version counts.
    pub fn policies_beside(self, name: &'a str) -> impl Iterator<Item = &'a ParsedPolicy> {
        let Self { cluster, admitted } = self;
        let admitted_as = move |name: &str, after: usize| {
            admitted
                .iter()
                .skip(after)
                .any(|policy| policy.name() == name)
        };
        cluster
            .policies
            .iter()
            .filter(move |(stored, _)| !admitted_as(stored, 0))
            .map(|(_, policy)| policy.as_ref())
            .chain(
                admitted
                    .iter()
                    .zip(1..)
                    .filter(move |(policy, next)| !admitted_as(policy.name(), *next))
                    .map(|(policy, _)| policy.as_ref()),
            )
            .filter(move |policy| policy.name() != name)
    }
}

impl<'a> From<&'a Cluster> for View<'a> {
    fn from(cluster: &'a Cluster) -> Self {
        Self {
            cluster,
            admitted: &[],
        }
    }
}

#[cfg(test)]
mod tests;
