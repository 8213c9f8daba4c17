//! A server to talk to, and a client that talks byte by byte.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use axum::{Router, routing::post};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair,
};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_util::sync::CancellationToken;

use crate::{
    server::{
        Options, Shutdown, bind,
        metrics::{Metrics, ServerMetrics},
        serve, tls,
    },
    settings::{ClientCa, tls::TlsSettings},
};

pub(super) const NAME: &str = "operator-webhook-service.ns.svc";

/// A CA with what it issues.
pub(super) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(super) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, "test CA");
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    pub(super) fn pem(&self) -> String {
        self.0.pem()
    }

    pub(super) fn issue(&self, name: &str) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        (certificate.der().clone(), key.into())
    }

    pub(super) fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        roots
    }

    /// A client that trusts this authority.
    pub(super) fn client(&self) -> ClientConfig {
        ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(self.roots())
            .with_no_client_auth()
    }
}

/// A certificate that can be swapped while the server runs.
#[derive(Debug)]
pub(super) struct Swappable(ArcSwap<CertifiedKey>);

impl Swappable {
    pub(super) fn swap(&self, pair: (CertificateDer<'static>, PrivateKeyDer<'static>)) {
        self.0.store(certified(pair));
    }
}

impl ResolvesServerCert for Swappable {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

fn certified((der, key): (CertificateDer<'static>, PrivateKeyDer<'static>)) -> Arc<CertifiedKey> {
    let provider = aws_lc_rs::default_provider();
    Arc::new(CertifiedKey::from_der(vec![der], key, &provider).unwrap())
}

/// A running server.
pub(super) struct Running {
    pub(super) address: SocketAddr,
    pub(super) authority: Authority,
    pub(super) certificate: Arc<Swappable>,
    pub(super) tls: tls::Shared,
    pub(super) shutdown: Shutdown,
    pub(super) metrics: Arc<ServerMetrics>,
    pub(super) task: JoinHandle<std::io::Result<()>>,
}

/// Answers `/echo` with the body, `/slow` with `slow` after 300 ms, `/never` when `give_up` is cancelled.
fn routes(give_up: CancellationToken) -> Router {
    Router::new()
        .route("/echo", post(|body: String| async { body }))
        .route(
            "/slow",
            post(|| async {
                tokio::time::sleep(Duration::from_millis(300)).await;
                "slow"
            }),
        )
        .route(
            "/never",
            post(|| async move {
                give_up.cancelled().await;
                "gave up"
            }),
        )
}

/// Both versions, and otherwise rustls' defaults.
pub(super) fn usual() -> TlsSettings {
    TlsSettings {
        tls12: true,
        cipher_suites: Vec::new(),
        groups: Vec::new(),
    }
}

pub(super) fn start(options: Options) -> Running {
    start_with(options, &usual(), None, Authority::new())
}

pub(super) fn start_speaking(settings: &TlsSettings) -> Running {
    start_with(Options::default(), settings, None, Authority::new())
}

pub(super) fn start_with(
    options: Options,
    settings: &TlsSettings,
    client_ca: Option<&ClientCa>,
    authority: Authority,
) -> Running {
    let listener = bind(Some([127, 0, 0, 1].into()), 0).unwrap();
    let address = listener.local_addr().unwrap();
    let certificate = Arc::new(Swappable(ArcSwap::new(certified(authority.issue(NAME)))));
    let config = tls::configure(settings, client_ca, certificate.clone()).unwrap();
    let tls = Arc::new(ArcSwap::new(config));
    let shutdown = Shutdown {
        leaving: CancellationToken::new(),
        stop: CancellationToken::new(),
    };
    let metrics = Metrics::new().server("webhook");
    let router = routes(options.give_up.clone());
    let task = tokio::spawn(serve(
        listener,
        Some(Arc::clone(&tls)),
        router,
        shutdown.clone(),
        options,
        Arc::clone(&metrics),
    ));
    Running {
        address,
        authority,
        certificate,
        tls,
        shutdown,
        metrics,
        task,
    }
}

impl Running {
    pub(super) async fn connect(&self) -> Client<TlsStream<TcpStream>> {
        self.connect_as(self.authority.client()).await.unwrap()
    }

    pub(super) async fn connect_as(
        &self,
        config: ClientConfig,
    ) -> std::io::Result<Client<TlsStream<TcpStream>>> {
        let stream = TcpStream::connect(self.address).await?;
        let name = ServerName::try_from(NAME).unwrap();
        let stream = TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await?;
        Ok(Client(stream))
    }

    pub(super) async fn connect_plainly(&self) -> Client<TcpStream> {
        Client(TcpStream::connect(self.address).await.unwrap())
    }

    /// Waits, not for long, until as many connections have ended for this reason.
    pub(super) async fn has_ended(&self, reason: &'static str, connections: u64) {
        for _ in 0..200 {
            if self.metrics.ended_for(reason) >= connections {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!(
            "{} connections ended as {reason}, not {connections}",
            self.metrics.ended_for(reason)
        );
    }
}

/// One answer: code, whether the connection closes, body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) code: u16,
    pub(super) closes: bool,
    pub(super) body: String,
}

pub(super) fn ok(body: &str) -> Answer {
    Answer {
        code: 200,
        closes: false,
        body: body.to_owned(),
    }
}

pub(super) fn ok_and_closes(body: &str) -> Answer {
    Answer {
        closes: true,
        ..ok(body)
    }
}

/// One end of a connection.
pub(super) struct Client<S>(pub(super) S);

pub(super) fn request(path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: {NAME}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub(super) async fn write(&mut self, text: &str) -> std::io::Result<()> {
        self.0.write_all(text.as_bytes()).await?;
        self.0.flush().await
    }

    pub(super) async fn post(&mut self, path: &str, body: &str) -> std::io::Result<Answer> {
        self.write(&request(path, body)).await?;
        self.read().await
    }

    /// Reads one answer.
    pub(super) async fn read(&mut self) -> std::io::Result<Answer> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.0.read_u8().await?);
        }
        let head = String::from_utf8(head).unwrap().to_lowercase();
        let length = head
            .split("content-length: ")
            .nth(1)
            .map_or(0, |rest| rest.lines().next().unwrap().parse().unwrap());
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).await?;
        Ok(Answer {
            code: head[9..12].parse().unwrap(),
            closes: head.contains("connection: close"),
            body: String::from_utf8(body).unwrap(),
        })
    }

    /// Whether the server closes the connection within a second, without another word.
    pub(super) async fn is_closed(&mut self) -> bool {
        let mut rest = [0; 1024];
        let read = self.0.read(&mut rest);
        matches!(
            tokio::time::timeout(Duration::from_secs(1), read).await,
            Ok(Ok(0) | Err(_))
        )
    }
}
