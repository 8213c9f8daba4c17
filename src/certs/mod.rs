//! Certificates: authority, issuing, bundles, checked serving pairs, rotation.

pub mod published;
