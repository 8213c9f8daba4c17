//! The TLS side of the listener: versions, suites and groups as configured, HTTP/1.1 only. It must not know where
//! certificates come from, nor how settings spell their lists beyond the names of suites and groups.

use std::{path::PathBuf, sync::Arc};

use rustls::{
    ServerConfig, SupportedCipherSuite, SupportedProtocolVersion,
    crypto::{CryptoProvider, SupportedKxGroup, aws_lc_rs},
    server::{NoServerSessionStorage, ResolvesServerCert},
    version,
};

use super::client_auth;

/// Lowest TLS version that is spoken. There is none below 1.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MinVersion {
    /// TLS 1.2 and 1.3.
    #[default]
    Tls12,
    /// TLS 1.3 only.
    Tls13,
}

/// How TLS is spoken. Empty lists stand for rustls' defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Lowest version.
    pub min_version: MinVersion,
    /// IANA names such as `TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256` or `TLS_AES_128_GCM_SHA256`, best first. As in Go, a
    /// list without a TLS 1.3 suite leaves those of TLS 1.3 as they are.
    pub cipher_suites: Vec<String>,
    /// Names such as `X25519`, `secp256r1`, `X25519MLKEM768`, best first.
    pub groups: Vec<String>,
    /// Clients must present a certificate.
    pub client_auth: Option<ClientAuth>,
}

/// Who may connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientAuth {
    /// Certificates, in PEM, one of which must have issued a client's.
    pub ca_file: PathBuf,
    /// Common names or DNS names, one of which a client's certificate must have. Empty: any will do.
    pub allowed_names: Vec<String>,
}

/// Why there is no TLS configuration.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// rustls refuses the combination.
    #[error("TLS options do not fit together: {0}")]
    Options(#[from] rustls::Error),
    /// The file with the CA of clients cannot be used.
    #[error("client CA file {}: {reason}", path.display())]
    ClientCa {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// A TLS configuration, and what of the options could not be honoured.
#[derive(Debug)]
pub struct Configured {
    /// For the listener.
    pub config: Arc<ServerConfig>,
    /// Names of suites and groups that were dropped because rustls does not have them, one sentence each.
    pub dropped: Vec<String>,
}

/// The listener's TLS configuration, with certificates from `resolver` at each handshake.
pub fn configure(
    options: &Options,
    resolver: Arc<dyn ResolvesServerCert>,
) -> Result<Configured, Error> {
    let mut dropped = Vec::new();
    let provider = Arc::new(CryptoProvider {
        cipher_suites: suites(&options.cipher_suites, &mut dropped),
        kx_groups: groups(&options.groups, &mut dropped),
        ..aws_lc_rs::default_provider()
    });
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions(options.min_version, &provider.cipher_suites))?;
    let builder = match &options.client_auth {
        None => builder.with_no_client_auth(),
        Some(auth) => builder.with_client_cert_verifier(client_auth::verifier(auth, provider)?),
    };
    let mut config = builder.with_cert_resolver(resolver);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // The API server resumes no session: tickets would be work for nothing.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Configured {
        config: Arc::new(config),
        dropped,
    })
}

/// Both versions.
static FROM_TLS12: [&SupportedProtocolVersion; 2] = [&version::TLS13, &version::TLS12];

/// The versions that have a suite, from the lowest allowed.
fn versions(
    min: MinVersion,
    suites: &[SupportedCipherSuite],
) -> &'static [&'static SupportedProtocolVersion] {
    let has_tls12 = suites.iter().any(|suite| suite.tls13().is_none());
    if min == MinVersion::Tls12 && has_tls12 {
        &FROM_TLS12
    } else {
        &FROM_TLS12[..1]
    }
}

fn suites(names: &[String], dropped: &mut Vec<String>) -> Vec<SupportedCipherSuite> {
    let mut chosen: Vec<_> = names
        .iter()
        .filter_map(|name| {
            // Go also knows the ChaCha20 suites by a shorter name.
            let name = if name.ends_with("_CHACHA20_POLY1305") {
                format!("{name}_SHA256")
            } else {
                name.clone()
            };
            let found = aws_lc_rs::ALL_CIPHER_SUITES
                .iter()
                .find(|suite| iana_name(suite) == name);
            if found.is_none() {
                dropped.push(format!(
                    "cipher suite {name} is not supported and was dropped"
                ));
            }
            found.copied()
        })
        .collect();
    if chosen.is_empty() {
        return aws_lc_rs::DEFAULT_CIPHER_SUITES.to_vec();
    }
    if !chosen.iter().any(|suite| suite.tls13().is_some()) {
        let tls13 = aws_lc_rs::DEFAULT_CIPHER_SUITES.iter();
        chosen.extend(tls13.filter(|suite| suite.tls13().is_some()));
    }
    chosen
}

/// rustls marks the suites of TLS 1.3 where IANA does not.
fn iana_name(suite: &SupportedCipherSuite) -> String {
    format!("{:?}", suite.suite()).replacen("TLS13_", "TLS_", 1)
}

fn groups(names: &[String], dropped: &mut Vec<String>) -> Vec<&'static dyn SupportedKxGroup> {
    let chosen: Vec<_> = names
        .iter()
        .filter_map(|name| {
            let found = aws_lc_rs::ALL_KX_GROUPS
                .iter()
                .find(|group| format!("{:?}", group.name()).eq_ignore_ascii_case(name));
            if found.is_none() {
                dropped.push(format!("TLS group {name} is not supported and was dropped"));
            }
            found.copied()
        })
        .collect();
    if chosen.is_empty() {
        return aws_lc_rs::default_provider().kx_groups;
    }
    chosen
}
