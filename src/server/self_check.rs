//! A handshake with our own listener: what it serves for a name, as the API server would see it.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use rustls::{
    ClientConfig, DigitallySignedStruct, Error as TlsError, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;

/// How long the handshake may take.
const PATIENCE: Duration = Duration::from_millis(400);

/// Why the listener showed no certificate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It does not accept connections.
    #[error("the listener does not accept connections: {0}")]
    Connect(#[source] std::io::Error),
    /// It says nothing.
    #[error("the listener does not answer a handshake for {name} in time")]
    Silent {
        /// The name asked for.
        name: String,
    },
    /// The handshake fails before a certificate is shown.
    #[error("the listener has no certificate for {name}: {reason}")]
    Handshake {
        /// The name asked for.
        name: String,
        /// What went wrong.
        reason: String,
    },
}

/// The certificate (DER) that the listener at `address` serves for `name`. Whether it is to be trusted is not judged here.
///
/// # Errors
/// Why there was none.
pub async fn served(address: SocketAddr, name: &str) -> Result<CertificateDer<'static>, Error> {
    let unusable = |error: String| Error::Handshake {
        name: name.to_owned(),
        reason: error,
    };
    let server =
        ServerName::try_from(name.to_owned()).map_err(|error| unusable(error.to_string()))?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let seen = Arc::new(Seen {
        certificate: Mutex::default(),
        provider: Arc::clone(&provider),
    });
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::clone(&seen) as Arc<dyn ServerCertVerifier>)
        .with_no_client_auth();
    let late = |_| Error::Silent {
        name: name.to_owned(),
    };
    let connect = TcpStream::connect(reachable(address));
    let stream = timeout(PATIENCE, connect)
        .await
        .map_err(late)?
        .map_err(Error::Connect)?;
    let handshake = TlsConnector::from(Arc::new(config)).connect(server, stream);
    let result = timeout(PATIENCE, handshake).await.map_err(late);
    // Where clients must present a certificate the handshake fails, but only after ours was shown.
    if let Some(certificate) = seen.certificate.lock().take() {
        return Ok(certificate);
    }
    match result? {
        Ok(_) => Err(unusable("no certificate was shown".to_owned())),
        Err(error) => Err(unusable(error.to_string())),
    }
}

/// Where a listener on all addresses is reached from here.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[derive(Debug)]
struct Seen {
    certificate: Mutex<Option<CertificateDer<'static>>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Seen {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        *self.certificate.lock() = Some(end_entity.clone().into_owned());
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls12_signature(
            message,
            cert,
            dss,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls13_signature(
            message,
            cert,
            dss,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
