//! `sriov-operator run`: the operator and the admission server in one process.

use std::sync::Arc;

use anyhow::Result;
use kube::Client;
use tokio::sync::watch;
use tracing::{info, warn};

use super::{
    client,
    process::{self, background},
    serving::{self, Serving, Stores},
};
use crate::{
    certs::{keeper::Keeper, lifetimes::Lifetimes, serving::slot::Trust},
    controllers::{
        self,
        drain::{self, Clients, Drains},
        networks::Networks,
        nodes::{self, NodePolicies},
        pools::{self, Pools},
    },
    inject::Loaded,
    networks,
    operator::{
        Events, Inputs, Parts, Reconciler,
        config::{Observed, watch_config, watch_namespace},
        controller,
        lease::{Elector, Leadership},
    },
    platform,
    render::Renderer,
    server::{metrics::Metrics, tls::Shared},
    settings::{CertificateMode, ClusterType, Flags, Run as RunFlags, Settings, tls},
    stores::ClusterStores,
    supervisor::{self, Stage, Supervisor},
};

/// Run the operator and the admission server.
///
/// Every replica answers admission reviews; the one that holds the Lease `sriov-operator` also reconciles
/// `SriovOperatorConfig/default` of its namespace. Every setting is a flag or an environment variable; a flag wins.
#[derive(Debug, clap::Args)]
pub(super) struct Run {
    #[command(flatten)]
    flags: Flags<RunFlags>,
}

impl Run {
    /// Runs until a signal or a failure.
    pub(super) fn run(&self) -> Result<()> {
        let settings = Settings::read(&self.flags, std::env::vars_os())?;
        process::runtime()?.block_on(run(Arc::new(settings)))
    }
}

async fn run(settings: Arc<Settings>) -> Result<()> {
    let signals = supervisor::stop_signals()?;
    let level = process::telemetry(&settings.process)?;
    process::raise_descriptor_limit();
    let namespace = settings.process.namespace.clone();
    info!(version = env!("CARGO_PKG_VERSION"), namespace, "starting");
    let renderer = match &settings.templates_dir {
        Some(directory) => Renderer::from_dir(directory)?,
        None => Renderer::embedded()?,
    };
    let client = client::connect(&settings.process.kubeconfig).await?;
    client::check_version(&client).await?;

    let mut supervisor = Supervisor::new();
    let process = &settings.process;
    let injector = &settings.admission.injector;
    let pods = process::pod_stores(&mut supervisor, &client, process, injector);
    let cluster = process::cluster_stores(&mut supervisor, &client, process);
    let stores = Stores {
        config: process::config_store(&mut supervisor, &client, process),
        cluster: Some(Arc::clone(&cluster)),
        pods: Some(Arc::clone(&pods)),
    };
    let serving = Serving::start(
        &mut supervisor,
        &client,
        process,
        &settings.admission,
        stores,
        |endpoint| trust(&settings, &endpoint.secret),
        level,
    )?;
    let leadership = elect(&mut supervisor, &client, &settings, &serving.metrics);
    let clients = Clients {
        client,
        once: client::connect_once(&settings.process.kubeconfig).await?,
    };
    operate(
        &mut supervisor,
        &clients,
        &settings,
        renderer,
        &serving,
        Followed {
            switches: pods.watch_switches(),
            cluster,
        },
        leadership,
    )?;
    process::until_stopped(supervisor, signals, &settings.process).await
}

/// What the pair in a Secret has to be verified by.
fn trust(settings: &Settings, secret: &str) -> Trust {
    match &settings.certificate_mode {
        CertificateMode::SelfSigned => Trust::Beside,
        CertificateMode::CertManager | CertificateMode::ServiceCa => Trust::Live,
        CertificateMode::Provided(bundles)
            if secret == settings.admission.secret_names.operator =>
        {
            serving::given(&bundles.operator)
        }
        CertificateMode::Provided(bundles) => serving::given(&bundles.injector),
    }
}

