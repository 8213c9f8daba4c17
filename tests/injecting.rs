//! Injection into pods on a running cluster: a second injector, bursts while the API server is slow, switches that are
//! edited under load, and the condition that spares other pods. What is injected is told beside the rules.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::support::NAMESPACE;
use crate::support::kinds::{CONFIG_MAP, EVENT, MUTATING, text};
use crate::support::operator::Operator;
use crate::support::scene::Scene;
use crate::support::user::{Answer, Refuser, User};
use crate::support::wait::eventually;
use crate::support::world;

const SWITCHES: &str = "nri-control-switches";
const INJECTOR: &str = "network-resources-injector-config";
const DEFAULT_NETWORK: &str = "v1.multus-cni.io/default-network";
/// How long an edit of the switches may take to be in force.
const IN_FORCE_WITHIN: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(20);

/// A pod without networks.
fn plain(name: &str) -> Value {
    let mut pod = world::pod(name, "");
    pod["metadata"]["annotations"] = json!({ "team": "net" });
    pod
}

fn labelled(name: &str, label: &str, value: &str) -> Value {
    let mut pod = plain(name);
    pod["metadata"]["labels"] = json!({ label: value });
    pod
}

/// How many fast NICs the first container asks for.
fn fast_nics(pod: &Value) -> &str {
    text(
        pod,
        "/spec/containers/0/resources/requests/openshift.io~1fast_nics",
    )
}

/// Switches with these features and injections of networks by label.
fn switches(features: &Value, injections: &[(&str, &str)]) -> Value {
    let injections: serde_json::Map<String, Value> = injections
        .iter()
        .map(|(label, networks)| {
            let value = json!({ "k8s.v1.cni.cncf.io/networks": networks });
            let entry = json!({ "op": "add", "path": "/metadata/annotations", "value": value });
            ((*label).to_owned(), entry)
        })
        .collect();
    json!({ "features": features, "user-defined-injections": injections })
}

async fn switch(admin: &User, switches: &Value) -> Result<()> {
    let data = json!({ "data": { "config.json": switches.to_string() } });
    admin.merge(CONFIG_MAP, SWITCHES, &data).await.map(drop)
}

