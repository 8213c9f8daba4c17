//! What most tests start from: a cluster with the product installed and nodes seeded, one replica, and the proxy in
//! front of it. When it is dropped it prints the replica's log, which the test runner shows for a failed test only.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::audit::Call;
use super::cluster::Cluster;
use super::kinds::{CONFIG, DAEMON_SET, Kind, MUTATING, NEW_EVENT, VALIDATING, text};
use super::load::is_answered;
use super::operator::Operator;
use super::proxy::{PROBED_OFTEN, PROBED_RARELY, Pod, ServiceProxy};
use super::user::User;
use super::wait::eventually;
use super::workload::Workload;
use super::{manifests, world};

/// How long a reconcile may take on a busy machine before a test gives up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// The injector's webhook configuration, as [`Scene::webhooks`] lists it.
pub(crate) const INJECTOR_WEBHOOK: &[&str] =
    &["MutatingWebhookConfiguration network-resources-injector-config"];
/// The operator webhook's two configurations.
pub(crate) const OPERATOR_WEBHOOKS: &[&str] = &[
    "MutatingWebhookConfiguration sriov-operator-webhook-config",
    "ValidatingWebhookConfiguration sriov-operator-webhook-config",
];
/// All three.
pub(crate) const BOTH_WEBHOOKS: [&str; 3] = [
    INJECTOR_WEBHOOK[0],
    OPERATOR_WEBHOOKS[0],
    OPERATOR_WEBHOOKS[1],
];
/// A cluster and one replica.
pub(crate) struct Scene {
    // The order is that of ending.
    pub(crate) operator: Operator,
    proxy: ServiceProxy,
    pub(crate) cluster: Cluster,
}

impl Scene {
    /// Installed and seeded; the operator is not started.
    pub(crate) async fn installed() -> Result<Self> {
        Self::on(Cluster::boot().await?).await
    }

    /// The same on a given cluster.
    pub(crate) async fn on(cluster: Cluster) -> Result<Self> {
        let scene = Self::bare(cluster).await?;
        world::load(scene.admin(), &world::seeds()?).await?;
        Ok(scene)
    }

    /// Installed, nothing seeded.
    pub(crate) async fn bare(cluster: Cluster) -> Result<Self> {
        manifests::install(cluster.admin()).await?;
        Self::beside(cluster).await
    }

    /// A replica, not started, on a cluster where everything is installed already.
    pub(crate) async fn beside(cluster: Cluster) -> Result<Self> {
        Self::probed(cluster, PROBED_OFTEN).await
    }

    /// The same, where its readiness is asked for about as rarely as by a kubelet: for who measures.
    #[allow(dead_code, reason = "only the bench asks for it")]
    pub(crate) async fn calm(cluster: Cluster) -> Result<Self> {
        Self::probed(cluster, PROBED_RARELY).await
    }

    async fn probed(cluster: Cluster, every: Duration) -> Result<Self> {
        let proxy = ServiceProxy::start(cluster.admin().client(), every);
        let operator = cluster.operator(1).await?;
        proxy.add(operator.pod());
        Ok(Self {
            operator,
            proxy,
            cluster,
        })
    }

    /// The operator runs; there is no configuration.
    pub(crate) async fn running() -> Result<Self> {
        let mut scene = Self::installed().await?;
        scene.operator.start()?;
        scene.operator.ready().await?;
        Ok(scene)
    }

    /// The operator runs, and both webhooks are registered and asked.
    pub(crate) async fn registered() -> Result<Self> {
        let mut scene = Self::installed().await?;
        scene.configure(&both_webhooks()).await?;
        scene.operator.start()?;
        scene.is_ready().await?;
        is_answered(scene.admin()).await?;
        Ok(scene)
    }

    /// The cluster administrator.
    pub(crate) fn admin(&self) -> &User {
        self.cluster.admin()
    }

    /// Another replica behind the Services, not started; the first has number 1.
    pub(crate) async fn replica(&self, number: u8) -> Result<Operator> {
        let operator = self.cluster.operator(number).await?;
        self.proxy.add(operator.pod());
        Ok(operator)
    }

