//! The TLS side of the listener: settings turned into rustls' types, HTTP/1.1 only. It must not know where certificates come
//! from, nor how settings are spelled: what cannot be served has been left out of [`TlsSettings`] before.

use std::{path::PathBuf, sync::Arc};

use arc_swap::ArcSwap;
use rustls::{
    ServerConfig, SupportedCipherSuite, SupportedProtocolVersion,
    crypto::{
        CryptoProvider, SupportedKxGroup,
        aws_lc_rs::{self, cipher_suite as suite, kx_group as group},
    },
    server::{NoServerSessionStorage, ResolvesServerCert},
    version,
};

use super::client_auth;
use crate::settings::{
    ClientCa,
    tls::{ServedGroup, ServedSuite, TlsSettings},
};

/// The configuration of a listener. A new one that is stored here holds for the connections that come after.
pub type Shared = Arc<ArcSwap<ServerConfig>>;

/// Why there is no TLS configuration.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// rustls refuses the combination.
    #[error("TLS settings do not fit together: {0}")]
    Settings(#[from] rustls::Error),
    /// The file with the CA of clients cannot be used.
    #[error("--client-ca-file: {}: {reason}", path.display())]
    ClientCa {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// The listener's TLS configuration, with certificates from `resolver` at each handshake. The file of `client_ca` is read
/// now; without one, clients need no certificate.
pub fn configure(
    settings: &TlsSettings,
    client_ca: Option<&ClientCa>,
    resolver: Arc<dyn ResolvesServerCert>,
) -> Result<Arc<ServerConfig>, Error> {
    let provider = Arc::new(provider(settings));
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions(settings.tls12))?;
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some(ca) => builder.with_client_cert_verifier(client_auth::verifier(ca, provider)?),
    };
    let mut config = builder.with_cert_resolver(resolver);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // The API server resumes no session: tickets would be work for nothing.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// Both versions.
static FROM_TLS12: [&SupportedProtocolVersion; 2] = [&version::TLS13, &version::TLS12];
/// The newer one.
static FROM_TLS13: [&SupportedProtocolVersion; 1] = [&version::TLS13];

fn versions(tls12: bool) -> &'static [&'static SupportedProtocolVersion] {
    if tls12 { &FROM_TLS12 } else { &FROM_TLS13 }
}

fn provider(settings: &TlsSettings) -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    if !settings.cipher_suites.is_empty() {
        provider.cipher_suites = settings
            .cipher_suites
            .iter()
            .copied()
            .map(rustls_suite)
            .collect();
    }
    if !settings.groups.is_empty() {
        provider.kx_groups = settings.groups.iter().copied().map(rustls_group).collect();
    }
    provider
}

fn rustls_suite(served: ServedSuite) -> SupportedCipherSuite {
    match served {
        ServedSuite::Tls13Aes128GcmSha256 => suite::TLS13_AES_128_GCM_SHA256,
        ServedSuite::Tls13Aes256GcmSha384 => suite::TLS13_AES_256_GCM_SHA384,
        ServedSuite::Tls13Chacha20Poly1305Sha256 => suite::TLS13_CHACHA20_POLY1305_SHA256,
        ServedSuite::EcdheEcdsaAes128GcmSha256 => suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        ServedSuite::EcdheEcdsaAes256GcmSha384 => suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        ServedSuite::EcdheEcdsaChacha20Poly1305Sha256 => {
            suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
        }
        ServedSuite::EcdheRsaAes128GcmSha256 => suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        ServedSuite::EcdheRsaAes256GcmSha384 => suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        ServedSuite::EcdheRsaChacha20Poly1305Sha256 => {
            suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256
        }
    }
}

fn rustls_group(served: ServedGroup) -> &'static dyn SupportedKxGroup {
    match served {
        ServedGroup::X25519 => group::X25519,
        ServedGroup::Secp256r1 => group::SECP256R1,
        ServedGroup::Secp384r1 => group::SECP384R1,
        ServedGroup::X25519MlKem768 => group::X25519MLKEM768,
        ServedGroup::Secp256r1MlKem768 => group::SECP256R1MLKEM768,
    }
}
