//! The admission side of a process: what answers reviews, its listener, its probes, and what these follow.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use arc_swap::ArcSwap;
use jiff::Timestamp;
use kube::Client;
use tokio::{net::TcpListener, sync::watch};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{process::background, readiness};
use crate::{
    admission::{self, Handlers, Limits, StoredCustomResources, StoredPods},
    certs::{
        bundle::Bundle,
        names::{self, Endpoint},
        published::{Configuration, Published, watch_published},
        serving::{self, ServingStore, slot::Trust},
    },
    features::Feature,
    inject,
    policy::Rules,
    server::{self, Shutdown, health, metrics::Metrics, tls},
    settings::{AdmissionSettings, BindAddress, FailurePolicy, ProcessSettings, tls::TlsOptions},
    stores::{ClusterStores, ConfigStore, PodStores},
    supervisor::{Stage, Supervisor},
    telemetry::{LevelHandle, Verbosity},
};

/// What a process answers reviews by. A webhook is served when its stores are there.
#[derive(Clone)]
pub(super) struct Stores {
    pub(super) config: Arc<ConfigStore>,
    /// For the webhooks of the custom resources.
    pub(super) cluster: Option<Arc<ClusterStores>>,
    /// For that of pods.
    pub(super) pods: Option<Arc<PodStores>>,
}

/// A Service's endpoint with the configurations that call it.
#[derive(Clone, Debug)]
pub(super) struct Called {
    pub(super) endpoint: Endpoint,
    pub(super) configurations: &'static [Configuration],
}

/// The admission side of a process.
pub(super) struct Serving {
    pub(super) pairs: Arc<ServingStore>,
    pub(super) published: watch::Receiver<Published>,
    pub(super) stores: Stores,
    pub(super) metrics: Arc<Metrics>,
    /// The TLS configuration of the listener, to be replaced when the cluster's TLS profile changes.
    pub(super) tls: tls::Shared,
    /// Whether this process could answer a call, whatever the configurations say.
    pub(super) own_checks: Arc<health::Checks>,
}

/// The two Services of the operator's namespace, as far as they are served.
fn called(settings: &AdmissionSettings, namespace: &str, stores: &Stores) -> Vec<Called> {
    let [operator, injector] = names::endpoints(
        namespace,
        &settings.secret_names.operator,
        &settings.secret_names.injector,
    );
    let mut called = Vec::new();
    if stores.cluster.is_some() {
        called.push(Called {
            endpoint: operator,
            configurations: &[
                Configuration::OperatorMutating,
                Configuration::OperatorValidating,
            ],
        });
    }
    if stores.pods.is_some() {
        called.push(Called {
            endpoint: injector,
            configurations: &[Configuration::Injector],
        });
    }
    called
}

impl Serving {
    /// Starts listeners and probes as tasks of the supervisor, and the watches that they need.
    pub(super) fn start(
        supervisor: &mut Supervisor,
        client: &Client,
        process: &ProcessSettings,
        admission: &AdmissionSettings,
        stores: Stores,
        trust: impl Fn(&Endpoint) -> Trust,
        level: LevelHandle,
    ) -> Result<Self> {
        let namespace = &process.namespace;
        let called = called(admission, namespace, &stores);
        let metrics = Arc::new(Metrics::new());
        let endpoints = called.iter().map(|called| called.endpoint.clone());
        let pairs = Arc::new(ServingStore::new(endpoints.map(|endpoint| {
            let trust = trust(&endpoint);
            (endpoint, trust)
        })));
        let configurations = called.iter().flat_map(|called| called.configurations);
        let awaited = Published::awaiting(configurations.copied());
        let (published, published_rx) = watch::channel(awaited);
        background(
            supervisor,
            "watch of webhook configurations",
            watch_published(client.clone(), published),
        );
        background(
            supervisor,
            "bundles",
            hand_in(Arc::clone(&pairs), called.clone(), published_rx.clone()),
        );
        background(supervisor, "watch of serving Secrets", {
            let (client, namespace, pairs) =
                (client.clone(), namespace.clone(), Arc::clone(&pairs));
            async move { serving::watch::watch(client, &namespace, pairs).await }
        });
        background(
            supervisor,
            "log level",
            follow_level(Arc::clone(&stores.config), level),
        );

        let tls = tls_config(&admission.tls, admission, &pairs)?;
        let listener = bind(admission.bind_address, "--webhook-bind-address")?;
        let address = listener
            .local_addr()
            .context("the webhook listener has no address")?;
        let give_up = CancellationToken::new();
        let rules = Rules {
            namespace: namespace.clone(),
            dev_mode: admission.dev_mode.is_enabled(),
            known_gates: Feature::KNOWN
                .iter()
                .map(|feature| feature.name())
                .collect(),
        };
        let handlers = Handlers {
            custom_resources: stores.cluster.as_ref().map(|cluster| {
                Arc::new(StoredCustomResources::new(Arc::clone(cluster), rules)) as _
            }),
            pods: stores.pods.as_ref().map(|pods| {
                let options = inject::Options {
                    multus_namespace: admission.injector.multus_namespace.clone(),
                };
                let published = published_rx.clone();
                Arc::new(StoredPods::new(Arc::clone(pods), options, move || {
                    failure_policy(&published)
                })) as _
            }),
        };
        let router = admission::router(&handlers, Limits::default(), give_up.clone(), &metrics);
        supervisor.spawn("admission server", Stage::Serving, {
            let shutdown = Shutdown {
                leaving: supervisor.leaving(),
                stop: supervisor.stopping(Stage::Serving),
            };
            let options = server::Options {
                give_up,
                ..server::Options::default()
            };
            server::serve(
                listener,
                Some(Arc::clone(&tls)),
                router,
                shutdown,
                options,
                metrics.server("webhook"),
            )
        });

        let mut this = Self {
            pairs,
            published: published_rx,
            stores,
            metrics,
            tls,
            own_checks: Arc::default(),
        };
        this.own_checks = Arc::new(readiness::own_checks(&this, &called, address));
        this.probes(supervisor, process, called, address)?;
        Ok(this)
    }

