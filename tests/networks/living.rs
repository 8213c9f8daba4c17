//! Starts, stops, kills, and what happened while no operator ran.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;

use super::{
    FINALIZER, has_no_definition, has_own_definition, in_operators, installed, is_gone,
    is_provisioned, namespace, network, owner, scene,
};
use crate::support::kinds::{CONFIG, NAD, NETWORK};
use crate::support::scene::Scene;
use crate::support::wait::{eventually, throughout};
use crate::support::{NAMESPACE, cli};

#[tokio::test]
async fn what_happened_while_no_operator_ran_is_put_right() -> Result<()> {
    let mut scene = scene(&["a", "b"]).await?;
    let admin = scene.admin().clone();
    let names = ["deleted", "dropped", "moved", "broken", "stripped", "kept"];
    for name in names {
        admin.create(&network(NETWORK, name, "a")).await?;
    }
    for name in names {
        is_provisioned(&admin, NETWORK, name).await?;
    }
    scene.operator.stop().await?;

    let kept = admin.must_get(NAD, "a/kept").await?;
    admin.delete(NETWORK, "deleted").await?;
    // The finalizer is still there: deletion waits for an operator.
    ensure!(admin.get(NETWORK, "deleted").await?.is_some());
    let no_finalizers = json!({ "metadata": { "finalizers": null } });
    admin.merge(NETWORK, "dropped", &no_finalizers).await?;
    admin.delete(NETWORK, "dropped").await?;
    ensure!(admin.get(NETWORK, "dropped").await?.is_none());
    let to_b = json!({ "spec": { "networkNamespace": "b" } });
    admin.merge(NETWORK, "moved", &to_b).await?;
    admin
        .merge(NAD, "a/broken", &json!({ "spec": { "config": "{}" } }))
        .await?;
    admin.merge(NETWORK, "stripped", &no_finalizers).await?;
    admin.delete(NAD, "a/stripped").await?;
    scene.operator.start()?;

    is_gone(&admin, NETWORK, "deleted").await?;
    has_no_definition(&admin, "a/deleted").await?;
    has_no_definition(&admin, "a/dropped").await?;
    has_own_definition(&admin, "b/moved", &owner(NETWORK, NAMESPACE, "moved")).await?;
    has_no_definition(&admin, "a/moved").await?;
    super::has_definition(&admin, "a/broken", |definition| {
        ensure!(super::config(definition)?["type"] == "sriov");
        Ok(())
    })
    .await?;
    has_own_definition(&admin, "a/stripped", &owner(NETWORK, NAMESPACE, "stripped")).await?;
    eventually(
        Duration::from_secs(10),
        "the finalizer to be back",
        async || {
            let stored = admin.must_get(NETWORK, "stripped").await?;
            ensure!(stored["metadata"]["finalizers"] == json!([FINALIZER]));
            Ok(())
        },
    )
    .await?;
    super::stays(&admin, "a/kept", &kept).await?;
    scene.was_allowed_everything()
}

#[tokio::test]
async fn killed_at_any_moment_it_ends_right() -> Result<()> {
    let mut scene = installed(Scene::installed().await?, &["a", "b"]).await?;
    // Nobody else could take over, so that a new start need not wait for the Lease to expire.
    scene.operator.argument("--leader-elect=false");
    scene.operator.start()?;
    scene.is_ready().await?;
    let admin = scene.admin().clone();
    for (round, life) in [0, 30, 80, 150, 300, 500].into_iter().enumerate() {
        let name = format!("net-{round}");
        let mine = owner(NETWORK, NAMESPACE, &name);
        admin.create(&network(NETWORK, &name, "a")).await?;
        tokio::time::sleep(Duration::from_millis(life / 4)).await;
        admin
            .merge(
                NETWORK,
                &name,
                &json!({ "spec": { "networkNamespace": "b" } }),
            )
            .await?;
        tokio::time::sleep(Duration::from_millis(life / 10)).await;
        scene.operator.kill();
        scene.operator.start()?;
        has_own_definition(&admin, &format!("b/{name}"), &mine).await?;
        has_no_definition(&admin, &format!("a/{name}")).await?;
        is_provisioned(&admin, NETWORK, &name).await?;

        admin.delete(NETWORK, &name).await?;
        tokio::time::sleep(Duration::from_millis(life / 20)).await;
        scene.operator.kill();
        scene.operator.start()?;
        is_gone(&admin, NETWORK, &name).await?;
        has_no_definition(&admin, &format!("b/{name}")).await?;
    }
    Ok(())
}

#[tokio::test]
async fn another_replica_takes_over_and_many_networks_settle() -> Result<()> {
    let mut scene = scene(&["a"]).await?;
    let admin = scene.admin().clone();
    let mut second = scene.replica(2).await?;
    second.start()?;
    for number in 0..60 {
        admin
            .create(&network(NETWORK, &format!("net-{number}"), "a"))
            .await?;
    }
    scene.operator.stop().await?;
    namespace(&admin, "c").await?;
    for number in 0..60 {
        let name = format!("net-{number}");
        is_provisioned(&admin, NETWORK, &name).await?;
        has_own_definition(
            &admin,
            &format!("a/{name}"),
            &owner(NETWORK, NAMESPACE, &name),
        )
        .await?;
    }
    second.stop().await?;
    Ok(())
}

#[tokio::test]
async fn when_the_product_is_taken_away_networks_wait_for_nobody() -> Result<()> {
    let scene = scene(&[]).await?;
    let admin = scene.admin();
    admin.create(&network(NETWORK, "net", "")).await?;
    is_provisioned(admin, NETWORK, "net").await?;
    let definition = admin.must_get(NAD, &in_operators("net")).await?;
    cli::run(&scene.cluster.admin_kubeconfig(), &["cleanup"])
        .await?
        .succeeded()?;
    ensure!(admin.get(CONFIG, "default").await?.is_none());
    throughout(super::A_WHILE, "a network without finalizer", async || {
        let stored = admin.must_get(NETWORK, "net").await?;
        ensure!(stored["metadata"].get("finalizers").is_none(), "it has one");
        Ok(())
    })
    .await?;
    super::stays(admin, &in_operators("net"), &definition).await
}
