//! OpenShift: the MachineConfigPool of a node is paused while the node is drained, if we have to, and resumed if we did.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::*;
use crate::chart::grant_for;
use crate::support::kinds::{INFRASTRUCTURE, MACHINE_CONFIG, MACHINE_CONFIG_POOL, POOL};
use crate::support::{cli, manifests, world};

/// An operator for OpenShift, not started, and two workers that are at their configuration.
pub(crate) async fn installed() -> Result<Scene> {
    let mut scene = Scene::bare(Cluster::boot().await?).await?;
    let admin = scene.admin();
    let kinds = [INFRASTRUCTURE, MACHINE_CONFIG, MACHINE_CONFIG_POOL];
    manifests::learn(admin, &kinds).await?;
    grant_for(
        admin,
        &json!({ "operator": { "clusterType": "openshift" } }),
    )
    .await?;
    scene.operator.set("CLUSTER_TYPE", "openshift");
    scene.operator.argument("--leader-elect=false");
    Ok(scene)
}

pub(crate) async fn machine_pool(admin: &User, name: &str) -> Result<()> {
    let object = json!({
        "apiVersion": MACHINE_CONFIG_POOL.api_version,
        "kind": MACHINE_CONFIG_POOL.name,
        "metadata": { "name": name },
        "spec": {
            "paused": false,
            "configuration": { "name": "rendered-1" },
            "nodeSelector": { "matchLabels": { "role": name } },
        },
    });
    admin.create(&object).await?;
    reached(admin, name, "rendered-1").await
}

/// All nodes of the pool are at that configuration.
async fn reached(admin: &User, name: &str, config: &str) -> Result<()> {
    let status = json!({ "status": { "configuration": { "name": config } } });
    admin
        .merge(MACHINE_CONFIG_POOL, name, &status)
        .await
        .map(drop)
}

async fn workers(admin: &User) -> Result<()> {
    machine_pool(admin, "workers").await?;
    let pool = admin.must_get(MACHINE_CONFIG_POOL, "workers").await?;
    let rendered = json!({
        "apiVersion": MACHINE_CONFIG.api_version,
        "kind": MACHINE_CONFIG.name,
        "metadata": { "name": "rendered-1", "ownerReferences": [{
            "apiVersion": MACHINE_CONFIG_POOL.api_version, "kind": MACHINE_CONFIG_POOL.name,
            "name": "workers", "uid": pool["metadata"]["uid"], "controller": true,
        }] },
    });
    admin.create(&rendered).await?;
    for node in ["one", "two"] {
        join(admin, node, &json!({ "role": "workers" })).await?;
        let desired = json!({ "metadata": { "annotations": {
            "machineconfiguration.openshift.io/desiredConfig": "rendered-1",
        } } });
        admin.merge(NODE, node, &desired).await?;
    }
    admin
        .create(&world::custom(POOL, "all", &json!({ "maxUnavailable": 2 })))
        .await
        .map(drop)
}

async fn pool_is(admin: &User, record: &str, paused: bool) -> Result<()> {
    let pool: Value = admin.must_get(MACHINE_CONFIG_POOL, "workers").await?;
    ensure!(annotation(&pool, STATE) == record, "{pool}");
    ensure!((pool["spec"]["paused"] == true) == paused, "{pool}");
    Ok(())
}

#[tokio::test]
async fn the_pool_of_a_node_is_paused_while_it_is_drained() -> Result<()> {
    let mut scene = installed().await?;
    let admin = scene.admin().clone();
    workers(&admin).await?;
    // An update under way ends first.
    admin
        .merge(
            MACHINE_CONFIG_POOL,
            "workers",
            &json!({ "spec": { "configuration": { "name": "rendered-2" } } }),
        )
        .await?;
    scene.operator.start()?;
    ask(&admin, "one", DRAIN).await?;
    becomes(&admin, "one", DRAINING, false).await?;
    is_told(&admin, "one", "Normal", "DrainWaiting", "rendered-2").await?;
    pool_is(&admin, "", false).await?;
    reached(&admin, "workers", "rendered-2").await?;
    becomes(&admin, "one", COMPLETE, true).await?;
    pool_is(&admin, "Paused", true).await?;

    // The last one resumes it, also one that vanishes.
    ask(&admin, "two", DRAIN).await?;
    becomes(&admin, "two", COMPLETE, true).await?;
    scene.operator.kill();
    scene.operator.start()?;
    ask(&admin, "one", IDLE).await?;
    becomes(&admin, "one", IDLE, false).await?;
    pool_is(&admin, "Paused", true).await?;
    leave(&admin, &["two"]).await?;
    eventually(PATIENCE, "the pool to go on", async || {
        pool_is(&admin, IDLE, false).await
    })
    .await?;

    // One that its administrator has paused is drained in, and stays paused.
    let pause = |paused: bool| json!({ "spec": { "paused": paused } });
    admin
        .merge(MACHINE_CONFIG_POOL, "workers", &pause(true))
        .await?;
    ask(&admin, "one", DRAIN).await?;
    becomes(&admin, "one", COMPLETE, true).await?;
    pool_is(&admin, IDLE, true).await?;
    ask(&admin, "one", IDLE).await?;
    becomes(&admin, "one", IDLE, false).await?;
    pool_is(&admin, IDLE, true).await?;

    // A hosted control plane has no pools to ask about.
    admin
        .merge(MACHINE_CONFIG_POOL, "workers", &pause(false))
        .await?;
    let hosted = json!({
        "apiVersion": INFRASTRUCTURE.api_version, "kind": INFRASTRUCTURE.name,
        "metadata": { "name": "cluster" }, "status": { "controlPlaneTopology": "External" },
    });
    admin.create(&hosted).await?;
    scene.operator.kill();
    scene.operator.start()?;
    ask(&admin, "one", DRAIN).await?;
    becomes(&admin, "one", COMPLETE, true).await?;
    pool_is(&admin, IDLE, false).await?;
    scene.was_allowed_everything()
}

/// With no operator left, nothing would resume the pool, and the cluster could not be upgraded.
#[tokio::test]
async fn cleaning_up_ends_what_a_drain_has_begun() -> Result<()> {
    let mut scene = installed().await?;
    let admin = scene.admin().clone();
    workers(&admin).await?;
    scene.operator.start()?;
    ask(&admin, "one", DRAIN).await?;
    becomes(&admin, "one", COMPLETE, true).await?;
    pool_is(&admin, "Paused", true).await?;
    scene.operator.kill();
    let kubeconfig = scene.cluster.admin_kubeconfig();
    let told = cli::run(&kubeconfig, &["cleanup"]).await?.succeeded()?;
    for line in [
        "remove pause of MachineConfigPool workers\n",
        "remove cordon of Node one\n",
    ] {
        ensure!(told.contains(line), "{line} is not in: {told}");
    }
    pool_is(&admin, IDLE, false).await?;
    let node = admin.must_get(NODE, "one").await?;
    ensure!(node["spec"]["unschedulable"] != true, "{node}");
    Ok(())
}
