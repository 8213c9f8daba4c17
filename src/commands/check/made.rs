//! What files would make: the node states of the nodes that they touch, by the very functions that the controller of node
//! policies uses.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

use super::{judge::Judgement, state::State};
use crate::{
    api::SriovNetworkNodeStateSpec,
    nodes::{
        Plan, meaning,
        plugin::{Spelling, text},
        situation::{self, Situation},
    },
    policy::{Kind, cluster::Node},
};

/// The state of one node.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeState {
    /// The node.
    pub(super) node: String,
    /// Whether it differs from the stored one; null when none is stored.
    pub(super) changes: Option<bool>,
    /// `spec` of the `SriovNetworkNodeState`.
    pub(super) spec: SriovNetworkNodeStateSpec,
    /// What the node's device plugin offers; null when it is not known, since the node has not reported its NICs.
    pub(super) device_plugin: Option<Value>,
    /// What of the policies is not done on this node.
    pub(super) problems: Vec<String>,
}

/// The states of the nodes that what was judged and allowed touches, by name.
pub(super) fn node_states(state: &State, judged: &[Judgement]) -> Vec<NodeState> {
    let allowed = |kind: Kind| {
        let of_kind = judged
            .iter()
            .filter(move |one| one.allowed && Kind::parse(&one.kind) == Some(kind));
        of_kind.map(|one| one.name.as_str())
    };
    let policies: BTreeSet<&str> = allowed(Kind::NodePolicy).collect();
    // These touch nodes only by what they change.
    let settings = allowed(Kind::PoolConfig)
        .chain(allowed(Kind::OperatorConfig))
        .next()
        .is_some();
    if policies.is_empty() && !settings {
        return Vec::new();
    }
    let cluster = &state.cluster;
    let is_selected = |node: &Node| {
        let mut selecting = cluster.policies_of(node).into_iter();
        selecting.any(|policy| policies.contains(policy.name()))
    };
    let mut names: Vec<&str> = cluster.nodes().names().collect();
    names.sort_unstable();
    let states = names.into_iter().filter_map(|name| {
        let selected = cluster.nodes().get(name).is_some_and(is_selected);
        let made = node_state(state, name)?;
        (selected || (settings && made.changes == Some(true))).then_some(made)
    });
    states.collect()
}

fn node_state(state: &State, name: &str) -> Option<NodeState> {
    let stored = state.spec(name);
    let rdma_mode = stored.and_then(|spec| spec.system.as_ref()?.rdma_mode.as_deref());
    let config = state.config();
    let situation = situation::of(
        name,
        &state.cluster,
        Some(&config),
        &state.pools(),
        rdma_mode,
        stored,
    );
    let Situation::Selected(wanted) = situation else {
        return None;
    };
    let Plan {
        spec,
        resources,
        problems,
        ..
    } = wanted.plan;
    let mut problems: Vec<String> = problems
        .into_iter()
        .map(|problem| format!("policy {}: {}", problem.policy, problem.text))
        .collect();
    problems.extend(wanted.rdma_note);
    Some(NodeState {
        node: name.to_owned(),
        changes: stored.map(|stored| meaning::of_spec(stored) != meaning::of_spec(&spec)),
        spec,
        device_plugin: resources
            .and_then(|resources| serde_json::from_str(&text(&resources, Spelling::Full)).ok()),
        problems,
    })
}