    /// `/healthz`, `/readyz` and `/metrics`.
    fn probes(
        &self,
        supervisor: &mut Supervisor,
        process: &ProcessSettings,
        called: Vec<Called>,
        address: SocketAddr,
    ) -> Result<()> {
        let live = health::Checks::new().with("process", async || Ok(()));
        let ready = readiness::checks(self, called, address, supervisor.leaving());
        if let Some(bind_address) = process.health_probe_bind_address {
            let router = health::router(Arc::new(live), Arc::new(ready));
            self.plain(
                supervisor,
                "health",
                bind_address,
                "--health-probe-bind-address",
                router,
            )?;
        }
        if let Some(bind_address) = process.metrics_bind_address {
            readiness::gauge(self);
            let router = crate::server::metrics::router(Arc::clone(&self.metrics));
            self.plain(
                supervisor,
                "metrics",
                bind_address,
                "--metrics-bind-address",
                router,
            )?;
        }
        Ok(())
    }

    fn plain(
        &self,
        supervisor: &mut Supervisor,
        name: &'static str,
        bind_address: BindAddress,
        flag: &str,
        router: axum::Router,
    ) -> Result<()> {
        let listener = bind(bind_address, flag)?;
        let shutdown = Shutdown::at_once(supervisor.stopping(Stage::Supporting));
        let options = server::Options {
            drain_timeout: Duration::from_secs(1),
            ..server::Options::default()
        };
        let serve = server::serve(
            listener,
            None,
            router,
            shutdown,
            options,
            self.metrics.server(name),
        );
        supervisor.spawn(format!("{name} server"), Stage::Supporting, serve);
        Ok(())
    }
}

/// The listener's TLS configuration for these options.
pub(super) fn tls_config(
    options: &TlsOptions,
    admission: &AdmissionSettings,
    pairs: &Arc<ServingStore>,
) -> Result<tls::Shared> {
    let (settings, warnings) = options.served();
    for warning in warnings {
        warn!(%warning, "TLS settings");
    }
    let config = tls::configure(
        &settings,
        admission.client_ca.as_ref(),
        Arc::clone(pairs) as _,
    )?;
    Ok(Arc::new(ArcSwap::new(config)))
}

/// Listens, or says which setting named the address.
fn bind(address: BindAddress, flag: &str) -> Result<TcpListener> {
    server::bind(address.host, address.port)
        .with_context(|| format!("{flag}: cannot listen on {address}"))
}

/// Hands the live bundles to the pairs that they have to verify: what all configurations of a Service carry.
async fn hand_in(
    pairs: Arc<ServingStore>,
    called: Vec<Called>,
    mut published: watch::Receiver<Published>,
) {
    loop {
        {
            let published = published.borrow_and_update();
            for called in &called {
                let bundle = readiness::common_bundle(&published, called.configurations);
                pairs.update_live_bundle(
                    &called.endpoint.service,
                    bundle.as_ref(),
                    Timestamp::now(),
                );
            }
        }
        if published.changed().await.is_err() {
            return;
        }
    }
}

/// Sets the level of our log lines as `spec.logLevel` says.
async fn follow_level(config: Arc<ConfigStore>, level: LevelHandle) {
    let mut config = config.spec();
    loop {
        let wanted = config
            .borrow_and_update()
            .as_ref()
            .and_then(|spec| spec.log_level)
            .unwrap_or_default();
        level.set(Verbosity::from_log_level(wanted));
        if config.changed().await.is_err() {
            return;
        }
    }
}

/// The failure policy of the injector's live configuration. Without one, nothing is refused for a fault of ours.
fn failure_policy(published: &watch::Receiver<Published>) -> FailurePolicy {
    match published.borrow().get(Configuration::Injector) {
        Some(registered) if !registered.ignores_failures => FailurePolicy::Fail,
        _ => FailurePolicy::Ignore,
    }
}

/// The bundle of a setting. The settings have parsed it already.
pub(super) fn given(pem: &str) -> Trust {
    Trust::Given(Bundle::from_pem(pem.as_bytes()).unwrap_or_default())
}
