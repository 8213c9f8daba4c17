//! What most tests start from: a cluster with the product installed and nodes seeded, one replica, and the proxy in
//! front of it. When it is dropped it prints the replica's log, which the test runner shows for a failed test only.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::kinds::{CONFIG, MUTATING, VALIDATING};
use super::operator::Operator;
use super::proxy::ServiceProxy;
use super::user::User;
use super::wait::eventually;
use super::{manifests, world};

/// How long a reconcile may take on a busy machine before a test gives up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// The injector's webhook configuration.
pub(crate) const INJECTOR: &str = "network-resources-injector-config";
/// The operator webhook's two configurations.
pub(crate) const OPERATOR_WEBHOOK: &str = "sriov-operator-webhook-config";

/// A cluster and one replica.
pub(crate) struct Scene {
    // The order is that of ending.
    pub(crate) operator: Operator,
    pub(crate) proxy: ServiceProxy,
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
        world::seed(scene.admin()).await?;
        Ok(scene)
    }

    /// Installed, nothing seeded.
    pub(crate) async fn bare(cluster: Cluster) -> Result<Self> {
        manifests::install(cluster.admin()).await?;
        let proxy = ServiceProxy::start(cluster.admin().client());
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

    /// The operator runs, and both webhooks are registered.
    pub(crate) async fn registered() -> Result<Self> {
        let mut scene = Self::installed().await?;
        scene.configure(&both_webhooks()).await?;
        scene.operator.start()?;
        scene.is_ready().await?;
        Ok(scene)
    }

    /// The cluster administrator.
    pub(crate) fn admin(&self) -> &User {
        self.cluster.admin()
    }

    /// Creates the configuration.
    pub(crate) async fn configure(&self, spec: &Value) -> Result<()> {
        self.admin().create(&world::config(spec)).await.map(drop)
    }

    /// Changes the configuration.
    pub(crate) async fn reconfigure(&self, spec: &Value) -> Result<()> {
        let patch = json!({ "spec": spec });
        self.admin().merge(CONFIG, "default", &patch).await.map(drop)
    }

    /// Waits until the Ready condition is True for the configuration as it is now.
    pub(crate) async fn is_ready(&mut self) -> Result<()> {
        let admin = self.cluster.admin();
        eventually(PATIENCE, "the configuration to be Ready", async || {
            let config = admin.must_get(CONFIG, "default").await?;
            let ready = ready_condition(&config)?;
            ensure!(ready["status"] == "True", "the condition is {ready}");
            ensure!(
                ready["observedGeneration"] == config["metadata"]["generation"],
                "the condition is for another generation: {ready}"
            );
            Ok(())
        })
        .await
    }

    /// The webhook configurations that are registered: kind and name.
    pub(crate) async fn webhooks(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for kind in [MUTATING, VALIDATING] {
            for object in self.admin().list(kind).await? {
                let name = super::kinds::text(&object, "/metadata/name").to_owned();
                names.push(format!("{} {name}", kind.kind));
            }
        }
        names.sort();
        Ok(names)
    }

    /// Waits until exactly these are registered.
    pub(crate) async fn has_webhooks(&self, expected: &[String]) -> Result<()> {
        eventually(PATIENCE, "the webhook configurations", async || {
            let actual = self.webhooks().await?;
            ensure!(actual == expected, "registered are {actual:?}");
            Ok(())
        })
        .await
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        println!("the end of the operator's log:\n{}", self.operator.log(60));
        if let Ok(calls) = self.cluster.calls() {
            for call in calls.iter().filter(|call| call.is_forbidden()) {
                println!("forbidden: {} {}", call.verb, call.uri);
            }
        }
    }
}

/// A configuration with both webhooks on.
pub(crate) fn both_webhooks() -> Value {
    json!({ "enableInjector": true, "enableOperatorWebhook": true, "logLevel": 2 })
}

/// The Ready condition.
pub(crate) fn ready_condition(config: &Value) -> Result<Value> {
    config["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == "Ready")
        .cloned()
        .context("there is no Ready condition")
}
