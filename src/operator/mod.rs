//! The reconciler of `SriovOperatorConfig/default`.
