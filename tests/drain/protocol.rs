//! The protocol, step by step: what is asked for, what is answered, how many at a time.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::*;
use crate::support::kinds::POOL;
use crate::support::user::User;
use crate::support::world;

fn pool(name: &str, role: Option<&str>, most: Option<u8>) -> Value {
    let mut spec = json!({});
    if let Some(role) = role {
        spec["nodeSelector"] = json!({ "matchLabels": { "role": role } });
    }
    if let Some(most) = most {
        spec["maxUnavailable"] = most.into();
    }
    world::custom(POOL, name, &spec)
}

/// Asks for an end, and waits until it is there.
async fn back(admin: &User, nodes: &[&str]) -> Result<()> {
    for node in nodes {
        ask(admin, node, IDLE).await?;
    }
    for node in nodes {
        becomes(admin, node, IDLE, false).await?;
    }
    Ok(())
}

#[tokio::test]
async fn one_node_at_a_time_without_pools() -> Result<()> {
    let scene = scene().await?;
    let admin = scene.admin();

    // What is missing is added, also where somebody else drains; and then that node is left alone.
    join(admin, "one", &json!({})).await?;
    let external = json!({ "metadata": { "annotations": { EXTERNAL: "true", CURRENT: null } } });
    admin.merge(NODE_STATE, "one", &external).await?;
    eventually(PATIENCE, "the annotations", async || {
        let state = admin.must_get(NODE_STATE, "one").await?;
        ensure!(
            annotation(&state, CURRENT) == IDLE && annotation(&state, DESIRED) == IDLE,
            "{state}"
        );
        let node = admin.must_get(NODE, "one").await?;
        ensure!(annotation(&node, STATE) == IDLE, "{node}");
        Ok(())
    })
    .await?;
    ask(admin, "one", DRAIN).await?;
    throughout(A_WHILE, "leaving it alone", async || {
        is(admin, "one", IDLE, false).await
    })
    .await?;
    ask(admin, "one", IDLE).await?;
    let ours = json!({ "metadata": { "annotations": { EXTERNAL: null } } });
    admin.merge(NODE_STATE, "one", &ours).await?;

    // The only node of the cluster is cordoned for a drain, and not for a reboot.
    ask(admin, "one", DRAIN).await?;
    becomes(admin, "one", COMPLETE, true).await?;
    back(admin, &["one"]).await?;
    admin.create(&plain_pod("stays", "one")).await?;
    ask(admin, "one", REBOOT).await?;
    becomes(admin, "one", COMPLETE, false).await?;
    ensure!(
        !is_gone(admin, "stays").await?,
        "the only node is not emptied"
    );
    back(admin, &["one"]).await?;

    // Of two, one that is to be rebooted is cordoned, and emptied.
    join(admin, "two", &json!({})).await?;
    ask(admin, "one", REBOOT).await?;
    becomes(admin, "one", COMPLETE, true).await?;
    ensure!(is_gone(admin, "stays").await?, "the pod is still there");
    back(admin, &["one"]).await?;

    // Two of three ask: one is drained, and the other after it.
    join(admin, "three", &json!({})).await?;
    for node in ["one", "two"] {
        ask(admin, node, DRAIN).await?;
    }
    settles(admin, &["one", "two"], COMPLETE, 1).await?;
    let (first, second) = if current(admin, "one").await? == COMPLETE {
        ("one", "two")
    } else {
        ("two", "one")
    };
    is_told(admin, second, "Normal", "DrainWaiting", "now that is").await?;
    back(admin, &[first]).await?;
    becomes(admin, second, COMPLETE, true).await?;
    // One that vanishes gives its place to another.
    ask(admin, "three", DRAIN).await?;
    settles(admin, &["three"], IDLE, 1).await?;
    leave(admin, &[second]).await?;
    becomes(admin, "three", COMPLETE, true).await?;
    back(admin, &["three"]).await?;
    scene.was_allowed_everything()
}

