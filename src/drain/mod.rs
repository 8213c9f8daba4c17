//! Draining nodes for their config daemons: who may be drained when, what is done next about a node, which pods go. Pure:
//! annotations, labels and pods go in as plain data, decisions come out. No calls, no clock.
//!
//! ```text
//! Node, node state -> protocol: next step -> budget: may it begin? -> pause: its MachineConfigPool (OpenShift)
//!                                         '-> pods: which are evicted, and are they gone?
//! ```
//!
//! The daemon of a node asks on the Node and waits for the answer on the node state. Everything that a drain has come to
//! stands in annotations, so that it goes on after a restart or under another leader:
//!
//! ```text
//! daemon   Node   state           Idle -> Drain_Required -----------------------> Idle
//! operator state  current-state   Idle ------------------> Draining -> DrainComplete -> Idle
//! operator state  drain-started         '- with Draining ----------------- until Idle -'
//! operator Node   cordoned-by                 '- with the cordon - until it is lifted -'
//! ```
//!
//! `cordoned-by` is set by the very write that cordons a node and says that we did: a node that its administrator has
//! cordoned stays so. `drain-started` tells our drains from those of the reference's operator, which keeps no such
//! record and uncordons every node that it has drained: what it began is ended as it would.

pub mod budget;
pub mod pause;
pub mod pods;
pub mod protocol;
#[cfg(test)]
mod simulation;

pub use budget::{Budget, Pool, Refusal};
pub use protocol::{Cordon, NodeView, Request, StateView, Step, next};

/// On a Node: what its config daemon asks for. On a MachineConfigPool: whether the operator has paused it.
pub const STATE: &str = "sriovnetwork.openshift.io/state";
/// On a node state: what its config daemon asks for, a second time.
pub const DESIRED_STATE: &str = "sriovnetwork.openshift.io/desired-state";
/// On a node state: how far the operator is.
pub const CURRENT_STATE: &str = "sriovnetwork.openshift.io/current-state";
/// On a node state, `true`: somebody else drains this node.
pub const EXTERNAL_DRAINER: &str = "sriovnetwork.openshift.io/use-external-drainer";
/// On a Node: we have cordoned it.
pub const CORDONED_BY: &str = "sriovnetwork.openshift.io/cordoned-by";
/// On a node state: when we began to drain the node.
pub const DRAIN_STARTED: &str = "sriovnetwork.openshift.io/drain-started";

/// Nothing is asked for, nothing is done.
pub const IDLE: &str = "Idle";
/// The node's pods that use virtual functions are to go.
pub const DRAIN_REQUIRED: &str = "Drain_Required";
/// All pods are to go: the node will be rebooted.
pub const REBOOT_REQUIRED: &str = "Reboot_Required";
/// The node is being drained.
pub const DRAINING: &str = "Draining";
/// The node is drained, and its daemon may go on.
pub const DRAIN_COMPLETE: &str = "DrainComplete";
