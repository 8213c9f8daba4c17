//! What admission and the controllers read: watches, cut down when decoded, with their indexes.
//!
//! Owns the mirrors of the cluster's objects and what this replica admitted a moment ago; the verdicts are those of
//! `policy` and `inject`, which are handed a view. Writes nothing to the cluster.
//!
//! ```text
//! API server --list, watch--> reflect --objects--> sinks, nads --> policy::cluster, inject::Nads, Switches
//!                             health                               recent   <-- ClusterStores, PodStores, ConfigStore
//! ```

mod cluster;
mod config;
mod heads;
mod health;
mod listener;
mod mirror;
mod nads;
mod object;
mod objects;
mod pods;
mod recent;
mod reflect;
mod sinks;
mod source;

#[cfg(test)]
pub(crate) mod fake_api;

pub use cluster::{ClusterStores, Unavailable};
pub use config::ConfigStore;
pub use heads::{KEEP_UNTIL, StateHead};
pub use listener::Touched;
pub use mirror::{Mirror, NotReady, Status};
pub use nads::ReadError;
pub use object::{Key, at_least as is_at_least};
pub use objects::{Change, Objects};
pub use pods::{PodStores, SWITCHES};
pub use source::Source;
