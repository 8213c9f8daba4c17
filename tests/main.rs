//! Everything that needs a cluster, as one test binary: one file a capability, each told as a specification.

mod certificates;
mod chart;
mod cleanup;
mod conformance;
mod dedicated;
mod docs;
mod drain;
mod drift;
mod faults;
mod fire;
mod harness;
mod image;
mod injecting;
mod judging;
mod moving;
mod networks;
mod nodes;
mod platforms;
mod pools;
mod replicas;
mod rollout;
mod rotation;
mod spine;
mod status;
mod support;
mod takeover;
