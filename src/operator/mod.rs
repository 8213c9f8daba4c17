//! The reconciler of `SriovOperatorConfig/default`.

pub mod lease;
