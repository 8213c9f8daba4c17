//! Validations on a cluster whose API server is busy with what it is always busy with: the Leases of its nodes.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    changes::calls,
    fill,
    floor::Floor,
    load::count,
    product::{Webhook, target},
    report::{Bar, Report},
    support::{kinds::LEASE, scene::Scene, user::User},
    world,
};

/// Lease writes a second beside the validations, as kubelets make them.
const LEASES: usize = 100;

/// Validations one after the other, with as many writes of Leases beside them as a cluster of kubelets makes.
pub(crate) async fn measure(report: &mut Report, scene: &Scene, floor: &Floor) -> Result<()> {
    let admin = scene.admin();
    fill::create(admin, (0..LEASES).map(lease)).await?;
    let validating = target(scene, Webhook::Validating).await?;
    let review = world::review(&world::asked_policy());
    let (path, time) = (Webhook::Validating.path(), Duration::from_secs(3));
    floor.answers_like(&validating, path, &review).await?;
    let bottom = floor.target.drive(path, &review, 1, time).await?;

    let leases = keep_writing(admin.clone());
    let before = calls(scene)?;
    let outcome = validating.drive(path, &review, 1, time).await?;
    let after = calls(scene)?;
    drop(leases);
    let beside = "100 lease writes a second beside it";
    report.figure(
        format!("one validation at a time, {beside}, median"),
        outcome.quantile(0.5),
        "us",
        Bar::AtMost(2_000.0),
    );
    report.tell("the same, 99 of 100", outcome.quantile(0.99), "us");
    report.figure(
        "the same, above the floor",
        (outcome.quantile(0.5) - bottom.quantile(0.5)).max(0.0),
        "us",
        Bar::AtMost(500.0),
    );
    // A watch that is renewed meanwhile is a read, and none of a validation's.
    report.figure(
        "the same, API calls for each validation",
        (count(after.0 + after.1) - count(before.0 + before.1)) / outcome.answered(),
        "calls",
        Bar::AtMost(0.01),
    );
    Ok(())
}

fn lease(number: usize) -> Value {
    json!({
        "apiVersion": LEASE.api_version, "kind": LEASE.name,
        "metadata": { "name": format!("lease-{number:03}"), "namespace": "default" },
        "spec": { "holderIdentity": "bench", "leaseDurationSeconds": 40 },
    })
}

/// Writes a hundred Leases a second until it is dropped.
fn keep_writing(admin: User) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let admin = Arc::new(admin);
    tasks.spawn(async move {
        let mut tick = tokio::time::interval(Duration::from_secs(1) / 100);
        let mut writes = JoinSet::new();
        for number in 0_usize.. {
            tick.tick().await;
            let admin = Arc::clone(&admin);
            writes.spawn(async move {
                let name = format!("default/lease-{:03}", number % LEASES);
                let renewal = json!({ "spec": { "leaseTransitions": number } });
                admin.merge(LEASE, &name, &renewal).await
            });
            while writes.try_join_next().is_some() {}
        }
    });
    tasks
}
