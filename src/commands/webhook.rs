//! `sriov-operator webhook`: the admission server alone, for dedicated serving.
//!
//! It reads what its own `ServiceAccount` may read and nothing else: the stores, the configurations and the Secret of
//! the webhook that it serves. It writes nothing.

use anyhow::Result;
use tracing::info;

use super::{
    client, process,
    serving::{Serving, Stores},
};
use crate::{
    certs::serving::slot::Trust,
    settings::{Flags, Webhook as WebhookFlags, WebhookSettings},
    supervisor::{self, Supervisor},
};

/// Run the admission server of one webhook.
///
/// What the DaemonSets of dedicated serving (`ADMISSION_SERVING=dedicated`) run. Every setting is a flag or an
/// environment variable; a flag wins.
#[derive(Debug, clap::Args)]
pub(super) struct Webhook {
    /// Which webhook is served.
    #[arg(long, value_enum)]
    serve: Serve,
    #[command(flatten)]
    flags: Flags<WebhookFlags>,
}

/// What can be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Serve {
    /// The defaults and rules of the custom resources.
    Operator,
    /// The injection of network resources into pods.
    Injector,
}

impl Webhook {
    /// Runs until a signal or a failure.
    pub(super) fn run(&self) -> Result<()> {
        let settings = WebhookSettings::read(&self.flags, std::env::vars_os())?;
        process::runtime()?.block_on(serve(self.serve, &settings))
    }
}

async fn serve(webhook: Serve, settings: &WebhookSettings) -> Result<()> {
    let signals = supervisor::stop_signals()?;
    let level = process::telemetry(&settings.process)?;
    process::raise_descriptor_limit();
    let WebhookSettings { process, admission } = settings;
    info!(
        version = env!("CARGO_PKG_VERSION"),
        namespace = process.namespace,
        ?webhook,
        "starting"
    );
    let client = client::connect(&process.kubeconfig).await?;
    let mut supervisor = Supervisor::new();
    let mut stores = Stores {
        config: process::config_store(&mut supervisor, &client, process),
        cluster: None,
        pods: None,
    };
    match webhook {
        Serve::Operator => {
            let cluster = process::cluster_stores(&mut supervisor, &client, process);
            stores.cluster = Some(cluster);
        }
        Serve::Injector => {
            let injector = &admission.injector;
            let pods = process::pod_stores(&mut supervisor, &client, process, injector);
            stores.pods = Some(pods);
        }
    }
    // Who makes the pair is the operator's affair; what the live configuration carries verifies it in every mode.
    Serving::start(
        &mut supervisor,
        &client,
        process,
        admission,
        stores,
        |_| Trust::Live,
        level,
    )?;
    process::until_stopped(supervisor, signals, process).await
}
