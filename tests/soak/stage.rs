//! Where the soak plays: a cluster with its nodes, two replicas whose certificates last for seconds, the forwarder before
//! them, and the configuration whose settings are toggled.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::history::{Fact, History};
use crate::model::{self, NETWORKS, NODES, node_name};
use crate::plan;
use crate::support::cluster::Cluster;
use crate::support::issuer::CONFIGURATIONS;
use crate::support::kinds::{CONFIG, CONFIG_MAP, NODE_STATE};
use crate::support::operator::Operator;
use crate::support::proxy::{PROBED_OFTEN, ServiceProxy};
use crate::support::user::User;
use crate::support::wait::eventually;
use crate::support::{manifests, world};
use crate::tally::Tally;

const PATIENCE: Duration = Duration::from_secs(60);
/// How long each setting stays.
const STAYS: Duration = Duration::from_secs(5);
const ARGUMENTS: [&str; 4] = [
    "--rotation-settle-time=2s",
    "--leader-elect-lease-duration=4s",
    "--leader-elect-renew-deadline=3s",
    "--leader-elect-retry-period=1s",
];

/// Cluster, forwarder and replicas.
pub(crate) struct Stage {
    // The order is that of ending.
    pub(crate) replicas: [Operator; 2],
    _proxy: ServiceProxy,
    pub(crate) cluster: Cluster,
}

impl Stage {
    /// Both replicas are ready, both webhooks registered, everything is as the model begins. The longer the run, the
    /// longer certificates last.
    pub(crate) async fn prepare(length: Duration) -> Result<Self> {
        let cluster = Cluster::boot().await?;
        let admin = cluster.admin().clone();
        manifests::install(&admin).await?;
        world::load(&admin, &world::seeds()?).await?;
        for number in 0..NODES {
            let state = json!({
                "apiVersion": NODE_STATE.api_version,
                "kind": NODE_STATE.name,
                "metadata": { "name": node_name(number), "namespace": crate::support::NAMESPACE },
                "spec": {},
                "status": model::reported(64),
            });
            world::load(&admin, &[model::node(number), state]).await?;
        }
        for number in (0..NETWORKS).step_by(2) {
            admin.create(&model::nad(number, "one")).await?;
        }
        let mut replicas = [cluster.operator(1).await?, cluster.operator(2).await?];
        let proxy = ServiceProxy::start(admin.client(), PROBED_OFTEN);
        let spec = json!({ "enableInjector": true, "enableOperatorWebhook": true, "logLevel": 0 });
        admin.create(&world::config(&spec)).await?;
        for replica in &mut replicas {
            let lasts = plan::authority_lifetime(length);
            replica.argument(&format!("--ca-lifetime={lasts}s"));
            replica.argument(&format!("--certificate-lifetime={}s", lasts * 4 / 5));
            for argument in ARGUMENTS {
                replica.argument(argument);
            }
            for image in [
                "METRICS_EXPORTER_IMAGE",
                "METRICS_EXPORTER_KUBE_RBAC_PROXY_IMAGE",
            ] {
                replica.set(image, "example.com/metrics-exporter:test");
            }
            proxy.add(replica.pod());
            replica.start()?;
        }
        for replica in &mut replicas {
            replica.ready().await?;
        }
        eventually(PATIENCE, "both webhooks", async || {
            for (kind, name) in CONFIGURATIONS {
                admin.must_get(kind, name).await?;
            }
            admin.must_get(CONFIG_MAP, "nri-control-switches").await?;
            let config = admin.must_get(CONFIG, "default").await?;
            let ready = world::condition(&config, "Ready")?;
            ensure!(ready["status"] == "True", "{ready}");
            Ok(())
        })
        .await?;
        Ok(Self {
            replicas,
            _proxy: proxy,
            cluster,
        })
    }
}

/// What the configuration is changed to, one after the other and again from the beginning; with the facts that each
/// switches on or off. None takes a node away.
fn settings() -> Vec<(&'static [Fact], bool, Value)> {
    let worker = "node-role.kubernetes.io/worker";
    let webhook = &[Fact::Defaulting, Fact::Validation];
    let injector = &[Fact::Injector];
    vec![
        (&[], true, json!({ "logLevel": 1 })),
        (
            &[],
            true,
            json!({ "configDaemonNodeSelector": { worker: "", "kubernetes.io/os": "linux" } }),
        ),
        (injector, false, json!({ "enableInjector": false })),
        (injector, true, json!({ "enableInjector": true })),
        (
            &[],
            true,
            json!({ "featureGates": { "metricsExporter": true } }),
        ),
        (&[], true, json!({ "configDaemonEnvVars": { "SOAK": "1" } })),
        (&[], true, json!({ "useCDI": true, "logLevel": 0 })),
        (webhook, false, json!({ "enableOperatorWebhook": false })),
        (webhook, true, json!({ "enableOperatorWebhook": true })),
        (
            &[],
            true,
            json!({
                "configDaemonNodeSelector": null,
                "featureGates": null,
                "configDaemonEnvVars": null,
                "useCDI": null,
            }),
        ),
    ]
}

/// The configuration's changes under way; they end when dropped.
pub(crate) struct Toggles {
    stop: Arc<AtomicBool>,
    made: Arc<AtomicUsize>,
    tasks: JoinSet<()>,
}

impl Toggles {
    /// Changes the configuration from now on.
    pub(crate) fn start(admin: &User, history: &Arc<History>, tally: &Arc<Tally>) -> Self {
        let (stop, made) = (Arc::default(), Arc::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(toggle(
            admin.clone(),
            Arc::clone(history),
            Arc::clone(tally),
            Arc::clone(&stop),
            Arc::clone(&made),
        ));
        Self { stop, made, tasks }
    }

    /// How many changes were made.
    pub(crate) fn made(&self) -> usize {
        self.made.load(Ordering::Relaxed)
    }

    /// Changes nothing more, and leaves both webhooks switched on.
    pub(crate) async fn stop(mut self, admin: &User) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        while self.tasks.join_next().await.is_some() {}
        let on = json!({ "spec": { "enableInjector": true, "enableOperatorWebhook": true } });
        eventually(PATIENCE, "both webhooks switched on", async || {
            admin.merge(CONFIG, "default", &on).await.map(drop)
        })
        .await
    }
}

async fn toggle(
    admin: User,
    history: Arc<History>,
    tally: Arc<Tally>,
    stop: Arc<AtomicBool>,
    made: Arc<AtomicUsize>,
) {
    for (switched, on, spec) in settings().into_iter().cycle() {
        let asked = Instant::now();
        for fact in switched {
            history.changing(*fact);
        }
        let patch = json!({ "spec": spec });
        loop {
            let tried = Instant::now();
            let Err(error) = admin.merge(CONFIG, "default", &patch).await else {
                break;
            };
            tally.failed(tried, Instant::now(), &format!("the config: {error:#}"));
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        for fact in switched {
            history.changed(*fact, asked, json!(on));
        }
        made.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(STAYS).await;
        if stop.load(Ordering::Relaxed) {
            return;
        }
    }
}
