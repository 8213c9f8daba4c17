//! What starting the product takes, and what a change of its config or of the switches does: how long until its effect,
//! and what the API server is asked for it. At rest it is asked for next to nothing.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;

use crate::{
    extent::Extent,
    load::count,
    product::{SETTLES, Webhook, target},
    report::{Bar, Report},
    support::{
        kinds::{CONFIG_MAP, MUTATING},
        scene::Scene,
        wait::eventually,
    },
    world,
};

/// Starts the operator. Returns the milliseconds until it is ready.
pub(crate) async fn start(scene: &mut Scene) -> Result<f64> {
    let begin = Instant::now();
    scene.operator.start()?;
    scene.operator.ready().await?;
    Ok(millis(begin))
}

fn millis(begin: Instant) -> f64 {
    begin.elapsed().as_secs_f64() * 1e3
}

/// Gives the operator a config with both webhooks on, logging as it does every day.
pub(crate) async fn configure(scene: &mut Scene) -> Result<()> {
    let config = json!({ "enableInjector": true, "enableOperatorWebhook": true, "logLevel": 0 });
    scene.configure(&config).await?;
    scene.is_ready().await
}

/// From a change of the config or of the switches to its effect, and what the API server is asked meanwhile.
pub(crate) async fn measure(report: &mut Report, scene: &mut Scene, extent: Extent) -> Result<()> {
    let begin = Instant::now();
    configure(scene).await?;
    report.tell("a new config to Ready", millis(begin), "ms");

    tokio::time::sleep(SETTLES).await;
    let (reads, writes) = calls(scene)?;
    tokio::time::sleep(extent.rest).await;
    let (reads_later, writes_later) = calls(scene)?;
    let at_rest = format!("at rest, in {} s", extent.rest.as_secs());
    report.figure(
        format!("reads {at_rest}"),
        count(reads_later - reads),
        "calls",
        Bar::AtMost(10.0),
    );
    report.figure(
        format!("writes but of the Lease {at_rest}"),
        count(writes_later - writes),
        "calls",
        Bar::AtMost(0.0),
    );

    let name = "network-resources-injector-config";
    for (enabled, what) in [(false, "off"), (true, "on")] {
        let before = calls(scene)?;
        let begin = Instant::now();
        scene
            .reconfigure(&json!({ "enableInjector": enabled }))
            .await?;
        eventually(Duration::from_secs(30), "the injector", async || {
            let registered = scene.admin().get(MUTATING, name).await?;
            ensure!(registered.is_some() == enabled, "not yet");
            Ok(())
        })
        .await?;
        report.tell(
            format!("injector switched {what} to its effect"),
            millis(begin),
            "ms",
        );
        scene.is_ready().await?;
        let after = calls(scene)?;
        let since = |later: usize, earlier: usize| count(later.saturating_sub(earlier));
        report.tell(
            format!("injector switched {what}, reads"),
            since(after.0, before.0),
            "calls",
        );
        report.tell(
            format!("injector switched {what}, writes"),
            since(after.1, before.1),
            "calls",
        );
    }
    let pods = target(scene, Webhook::Pods).await?;
    let mut pod = world::pod(None);
    pod["metadata"]["labels"]["bench"] = "true".into();
    let review = world::review(&pod);
    let injection = json!({ "user-defined-injections": { "bench": {
        "op": "add", "path": "/metadata/annotations", "value": { "bench": "injected" },
    } } });
    let begin = Instant::now();
    let switches = json!({ "data": { "config.json": injection.to_string() } });
    scene
        .admin()
        .merge(CONFIG_MAP, "nri-control-switches", &switches)
        .await?;
    eventually(Duration::from_secs(10), "the injection", async || {
        let answer = pods.ask(Webhook::Pods.path(), &review).await?;
        ensure!(answer.contains("JSONPatch"), "it answers {answer}");
        Ok(())
    })
    .await?;
    report.figure(
        "an injection in the ConfigMap to its effect",
        millis(begin),
        "ms",
        Bar::AtMost(2_000.0),
    );
    Ok(())
}

/// Reads and writes so far; a watch counts once, the Lease never.
pub(crate) fn calls(scene: &Scene) -> Result<(usize, usize)> {
    let calls = scene.cluster.calls()?;
    let writes = calls.iter().filter(|call| call.is_write()).count();
    let leases = calls.iter().filter(|call| call.uri.contains("/leases"));
    Ok((calls.len() - writes - leases.count(), writes))
}
