//! Twenty nodes from the first request to the last, while the operator dies and others take its place.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;

use super::daemons::Daemons;
use super::*;
use crate::support::gateway::Trouble;
use crate::support::kinds::POOL;
use crate::support::world;

const NODES: usize = 20;
/// A quarter of them.
const LIMIT: usize = 5;
/// For a machine that is busy with other things.
const LONG: Duration = Duration::from_secs(600);
/// A node that its administrator has cordoned.
const CORDONED: &str = "node-07";
/// One that vanishes on the way.
const VANISHING: &str = "node-00";

/// The nodes with their pods, of which a quarter may be drained at a time. The first one's pod does not end by itself.
async fn fleet(admin: &User) -> Result<Vec<String>> {
    let most =
        json!({ "maxUnavailable": "25%", "nodeSelector": { "matchLabels": { "role": "bm" } } });
    admin.create(&world::custom(POOL, "bm", &most)).await?;
    let names: Vec<String> = (0..NODES).map(|index| format!("node-{index:02}")).collect();
    for name in &names {
        join(admin, name, &json!({ "role": "bm" })).await?;
        let own = format!("fast-{name}");
        admin
            .create(&if name == VANISHING {
                unkillable_pod(&own, name)
            } else {
                pod(&own, name)
            })
            .await?;
    }
    let cordon = json!({ "spec": { "unschedulable": true } });
    admin.merge(NODE, CORDONED, &cordon).await?;
    Ok(names)
}

/// Nothing of a drain is left, and only the cordon that was there before.
async fn all_is_as_before(admin: &User) -> Result<()> {
    for node in admin.list(NODE).await? {
        let name = text(&node, "/metadata/name");
        ensure!(
            (node["spec"]["unschedulable"] == true) == (name == CORDONED),
            "{node}"
        );
        ensure!(annotation(&node, CORDONED_BY).is_empty(), "{node}");
    }
    for state in admin.list(NODE_STATE).await? {
        ensure!(
            annotation(&state, CURRENT) == IDLE && annotation(&state, STARTED).is_empty(),
            "{state}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn twenty_nodes_are_drained_while_the_operator_is_killed_again_and_again() -> Result<()> {
    let mut scene = scene().await?;
    let admin = scene.admin().clone();
    let nodes = fleet(&admin).await?;
    let mut daemons = Daemons::new(&nodes, LIMIT);
    let (began, mut killed_at) = (Instant::now(), 0);
    while !daemons.are_done() {
        ensure!(began.elapsed() < LONG, "not done are {:?}", daemons.left());
        daemons.turn(&admin).await?;
        // Somewhere in the middle of what it does, which is another step each time.
        if daemons.answers() >= killed_at + 7 {
            killed_at = daemons.answers();
            scene.operator.kill();
            scene.operator.start()?;
            if current(&admin, VANISHING)
                .await
                .is_ok_and(|now| now == DRAINING)
            {
                leave(&admin, &[VANISHING]).await?;
                daemons.forget(VANISHING);
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    ensure!(daemons.most() > 1, "they were drained one by one");
    all_is_as_before(&admin).await?;
    scene.was_allowed_everything()
}

/// The operator's life ends after each of its writes: the write is done, and nobody has seen the answer.
#[tokio::test]
async fn a_drain_goes_on_after_every_single_write() -> Result<()> {
    let mut scene = Scene::bare(Cluster::boot().await?).await?;
    let gateway = scene.cluster.gateway(21).await?;
    scene.operator.argument("--leader-elect=false");
    scene.operator.reach(&gateway.url())?;
    let admin = scene.admin().clone();
    let most = json!({ "maxUnavailable": 2 });
    admin.create(&world::custom(POOL, "all", &most)).await?;
    let nodes: Vec<String> = (0..3).map(|index| format!("node-{index}")).collect();
    for node in &nodes {
        join(&admin, node, &json!({})).await?;
        admin.create(&pod(&format!("fast-{node}"), node)).await?;
    }
    let mut daemons = Daemons::new(&nodes, 2);
    let (began, mut lives) = (Instant::now(), 0);
    while !daemons.are_done() {
        gateway.make(Trouble::LastWrite);
        scene.operator.start()?;
        while !gateway.is_silent() && !daemons.are_done() {
            ensure!(began.elapsed() < LONG, "not done are {:?}", daemons.left());
            daemons.turn(&admin).await?;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        scene.operator.kill();
        lives += 1;
    }
    // Each node is begun, cordoned, emptied, reported, uncordoned and reported again.
    ensure!(lives >= 6 * nodes.len(), "it took {lives} lives");
    all_is_as_before(&admin).await
}

#[tokio::test]
async fn drains_go_on_under_another_leader() -> Result<()> {
    let mut scene = Scene::bare(Cluster::boot().await?).await?;
    let mut second = scene.replica(2).await?;
    let admin = scene.admin().clone();
    let mut nodes = fleet(&admin).await?;
    // It never ends, and is no part of this story.
    leave(&admin, &[VANISHING]).await?;
    nodes.retain(|node| node != VANISHING);
    nodes.truncate(12);
    let mut daemons = Daemons::new(&nodes, LIMIT);
    scene.operator.start()?;
    second.start()?;
    let (began, mut first_leads) = (Instant::now(), true);
    let mut moved_at = 0;
    while !daemons.are_done() {
        ensure!(began.elapsed() < LONG, "not done are {:?}", daemons.left());
        daemons.turn(&admin).await?;
        if daemons.answers() >= moved_at + 9 {
            moved_at = daemons.answers();
            // Whichever it is that leads, after two of these it has moved.
            let leaving = if first_leads {
                &mut scene.operator
            } else {
                &mut second
            };
            leaving.stop().await?;
            leaving.start()?;
            first_leads = !first_leads;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    all_is_as_before(&admin).await?;
    println!("the end of the second replica's log:\n{}", second.log(20));
    scene.was_allowed_everything()
}
