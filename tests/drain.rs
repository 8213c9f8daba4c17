//! Drains, told from outside: what a config daemon asks for on its Node is done, as many nodes at a time as allowed, and
//! undone when it asks no longer.

mod daemons;
mod evictions;
pub(crate) mod openshift;
mod protocol;
mod whole;

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::support::NAMESPACE;
use crate::support::cluster::Cluster;
use crate::support::kinds::{NODE, NODE_STATE, POD, text};
use crate::support::scene::{PATIENCE, Scene};
use crate::support::user::User;
use crate::support::wait::{eventually, throughout};

const IDLE: &str = "Idle";
const DRAIN: &str = "Drain_Required";
const REBOOT: &str = "Reboot_Required";
const DRAINING: &str = "Draining";
const COMPLETE: &str = "DrainComplete";

const STATE: &str = "sriovnetwork.openshift.io/state";
const CURRENT: &str = "sriovnetwork.openshift.io/current-state";
const DESIRED: &str = "sriovnetwork.openshift.io/desired-state";
const EXTERNAL: &str = "sriovnetwork.openshift.io/use-external-drainer";
const CORDONED_BY: &str = "sriovnetwork.openshift.io/cordoned-by";
const STARTED: &str = "sriovnetwork.openshift.io/drain-started";

/// The resource of virtual functions.
const RESOURCE: &str = "openshift.io/fast_nics";
/// How long something is watched that must not happen.
const A_WHILE: Duration = Duration::from_secs(2);

/// An operator that leads at once, on a cluster without nodes.
async fn scene() -> Result<Scene> {
    let mut scene = Scene::bare(Cluster::boot().await?).await?;
    scene.operator.argument("--leader-elect=false");
    scene.operator.start()?;
    scene.operator.ready().await?;
    Ok(scene)
}

/// A node with these labels and, as the daemon leaves it at its start, an idle state.
async fn join(admin: &User, name: &str, labels: &Value) -> Result<()> {
    admin
        .create(&json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": { "name": name, "labels": labels },
        }))
        .await?;
    admin
        .create(&json!({
            "apiVersion": NODE_STATE.api_version,
            "kind": NODE_STATE.name,
            "metadata": { "name": name, "namespace": NAMESPACE, "annotations": { CURRENT: IDLE } },
        }))
        .await
        .map(drop)
}

/// Removes nodes with their states.
async fn leave(admin: &User, names: &[&str]) -> Result<()> {
    for name in names {
        admin.delete(NODE, name).await?;
        admin.delete(NODE_STATE, name).await?;
    }
    Ok(())
}

/// What the daemon of a node asks for, written as it writes it.
async fn ask(admin: &User, node: &str, what: &str) -> Result<()> {
    let annotate = |key: &str| json!({ "metadata": { "annotations": { key: what } } });
    admin.merge(NODE, node, &annotate(STATE)).await?;
    admin
        .merge(NODE_STATE, node, &annotate(DESIRED))
        .await
        .map(drop)
}

/// An annotation, empty when it is not there.
fn annotation<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"]["annotations"][key]
        .as_str()
        .unwrap_or_default()
}

async fn current(admin: &User, node: &str) -> Result<String> {
    let state = admin.must_get(NODE_STATE, node).await?;
    Ok(annotation(&state, CURRENT).to_owned())
}

async fn is_cordoned(admin: &User, node: &str) -> Result<bool> {
    let node = admin.must_get(NODE, node).await?;
    Ok(node["spec"]["unschedulable"] == true)
}

/// Waits until the operator says that of a node, and it is cordoned or not.
async fn becomes(admin: &User, node: &str, wanted: &str, cordoned: bool) -> Result<()> {
    eventually(PATIENCE, &format!("{node} to be {wanted}"), async || {
        is(admin, node, wanted, cordoned).await
    })
    .await
}

async fn is(admin: &User, node: &str, wanted: &str, cordoned: bool) -> Result<()> {
    let now = current(admin, node).await?;
    ensure!(now == wanted, "{node} is {now}, not {wanted}");
    ensure!(
        is_cordoned(admin, node).await? == cordoned,
        "{node}: cordoned is not {cordoned}"
    );
    Ok(())
}

/// How many of these nodes are as the text says.
async fn count(admin: &User, nodes: &[&str], wanted: &str) -> Result<usize> {
    let mut count = 0;
    for node in nodes {
        count += usize::from(current(admin, node).await? == wanted);
    }
    Ok(count)
}

/// Waits until exactly so many are, and watches that it stays so.
async fn settles(admin: &User, nodes: &[&str], wanted: &str, expected: usize) -> Result<()> {
    let what = format!("{expected} of {nodes:?} to be {wanted}");
    let exactly = async || {
        let now = count(admin, nodes, wanted).await?;
        ensure!(now == expected, "{now} are");
        Ok(())
    };
    eventually(PATIENCE, &what, exactly).await?;
    throughout(A_WHILE, &what, exactly).await
}

/// A pod on a node. It requests a virtual function, and ends at once when it is evicted.
fn pod(name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name, "namespace": "default", "labels": { "app": name } },
        "spec": {
            "nodeName": node,
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "app",
                "image": "example.com/app:1",
                "resources": { "requests": { RESOURCE: "1" }, "limits": { RESOURCE: "1" } },
            }],
        },
    })
}

/// The same without a virtual function.
fn plain_pod(name: &str, node: &str) -> Value {
    let mut pod = pod(name, node);
    pod["spec"]["containers"][0]["resources"] = json!({});
    pod
}

/// One that does not end when it is evicted, until it is let go.
fn unkillable_pod(name: &str, node: &str) -> Value {
    let mut pod = pod(name, node);
    pod["metadata"]["finalizers"] = json!(["example.com/hold"]);
    pod
}

async fn let_go(admin: &User, name: &str) -> Result<()> {
    let name = format!("default/{name}");
    let patch = json!({ "metadata": { "finalizers": null } });
    admin.merge(POD, &name, &patch).await?;
    admin.delete(POD, &name).await
}

async fn is_gone(admin: &User, name: &str) -> Result<bool> {
    Ok(admin.get(POD, &format!("default/{name}")).await?.is_none())
}

/// The Events about a node's state: type, reason, text.
async fn events(admin: &User, node: &str) -> Result<Vec<(String, String, String)>> {
    let events = admin.list(crate::support::kinds::EVENT).await?;
    let about = events.iter().filter(|event| {
        let of = &event["involvedObject"];
        of["kind"] == NODE_STATE.name && of["name"] == node
    });
    Ok(about
        .map(|event| {
            let part = |pointer: &str| text(event, pointer).to_owned();
            (part("/type"), part("/reason"), part("/message"))
        })
        .collect())
}

/// Waits for an Event of that type and reason whose text contains `says`.
async fn is_told(admin: &User, node: &str, kind: &str, reason: &str, says: &str) -> Result<()> {
    eventually(
        PATIENCE,
        &format!("an Event {reason} about {node}"),
        async || {
            let events = events(admin, node).await?;
            let told = events
                .iter()
                .any(|(of, why, text)| of == kind && why == reason && text.contains(says));
            ensure!(told, "there are {events:?}");
            Ok(())
        },
    )
    .await
}
