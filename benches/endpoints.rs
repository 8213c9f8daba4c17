//! The endpoints whose cost does not depend on the cluster, beside the floor.

use std::time::Duration;

use anyhow::Result;

use crate::{
    extent::Extent,
    floor::Floor,
    product::{Webhook, target},
    report::{Bar, Report},
    served::{self, Endpoint},
    support::scene::Scene,
    world,
};

/// The endpoints whose cost does not depend on the cluster.
pub(crate) async fn measure(
    report: &mut Report,
    scene: &Scene,
    floor: &Floor,
    extent: Extent,
) -> Result<()> {
    report.section("Admission beside the floor, 8 connections");
    let process = scene.operator.process_id()?;
    let two = format!("{},{}", world::nad_name(0), world::nad_name(1));
    let mut undefaulted = world::asked_policy();
    if let Some(spec) = undefaulted["spec"].as_object_mut() {
        spec.remove("isRdma");
    }
    for (name, webhook, object, answer, throughput, cpu) in [
        (
            "pod without networks",
            Webhook::Pods,
            world::pod(None),
            r#""allowed":true"#,
            Bar::AtLeast(0.7),
            Bar::AtMost(1.5),
        ),
        (
            "pod with two networks",
            Webhook::Pods,
            world::pod(Some(&two)),
            "JSONPatch",
            Bar::AtLeast(0.6),
            Bar::AtMost(2.0),
        ),
        (
            "policy to be defaulted",
            Webhook::Mutating,
            undefaulted,
            "JSONPatch",
            Bar::None,
            Bar::None,
        ),
    ] {
        let endpoint = Endpoint {
            name,
            target: target(scene, webhook).await?,
            path: webhook.path(),
            body: world::review(&object),
            answer,
            throughput,
            cpu,
        };
        served::compare(report, &endpoint, floor, process, extent).await?;
    }
    let body = world::review(&world::pod(None));
    let (path, time) = (Webhook::Pods.path(), Duration::from_secs(2));
    let pods = target(scene, Webhook::Pods).await?;
    floor.answers_like(&pods, path, &body).await?;
    for (whose, target) in [("the floor", &floor.target), ("the product", &pods)] {
        let outcome = target.handshakes(path, &body, 8, time).await?;
        report.tell(
            format!("new connections with a review each: {whose}"),
            outcome.per_second(),
            "conn/s",
        );
    }
    Ok(())
}
