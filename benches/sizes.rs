//! The product behind a real API server, from an empty cluster to a large one.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Result;
use serde_json::Value;

use crate::{
    changes::{self, calls, start},
    endpoints,
    extent::Extent,
    fill,
    floor::Floor,
    leases,
    load::{Target, count},
    plot::Plot,
    product::{self, SETTLES, Webhook, forget_peak, memory, target},
    report::{Bar, Report},
    served::{self, Cost, Endpoint},
    support::{
        cluster::Cluster,
        kinds::{CRD, Kind},
        manifests,
        scene::Scene,
        world as seed,
    },
    world,
};

/// The size that bars on memory and time of large clusters are about.
const LARGE: usize = 5_000;
/// The networks that the bar on their memory is about.
const NETWORKS: usize = 10_000;
/// How many nodes of a cluster may come with one page of a list.
const MOST_OF_A_PAGE: usize = 500;
const MIB: &str = "MiB";

/// A cluster with the kinds and two networks; the product is not started.
pub(crate) async fn scene() -> Result<Scene> {
    let cluster = Cluster::boot().await?;
    manifests::install(cluster.admin()).await?;
    let scene = Scene::calm(cluster).await?;
    let definitions = seed::seeds()?
        .into_iter()
        .filter(|object| Kind::of(object).is_ok_and(|kind| kind == CRD));
    let first: Vec<Value> = definitions
        .chain([world::nic_ids()])
        .chain((0..2).map(world::nad))
        .collect();
    seed::load(scene.admin(), &first).await?;
    Ok(scene)
}

pub(crate) async fn measure(report: &mut Report, extent: Extent) -> Result<()> {
    let mut scene = scene().await?;

    report.section("Start, change and rest");
    report.tell("binary", product::binary_size()?, MIB);
    let ready = start(&mut scene).await?;
    report.tell("start-up to ready, empty cluster", ready, "ms");
    changes::measure(report, &mut scene, extent).await?;

    let floor = Floor::start().await?;
    endpoints::measure(report, &scene, &floor, extent).await?;

    report.section("Against the size of the cluster");
    grow(report, &mut scene, &floor, extent).await?;
    report.section("Networks");
    networks(report, &scene, extent.networks).await
}

/// What is drawn against the number of nodes.
#[derive(Default)]
struct Curves {
    memory: Vec<(f64, f64)>,
    peak: Vec<(f64, f64)>,
    start: Vec<(f64, f64)>,
    median: Vec<(f64, f64)>,
    cpu: Vec<(f64, f64)>,
}

/// Fills the cluster step by step, and measures at each.
async fn grow(report: &mut Report, scene: &mut Scene, floor: &Floor, extent: Extent) -> Result<()> {
    let empty = memory(scene.operator.process_id()?)?.0;
    report.tell("memory, empty cluster", empty, MIB);
    let mut curves = Curves::default();
    let mut cpu = BTreeMap::new();
    curves.memory.push((0.0, empty));
    let mut loaded = 0;
    for &size in extent.sizes {
        // All that the policies select is in the first thousand.
        fill::nodes(scene, loaded..size, 1_000).await?;
        if loaded == 0 {
            // Before there are nodes for them they are refused.
            fill::create(scene.admin(), (0..world::POLICIES).map(world::policy)).await?;
            fill::rest(scene).await?;
        }
        loaded = size;
        held(report, scene, size, &mut curves).await?;
        let cost = validation(report, scene, floor, size, extent).await?;
        curves.median.push((count(size), cost.p50));
        curves.cpu.push((count(size), cost.cpu));
        cpu.insert(size, cost.cpu);
        if size == LARGE.min(extent.sizes.last().copied().unwrap_or(LARGE)) {
            leases::measure(report, scene, floor).await?;
        }
        restart(report, scene, size, &mut curves).await?;
    }
    if let Some((large, small)) = cpu.get(&10_000).zip(cpu.get(&1_000)) {
        report.figure(
            "a served validation's processor time, 10000 nodes to 1000",
            large / small,
            "times",
            Bar::AtMost(1.5),
        );
    }
    draw(report, curves);
    Ok(())
}

/// What a replica holds, and the most that it holds while reviews come in.
async fn held(report: &mut Report, scene: &Scene, size: usize, curves: &mut Curves) -> Result<()> {
    let bar = match size {
        ..=LARGE => Bar::AtMost(64.0),
        _ => Bar::None,
    };
    let process = scene.operator.process_id()?;
    let (held, _) = memory(process)?;
    report.figure(format!("{size} nodes: memory"), held, MIB, bar);
    curves.memory.push((count(size), held));
    forget_peak(process)?;
    let validating = target(scene, Webhook::Validating).await?;
    let review = world::review(&world::asked_policy());
    let time = Duration::from_secs(2);
    validating
        .drive(Webhook::Validating.path(), &review, 16, time)
        .await?;
    let (_, most) = memory(process)?;
    let name = format!("{size} nodes: memory, most with 16 reviews in flight");
    report.figure(name, most, MIB, bar);
    Ok(())
}

