//! Everything that needs a cluster, as one test binary: one file a capability, each told as a specification.

mod conformance;
mod dedicated;
mod drift;
mod harness;
mod platforms;
mod rollout;
mod spine;
mod support;
mod takeover;
