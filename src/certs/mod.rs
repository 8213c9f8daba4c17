//! Certificates: authority, issuing, bundles, checked serving pairs, rotation.
//!
//! A serving pair always comes from a Secret; the modes (see [`crate::settings`]) differ in who writes it.
//!
//! ```text
//! leader   Secrets + live caBundles -> rotation::plan -> keeper -> Secrets, bundle to publish
//! replica  Secret -> pair (key, names, dates, trust) -> serving::ServingStore -> TLS handshake
//! ```
//!
//! Pure, with the time passed in: [`key`], [`certificate`], [`bundle`], [`names`], [`lifetimes`], [`authority`],
//! [`pair`], [`rotation`]. Talking to the API server: [`keeper`] (the leader alone), [`published`] and [`serving`] (every
//! replica). This module renders no webhook configuration and writes no `caBundle`: it says which one to publish.

pub mod authority;
pub mod bundle;
pub mod certificate;
pub mod keeper;
pub mod key;
pub mod lifetimes;
pub mod names;
pub mod pair;
pub mod published;
pub mod rotation;
pub mod serving;

#[cfg(test)]
pub(crate) mod testing;
