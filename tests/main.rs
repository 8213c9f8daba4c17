//! Everything that needs a cluster, as one test binary: one file a capability, each told as a specification.

mod chart;
mod cleanup;
mod conformance;
mod dedicated;
mod docs;
mod harness;
mod image;
mod spine;
mod status;
mod support;
