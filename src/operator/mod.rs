//! The reconciler of `SriovOperatorConfig/default`.
//!
//! ```text
//! config, Namespace, platform, bundles, pairs, switches, drift -> controller -> one pass at a time
//! pass: absent -> sweep | going -> teardown | present -> finalizer, certificates, components, status
//! ```
//!
//! A pass with nothing to do makes no request: what was applied is remembered, and the watches tell what became of it.
//! Components are independent of each other, and rolled out side by side.
//!
//! [`controller`] decides when a pass is made, [`reconcile`] what it does. Only the replica that holds the [`lease`]
//! makes passes. Every pass can be cut short at any point: the next one starts from what is in the cluster.

mod announce;
mod certificates;
pub mod cleanup;
pub mod config;
pub mod controller;
mod error;
mod events;
mod finalizer;
mod handover;
mod inputs;
pub mod lease;
mod passage;
mod reconcile;
mod report;
mod rollout;
mod standing;
pub(crate) mod status;
mod sync;
mod teardown;

pub use error::Error;
pub use events::{Events, Reason};
pub use inputs::Inputs;
pub use reconcile::{Parts, Reconciler, Verdict};