#[tokio::test]
async fn a_second_injector_changes_nothing() -> Result<()> {
    let scene = Scene::registered().await?;
    let admin = scene.admin();
    let mut asking = world::pod("asking", "fast,fast");
    let asked = json!({ "openshift.io/fast_nics": "1" });
    asking["spec"]["containers"][0]["resources"] = json!({ "requests": asked, "limits": asked });
    let pods = [world::pod("app", "fast,fast"), asking];
    for (features, expected) in [
        (json!({}), ["2", "2"]),
        (json!({ "enableHonorExistingResources": true }), ["2", "3"]),
    ] {
        admin.delete(MUTATING, "a-second-injector").await?;
        switch(admin, &switches(&features, &[])).await?;
        let once = eventually(IN_FORCE_WITHIN, "the switches", async || {
            let mut once = Vec::new();
            for (pod, count) in pods.iter().zip(expected) {
                let pod = admin.ask_create(pod).await?.object()?;
                ensure!(fast_nics(&pod) == count, "{}", pod["spec"]["containers"]);
                once.push(comparable(pod));
            }
            Ok(once)
        })
        .await?;

        let mut second = admin.must_get(MUTATING, INJECTOR).await?;
        second["metadata"] = json!({ "name": "a-second-injector" });
        second["webhooks"][0]["name"] = "second.injector.example.com".into();
        admin.create(&second).await?;
        // The API server takes a moment to call it; it is idempotent before and after.
        for _ in 0..20 {
            for (pod, once) in pods.iter().zip(&once) {
                let twice = comparable(admin.ask_create(pod).await?.object()?);
                ensure!(twice == *once, "it became {twice}, once it was {once}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    Ok(())
}

/// Without what differs between any two pods.
fn comparable(mut pod: Value) -> Value {
    for field in ["uid", "creationTimestamp", "managedFields"] {
        if let Some(metadata) = pod["metadata"].as_object_mut() {
            metadata.remove(field);
        }
    }
    pod
}

#[tokio::test]
async fn a_burst_of_pods_needs_no_call_to_a_slow_api_server() -> Result<()> {
    let mut scene = Scene::registered().await?;
    let slowness = Slowness::before(&scene).await?;
    let mut slowed = slowness.operator(&scene).await?;
    scene.operator.stop().await?;
    slowed.start()?;
    slowed.ready().await?;
    let admin = scene.admin();
    // The Service takes a moment to lead to it, and until then nobody is asked.
    eventually(IN_FORCE_WITHIN, "the injector", async || {
        let stored = admin.ask_create(&world::pod("first", "fast")).await?;
        ensure!(fast_nics(&stored.object()?) == "1", "it is not asked yet");
        Ok(())
    })
    .await?;
    slowness.begin();

    // What a pod would cost is the read of one network; lists and watches are how the stores begin.
    let reads = || -> Result<usize> {
        let calls = scene.cluster.calls()?;
        let reads = calls.iter().filter(|call| {
            call.verb == "get" && call.uri.contains("network-attachment-definitions")
        });
        Ok(reads.count())
    };
    let before = reads()?;
    let pods = (0..500).map(|number| world::pod(&format!("app-{number}"), "fast,fast"));
    futures::stream::iter(pods)
        .map(async |pod| {
            let stored = admin.ask_create(&pod).await?.object()?;
            ensure!(fast_nics(&stored) == "2", "it got {}", fast_nics(&stored));
            Ok(())
        })
        .buffer_unordered(100)
        .try_collect::<()>()
        .await
        .with_context(|| slowed.log(20))?;
    ensure!(reads()? == before, "networks were read");

    // A network that does not exist is read once, however many ask, and each gets an answer.
    let pods = (0..50).map(|number| world::pod(&format!("lost-{number}"), "missing"));
    futures::stream::iter(pods)
        .map(async |pod| {
            let answer = admin.ask_create(&pod).await?;
            ensure!(
                answer.refuser() == Some(Refuser::Webhook) && answer.message().contains("missing"),
                "{}",
                answer.message()
            );
            Ok(())
        })
        .buffer_unordered(50)
        .try_collect::<()>()
        .await?;
    ensure!(reads()? - before <= 10, "{} reads", reads()? - before);
    slowed.stop().await.map(drop)
}

/// Stands between an operator and the API server, and holds each request back for half a second once it begins.
struct Slowness {
    address: SocketAddr,
    slow: Arc<AtomicBool>,
    _tasks: JoinSet<()>,
    directory: tempfile::TempDir,
}

impl Slowness {
    async fn before(scene: &Scene) -> Result<Self> {
        let config: Value =
            serde_json::from_str(&std::fs::read_to_string(scene.cluster.admin_kubeconfig())?)?;
        let server = text(&config, "/clusters/0/cluster/server");
        let server: SocketAddr = server.trim_start_matches("https://").parse()?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let slow = Arc::new(AtomicBool::new(false));
        let mut tasks = JoinSet::new();
        let switch = Arc::clone(&slow);
        tasks.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(relay(client, server, Arc::clone(&switch)));
            }
        });
        Ok(Self {
            address,
            slow,
            _tasks: tasks,
            directory: tempfile::tempdir()?,
        })
    }

    /// A replica behind it, not started.
    async fn operator(&self, scene: &Scene) -> Result<Operator> {
        let kubeconfig = std::fs::read_to_string(scene.cluster.admin_kubeconfig())?;
        let mut config: Value = serde_json::from_str(&kubeconfig)?;
        config["clusters"][0]["cluster"]["server"] = format!("https://{}", self.address).into();
        let address = scene.replica(2).await?.pod().ip;
        Operator::new(
            scene.admin(),
            &config.to_string(),
            self.directory.path(),
            address,
        )
        .await
    }

    fn begin(&self) {
        self.slow.store(true, Ordering::Relaxed);
    }
}

async fn relay(client: TcpStream, server: SocketAddr, slow: Arc<AtomicBool>) {
    let Ok(server) = TcpStream::connect(server).await else {
        return;
    };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let requests = async move {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = from_client.read(&mut buffer).await {
            if slow.load(Ordering::Relaxed) {
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            if to_server.write_all(&buffer[..read]).await.is_err() {
                return;
            }
        }
    };
    // Either side may end the connection; that is all there is to know.
    tokio::select! {
        () = requests => {}
        _ = tokio::io::copy(&mut from_server, &mut to_client) => {}
    }
}

#[tokio::test]
async fn edits_of_the_switches_are_in_force_within_two_seconds_under_load() -> Result<()> {
    let scene = Scene::registered().await?;
    let admin = scene.admin();
    let load = Load::start(admin);
    let becomes = async |what: &str, pod: Value, count: &str| {
        eventually(IN_FORCE_WITHIN, what, async || {
            let pod = admin.ask_create(&pod).await?.object()?;
            ensure!(fast_nics(&pod) == count, "it asks for {}", fast_nics(&pod));
            Ok(())
        })
        .await
    };
    let by_label = || labelled("labelled", "fast-lane", "true");

    switch(admin, &switches(&json!({}), &[("fast-lane", "fast,fast")])).await?;
    becomes("an injection", by_label(), "2").await?;

    // A malformed entry is told and harms no other.
    let mut some_bad = switches(
        &json!({ "enableHonorExistingResources": "yes" }),
        &[("fast-lane", "fast,fast,fast")],
    );
    some_bad["user-defined-injections"]["bad-lane"] = json!({ "op": "remove" });
    switch(admin, &some_bad).await?;
    becomes("the entry beside a bad one", by_label(), "3").await?;
    eventually(PATIENCE, "Events that name the bad entries", async || {
        let events = admin.list(EVENT).await?;
        for name in ["bad-lane", "enableHonorExistingResources"] {
            let told = events.iter().any(|event| {
                event["reason"] == "InvalidSwitches" && text(event, "/message").contains(name)
            });
            ensure!(told, "none names {name}");
        }
        Ok(())
    })
    .await?;

    switch(admin, &switches(&json!({}), &[])).await?;
    becomes("an injection that is gone", by_label(), "").await?;

    let mut asking = world::pod("asking", "fast");
    let one = json!({ "openshift.io/fast_nics": "1" });
    asking["spec"]["containers"][0]["resources"] = json!({ "requests": one, "limits": one });
    let honor = json!({ "enableHonorExistingResources": true });
    switch(admin, &switches(&honor, &[("fast-lane", "fast")])).await?;
    becomes("a feature", asking.clone(), "2").await?;

    // With the ConfigMap goes all that it said, though it is made anew.
    admin.delete(CONFIG_MAP, SWITCHES).await?;
    becomes("the start-up value", asking, "1").await?;
    becomes("an injection that is gone", by_label(), "").await?;
    eventually(PATIENCE, "the ConfigMap to be back", async || {
        admin
            .must_get(CONFIG_MAP, &format!("{NAMESPACE}/{SWITCHES}"))
            .await
    })
    .await?;
    load.end().await
}

/// Pods that are asked for all the time, none of which the switches concern.
struct Load {
    tasks: JoinSet<Result<()>>,
    asked: Arc<AtomicUsize>,
    over: Arc<AtomicBool>,
}

impl Load {
    fn start(admin: &User) -> Self {
        let (asked, over) = (Arc::default(), Arc::new(AtomicBool::new(false)));
        let mut tasks = JoinSet::new();
        for number in 0..4 {
            let (admin, asked, over) = (
                admin.clone(),
                Arc::<AtomicUsize>::clone(&asked),
                Arc::clone(&over),
            );
            tasks.spawn(async move {
                let pod = world::pod(&format!("load-{number}"), "fast");
                while !over.load(Ordering::Relaxed) {
                    let pod = admin.ask_create(&pod).await?.object()?;
                    ensure!(fast_nics(&pod) == "1", "it asks for {}", fast_nics(&pod));
                    asked.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            });
        }
        Self { tasks, asked, over }
    }

    async fn end(mut self) -> Result<()> {
        self.over.store(true, Ordering::Relaxed);
        while let Some(task) = self.tasks.join_next().await {
            task??;
        }
        ensure!(self.asked.load(Ordering::Relaxed) > 0, "there was no load");
        Ok(())
    }
}

#[tokio::test]
async fn with_the_gate_only_pods_that_need_the_injector_depend_on_it() -> Result<()> {
    let mut scene = Scene::registered().await?;
    let gate = json!({ "featureGates": { "resourceInjectorMatchCondition": true } });
    scene.reconfigure(&gate).await?;
    let admin = scene.cluster.admin().clone();
    let label = "example.com/fast-lane";
    switch(
        &admin,
        &switches(&json!({}), &[(label, "fast"), ("other", "fast")]),
    )
    .await?;
    eventually(PATIENCE, "the condition with the labels", async || {
        let registered = admin.must_get(MUTATING, INJECTOR).await?;
        let condition = text(&registered, "/webhooks/0/matchConditions/0/expression").to_owned();
        ensure!(condition.contains(label), "it is {condition}");
        Ok(())
    })
    .await?;
    scene.is_ready().await?;

    let mut by_default_network = plain("by-default-network");
    by_default_network["metadata"]["annotations"][DEFAULT_NETWORK] = "default/fast".into();
    let concerned = [
        world::pod("by-networks", "fast"),
        by_default_network,
        labelled("by-label", label, "True"),
        labelled("by-other-label", "other", "true"),
    ];
    let mut bare = plain("bare");
    bare["metadata"] = json!({ "name": "bare", "namespace": "default" });
    let mut of_the_system = world::pod("system", "fast");
    of_the_system["metadata"]["namespace"] = "kube-system".into();
    let others = [
        plain("plain"),
        bare,
        labelled("not-true", label, "false"),
        labelled("unknown-label", "fast-lane", "true"),
        of_the_system,
    ];
    for pod in &concerned {
        eventually(PATIENCE, "the injection", async || {
            let pod = admin.ask_create(pod).await?.object()?;
            ensure!(fast_nics(&pod) == "1", "{}", pod["metadata"]);
            Ok(())
        })
        .await?;
    }

    scene.operator.stop().await?;
    for pod in &others {
        let stored = admin.ask_create(pod).await?.object()?;
        ensure!(fast_nics(&stored).is_empty(), "{}", stored["metadata"]);
    }
    for pod in &concerned {
        let answer: Answer = admin.ask_create(pod).await?;
        ensure!(
            answer.refuser() == Some(Refuser::Failure),
            "{}: {} {}",
            pod["metadata"],
            answer.code,
            answer.message()
        );
    }
    Ok(())
}
