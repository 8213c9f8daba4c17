//! The backend of a webhook that another program serves, with a CA of its own: it refuses every policy, in words that
//! tell it from the product.

use std::net::Ipv4Addr;
use std::sync::Arc;

use anyhow::{Context, Result};
use axum::routing::{any, get};
use axum::{Json, Router};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::probe::Probe;
use super::proxy::Pod;

/// What it says.
pub(crate) const REFUSAL: &str = "refused by the old webhook";
const PORT: u16 = 6443;
const HEALTH_PORT: u16 = 8081;

/// A running backend; it ends when dropped.
pub(crate) struct OldWebhook {
    /// The CA that its certificate is from, PEM.
    pub(crate) ca: String,
    pod: Pod,
    _tasks: JoinSet<()>,
}

impl OldWebhook {
    /// Serves a Service, by its DNS name, as the pod with this label `app`.
    pub(crate) async fn start(address: Ipv4Addr, app: &str, service: &str) -> Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let key = KeyPair::generate()?;
        let leaf = CertificateParams::new(vec![service.to_owned()])?.signed_by(&key, &ca)?;
        let key = PrivateKeyDer::try_from(key.serialize_der())
            .map_err(|error| anyhow::anyhow!("{error}"))?;
        let tls = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone()], key)?;

        let mut tasks = JoinSet::new();
        let listener = TcpListener::bind((address, PORT)).await?;
        tasks.spawn(serve(listener, TlsAcceptor::from(Arc::new(tls))));
        let health = TcpListener::bind((address, HEALTH_PORT)).await?;
        tasks.spawn(async move {
            let router = Router::new().route("/readyz", get(|| async { "ok" }));
            // Ends with the test.
            let _ = axum::serve(health, router).await;
        });
        Ok(Self {
            ca: ca.pem(),
            pod: Pod {
                ip: address,
                labels: [("app".to_owned(), app.to_owned())].into(),
                probe: Probe::new(address, HEALTH_PORT),
            },
            _tasks: tasks,
        })
    }

    /// How Services see it.
    pub(crate) fn pod(&self) -> Pod {
        self.pod.clone()
    }
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor) {
    let router = Router::new().fallback(any(judge));
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, router) = (acceptor.clone(), router.clone());
        tokio::spawn(async move {
            let stream = acceptor.accept(stream).await.context("no handshake")?;
            auto::Builder::new(TokioExecutor::new())
                .http1_only()
                .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
                .await
                .map_err(|error| anyhow::anyhow!("{error}"))
        });
    }
}

async fn judge(Json(review): Json<Value>) -> Json<Value> {
    let is_policy = review["request"]["kind"]["kind"] == "SriovNetworkNodePolicy";
    Json(json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {
            "uid": review["request"]["uid"],
            "allowed": !is_policy,
            "status": { "code": 403, "message": REFUSAL },
        },
    }))
}
