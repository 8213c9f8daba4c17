//! Everything that needs a cluster, as one test binary: one file a capability, each told as a specification.

mod conformance;
mod dedicated;
mod harness;
mod nodes;
mod spine;
mod support;
