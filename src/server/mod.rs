//! Everything that listens: the TLS accept loop, its certificates' side of the handshake, health and metrics endpoints.
//!
//! It serves any [`axum::Router`] and must not know what the routes mean. Where a certificate comes from is the business of
//! whoever implements [`rustls::server::ResolvesServerCert`].
//!
//! ```text
//! listener -> places (cap) -> TLS handshake -> connection (phases, limits) -> router
//! ```

mod accept;
mod client_auth;
mod connection;
pub mod health;
mod listener;
pub mod metrics;
mod places;
pub mod self_check;
pub mod tls;

pub use accept::{Options, Shutdown, serve};
pub use listener::bind;

#[cfg(test)]
mod tests;
