//! The floor: the product's listener in a process of its own, with a handler that reads the body and answers a constant.
//! The constant is what the product answers, so that both put the same bytes on the wire, and what a review costs above
//! the floor is the product's own.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use arc_swap::ArcSwap;
use axum::{Router, body::Bytes, routing::any};
use rustls::{
    crypto::aws_lc_rs,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    sign::{CertifiedKey, SingleCertAndKey},
};
use sriov_operator::{
    server::{self, Options, Shutdown, metrics::Metrics, tls},
    settings::tls::TlsSettings,
};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::{
    load::Target,
    support::{
        dockerfile::FinalStage,
        process::{Launch, Process},
        wait::eventually,
    },
};

const NAME: &str = "floor.bench.svc";
/// Where the constant is posted to.
const CONSTANT: &str = "/constant";

/// The process.
pub(crate) struct Floor {
    pub(crate) target: Target,
    pub(crate) process: Process,
    _directory: TempDir,
}

impl Floor {
    /// From here on it answers what `target` does to that review, which is returned.
    pub(crate) async fn answers_like(
        &self,
        target: &Target,
        path: &str,
        review: &[u8],
    ) -> Result<String> {
        let answer = target.ask(path, review).await?;
        self.target.ask(CONSTANT, answer.as_bytes()).await?;
        Ok(answer)
    }

    /// Starts it.
    pub(crate) async fn start() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let process = Process::start(Launch {
            name: "floor",
            program: &std::env::current_exe()?,
            arguments: vec!["floor".to_owned(), directory.path().display().to_string()],
            environment: FinalStage::read()?.environment,
            log: directory.path().join("log"),
        })?;
        let address = eventually(Duration::from_secs(10), "the floor", async || {
            std::fs::read_to_string(directory.path().join("address")).context("no address yet")
        })
        .await?;
        let bundle = std::fs::read(directory.path().join("bundle"))?;
        Ok(Self {
            target: Target::new(address.parse()?, NAME, &bundle)?,
            process,
            _directory: directory,
        })
    }
}

/// What the process does, for ever.
pub(crate) fn serve(directory: &Path) -> Result<()> {
    // Fails only when one is installed already.
    let _ = aws_lc_rs::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let pair = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(pair.signing_key.serialize_der()));
    let chain = vec![pair.cert.der().clone()];
    let certified = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider())?;
    let settings = TlsSettings {
        tls12: true,
        cipher_suites: Vec::new(),
        groups: Vec::new(),
    };
    let resolver = Arc::new(SingleCertAndKey::from(certified));
    let tls = Arc::new(ArcSwap::new(tls::configure(&settings, None, resolver)?));
    runtime.block_on(async {
        let listener = server::bind(Some([127, 0, 0, 1].into()), 0)?;
        let address = listener.local_addr()?.to_string();
        std::fs::write(directory.join("bundle"), pair.cert.pem())?;
        std::fs::write(directory.join("unfinished"), address)?;
        std::fs::rename(directory.join("unfinished"), directory.join("address"))?;
        let constant = Arc::new(ArcSwap::from_pointee(Bytes::new()));
        let answer = {
            let constant = Arc::clone(&constant);
            move |body: Bytes| async move {
                std::hint::black_box(body);
                let constant = Bytes::clone(&constant.load());
                ([("content-type", "application/json")], constant)
            }
        };
        let change = move |body: Bytes| async move { constant.store(Arc::new(body)) };
        let router = Router::new()
            .route(CONSTANT, any(change))
            .fallback(any(answer));
        server::serve(
            listener,
            Some(tls),
            router,
            Shutdown::at_once(CancellationToken::new()),
            Options::default(),
            Metrics::new().server("floor"),
        )
        .await?;
        Ok(())
    })
}