fn elect(
    supervisor: &mut Supervisor,
    client: &Client,
    settings: &Settings,
    metrics: &Arc<Metrics>,
) -> watch::Receiver<Leadership> {
    let elector = match settings.leader_election {
        Some(durations) => Elector::new(
            client.clone(),
            &settings.process.namespace,
            identity(settings),
            durations,
        ),
        None => Elector::uncontested(),
    };
    let leadership = elector.leadership();
    let stopping = supervisor.stopping(Stage::Electing);
    supervisor.spawn("leader election", Stage::Electing, async move {
        elector.run(stopping).await;
        Ok::<_, std::convert::Infallible>(())
    });
    let (metrics, mut changes) = (Arc::clone(metrics), leadership.clone());
    background(supervisor, "leadership metric", async move {
        loop {
            metrics
                .operator
                .leads(*changes.borrow_and_update() == Leadership::Leading);
            if changes.changed().await.is_err() {
                // The election has ended before the tasks of this stage do.
                std::future::pending::<()>().await;
            }
        }
    });
    leadership
}

/// What the operator follows of the stores that reviews are answered from.
struct Followed {
    switches: watch::Receiver<Arc<Loaded>>,
    cluster: Arc<ClusterStores>,
}

fn operate(
    supervisor: &mut Supervisor,
    clients: &Clients,
    settings: &Arc<Settings>,
    renderer: Renderer,
    serving: &Serving,
    followed: Followed,
    leadership: watch::Receiver<Leadership>,
) -> Result<()> {
    let client = &clients.client;
    let namespace = settings.process.namespace.clone();
    let (config, config_rx) = watch::channel(Observed::Unknown);
    let (own_namespace, namespace_rx) = watch::channel(Observed::Unknown);
    let openshift = settings.components.cluster_type == ClusterType::OpenShift;
    let (facts, facts_rx) = watch::channel(if openshift {
        platform::Facts::openshift()
    } else {
        platform::Facts::default()
    });
    let (events, publish) = Events::new(client.clone(), &identity(settings));
    background(supervisor, "Events", publish);
    background(supervisor, "watch of the config", {
        let (client, namespace) = (client.clone(), namespace.clone());
        async move { watch_config(client, &namespace, config).await }
    });
    background(supervisor, "watch of the Namespace", {
        let (client, namespace) = (client.clone(), namespace.clone());
        async move { watch_namespace(client, &namespace, own_namespace).await }
    });
    if openshift {
        background(
            supervisor,
            "watch of the platform",
            platform::watch_openshift(client.clone(), facts),
        );
        background(supervisor, "TLS profile", {
            let (settings, pairs) = (Arc::clone(settings), Arc::clone(&serving.pairs));
            let (tls, facts) = (Arc::clone(&serving.tls), facts_rx.clone());
            async move { follow_profile(&settings, &pairs, &tls, facts).await }
        });
    }
    let lifetimes = Lifetimes::new(
        settings.lifetimes.ca,
        settings.lifetimes.certificate,
        settings.lifetimes.settle_time,
    )?;
    let reconciler = Reconciler::new(Parts {
        client: client.clone(),
        settings: Arc::clone(settings),
        renderer,
        keeper: Keeper::new(client.clone(), &namespace, lifetimes),
        serving: Arc::clone(&serving.pairs),
        own_checks: Arc::clone(&serving.own_checks),
        inputs: Inputs {
            config: config_rx,
            namespace: namespace_rx,
            platform: facts_rx,
            published: serving.published.clone(),
            pairs: serving.pairs.changes(),
            switches: followed.switches,
        },
        events: events.clone(),
        metrics: Arc::clone(&serving.metrics),
    });
    let stopping = supervisor.stopping(Stage::Writing);
    let following = leadership.clone();
    writing(supervisor, "operator", async move {
        controller::run(Arc::new(reconciler), following, stopping).await;
    });
    let parts = nodes::Parts {
        client: client.clone(),
        namespace: namespace.clone(),
        stores: followed.cluster,
        events: events.clone(),
        metrics: Arc::clone(&serving.metrics),
        stale_after: settings.components.stale_node_state_cleanup_delay,
    };
    let (metrics, following) = (Arc::clone(&serving.metrics), leadership.clone());
    let stopping = supervisor.stopping(Stage::Writing);
    writing(supervisor, "node policies", async move {
        let start = |queue: &_| NodePolicies::start(&parts, queue);
        controllers::run(start, following, metrics, stopping).await;
    });
    let setting = networks::Setting {
        namespace,
        resource_prefix: settings.components.resource_prefix.clone(),
    };
    let (client, metrics) = (client.clone(), Arc::clone(&serving.metrics));
    let stopping = supervisor.stopping(Stage::Writing);
    let (following, telling) = (leadership.clone(), events.clone());
    writing(supervisor, "networks", async move {
        let start = |queue: &_| Networks::start(&client, &setting, &telling, &metrics, queue);
        controllers::run(start, following, Arc::clone(&metrics), stopping).await;
    });
    drain(supervisor, clients, settings, &events, serving, leadership);
    Ok(())
}

