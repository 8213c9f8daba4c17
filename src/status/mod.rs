//! What an administrator wants to know of an installation, for `sriov-operator status`.
//!
//! ```text
//! API server -- gather --> Gathered -- assemble --> Report -- screen --> text
//!                                   certificates, nodes, networks, machine_pools, problems
//! ```
//!
//! [`gather`] makes the calls, with the rights of whoever asks; all else is pure. A part that may not be read is shown as
//! such, and keeps none of the others back. Nothing is written, and nothing of a private key is told.

mod assemble;
mod certificates;
pub mod gather;
mod machine_pools;
mod networks;
mod nodes;
mod problems;
mod report;
mod screen;
#[cfg(test)]
mod tests;

pub use gather::{Gathered, gather};
pub use report::{Part, Report};
