//! Feature gates of `spec.featureGates`.