    /// Runs one pod of a DaemonSet that was rolled out, behind the Services; says that it is ready when it is.
    pub(crate) async fn run_pod_of(&self, name: &str, number: u8) -> Result<Workload> {
        let daemon_set = eventually(PATIENCE, &format!("DaemonSet {name}"), async || {
            self.admin().must_get(DAEMON_SET, name).await
        })
        .await?;
        let mut workload = self.cluster.pod_of(&daemon_set, number).await?;
        self.proxy.add(workload.pod());
        workload.ready().await?;
        let status = json!({
            "currentNumberScheduled": 1,
            "desiredNumberScheduled": 1,
            "numberMisscheduled": 0,
            "numberReady": 1,
        });
        self.admin().merge_status(DAEMON_SET, name, &status).await?;
        Ok(workload)
    }

    /// Puts something behind the Services that stands for a pod.
    pub(crate) fn add(&self, pod: Pod) {
        self.proxy.add(pod);
    }

    /// Takes it away again; calls that it has already are answered.
    pub(crate) fn remove(&self, pod: &Pod) {
        self.proxy.remove(pod.ip);
    }

    /// Creates the configuration.
    pub(crate) async fn configure(&self, spec: &Value) -> Result<()> {
        self.admin().create(&world::config(spec)).await.map(drop)
    }

    /// Changes the configuration.
    pub(crate) async fn reconfigure(&self, spec: &Value) -> Result<()> {
        let patch = json!({ "spec": spec });
        self.admin()
            .merge(CONFIG, "default", &patch)
            .await
            .map(drop)
    }

    /// Waits until the Ready condition is True for the configuration as it is now.
    pub(crate) async fn is_ready(&mut self) -> Result<()> {
        let admin = self.cluster.admin();
        eventually(PATIENCE, "the configuration to be Ready", async || {
            let config = admin.must_get(CONFIG, "default").await?;
            let ready = world::condition(&config, "Ready")?;
            ensure!(ready["status"] == "True", "the condition is {ready}");
            ensure!(
                ready["observedGeneration"] == config["metadata"]["generation"],
                "the condition is for another generation: {ready}"
            );
            Ok(())
        })
        .await
    }

    /// Changes the configuration and waits until it is Ready for the change.
    pub(crate) async fn ready_with(&mut self, spec: &Value) -> Result<()> {
        self.reconfigure(spec).await?;
        self.is_ready().await
    }

    /// Waits until Ready is False with this reason, and a message that holds all of that.
    pub(crate) async fn is_not_ready(&self, reason: &str, said: &[&str]) -> Result<Value> {
        eventually(PATIENCE, "the configuration not to be Ready", async || {
            let config = self.admin().must_get(CONFIG, "default").await?;
            let ready = world::condition(&config, "Ready")?;
            ensure!(
                ready["status"] == "False" && ready["reason"] == reason,
                "the condition is {ready}"
            );
            for said in said {
                ensure!(
                    text(&ready, "/message").contains(said),
                    "{said:?} is not said: {ready}"
                );
            }
            Ok(ready)
        })
        .await
    }

    /// Waits until an object is gone.
    pub(crate) async fn is_gone(&self, kind: Kind, name: &str) -> Result<()> {
        let what = format!("{} {name} to be gone", kind.name);
        eventually(PATIENCE, &what, async || {
            let left = self.admin().get(kind, name).await?;
            ensure!(left.is_none(), "it is there");
            Ok(())
        })
        .await
    }

