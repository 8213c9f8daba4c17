//! A TLS connection to a replica's webhook port, without the API server in between: what an API server does to call a
//! webhook, and what a stranger would.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const DEADLINE: Duration = Duration::from_secs(10);

/// Whom to call, and how.
#[derive(Clone)]
pub(crate) struct Caller {
    address: SocketAddr,
    name: String,
    roots: RootCertStore,
    versions: Vec<&'static SupportedProtocolVersion>,
    suites: Option<Vec<rustls::CipherSuite>>,
    identity: Option<(String, String)>,
}

/// A webhook's answer.
#[derive(Debug)]
pub(crate) struct Reply {
    /// The HTTP status.
    pub(crate) code: u16,
    /// Everything before the body.
    pub(crate) head: String,
    /// The body, null when it is no JSON.
    pub(crate) body: Value,
}

impl Caller {
    /// Calls the Service `name` (as in SNI) at `address`, trusting the PEM `bundle`.
    pub(crate) fn new(address: SocketAddr, name: &str, bundle: &str) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
            roots.add(certificate?)?;
        }
        Ok(Self {
            address,
            name: name.to_owned(),
            roots,
            versions: vec![&rustls::version::TLS13, &rustls::version::TLS12],
            suites: None,
            identity: None,
        })
    }

    /// Offers this version alone.
    pub(crate) fn with_version(mut self, version: &'static SupportedProtocolVersion) -> Self {
        self.versions = vec![version];
        self
    }

    /// Offers these suites alone.
    pub(crate) fn with_suites(mut self, suites: &[rustls::CipherSuite]) -> Self {
        self.suites = Some(suites.to_vec());
        self
    }

    /// Presents this certificate with its key, both PEM.
    pub(crate) fn with_identity(mut self, certificate: &str, key: &str) -> Self {
        self.identity = Some((certificate.to_owned(), key.to_owned()));
        self
    }

    /// Connects, up to the end of the handshake.
    pub(crate) async fn connect(&self) -> Result<TlsStream<TcpStream>> {
        let mut provider = rustls::crypto::aws_lc_rs::default_provider();
        if let Some(suites) = &self.suites {
            provider
                .cipher_suites
                .retain(|suite| suites.contains(&suite.suite()));
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&self.versions)?
            .with_root_certificates(self.roots.clone());
        let config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => builder.with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(certificate.as_bytes())?],
                PrivateKeyDer::from_pem_slice(key.as_bytes())?,
            )?,
        };
        let name = ServerName::try_from(self.name.clone())?;
        let handshake = async {
            let stream = TcpStream::connect(self.address).await?;
            TlsConnector::from(Arc::new(config))
                .connect(name, stream)
                .await
        };
        let stream = timeout(DEADLINE, handshake).await.context("no handshake")?;
        stream.context("the handshake failed")
    }

    /// Posts a review to `path` on a connection of its own.
    pub(crate) async fn review(&self, path: &str, review: &Value) -> Result<Reply> {
        let mut stream = self.connect().await?;
        let exchange = async {
            let body = review.to_string();
            let head = format!(
                "POST {path}?timeout=10s HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
                 Content-Length: {}\r\nConnection: close\r\n\r\n",
                self.name,
                body.len()
            );
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(body.as_bytes()).await?;
            let mut answer = Vec::new();
            // A missing farewell of TLS is no matter of this test.
            if let Err(error) = stream.read_to_end(&mut answer).await
                && answer.is_empty()
            {
                return Err(error);
            }
            Ok(answer)
        };
        let answer = timeout(DEADLINE, exchange)
            .await
            .context("no answer to the review")??;
        let text = String::from_utf8_lossy(&answer);
        let (head, body) = text.split_once("\r\n\r\n").context("no HTTP answer")?;
        Ok(Reply {
            code: head.split(' ').nth(1).context("no HTTP status")?.parse()?,
            head: head.to_owned(),
            body: serde_json::from_str(body).unwrap_or_default(),
        })
    }
}

/// A review of an object whose creation is tried.
pub(crate) fn creation(resource: [&str; 3], object: &Value) -> Value {
    let [group, version, plural] = resource;
    let resource = json!({ "group": group, "version": version, "resource": plural });
    let kind = json!({ "group": group, "version": version, "kind": object["kind"] });
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "0f9c3a52-2f7a-4c56-8a5e-1d5c0c6d7e11",
            "kind": kind, "requestKind": kind,
            "resource": resource, "requestResource": resource,
            "name": object["metadata"]["name"],
            "namespace": object["metadata"]["namespace"],
            "operation": "CREATE",
            "userInfo": { "username": "admin", "groups": ["system:masters"] },
            "object": object,
            "oldObject": null,
            "dryRun": true,
            "options": { "apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions" },
        },
    })
}
