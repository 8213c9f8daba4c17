//! A stand-in for the config daemons of all nodes: it speaks the annotations as they do, and complains when the operator
//! breaks a promise.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use serde_json::Value;

use super::*;

/// How far the daemon of a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It has not asked yet.
    New,
    /// It waits until its node is drained.
    Asking,
    /// It has said that it is done, and waits until the operator is.
    Ending,
    /// The node is configured and back in use.
    Done,
}

/// The daemons of some nodes.
pub(super) struct Daemons {
    phases: BTreeMap<String, Phase>,
    limit: usize,
    /// The most nodes that were seen busy at a time.
    most: usize,
    /// How many answers were seen.
    answers: usize,
}

impl Daemons {
    /// Those of these nodes, of which at most `limit` may be drained at a time.
    pub(super) fn new(nodes: &[String], limit: usize) -> Self {
        Self {
            phases: nodes
                .iter()
                .map(|node| (node.clone(), Phase::New))
                .collect(),
            limit,
            most: 0,
            answers: 0,
        }
    }

    /// Whether all nodes are configured.
    pub(super) fn are_done(&self) -> bool {
        self.phases.values().all(|phase| *phase == Phase::Done)
    }

    /// How many answers of the operator they have seen.
    pub(super) fn answers(&self) -> usize {
        self.answers
    }

    /// The most nodes that were seen busy at a time.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// Those whose nodes are not configured yet.
    pub(super) fn left(&self) -> Vec<&String> {
        let left = self
            .phases
            .iter()
            .filter(|(_, phase)| **phase != Phase::Done);
        left.map(|(node, _)| node).collect()
    }

    /// A node is no more.
    pub(super) fn forget(&mut self, node: &str) {
        self.phases.remove(node);
    }

    /// Looks at all node states at one moment, and does what each daemon would.
    pub(super) async fn turn(&mut self, admin: &User) -> Result<()> {
        let states = admin.list(NODE_STATE).await?;
        let busy = |state: &&Value| [DRAINING, COMPLETE].contains(&annotation(state, CURRENT));
        let busy: Vec<&str> = states
            .iter()
            .filter(busy)
            .map(|state| text(state, "/metadata/name"))
            .collect();
        ensure!(
            busy.len() <= self.limit,
            "more than {} at a time: {busy:?}",
            self.limit
        );
        self.most = self.most.max(busy.len());
        for state in &states {
            let node = text(state, "/metadata/name");
            let Some(phase) = self.phases.get(node).copied() else {
                continue;
            };
            let next = match (phase, annotation(state, CURRENT)) {
                (Phase::New, _) => {
                    ask(admin, node, DRAIN).await?;
                    Phase::Asking
                }
                (Phase::Asking, COMPLETE) => {
                    ensure!(
                        is_cordoned(admin, node).await?,
                        "{node} is drained and not cordoned"
                    );
                    ensure!(
                        is_gone(admin, &format!("fast-{node}")).await?,
                        "{node} is not empty"
                    );
                    ask(admin, node, IDLE).await?;
                    Phase::Ending
                }
                (Phase::Ending, IDLE) => Phase::Done,
                (phase, _) => phase,
            };
            self.answers += usize::from(next != phase && phase != Phase::New);
            self.phases.insert(node.to_owned(), next);
        }
        Ok(())
    }
}
