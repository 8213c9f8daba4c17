//! Which pods go, and those that do not want to.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::*;
use crate::support::kinds::{CONFIG, DAEMON_SET, DISRUPTION_BUDGET};
use crate::support::world;

/// A pod that a DaemonSet controls.
fn of_daemon_set(mut pod: Value, name: &str, uid: &str) -> Value {
    pod["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "apps/v1", "kind": "DaemonSet", "name": name, "uid": uid, "controller": true,
    }]);
    pod
}

async fn remaining(admin: &User, names: &[&str]) -> Result<Vec<String>> {
    let mut remaining = Vec::new();
    for name in names {
        if !is_gone(admin, name).await? {
            remaining.push((*name).to_owned());
        }
    }
    Ok(remaining)
}

#[tokio::test]
async fn pods_with_virtual_functions_go_and_for_a_reboot_all_but_those_of_daemon_sets() -> Result<()>
{
    let scene = scene().await?;
    let admin = scene.admin();
    for node in ["one", "other"] {
        join(admin, node, &json!({})).await?;
    }
    let labels = json!({ "app": "agent" });
    let agent = admin
        .create(&json!({
            "apiVersion": DAEMON_SET.api_version,
            "kind": DAEMON_SET.name,
            "metadata": { "name": "agent", "namespace": "default" },
            "spec": {
                "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels },
                    "spec": { "containers": [{ "name": "app", "image": "example.com/agent:1" }] },
                },
            },
        }))
        .await?;
    let uid = text(&agent, "/metadata/uid");
    let mut sidecar = plain_pod("sidecar", "one");
    sidecar["spec"]["initContainers"] = json!([{
        "name": "proxy", "image": "example.com/proxy:1", "restartPolicy": "Always",
        "resources": { "requests": { RESOURCE: "1" }, "limits": { RESOURCE: "1" } },
    }]);
    let mut similar = plain_pod("similar", "one");
    similar["spec"]["containers"][0]["resources"] =
        json!({ "requests": { "openshift.iox/y": "1" }, "limits": { "openshift.iox/y": "1" } });
    let mut local = pod("local-storage", "one");
    local["spec"]["volumes"] = json!([{ "name": "scratch", "emptyDir": {} }]);
    for object in [
        pod("fast", "one"),
        local,
        sidecar,
        similar,
        plain_pod("plain", "one"),
        of_daemon_set(pod("agent", "one"), "agent", uid),
        of_daemon_set(pod("orphan", "one"), "gone", uid),
        pod("elsewhere", "other"),
    ] {
        admin.create(&object).await?;
    }
    let all = [
        "agent",
        "elsewhere",
        "fast",
        "local-storage",
        "orphan",
        "plain",
        "sidecar",
        "similar",
    ];
    ask(admin, "one", DRAIN).await?;
    becomes(admin, "one", COMPLETE, true).await?;
    ensure!(remaining(admin, &all).await? == ["agent", "elsewhere", "plain", "similar"]);
    ask(admin, "one", IDLE).await?;
    becomes(admin, "one", IDLE, false).await?;

    ask(admin, "one", REBOOT).await?;
    becomes(admin, "one", COMPLETE, true).await?;
    ensure!(remaining(admin, &all).await? == ["agent", "elsewhere"]);
    for (kind, reason) in [
        ("Normal", "DrainStarted"),
        ("Normal", "DrainCompleted"),
        ("Normal", "DrainEnded"),
    ] {
        is_told(admin, "one", kind, reason, "").await?;
    }
    scene.was_allowed_everything()
}

/// Waits for the condition of the config about drains; returns its message.
async fn is_draining(admin: &User, status: &str, reason: &str) -> Result<String> {
    eventually(PATIENCE, reason, async || {
        let config = admin.must_get(CONFIG, "default").await?;
        let condition = world::condition(&config, "Draining")?;
        ensure!(
            condition["status"] == status && condition["reason"] == reason,
            "{condition}"
        );
        Ok(text(&condition, "/message").to_owned())
    })
    .await
}

#[tokio::test]
async fn a_refused_eviction_is_tried_again_after_a_while_and_told() -> Result<()> {
    let scene = scene().await?;
    let admin = scene.admin();
    admin
        .create(&world::custom(CONFIG, "default", &json!({})))
        .await?;
    for node in ["one", "other"] {
        join(admin, node, &json!({})).await?;
    }
    admin.create(&pod("guarded", "one")).await?;
    let running = json!({
        "phase": "Running",
        "conditions": [{ "type": "Ready", "status": "True" }],
    });
    admin.merge_status(POD, "default/guarded", &running).await?;
    let budget = json!({
        "apiVersion": DISRUPTION_BUDGET.api_version,
        "kind": DISRUPTION_BUDGET.name,
        "metadata": { "name": "always-one", "namespace": "default" },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "guarded" } } },
    });
    let budget = admin.create(&budget).await?;
    let allowed = |disruptions: u8| {
        json!({
            "observedGeneration": budget["metadata"]["generation"],
            "disruptionsAllowed": disruptions,
            "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1,
        })
    };
    admin
        .merge_status(DISRUPTION_BUDGET, "default/always-one", &allowed(0))
        .await?;
    ask(admin, "one", DRAIN).await?;
    is_told(
        admin,
        "one",
        "Warning",
        "DrainBlocked",
        "pod default/guarded is not evicted",
    )
    .await?;
    is_told(admin, "one", "Warning", "DrainBlocked", "always-one").await?;
    tokio::time::sleep(Duration::from_secs(7)).await;
    let tries = scene
        .cluster
        .calls()?
        .into_iter()
        .filter(|call| call.uri.contains("/pods/guarded/eviction"))
        .count();
    ensure!((2..=4).contains(&tries), "it was tried {tries} times");
    is(admin, "one", DRAINING, true).await?;
    let held = is_draining(admin, "True", "DrainBlocked").await?;
    ensure!(
        held.contains("one: pod default/guarded is not evicted"),
        "{held}"
    );

    admin
        .merge_status(DISRUPTION_BUDGET, "default/always-one", &allowed(1))
        .await?;
    becomes(admin, "one", COMPLETE, true).await?;
    ensure!(is_gone(admin, "guarded").await?);
    is_draining(admin, "True", "DrainsInProgress").await?;
    ask(admin, "one", IDLE).await?;
    becomes(admin, "one", IDLE, false).await?;
    is_draining(admin, "False", "NoDrains").await?;
    let told = events(admin, "one").await?;
    told.iter()
        .find(|(_, reason, _)| reason == "DrainCompleted")
        .context("no word of the end")?;
    scene.was_allowed_everything()
}
