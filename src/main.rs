//! Entry of the `sriov-operator` binary.
fn main() {}