    /// Waits until the operator has told of the configuration, in Events of these reasons, with notes that hold that.
    pub(crate) async fn tells(&self, expected: &[(&str, &str)]) -> Result<()> {
        for (reason, note) in expected {
            eventually(PATIENCE, &format!("an Event {reason}"), async || {
                let events = self.admin().list(NEW_EVENT).await?;
                let found = events.iter().any(|event| {
                    event["reason"] == *reason
                        && text(event, "/note").contains(note)
                        && event["regarding"]["kind"] == CONFIG.name
                        && event["reportingController"] == "sriov-operator"
                });
                let told = |event| (text(event, "/reason"), text(event, "/note"));
                let told: Vec<_> = events.iter().map(told).collect();
                ensure!(found, "none says {note:?}: {told:?}");
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    /// The webhook configurations that are registered: kind and name.
    pub(crate) async fn webhooks(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for kind in [MUTATING, VALIDATING] {
            for object in self.admin().list(kind).await? {
                let name = text(&object, "/metadata/name").to_owned();
                names.push(format!("{} {name}", kind.name));
            }
        }
        names.sort();
        Ok(names)
    }

    /// Waits until exactly these are registered.
    pub(crate) async fn has_webhooks(&self, expected: &[&str]) -> Result<()> {
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        eventually(PATIENCE, "the webhook configurations", async || {
            let actual = self.webhooks().await?;
            ensure!(actual == expected, "registered are {actual:?}");
            Ok(())
        })
        .await
    }

    /// Every object of the kinds that the product makes, with its resource version.
    pub(crate) async fn objects(&self) -> Result<BTreeMap<String, String>> {
        world::inventory(self.admin()).await
    }

    /// Waits until the configuration is gone and the product has left nothing that was not there `before`.
    pub(crate) async fn is_as_before(&self, before: &BTreeMap<String, String>) -> Result<()> {
        eventually(PATIENCE, "everything to be gone", async || {
            let config = self.admin().get(CONFIG, "default").await?;
            ensure!(config.is_none(), "the configuration is there: {config:?}");
            let mut left = self.objects().await?;
            left.retain(|name, _| !before.contains_key(name));
            ensure!(left.is_empty(), "left are {:?}", left.keys());
            Ok(())
        })
        .await
    }

    /// What the operator asked for so far, but for watches, Leases and Events.
    pub(crate) fn requests(&self) -> Result<Vec<Call>> {
        let mut calls = self.cluster.calls()?;
        calls.retain(|call| {
            call.verb != "watch" && !call.uri.contains("/leases") && !call.uri.contains("/events")
        });
        Ok(calls)
    }

    /// What the operator wrote so far, Leases aside.
    pub(crate) fn writes(&self) -> Result<Vec<Call>> {
        let mut calls = self.cluster.calls()?;
        calls.retain(Call::is_write);
        Ok(calls)
    }

    /// How far it has come in asking.
    pub(crate) fn mark(&self) -> Result<Mark> {
        Ok(Mark {
            requests: self.requests()?.len(),
            listed_anew: self.operator.said("the version is too old, listing anew")?,
        })
    }

    /// Fails unless it comes to rest, and then there is not one request for a while but for watches, Leases and Events;
    /// refused ones and those about unknown kinds count.
    pub(crate) async fn is_quiet(&self, why: &str) -> Result<()> {
        let mark = self.comes_to_rest(why).await?;
        self.stays_quiet(&mark, why).await
    }

    /// Fails unless there is no such request for a while, and was none since the mark.
    pub(crate) async fn stays_quiet(&self, mark: &Mark, why: &str) -> Result<()> {
        tokio::time::sleep(Duration::from_secs(4)).await;
        let mut since = self.requests()?.split_off(mark.requests);
        // When its own cache is up, a young API server ends watches from before as too old.
        for _ in mark.listed_anew..self.mark()?.listed_anew {
            let listed = since.iter().position(|call| call.verb == "list");
            listed.map(|listed| since.remove(listed));
        }
        ensure!(since.is_empty(), "{why} it asked {since:?}");
        Ok(())
    }

    /// Waits out what follows the condition, such as Events and pairs.
    async fn comes_to_rest(&self, why: &str) -> Result<Mark> {
        let start = Instant::now();
        let mut before = self.mark()?;
        loop {
            tokio::time::sleep(Duration::from_secs(2)).await;
            let now = self.mark()?;
            if now.requests == before.requests {
                return Ok(now);
            }
            let since = self.requests()?.split_off(before.requests);
            ensure!(
                start.elapsed() < PATIENCE,
                "{why} it does not come to rest, lately it asked {since:?}"
            );
            before = now;
        }
    }

    /// Fails when a role lacks what the operator asked for.
    pub(crate) fn was_allowed_everything(&self) -> Result<()> {
        let mut calls = self.cluster.calls()?;
        calls.retain(Call::is_forbidden);
        ensure!(calls.is_empty(), "the roles do not allow {calls:?}");
        Ok(())
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        println!("{}", self.cluster.describe());
        println!("the end of the operator's log:\n{}", self.operator.log(60));
        if let Err(error) = self.was_allowed_everything() {
            println!("{error}");
        }
    }
}

/// How far the operator has come in asking.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    /// How many requests there were, but for watches, Leases and Events.
    requests: usize,
    /// How often a store had to begin anew.
    listed_anew: usize,
}

/// A configuration with both webhooks on.
pub(crate) fn both_webhooks() -> Value {
    json!({ "enableInjector": true, "enableOperatorWebhook": true, "logLevel": 2 })
}