/// A validation beside the floor.
async fn validation(
    report: &mut Report,
    scene: &Scene,
    floor: &Floor,
    size: usize,
    extent: Extent,
) -> Result<Cost> {
    let selected = world::selected(size, 1_000);
    let endpoint = Endpoint {
        name: &format!("policy for {selected} of {size} nodes"),
        target: target(scene, Webhook::Validating).await?,
        path: Webhook::Validating.path(),
        body: world::review(&world::asked_policy()),
        answer: r#""allowed":true"#,
        throughput: Bar::None,
        cpu: Bar::None,
    };
    let process = scene.operator.process_id()?;
    served::compare(report, &endpoint, floor, process, extent).await
}

/// Starts the product anew: how long until it is ready, and what the first list takes.
async fn restart(
    report: &mut Report,
    scene: &mut Scene,
    size: usize,
    curves: &mut Curves,
) -> Result<()> {
    let most = |limit| match size {
        ..=LARGE => Bar::AtMost(limit),
        _ => Bar::None,
    };
    let pages = |scene: &Scene| -> Result<usize> {
        let calls = scene.cluster.calls()?;
        let pages = calls
            .iter()
            .filter(|call| call.verb == "list" && call.uri.starts_with("/api/v1/nodes?"));
        Ok(pages.count())
    };
    scene.operator.stop().await?;
    let before = pages(scene)?;
    let ready = start(scene).await?;
    let bar = match size {
        100 => Bar::AtMost(2_000.0),
        _ => Bar::None,
    };
    report.figure(format!("{size} nodes: start-up to ready"), ready, "ms", bar);
    curves.start.push((count(size), ready));
    let process = scene.operator.process_id()?;
    let (_, peak) = memory(process)?;
    let name = format!("{size} nodes: memory, most during the first list");
    report.figure(name, peak, MIB, most(128.0));
    curves.peak.push((count(size), peak));
    report.figure(
        format!("{size} nodes: pages of nodes in the first list"),
        count(pages(scene)? - before),
        "calls",
        Bar::AtLeast(count(size.div_ceil(MOST_OF_A_PAGE))),
    );
    fill::rest(scene).await?;
    let (held, _) = memory(process)?;
    let name = format!("{size} nodes: memory after the first list");
    report.figure(name, held, MIB, most(64.0));
    Ok(())
}

fn draw(report: &mut Report, curves: Curves) {
    for (file, title, unit, points, limit) in [
        (
            "memory",
            "Memory of one replica",
            MIB,
            curves.memory,
            Some(64.0),
        ),
        (
            "first-list",
            "Memory, most during the first list",
            MIB,
            curves.peak,
            Some(128.0),
        ),
        ("start-up", "Start-up to ready", "ms", curves.start, None),
        (
            "served-validation",
            "One of 8 validations over TLS, median",
            "us",
            curves.median,
            Some(2_000.0),
        ),
        (
            "served-validation-cpu",
            "Processor time of a validation over TLS",
            "us",
            curves.cpu,
            None,
        ),
    ] {
        report.plot(Plot {
            file,
            title,
            unit,
            size: "nodes",
            points,
            limit,
        });
    }
}

/// What so many networks cost.
async fn networks(report: &mut Report, scene: &Scene, networks: usize) -> Result<()> {
    let process = scene.operator.process_id()?;
    let (before, _) = memory(process)?;
    fill::create(scene.admin(), (2..networks).map(world::nad)).await?;
    tokio::time::sleep(SETTLES).await;
    let (after, _) = memory(process)?;
    let bar = match networks {
        NETWORKS => Bar::AtMost(16.0),
        _ => Bar::None,
    };
    let name = format!("memory of {networks} networks");
    report.figure(name, (after - before).max(0.0), MIB, bar);
    let pods: Target = target(scene, Webhook::Pods).await?;
    let two = format!("{},{}", world::nad_name(17), world::nad_name(networks - 1));
    let review = world::review(&world::pod(Some(&two)));
    let before = calls(scene)?;
    let outcome = pods
        .drive(Webhook::Pods.path(), &review, 8, Duration::from_secs(2))
        .await?;
    let after = calls(scene)?;
    report.tell(
        format!("pod with two of {networks} networks, median"),
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
