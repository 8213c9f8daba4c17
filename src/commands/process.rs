//! What `run` and `webhook` have in common as processes: runtime, logs, limits, stores, tasks, and the end.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result};
use kube::Client;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::runtime::Runtime;
use tracing::{info, warn};

use crate::{
    inject::Switches,
    settings::{InjectorSettings, ProcessSettings},
    stores::{ClusterStores, ConfigStore, Mirror, PodStores},
    supervisor::{Stage, Stop, Supervisor},
    telemetry::{self, LevelHandle},
};

/// What a stage of the stop may take beyond the listener's own limits.
const DRAIN: Duration = Duration::from_secs(35);

/// The store of the operator's config.
pub(super) fn config_store(
    supervisor: &mut Supervisor,
    client: &Client,
    process: &ProcessSettings,
) -> Arc<ConfigStore> {
    let (store, filling) = ConfigStore::start(client, &process.namespace);
    mirror(supervisor, [filling]);
    store
}

/// The stores behind the custom resources.
pub(super) fn cluster_stores(
    supervisor: &mut Supervisor,
    client: &Client,
    process: &ProcessSettings,
) -> Arc<ClusterStores> {
    let (stores, filling) = ClusterStores::start(client, &process.namespace);
    mirror(supervisor, filling);
    stores
}

/// The stores behind the injector.
pub(super) fn pod_stores(
    supervisor: &mut Supervisor,
    client: &Client,
    process: &ProcessSettings,
    injector: &InjectorSettings,
) -> Arc<PodStores> {
    let (stores, filling) = PodStores::start(
        client,
        &process.namespace,
        &injector.resource_name_keys,
        start_up_switches(injector),
    );
    mirror(supervisor, filling);
    stores
}

/// The multi-threaded runtime, with the crypto provider installed.
pub(super) fn runtime() -> Result<Runtime> {
    // Fails only when one is installed already, and it is always this one.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("failed to start the runtime")
}

/// Takes as many file descriptors as the process may have: each connection needs one, and soft limits are low for the
/// sake of programs that cannot count beyond 1024.
pub(super) fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        warn!(%error, current = limit.current, "failed to raise the limit of open files");
    }
}

/// Sets up logs.
pub(super) fn telemetry(settings: &ProcessSettings) -> Result<LevelHandle> {
    Ok(telemetry::init(settings.log_format)?)
}

/// Runs what was spawned until a signal or a failure.
pub(super) async fn until_stopped(
    supervisor: Supervisor,
    signals: tokio::sync::mpsc::Receiver<crate::supervisor::StopSignal>,
    settings: &ProcessSettings,
) -> Result<()> {
    let stop = Stop {
        delay: settings.shutdown_delay,
        drain: DRAIN,
    };
    supervisor.run(signals, stop).await?;
    info!("stopped");
    Ok(())
}

/// Runs something that others lean on. To end before the process is leaving is a failure; afterwards it may, when those
/// that it worked for are gone.
pub(super) fn background(
    supervisor: &mut Supervisor,
    name: &'static str,
    task: impl Future<Output = ()> + Send + 'static,
) {
    let stopping = supervisor.stopping(Stage::Supporting);
    let leaving = supervisor.leaving();
    supervisor.spawn(name, Stage::Supporting, async move {
        tokio::select! {
            () = task => anyhow::ensure!(leaving.is_cancelled(), "it ended"),
            () = stopping.cancelled() => {}
        }
        // The supervisor takes an end before the stage's for a failure.
        stopping.cancelled().await;
        Ok(())
    });
}

fn mirror(supervisor: &mut Supervisor, mirrors: impl IntoIterator<Item = Mirror>) {
    for mirror in mirrors {
        let stopping = supervisor.stopping(Stage::Supporting);
        supervisor.spawn(mirror.name(), Stage::Supporting, mirror.run(stopping));
    }
}

/// What the injector does where its `ConfigMap` says nothing.
pub(super) fn start_up_switches(injector: &InjectorSettings) -> Switches {
    Switches {
        hugepages: injector.inject_hugepage_down_api,
        honor_existing: injector.honor_resources,
        ..Switches::default()
    }
}
