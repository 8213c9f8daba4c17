//! Node policies on a large cluster: from a change of a policy to the last node that follows it, what is written for it, and
//! what it takes to hold the cluster.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::{
    fill::create,
    load::count,
    product::memory,
    report::{Bar, Report},
    support::{NAMESPACE, cluster::Cluster, kinds::POLICY, scene::Scene, world as seed},
    world,
};

/// All but one select the nodes of one rack; that one selects every node.
const POLICIES: usize = 100;
/// The policy of every node.
const EVERYWHERE: &str = "all";
/// When nothing is written for that long, the cluster has settled.
const QUIET: Duration = Duration::from_secs(3);
/// The longest that is waited.
const PATIENCE: Duration = Duration::from_secs(900);

pub(crate) async fn measure(report: &mut Report, nodes: usize) -> Result<()> {
    report.section("Node policies");
    let mut scene = Scene::bare(Cluster::boot().await?).await?;
    let admin = scene.admin().clone();
    seed::load(&admin, &[world::nic_ids()]).await?;
    // Nodes in as many racks as there are policies for them.
    let racks = POLICIES - 1;
    let rack = |node: usize| format!("rack-{:02}", node % racks);
    create(&admin, (0..nodes).map(|node| in_rack(node, &rack(node)))).await?;
    create(&admin, (0..nodes).map(world::state)).await?;
    create(
        &admin,
        (0..racks).map(|number| policy(&format!("p{number:02}"), &rack(number), 50, 4)),
    )
    .await?;
    create(&admin, std::iter::once(policy(EVERYWHERE, "", 60, 4))).await?;
    scene
        .configure(&json!({ "enableInjector": false, "enableOperatorWebhook": false }))
        .await?;
    let of = format!("{nodes} nodes, {POLICIES} policies");

    scene.operator.start()?;
    let mut written = Written::default();
    let took = written.settled(&scene, Instant::now(), nodes).await?;
    report.tell(
        format!("{of}: the first time, to the last write"),
        took,
        "s",
    );
    report.tell(
        format!("{of}: the first time, writes"),
        count(written.all),
        "writes",
    );
    let process = scene.operator.process_id()?;
    let (held, most) = memory(process)?;
    report.figure(format!("{of}: memory"), held, "MiB", Bar::AtMost(64.0));
    report.tell(format!("{of}: memory, most so far"), most, "MiB");

    let in_one_rack = (0..nodes).filter(|node| node % racks == 0).count();
    for (what, name, change, expected, limit) in [
        (
            "a policy of every node",
            EVERYWHERE,
            json!({ "mtu": 9000 }),
            nodes,
            60.0,
        ),
        (
            "a policy of one rack",
            "p00",
            json!({ "mtu": 9000 }),
            in_one_rack,
            5.0,
        ),
        (
            "a change without effect",
            EVERYWHERE,
            json!({ "priority": 61 }),
            0,
            5.0,
        ),
    ] {
        let before = written.states;
        let began = Instant::now();
        admin
            .merge(POLICY, name, &json!({ "spec": change }))
            .await?;
        let took = written.settled(&scene, began, before + expected).await?;
        report.figure(
            format!("{what}: to the last write"),
            took,
            "s",
            Bar::AtMost(limit),
        );
        let states = written.states - before;
        report.figure(
            format!("{what}: node states written"),
            count(states),
            "writes",
            Bar::AtMost(count(expected)),
        );
        ensure!(
            states >= expected,
            "{what}: {states} of {expected} node states are written"
        );
    }
    let (held, most) = memory(process)?;
    report.figure("memory afterwards", held, "MiB", Bar::AtMost(64.0));
    report.tell("memory, most of all", most, "MiB");
    scene.was_allowed_everything()
}

fn in_rack(number: usize, rack: &str) -> Value {
    let mut node = world::node(number, 1);
    node["metadata"]["labels"]["rack"] = rack.into();
    node
}

/// A policy for the nodes of a rack, or for every node.
fn policy(name: &str, rack: &str, priority: u8, vfs: u8) -> Value {
    let (selector, nic) = if rack.is_empty() {
        (json!({ "kubernetes.io/os": "linux" }), "ens1f1")
    } else {
        (json!({ "rack": rack }), "ens1f0")
    };
    json!({
        "apiVersion": POLICY.api_version,
        "kind": POLICY.name,
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": {
            "resourceName": name, "nodeSelector": selector, "numVfs": vfs, "priority": priority,
            "nicSelector": { "pfNames": [nic] }, "deviceType": "netdevice",
        },
    })
}

/// What the product has written so far.
#[derive(Default)]
struct Written {
    /// How far the log of calls was read.
    offset: u64,
    all: usize,
    /// Writes of node states.
    states: usize,
}

impl Written {
    /// Waits until node states were written so many times in all, and nothing is written any more. Returns the seconds
    /// from `began` to the last write.
    async fn settled(&mut self, scene: &Scene, began: Instant, states: usize) -> Result<f64> {
        let mut last = Instant::now();
        let mut at = 0.0;
        while last.elapsed() < QUIET || self.states < states {
            ensure!(began.elapsed() < PATIENCE, "it does not come to rest");
            tokio::time::sleep(Duration::from_millis(250)).await;
            let before = self.all;
            self.count(scene)?;
            if self.all != before {
                last = Instant::now();
                at = began.elapsed().as_secs_f64();
            }
        }
        Ok(at)
    }

    fn count(&mut self, scene: &Scene) -> Result<()> {
        let calls = scene.cluster.calls_from(&mut self.offset)?;
        for call in calls.iter().filter(|call| call.is_write()) {
            self.all += 1;
            self.states += usize::from(call.uri.contains("/sriovnetworknodestates/"));
        }
        Ok(())
    }
}