/// Starts the controllers of pools: which nodes are drained when, and hardware offload.
fn drain(
    supervisor: &mut Supervisor,
    clients: &Clients,
    settings: &Settings,
    events: &Events,
    serving: &Serving,
    leadership: watch::Receiver<Leadership>,
) {
    let namespace = settings.process.namespace.clone();
    let is_openshift = settings.components.cluster_type == ClusterType::OpenShift;
    let pools = pools::Setting {
        namespace: namespace.clone(),
        is_openshift,
    };
    let drains = drain::Setting {
        namespace,
        resource_prefix: settings.components.resource_prefix.clone(),
        is_openshift,
    };
    let stopping = supervisor.stopping(Stage::Writing);
    let (metrics, following) = (Arc::clone(&serving.metrics), leadership.clone());
    let (client, telling) = (clients.client.clone(), events.clone());
    writing(supervisor, "pools", async move {
        let start = |queue: &_| Pools::start(&client, &pools, &telling, &metrics, queue);
        controllers::run(start, following, Arc::clone(&metrics), stopping).await;
    });
    let stopping = supervisor.stopping(Stage::Writing);
    let metrics = Arc::clone(&serving.metrics);
    let (clients, telling) = (clients.clone(), events.clone());
    writing(supervisor, "drain", async move {
        let start = |queue: &_| Drains::start(&clients, &drains, &telling, queue);
        controllers::run(start, leadership, metrics, stopping).await;
    });
}

/// Runs something that writes while this replica leads. To end before its stage does is a failure.
fn writing(
    supervisor: &mut Supervisor,
    name: &'static str,
    task: impl Future<Output = ()> + Send + 'static,
) {
    let stopping = supervisor.stopping(Stage::Writing);
    supervisor.spawn(name, Stage::Writing, async move {
        task.await;
        if stopping.is_cancelled() {
            Ok(())
        } else {
            Err("it ended")
        }
    });
}

/// Follows OpenShift's TLS profile: it replaces what the environment says as a whole, for connections that come after.
async fn follow_profile(
    settings: &Settings,
    pairs: &Arc<crate::certs::serving::ServingStore>,
    tls: &Shared,
    mut facts: watch::Receiver<platform::Facts>,
) {
    loop {
        let profile = facts
            .borrow_and_update()
            .api_server
            .as_ref()
            .and_then(tls::cluster_profile);
        let options = profile
            .as_ref()
            .map_or(&settings.admission.tls, |(options, _)| options);
        match serving::tls_config(options, &settings.admission, pairs) {
            Ok(config) => tls.store(config.load_full()),
            Err(error) => warn!(%error, "the TLS profile cannot be served; the one before stays"),
        }
        if facts.changed().await.is_err() {
            return;
        }
    }
}

/// Who this replica is among the others: the pod's name and when it started, since a container may start again.
fn identity(settings: &Settings) -> String {
    let name = settings
        .process
        .pod_name
        .as_deref()
        .unwrap_or("sriov-operator");
    format!(
        "{name}_{}_{:x}",
        std::process::id(),
        jiff::Timestamp::now().as_nanosecond()
    )
}
