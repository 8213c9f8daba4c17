//! The product behind a real API server, from an empty cluster to a large one.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    floor::Floor,
    load::{Target, count},
    plot::Plot,
    product::{self, Webhook, memory, target},
    report::{Bar, Report},
    served::{self, Endpoint},
    support::{
        NAMESPACE,
        cluster::Cluster,
        kinds::{CONFIG_MAP, CRD, Kind, LEASE, MUTATING, NODE_STATE, text},
        scene::Scene,
        user::User,
        wait::eventually,
        world as seed,
    },
    world,
};

/// Objects that are created at the same time.
const AT_ONCE: usize = 32;
const NADS: usize = 10_000;
/// Lease writes a second beside the validations, as kubelets make them.
const LEASES: usize = 100;
/// What stores take to hold what was written, and the allocator to come to rest.
const SETTLES: Duration = Duration::from_secs(3);
const MIB: &str = "MiB";

pub(crate) async fn measure(report: &mut Report, nodes: usize) -> Result<()> {
    let mut scene = Scene::bare(Cluster::boot().await?).await?;
    let definitions = seed::seeds()?
        .into_iter()
        .filter(|object| Kind::of(object).is_ok_and(|kind| kind == CRD));
    let first: Vec<Value> = definitions
        .chain([world::nic_ids()])
        .chain((0..2).map(world::nad))
        .collect();
    seed::load(scene.admin(), &first).await?;

    report.section("Start, change and rest");
    report.tell("binary", product::binary_size()?, MIB);
    let ready = start(&mut scene).await?;
    report.tell("start-up to ready, empty cluster", ready, "ms");
    changes(report, &mut scene).await?;

    report.section("Admission beside the floor, 8 connections");
    let floor = Floor::start().await?;
    pods(report, &scene, &floor).await?;

    report.section("Memory and validation against the size of the cluster");
    grow(report, &mut scene, &floor, nodes).await?;
    networks(report, &scene).await
}

/// Starts the operator. Returns the milliseconds until it is ready.
async fn start(scene: &mut Scene) -> Result<f64> {
    let begin = Instant::now();
    scene.operator.start()?;
    scene.operator.ready().await?;
    Ok(millis(begin))
}

fn millis(begin: Instant) -> f64 {
    begin.elapsed().as_secs_f64() * 1e3
}

/// From a change of the config or of the switches to its effect, and what the API server is asked meanwhile.
async fn changes(report: &mut Report, scene: &mut Scene) -> Result<()> {
    let config = json!({ "enableInjector": true, "enableOperatorWebhook": true, "logLevel": 0 });
    let begin = Instant::now();
    scene.configure(&config).await?;
    scene.is_ready().await?;
    report.tell("a new config to Ready", millis(begin), "ms");

    tokio::time::sleep(SETTLES).await;
    let (reads, writes) = calls(scene)?;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let (reads_later, writes_later) = calls(scene)?;
    let at_rest = "at rest, in 10 s";
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
fn calls(scene: &Scene) -> Result<(usize, usize)> {
    let calls = scene.cluster.calls()?;
    let writes = calls.iter().filter(|call| call.is_write()).count();
    let leases = calls.iter().filter(|call| call.uri.contains("/leases"));
    Ok((calls.len() - writes - leases.count(), writes))
}

/// The endpoints whose cost does not depend on the cluster.
async fn pods(report: &mut Report, scene: &Scene, floor: &Floor) -> Result<()> {
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
        served::compare(report, &endpoint, floor, process).await?;
    }
    let body = world::review(&world::pod(None));
    let time = Duration::from_secs(2);
    for (whose, target) in [
        ("the floor", floor.target.clone()),
        ("the product", target(scene, Webhook::Pods).await?),
    ] {
        let outcome = target
            .handshakes(Webhook::Pods.path(), &body, 8, time)
            .await?;
        report.tell(
            format!("new connections with a review each: {whose}"),
            outcome.per_second(),
            "conn/s",
        );
    }
    Ok(())
}

