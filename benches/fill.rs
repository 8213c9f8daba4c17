//! Fills the cluster with what `world` generates, and waits until the product has come to rest with it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt};
use serde_json::Value;

use crate::{
    changes::calls,
    product::SETTLES,
    support::{
        NAMESPACE,
        kinds::{NODE_STATE, text},
        scene::Scene,
        user::User,
        wait::eventually,
    },
    world,
};

/// Objects that are created at the same time.
const AT_ONCE: usize = 32;
/// What the product may take to make its node states of ten thousand nodes.
const RESTS_WITHIN: Duration = Duration::from_secs(180);

/// Creates objects, many at a time. The product makes states of nodes, too: there is one thing to add to them, which is
/// what the config daemon reports.
pub(crate) async fn create(admin: &User, objects: impl Iterator<Item = Value>) -> Result<()> {
    futures::stream::iter(objects)
        .map(|object| async move {
            if object["kind"] != NODE_STATE.name {
                return admin.create(&object).await.map(drop);
            }
            admin.ensure(&object).await?;
            let name = text(&object, "/metadata/name");
            let reported = admin.merge_status(NODE_STATE, name, &object["status"]);
            reported
                .await
                .map(drop)
                .with_context(|| format!("status of {NAMESPACE}/{name}"))
        })
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await
}

/// Adds nodes and their states, those of `range`. The pool of the policies is spread over the first `pool` nodes.
pub(crate) async fn nodes(scene: &Scene, range: std::ops::Range<usize>, pool: usize) -> Result<()> {
    let (begin, size) = (Instant::now(), range.end);
    let admin = scene.admin();
    create(admin, range.clone().map(|it| world::node(it, pool))).await?;
    create(admin, range.map(world::state)).await?;
    let loaded = begin.elapsed().as_secs_f64();
    rest(scene).await?;
    let rested = begin.elapsed().as_secs_f64();
    println!("  ({size} nodes: loaded after {loaded:.0} s, at rest after {rested:.0} s)");
    Ok(())
}

/// Returns when the product has written nothing for a while.
pub(crate) async fn rest(scene: &Scene) -> Result<()> {
    let mut before = None;
    let what = "the product to come to rest";
    eventually(RESTS_WITHIN, what, async || {
        tokio::time::sleep(SETTLES).await;
        let (_, writes) = calls(scene)?;
        let was = before.replace(writes);
        ensure!(was == Some(writes), "{writes} writes");
        Ok(())
    })
    .await
}
