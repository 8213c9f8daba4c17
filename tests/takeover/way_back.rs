//! And back: the Go operator takes over what this one has made, as `docs/operations.md` says how.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;

use super::{
    SERVICE_NAME, Workloads, bundle, judged, left_by_the_go_operator, the_old_webhook_judges,
    to_workloads,
};
use crate::chart;
use crate::support::NAMESPACE;
use crate::support::kinds::{
    CONFIG, DAEMON_SET, Kind, LEASE, MUTATING, SECRET, SERVICE, VALIDATING, text,
};
use crate::support::old_webhook::OldWebhook;
use crate::support::scene::{BOTH_WEBHOOKS, PATIENCE, Scene};
use crate::support::wait::eventually;

#[tokio::test]
async fn the_go_operator_takes_over_without_a_gap() -> Result<()> {
    let mut scene = Scene::registered().await?;
    chart::grant(scene.admin(), "dedicated").await?;
    let (stop, until) = tokio::sync::watch::channel(false);
    let judging = tokio::spawn(judged(scene.admin().clone(), until));

    // Serving moves to workloads, which go on when the operator goes.
    let Workloads {
        operator: mut dedicated,
        injector,
        webhook,
    } = to_workloads(&mut scene).await?;
    eventually(PATIENCE, "the workload to be led to", async || {
        let service = scene.admin().must_get(SERVICE, SERVICE_NAME).await?;
        let selector = &service["spec"]["selector"];
        ensure!(
            *selector == json!({ "app": "operator-webhook" }),
            "{selector}"
        );
        Ok(())
    })
    .await?;
    // What routes Services takes a moment.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let config = scene.admin().must_get(CONFIG, "default").await?;
    dedicated.stop().await?;

    // The Go operator comes, with both CAs as the one that it is given, and its pods replace ours.
    let service = format!("{SERVICE_NAME}.{NAMESPACE}.svc");
    let old = OldWebhook::start(scene.cluster.address(20), "operator-webhook", &service).await?;
    let ours = bundle(
        &scene
            .admin()
            .must_get(VALIDATING, "sriov-operator-webhook-config")
            .await?,
    )?;
    let written = left_by_the_go_operator(scene.admin(), &config, &(ours + &old.ca)).await?;
    scene.add(old.pod());
    eventually(PATIENCE, "the old webhook to answer", async || {
        old.pod().probe.ready().await
    })
    .await?;
    webhook.stop().await?;
    injector.stop().await?;
    // The API server keeps its connections as long as ours are there.
    the_old_webhook_judges(&scene).await?;
    stop.send_replace(true);
    let (by_old, by_new) = judging.await??;
    ensure!(
        by_old > 0 && by_new > 0,
        "judged {by_old} and {by_new} times"
    );

    // Its specs are there without a field of ours, and nobody writes them but it.
    for object in &written {
        let kind = Kind::of(object)?;
        let now = scene
            .admin()
            .must_get(kind, text(object, "/metadata/name"))
            .await?;
        ensure!(now["spec"] == object["spec"], "{now}");
        ensure!(now["webhooks"] == object["webhooks"], "{now}");
    }
    scene.has_webhooks(&BOTH_WEBHOOKS).await?;

    // It removes its config as it does: the finalizer, once the registrations are gone. Nothing of ours holds it back.
    scene.admin().delete(CONFIG, "default").await?;
    for (kind, name) in [
        (MUTATING, "network-resources-injector-config"),
        (MUTATING, "sriov-operator-webhook-config"),
        (VALIDATING, "sriov-operator-webhook-config"),
    ] {
        scene.admin().delete(kind, name).await?;
    }
    let mut marked = scene.admin().must_get(CONFIG, "default").await?;
    marked["metadata"]["finalizers"] = json!([]);
    scene.admin().replace(&marked).await?;
    scene.is_gone(CONFIG, "default").await?;
    // The garbage collector takes what it owned. What nothing owns is the Lease, as the page says.
    let uid = &config["metadata"]["uid"];
    for kind in [DAEMON_SET, SERVICE, SECRET] {
        for object in scene.admin().list(kind).await? {
            let owner = &object["metadata"]["ownerReferences"][0]["uid"];
            ensure!(
                owner == uid || object["metadata"]["namespace"] != NAMESPACE,
                "{object}"
            );
        }
    }
    scene.admin().must_get(LEASE, "sriov-operator").await?;
    Ok(())
}