/// Fills the cluster and measures at 1000 nodes and at the end.
async fn grow(report: &mut Report, scene: &mut Scene, floor: &Floor, nodes: usize) -> Result<()> {
    // Not through the webhooks: what admission thinks of them is measured with the reviews.
    create(scene.admin(), (0..world::POLICIES).map(world::policy)).await?;
    let mut curve = vec![(0.0, memory(scene.operator.process_id()?)?.0)];
    report.tell("memory, empty cluster", curve[0].1, MIB);
    let step = nodes.min(1_000);
    let mut loaded = 0;
    for size in [step, nodes] {
        if size == loaded {
            continue;
        }
        let begin = Instant::now();
        create(
            scene.admin(),
            (loaded..size).map(|it| world::node(it, step)),
        )
        .await?;
        create(scene.admin(), (loaded..size).map(world::state)).await?;
        println!(
            "  (loaded up to {size} nodes in {:.0} s)",
            begin.elapsed().as_secs_f64()
        );
        loaded = size;
        tokio::time::sleep(SETTLES).await;
        let process = scene.operator.process_id()?;
        let held = memory(process)?.0;
        let bar = Bar::AtMost(64.0);
        report.figure(format!("memory, {size} nodes"), held, MIB, bar);
        curve.push((count(size), held));
        let endpoint = Endpoint {
            name: &format!("policy for {} of {size} nodes", world::SELECTED.min(size)),
            target: target(scene, Webhook::Validating).await?,
            path: Webhook::Validating.path(),
            body: world::review(&world::asked_policy()),
            answer: r#""allowed":true"#,
            throughput: Bar::None,
            cpu: Bar::None,
        };
        served::compare(report, &endpoint, floor, process).await?;
    }
    report.plot(Plot {
        file: "memory",
        title: "Memory of one replica",
        unit: MIB,
        size: "nodes",
        points: curve,
        limit: Some(64.0),
    });
    beside_leases(report, scene, floor).await?;

    let process = scene.operator.process_id()?;
    let validating = target(scene, Webhook::Validating).await?;
    let review = world::review(&world::asked_policy());
    let path = Webhook::Validating.path();
    validating
        .drive(path, &review, 16, Duration::from_secs(2))
        .await?;
    report.figure(
        "memory, most so far, with 16 reviews in flight",
        memory(process)?.1,
        MIB,
        Bar::AtMost(64.0),
    );

    scene.operator.stop().await?;
    let ready = start(scene).await?;
    report.tell(format!("start-up to ready, {nodes} nodes"), ready, "ms");
    let process = scene.operator.process_id()?;
    let (_, most) = memory(process)?;
    report.figure(
        "memory, most during the first list",
        most,
        MIB,
        Bar::AtMost(128.0),
    );
    tokio::time::sleep(SETTLES).await;
    let (held, _) = memory(process)?;
    report.figure("memory after the first list", held, MIB, Bar::AtMost(64.0));
    Ok(())
}

/// Validations one after the other, with as many writes of Leases beside them as a cluster of kubelets makes.
async fn beside_leases(report: &mut Report, scene: &Scene, floor: &Floor) -> Result<()> {
    let admin = scene.admin();
    create(admin, (0..LEASES).map(lease)).await?;
    let validating = target(scene, Webhook::Validating).await?;
    let review = world::review(&world::asked_policy());
    let (path, time) = (Webhook::Validating.path(), Duration::from_secs(3));
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

/// What ten thousand networks cost.
async fn networks(report: &mut Report, scene: &Scene) -> Result<()> {
    let process = scene.operator.process_id()?;
    let (before, _) = memory(process)?;
    create(scene.admin(), (2..NADS).map(world::nad)).await?;
    tokio::time::sleep(SETTLES).await;
    let (after, _) = memory(process)?;
    report.figure(
        format!("memory of {NADS} networks"),
        after - before,
        MIB,
        Bar::AtMost(16.0),
    );
    let pods: Target = target(scene, Webhook::Pods).await?;
    let networks = format!("{},{}", world::nad_name(17), world::nad_name(NADS - 1));
    let review = world::review(&world::pod(Some(&networks)));
    let before = calls(scene)?;
    let outcome = pods
        .drive(Webhook::Pods.path(), &review, 8, Duration::from_secs(2))
        .await?;
    let after = calls(scene)?;
    report.tell(
        format!("pod with two of {NADS} networks, median"),
        outcome.quantile(0.5),
        "us",
    );
    report.figure(
        "the same, API calls for each pod",
        (count(after.0 + after.1) - count(before.0 + before.1)) / outcome.answered(),
        "calls",
        Bar::AtMost(0.01),
    );
    Ok(())
}

/// Creates objects, many at a time; node states get their status, too.
pub(crate) async fn create(admin: &User, objects: impl Iterator<Item = Value>) -> Result<()> {
    futures::stream::iter(objects)
        .map(|object| async move {
            admin.create(&object).await?;
            if object["kind"] == NODE_STATE.name {
                let name = text(&object, "/metadata/name");
                admin
                    .merge_status(NODE_STATE, name, &object["status"])
                    .await
                    .with_context(|| format!("status of {NAMESPACE}/{name}"))?;
            }
            Ok(())
        })
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await
}
