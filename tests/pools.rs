//! Pools with OVS hardware offload on OpenShift: each MachineConfigPool that one names has its MachineConfig.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::drain::openshift::{installed, machine_pool};
use crate::support::kinds::{EVENT, MACHINE_CONFIG, MACHINE_CONFIG_POOL, POOL, text};
use crate::support::scene::PATIENCE;
use crate::support::user::User;
use crate::support::wait::{eventually, throughout};
use crate::support::world;

const CONFIG: &str = "00-workers-ovs-hw-offload";
const FINALIZER: &str = "poolconfig.finalizers.sriovnetwork.openshift.io";

fn pool(name: &str, machine_pool: &str) -> Value {
    world::custom(
        POOL,
        name,
        &json!({ "ovsHardwareOffloadConfig": { "name": machine_pool } }),
    )
}

/// The MachineConfig when it is there and does what it is to.
async fn has_offload(admin: &User) -> Result<Value> {
    let config = admin.must_get(MACHINE_CONFIG, CONFIG).await?;
    let unit = &config["spec"]["config"]["systemd"]["units"][0];
    ensure!(unit["name"] == "ovs-vswitchd.service", "{config}");
    let contents = text(unit, "/dropins/0/contents");
    ensure!(
        contents.contains("other_config:hw-offload=true"),
        "{config}"
    );
    Ok(config)
}

async fn is_gone(admin: &User) -> Result<()> {
    eventually(PATIENCE, "the MachineConfig to be gone", async || {
        let config = admin.get(MACHINE_CONFIG, CONFIG).await?;
        ensure!(config.is_none(), "{config:?}");
        Ok(())
    })
    .await
}

async fn has_finalizer(admin: &User, name: &str, expected: bool) -> Result<()> {
    eventually(
        PATIENCE,
        &format!("the finalizer of {name}: {expected}"),
        async || {
            let pool = admin.must_get(POOL, name).await?;
            let finalizers = pool["metadata"]["finalizers"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            ensure!(finalizers.contains(&json!(FINALIZER)) == expected, "{pool}");
            Ok(())
        },
    )
    .await
}

#[tokio::test]
async fn offload_comes_and_goes_with_the_pools_that_name_it() -> Result<()> {
    let mut scene = installed().await?;
    scene.operator.start()?;
    let admin = scene.admin().clone();
    admin.create(&pool("first", "workers")).await?;
    has_finalizer(&admin, "first", true).await?;
    // Nothing is made for a pool that does not exist, and that is told.
    eventually(PATIENCE, "an Event", async || {
        let events = admin.list(EVENT).await?;
        let told = events
            .iter()
            .find(|event| event["reason"] == "OffloadBlocked");
        let text = text(told.context("there is none")?, "/message");
        ensure!(text.contains("no MachineConfigPool workers"), "{text}");
        Ok(())
    })
    .await?;
    ensure!(admin.get(MACHINE_CONFIG, CONFIG).await?.is_none());
    machine_pool(&admin, "workers").await?;
    let made = eventually(PATIENCE, "the MachineConfig", async || {
        has_offload(&admin).await
    })
    .await?;
    ensure!(
        made["metadata"]["labels"]["machineconfiguration.openshift.io/role"] == "workers",
        "{made}"
    );

    // What somebody changes or deletes comes back; what is as wanted is not written.
    let broken = json!({ "spec": { "config": { "systemd": { "units": [] } } } });
    admin.merge(MACHINE_CONFIG, CONFIG, &broken).await?;
    eventually(PATIENCE, "its repair", async || has_offload(&admin).await).await?;
    admin.delete(MACHINE_CONFIG, CONFIG).await?;
    let made = eventually(PATIENCE, "its return", async || has_offload(&admin).await).await?;

    // Two pools name it: it stays while one does. The name is cleared: it goes, with the finalizer.
    admin.create(&pool("second", "workers")).await?;
    has_finalizer(&admin, "second", true).await?;
    admin.delete(POOL, "first").await?;
    throughout(Duration::from_secs(1), "the MachineConfig", async || {
        let now = has_offload(&admin).await?;
        ensure!(
            now["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"],
            "{now}"
        );
        Ok(())
    })
    .await?;
    let cleared = json!({ "spec": { "ovsHardwareOffloadConfig": null } });
    admin.merge(POOL, "second", &cleared).await?;
    is_gone(&admin).await?;
    has_finalizer(&admin, "second", false).await?;

    // The MachineConfigPool goes first: the pool can be deleted all the same.
    admin.create(&pool("third", "workers")).await?;
    eventually(PATIENCE, "the MachineConfig", async || {
        has_offload(&admin).await
    })
    .await?;
    admin.delete(MACHINE_CONFIG_POOL, "workers").await?;
    admin.delete(POOL, "third").await?;
    is_gone(&admin).await?;
    eventually(PATIENCE, "the pool to be gone", async || {
        let pool = admin.get(POOL, "third").await?;
        ensure!(pool.is_none(), "{pool:?}");
        Ok(())
    })
    .await?;
    scene.was_allowed_everything()
}