#[tokio::test]
async fn pools_say_how_many() -> Result<()> {
    let scene = scene().await?;
    let admin = scene.admin();
    let nodes = ["one", "two", "three"];
    for node in nodes {
        join(admin, node, &json!({ "role": "bm" })).await?;
    }
    // Pools of other namespaces do not count.
    let foreign = json!({
        "apiVersion": POOL.api_version, "kind": POOL.name,
        "metadata": { "name": "foreign", "namespace": "default" }, "spec": { "maxUnavailable": 3 },
    });
    admin.create(&foreign).await?;
    admin.create(&pool("bm", Some("bm"), Some(2))).await?;
    for node in ["one", "two"] {
        ask(admin, node, DRAIN).await?;
    }
    settles(admin, &nodes, COMPLETE, 2).await?;
    ask(admin, "three", DRAIN).await?;
    settles(admin, &nodes, COMPLETE, 2).await?;
    // The pool grows without a limit.
    let unlimited = json!({ "spec": { "maxUnavailable": null } });
    admin.merge(POOL, "bm", &unlimited).await?;
    settles(admin, &nodes, COMPLETE, 3).await?;
    back(admin, &nodes).await?;

    // None, ever, and not in silence.
    admin
        .merge(POOL, "bm", &json!({ "spec": { "maxUnavailable": 0 } }))
        .await?;
    ask(admin, "one", DRAIN).await?;
    is_told(
        admin,
        "one",
        "Warning",
        "DrainBlocked",
        "spec.maxUnavailable of pool bm is 0",
    )
    .await?;
    settles(admin, &nodes, IDLE, 3).await?;
    admin
        .merge(POOL, "bm", &json!({ "spec": { "maxUnavailable": "1%" } }))
        .await?;
    becomes(admin, "one", COMPLETE, true).await?;
    back(admin, &["one"]).await?;

    // A node that is stuck in one pool is no matter of another's.
    admin
        .merge(
            NODE,
            "one",
            &json!({ "metadata": { "labels": { "role": "vm" } } }),
        )
        .await?;
    for node in ["two", "three"] {
        admin
            .create(&unkillable_pod(&format!("on-{node}"), node))
            .await?;
    }
    ask(admin, "two", REBOOT).await?;
    becomes(admin, "two", DRAINING, true).await?;
    ask(admin, "one", DRAIN).await?;
    becomes(admin, "one", COMPLETE, true).await?;
    is(admin, "two", DRAINING, true).await?;
    back(admin, &["one"]).await?;
    // Asked back while it is drained, it goes back into use.
    back(admin, &["two"]).await?;

    // One pool for all: two that are stuck are drained side by side.
    admin.delete(POOL, "bm").await?;
    admin.create(&pool("all", None, Some(10))).await?;
    for node in ["two", "three"] {
        ask(admin, node, REBOOT).await?;
    }
    settles(admin, &["two", "three"], DRAINING, 2).await?;
    for node in ["two", "three"] {
        let_go(admin, &format!("on-{node}")).await?;
        becomes(admin, node, COMPLETE, true).await?;
    }
    back(admin, &["two", "three"]).await?;
    scene.was_allowed_everything()
}

#[tokio::test]
async fn only_our_own_cordon_is_lifted() -> Result<()> {
    let mut scene = scene().await?;
    let admin = &scene.admin().clone();
    for node in ["theirs", "ours", "reference", "deselected"] {
        join(admin, node, &json!({})).await?;
    }
    admin.create(&pool("all", None, Some(10))).await?;
    let cordon = |cordoned: bool| json!({ "spec": { "unschedulable": cordoned } });
    admin.merge(NODE, "theirs", &cordon(true)).await?;
    for node in ["theirs", "ours", "deselected"] {
        ask(admin, node, DRAIN).await?;
        becomes(admin, node, COMPLETE, true).await?;
    }
    // Lifted and set again by somebody else, it is theirs from then on.
    admin.merge(NODE, "ours", &cordon(false)).await?;
    eventually(PATIENCE, "the record to go", async || {
        let node = admin.must_get(NODE, "ours").await?;
        ensure!(annotation(&node, CORDONED_BY).is_empty(), "{node}");
        Ok(())
    })
    .await?;
    admin.merge(NODE, "ours", &cordon(true)).await?;
    for node in ["theirs", "ours"] {
        ask(admin, node, IDLE).await?;
        becomes(admin, node, IDLE, true).await?;
    }
    // Whose state goes does not stay cordoned by us.
    admin.delete(NODE_STATE, "deselected").await?;
    eventually(PATIENCE, "it to be schedulable", async || {
        ensure!(!is_cordoned(admin, "deselected").await?);
        Ok(())
    })
    .await?;
    // A drain of the reference's operator, which keeps no record, ends as it would have ended it.
    scene.operator.kill();
    admin.merge(NODE, "reference", &cordon(true)).await?;
    admin
        .merge(
            NODE,
            "reference",
            &json!({ "metadata": { "annotations": { STATE: DRAIN } } }),
        )
        .await?;
    let complete = json!({ "metadata": { "annotations": { CURRENT: COMPLETE, DESIRED: DRAIN } } });
    admin.merge(NODE_STATE, "reference", &complete).await?;
    scene.operator.start()?;
    throughout(A_WHILE, "waiting for the daemon", async || {
        is(admin, "reference", COMPLETE, true).await
    })
    .await?;
    back(admin, &["reference"]).await?;
    // Words that are no states: the one counts as Idle, the other is told.
    let odd = json!({ "metadata": { "annotations": { CURRENT: "Unheard" } } });
    admin.merge(NODE_STATE, "reference", &odd).await?;
    becomes(admin, "reference", IDLE, false).await?;
    ask(admin, "reference", "Unheard_Of").await?;
    is_told(admin, "reference", "Warning", "DrainBlocked", "Unheard_Of").await?;
    scene.was_allowed_everything()
}
