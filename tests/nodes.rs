//! Node policies: from policies, pools, nodes and what their daemons report to node states, the device plugins'
//! configuration and the node label.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::support::cluster::Cluster;
use crate::support::kinds::{CONFIG, CONFIG_MAP, EVENT, NODE, NODE_STATE, POD, POLICY, POOL, text};
use crate::support::scene::{PATIENCE, Scene};
use crate::support::user::User;
use crate::support::wait::{eventually, throughout};
use crate::support::world::custom;
use crate::support::{NAMESPACE, cli};

const PLUGIN_CONFIG: &str = "device-plugin-config";
const PLUGIN_LABEL: &str = "sriovnetwork.openshift.io/device-plugin";
const KEEP_UNTIL: &str = "sriovnetwork.openshift.io/keep-state-until";
const DESIRED: &str = "sriovnetwork.openshift.io/desired-state";
const WANTED: &str = "sriovnetwork.openshift.io/state";
const CURRENT: &str = "sriovnetwork.openshift.io/current-state";
const WORKER: &str = "node-role.kubernetes.io/worker";

/// A cluster with a config and without webhooks, the operator not started.
async fn scene() -> Result<Scene> {
    let scene = Scene::bare(Cluster::boot().await?).await?;
    let without_webhooks = json!({ "enableInjector": false, "enableOperatorWebhook": false });
    scene.configure(&without_webhooks).await?;
    Ok(scene)
}

fn worker(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": { "kubernetes.io/os": "linux", WORKER: "" } },
    })
}

/// A policy for the NICs by name; with the fields of `change` on top.
fn policy(name: &str, nics: &[&str], change: &Value) -> Value {
    let mut spec = json!({
        "resourceName": name, "nodeSelector": { WORKER: "" }, "numVfs": 4, "priority": 10,
        "nicSelector": { "pfNames": nics },
    });
    for (field, value) in change.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    custom(POLICY, name, &spec)
}

/// What the node's config daemon would report.
async fn report_nics(admin: &User, node: &str) -> Result<()> {
    let nic = |name: &str, address: &str| {
        json!({
            "name": name, "pciAddress": address, "vendor": "8086", "deviceID": "158b", "totalvfs": 64, "mtu": 1500,
            "linkType": "ETH",
        })
    };
    let status = json!({
        "syncStatus": "Succeeded",
        "interfaces": [nic("ens1f0", "0000:18:00.0"), nic("ens1f1", "0000:18:00.1")],
    });
    admin
        .merge_status(NODE_STATE, node, &status)
        .await
        .map(drop)
}

/// A worker that has joined and whose daemon has reported.
async fn join(admin: &User, node: &str) -> Result<()> {
    admin.create(&worker(node)).await?;
    has_state(admin, node).await?;
    report_nics(admin, node).await
}

async fn has_state(admin: &User, node: &str) -> Result<Value> {
    eventually(PATIENCE, "the node state", async || {
        admin.must_get(NODE_STATE, node).await
    })
    .await
}

async fn has_label(admin: &User, node: &str, expected: Option<&str>) -> Result<()> {
    eventually(
        PATIENCE,
        &format!("label {expected:?} of {node}"),
        async || {
            let actual = admin.must_get(NODE, node).await?;
            let actual = actual["metadata"]["labels"][PLUGIN_LABEL].as_str();
            ensure!(actual == expected, "it is {actual:?}");
            Ok(())
        },
    )
    .await
}

/// Waits for the groups of the node's state, as `ens1f0 0-3 a`.
async fn has_groups(admin: &User, node: &str, expected: &[&str]) -> Result<()> {
    eventually(
        PATIENCE,
        &format!("groups {expected:?} of {node}"),
        async || {
            let state = admin.must_get(NODE_STATE, node).await?;
            let mut groups = Vec::new();
            for interface in state["spec"]["interfaces"].as_array().into_iter().flatten() {
                for group in interface["vfGroups"].as_array().into_iter().flatten() {
                    groups.push(format!(
                        "{} {} {}",
                        text(interface, "/name"),
                        text(group, "/vfRange"),
                        text(group, "/policyName")
                    ));
                }
            }
            ensure!(groups == expected, "they are {groups:?}");
            Ok(())
        },
    )
    .await
}

/// Waits for the names of the resources that the node's device plugin is to offer; nothing when it has no key.
async fn offers(admin: &User, node: &str, expected: Option<&[&str]>) -> Result<()> {
    eventually(
        PATIENCE,
        &format!("resources {expected:?} of {node}"),
        async || {
            let map = admin.must_get(CONFIG_MAP, PLUGIN_CONFIG).await?;
            let actual = match map["data"].get(node).and_then(Value::as_str) {
                None => None,
                Some(config) => {
                    let config: Value = serde_json::from_str(config)?;
                    let list = config["resourceList"]
                        .as_array()
                        .cloned()
                        .unwrap_or_default();
                    let names = list.iter().map(|r| text(r, "/resourceName").to_owned());
                    Some(names.collect::<Vec<_>>())
                }
            };
            let expected = expected.map(|names| names.iter().map(|n| (*n).to_owned()).collect());
            ensure!(actual == expected, "they are {actual:?}");
            Ok(())
        },
    )
    .await
}

async fn is_gone(admin: &User, node: &str) -> Result<()> {
    eventually(PATIENCE, "the node state to go", async || {
        let state = admin.get(NODE_STATE, node).await?;
        ensure!(state.is_none(), "it is there");
        Ok(())
    })
    .await
}

async fn version(admin: &User, kind: crate::support::kinds::Kind, name: &str) -> Result<String> {
    let object = admin.must_get(kind, name).await?;
    Ok(text(&object, "/metadata/resourceVersion").to_owned())
}

/// Resource versions of all that the controller writes.
async fn versions(admin: &User) -> Result<Vec<String>> {
    let mut versions = Vec::new();
    for kind in [NODE, NODE_STATE] {
        for object in admin.list(kind).await? {
            let name = text(&object, "/metadata/name");
            let version = text(&object, "/metadata/resourceVersion");
            versions.push(format!("{} {name} {version}", kind.name));
        }
    }
    versions.push(version(admin, CONFIG_MAP, PLUGIN_CONFIG).await?);
    Ok(versions)
}

#[tokio::test]
async fn check_says_beforehand_what_is_then_made_and_status_shows_it() -> Result<()> {
    let mut scene = scene().await?;
    let admin = scene.admin().clone();
    scene.operator.start()?;
    scene.is_ready().await?;
    let supported = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "supported-nic-ids", "namespace": NAMESPACE },
        "data": { "Intel_i40e_25G_SFP28": "8086 158b 154c" },
    });
    admin.create(&supported).await?;
    join(&admin, "w-1").await?;
    let policy = policy("a", &["ens1f0#0-1"], &json!({ "mtu": 9000 }));

    let kubeconfig = scene.cluster.admin_kubeconfig();
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), policy.to_string())?;
    let arguments = ["check", "-o", "json", &file.path().display().to_string()];
    let checked = cli::run(&kubeconfig, &arguments).await?.succeeded()?;
    let checked: Value = serde_json::from_str(&checked)?;
    let promised = &checked["nodeStates"][0];
    ensure!(
        promised["node"] == "w-1" && promised["changes"] == true,
        "{checked}"
    );

    admin.create(&policy).await?;
    has_groups(&admin, "w-1", &["ens1f0 0-1 a"]).await?;
    let made = admin.must_get(NODE_STATE, "w-1").await?;
    ensure!(
        made["spec"] == promised["spec"],
        "{} came of {promised}",
        made["spec"]
    );
    offers(&admin, "w-1", Some(&["a"])).await?;

    let told = cli::run(&kubeconfig, &["status", "-o", "json"])
        .await?
        .succeeded()?;
    let told: Value = serde_json::from_str(&told)?;
    let node = &told["nodes"]["states"][0];
    ensure!(
        node["name"] == "w-1" && node["syncStatus"] == "Succeeded",
        "{node}"
    );
    let nic = &node["interfaces"][0];
    ensure!(nic["name"] == "ens1f0" && nic["numVfs"] == 4, "{node}");
    ensure!(nic["vfGroups"][0]["policyName"] == "a", "{node}");
    let screen = cli::run(&kubeconfig, &["status"]).await?.succeeded()?;
    ensure!(screen.contains("ens1f0 4: a 0-1"), "{screen}");
    // Once it is there, it is no change.
    let checked = cli::run(&kubeconfig, &arguments).await?.succeeded()?;
    let checked: Value = serde_json::from_str(&checked)?;
    ensure!(checked["nodeStates"][0]["changes"] == false, "{checked}");
    scene.was_allowed_everything()
}

#[tokio::test]
async fn a_node_joins_reports_is_relabelled_and_vanishes() -> Result<()> {
    let mut scene = scene().await?;
    scene
        .operator
        .set("STALE_NODE_STATE_CLEANUP_DELAY_MINUTES", "0");
    scene.operator.start()?;
    let admin = &scene.admin().clone();
    let config = admin.must_get(CONFIG, "default").await?;

    admin.create(&worker("node-0")).await?;
    let state = has_state(admin, "node-0").await?;
    let metadata = &state["metadata"];
    ensure!(
        metadata["annotations"] == json!({ DESIRED: "Idle", CURRENT: "Idle" }),
        "the config daemon waits for both annotations: {metadata}"
    );
    let owner = &metadata["ownerReferences"][0];
    ensure!(
        owner["uid"] == config["metadata"]["uid"] && owner["controller"] == true,
        "the state goes with the config: {metadata}"
    );
    has_label(admin, "node-0", Some("Disabled")).await?;
    offers(admin, "node-0", Some(&[])).await?;

    // A policy counts as soon as the daemon has reported a NIC for it.
    admin.create(&policy("a", &["ens1f0"], &json!({}))).await?;
    admin
        .create(&policy("nowhere", &["ens9"], &json!({})))
        .await?;
    report_nics(admin, "node-0").await?;
    has_groups(admin, "node-0", &["ens1f0 0-3 a"]).await?;
    has_label(admin, "node-0", Some("Enabled")).await?;
    offers(admin, "node-0", Some(&["a"])).await?;

    // Another node joins, and vanishes.
    join(admin, "node-1").await?;
    has_groups(admin, "node-1", &["ens1f0 0-3 a"]).await?;
    admin.delete(NODE, "node-1").await?;
    is_gone(admin, "node-1").await?;
    offers(admin, "node-1", None).await?;

    // While a daemon starts it lists no NIC: what it was given stays.
    let empty = json!({ "interfaces": [] });
    admin.merge_status(NODE_STATE, "node-0", &empty).await?;
    throughout(Duration::from_millis(500), "what was given", async || {
        has_groups(admin, "node-0", &["ens1f0 0-3 a"]).await?;
        offers(admin, "node-0", Some(&["a"])).await
    })
    .await?;
    admin.delete(POLICY, "a").await?;
    has_groups(admin, "node-0", &[]).await?;
    has_label(admin, "node-0", Some("Disabled")).await?;
    offers(admin, "node-0", Some(&[])).await?;

    // It is no worker any more.
    let unlabel = json!({ "metadata": { "labels": { WORKER: null } } });
    admin.merge(NODE, "node-0", &unlabel).await?;
    is_gone(admin, "node-0").await?;
    has_label(admin, "node-0", None).await?;
    offers(admin, "node-0", None).await?;

    // And again, until the config goes; the node states are the garbage collector's.
    let relabel = json!({ "metadata": { "labels": { WORKER: "" } } });
    admin.merge(NODE, "node-0", &relabel).await?;
    has_label(admin, "node-0", Some("Disabled")).await?;
    admin.delete(CONFIG, "default").await?;
    has_label(admin, "node-0", None).await?;
    eventually(PATIENCE, "the ConfigMap to go", async || {
        let map = admin.get(CONFIG_MAP, PLUGIN_CONFIG).await?;
        ensure!(map.is_none(), "it is there");
        Ok(())
    })
    .await?;
    scene.was_allowed_everything()
}

#[tokio::test]
async fn the_state_of_a_vanished_node_is_kept_for_a_while() -> Result<()> {
    let mut scene = scene().await?;
    scene
        .operator
        .set("STALE_NODE_STATE_CLEANUP_DELAY_MINUTES", "5");
    scene.operator.start()?;
    let admin = &scene.admin().clone();
    join(admin, "node-0").await?;
    join(admin, "node-1").await?;
    admin.create(&policy("a", &["ens1f0"], &json!({}))).await?;
    has_groups(admin, "node-1", &["ens1f0 0-3 a"]).await?;

    admin.delete(NODE, "node-1").await?;
    let keep_until = async || {
        let state = admin.must_get(NODE_STATE, "node-1").await?;
        let until = state["metadata"]["annotations"][KEEP_UNTIL].as_str();
        Ok::<_, anyhow::Error>(until.map(str::to_owned))
    };
    let until = eventually(PATIENCE, "the time of its end", async || {
        keep_until().await?.context("there is none")
    })
    .await?;
    let left = until
        .parse::<jiff::Timestamp>()?
        .duration_since(jiff::Timestamp::now());
    ensure!(
        (240..=300).contains(&left.as_secs()),
        "{until} is not in 5 minutes"
    );
    has_groups(admin, "node-1", &["ens1f0 0-3 a"]).await?;
    offers(admin, "node-1", None).await?;
    admin.create(&policy("b", &["ens1f1"], &json!({}))).await?;
    has_groups(admin, "node-0", &["ens1f0 0-3 a", "ens1f1 0-3 b"]).await?;

    // It comes back in time.
    admin.create(&worker("node-1")).await?;
    has_groups(admin, "node-1", &["ens1f0 0-3 a", "ens1f1 0-3 b"]).await?;
    ensure!(keep_until().await?.is_none(), "its end is off");

    // It goes for good: the time is that which is stored, also for a process that starts later.
    scene.operator.stop().await?;
    admin.delete(NODE, "node-1").await?;
    let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(6);
    let soon = json!({ "metadata": { "annotations": { KEEP_UNTIL: soon.strftime("%Y-%m-%dT%H:%M:%SZ").to_string() } } });
    admin.merge(NODE_STATE, "node-1", &soon).await?;
    scene.operator.start()?;
    is_gone(admin, "node-1").await?;
    scene.was_allowed_everything()
}

#[tokio::test]
async fn policies_and_pools_change_what_nodes_are() -> Result<()> {
    let mut scene = scene().await?;
    scene.operator.start()?;
    let admin = &scene.admin().clone();
    join(admin, "node-0").await?;

    // One that cannot be understood costs only itself, and is told so.
    admin
        .create(&policy("broken", &["ens1f0#3"], &json!({"priority": 1})))
        .await?;
    admin
        .create(&policy("a", &["ens1f0#0-1"], &json!({})))
        .await?;
    admin
        .create(&policy("b", &["ens1f0#2-3"], &json!({"priority": 20})))
        .await?;
    has_groups(admin, "node-0", &["ens1f0 0-1 a", "ens1f0 2-3 b"]).await?;
    offers(admin, "node-0", Some(&["b", "a"])).await?;
    eventually(PATIENCE, "an Event about the policy", async || {
        let events = admin.list(EVENT).await?;
        let about = events.iter().find(|event| {
            text(event, "/involvedObject/name") == "broken"
                && text(event, "/reason") == "InvalidPolicy"
        });
        let event = about.context("there is none")?;
        ensure!(
            text(event, "/message").contains("spec.nicSelector.pfNames[0]"),
            "{event}"
        );
        ensure!(!text(event, "/involvedObject/uid").is_empty(), "{event}");
        Ok(())
    })
    .await?;

    // What only the device plugin reads does not touch the state: the plugin is restarted by us.
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "plugin-0", "namespace": NAMESPACE, "labels": { "app": "sriov-device-plugin" } },
        "spec": { "nodeName": "node-0", "containers": [{ "name": "c", "image": "example.com/c:1" }] },
    });
    admin.create(&pod).await?;
    let before = version(admin, NODE_STATE, "node-0").await?;
    let exclude = json!({ "spec": { "excludeTopology": true } });
    admin.merge(POLICY, "a", &exclude).await?;
    eventually(PATIENCE, "the plugin to be restarted", async || {
        let pod = admin.get(POD, &format!("{NAMESPACE}/plugin-0")).await?;
        let ends = pod.is_none_or(|pod| pod["metadata"].get("deletionTimestamp").is_some());
        ensure!(ends, "it runs");
        let map = admin.must_get(CONFIG_MAP, PLUGIN_CONFIG).await?;
        let notes = map["metadata"].get("annotations");
        ensure!(
            notes.is_none_or(|n| *n == json!({})),
            "still noted: {notes:?}"
        );
        Ok(())
    })
    .await?;
    let after = version(admin, NODE_STATE, "node-0").await?;
    ensure!(before == after, "the state was written");

    // A priority that decides nothing writes nothing.
    let before = versions(admin).await?;
    admin
        .merge(POLICY, "a", &json!({ "spec": { "priority": 30 } }))
        .await?;
    throughout(Duration::from_millis(700), "every version", async || {
        let now = versions(admin).await?;
        ensure!(before == now, "{now:?}");
        Ok(())
    })
    .await?;

    // What somebody else changes is put right.
    admin.delete(CONFIG_MAP, PLUGIN_CONFIG).await?;
    let garbage = json!({ "spec": { "interfaces": null, "system": { "rdmaMode": "shared" } }, "metadata": { "ownerReferences": null } });
    admin.merge(NODE_STATE, "node-0", &garbage).await?;
    let garbage = json!({ "metadata": { "labels": { PLUGIN_LABEL: "Disabled" } } });
    admin.merge(NODE, "node-0", &garbage).await?;
    has_groups(admin, "node-0", &["ens1f0 2-3 b", "ens1f0 0-1 a"]).await?;
    has_label(admin, "node-0", Some("Enabled")).await?;
    offers(admin, "node-0", Some(&["a", "b"])).await?;

    pools_decide(admin).await?;
    scene.was_allowed_everything()
}

/// The RDMA mode of a node is that of the one pool that selects it.
async fn pools_decide(admin: &User) -> Result<()> {
    let mode = async |expected: Option<&str>| {
        eventually(PATIENCE, &format!("RDMA mode {expected:?}"), async || {
            let state = admin.must_get(NODE_STATE, "node-0").await?;
            let actual = state["spec"]["system"]
                .get("rdmaMode")
                .and_then(Value::as_str);
            ensure!(actual == expected, "it is {actual:?}");
            Ok(())
        })
        .await
    };
    mode(None).await?;
    let selector = json!({ "matchLabels": { "test": "" } });
    let pool = |name: &str, mode: &str| {
        custom(
            POOL,
            name,
            &json!({ "nodeSelector": selector, "rdmaMode": mode }),
        )
    };
    admin.create(&pool("one", "exclusive")).await?;
    let label = json!({ "metadata": { "labels": { "test": "" } } });
    admin.merge(NODE, "node-0", &label).await?;
    mode(Some("exclusive")).await?;
    // Two that select one node say nothing; a change would reboot it.
    admin.create(&pool("two", "shared")).await?;
    throughout(Duration::from_millis(500), "the mode", async || {
        mode(Some("exclusive")).await
    })
    .await?;
    admin.delete(POOL, "one").await?;
    mode(Some("shared")).await
}

#[tokio::test]
async fn what_the_reference_left_and_what_was_written_before_a_restart_is_not_written_again()
-> Result<()> {
    let mut scene = scene().await?;
    let admin = &scene.admin().clone();
    let config = admin.must_get(CONFIG, "default").await?;
    let owner = json!([{
        "apiVersion": "sriovnetwork.openshift.io/v1", "kind": "SriovOperatorConfig", "name": "default",
        "uid": config["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
    }]);
    let mut node = worker("node-0");
    node["metadata"]["labels"][PLUGIN_LABEL] = "Enabled".into();
    // It is drained, and its daemon works on it.
    node["metadata"]["annotations"][WANTED] = "Drain_Required".into();
    node["spec"] = json!({ "unschedulable": true });
    admin.create(&node).await?;
    for (name, range, priority) in [("a", "ens1f0#0-1", 10), ("b", "ens1f0#2-3", 20)] {
        admin
            .create(&policy(name, &[range], &json!({ "priority": priority })))
            .await?;
    }
    admin
        .create(&policy("c", &["ens1f1"], &json!({ "priority": 30 })))
        .await?;
    let group = |policy: &str, range: &str| json!({ "deviceType": "netdevice", "policyName": policy, "resourceName": policy, "vfRange": range });
    // The order is that of an earlier set of priorities.
    let state = json!({
        "apiVersion": "sriovnetwork.openshift.io/v1", "kind": "SriovNetworkNodeState",
        "metadata": {
            "name": "node-0", "namespace": NAMESPACE, "ownerReferences": owner,
            "annotations": { DESIRED: "Drain_Required", CURRENT: "DrainComplete" },
        },
        "spec": {
            "bridges": {}, "system": {},
            "interfaces": [
                { "name": "ens1f0", "numVfs": 4, "pciAddress": "0000:18:00.0", "vfGroups": [group("b", "2-3"), group("a", "0-1")] },
                { "name": "ens1f1", "numVfs": 4, "pciAddress": "0000:18:00.1", "vfGroups": [group("c", "0-3")] },
            ],
        },
    });
    admin.create(&state).await?;
    report_nics(admin, "node-0").await?;
    let resource = |name: &str, nic: &str| {
        json!({
            "resourceName": name, "SelectorObj": null,
            "selectors": { "pfNames": [nic], "IsRdma": false, "NeedVhostNet": false },
        })
    };
    let resources = json!({ "resourceList": [resource("a", "ens1f0#0-1"), resource("b", "ens1f0#2-3"), resource("c", "ens1f1")] });
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": PLUGIN_CONFIG, "namespace": NAMESPACE, "ownerReferences": owner },
        "data": { "node-0": resources.to_string() },
    });
    admin.create(&map).await?;
    let before = versions(admin).await?;
    let same = async || {
        let now = versions(admin).await?;
        ensure!(before == now, "{before:?} became {now:?}");
        Ok(())
    };
    for _ in 0..2 {
        scene.operator.start()?;
        scene.is_ready().await?;
        throughout(Duration::from_millis(1500), "every version", same).await?;
        scene.operator.stop().await?;
    }

    // And what is ours is not, either.
    scene.operator.start()?;
    admin.delete(POLICY, "c").await?;
    has_groups(admin, "node-0", &["ens1f0 0-1 a", "ens1f0 2-3 b"]).await?;
    offers(admin, "node-0", Some(&["b", "a"])).await?;
    join(admin, "node-1").await?;
    has_label(admin, "node-1", Some("Enabled")).await?;
    has_groups(admin, "node-1", &["ens1f0 0-1 a", "ens1f0 2-3 b"]).await?;
    eventually(PATIENCE, "the daemon of node-1 may ask", async || {
        let node = admin.must_get(NODE, "node-1").await?;
        let wanted = &node["metadata"]["annotations"][WANTED];
        ensure!(wanted == "Idle", "the Node says {wanted}");
        Ok(())
    })
    .await?;
    scene.operator.stop().await?;
    let before = versions(admin).await?;
    scene.operator.start()?;
    scene.is_ready().await?;
    throughout(Duration::from_millis(1500), "every version", async || {
        let now = versions(admin).await?;
        ensure!(before == now, "{before:?} became {now:?}");
        Ok(())
    })
    .await?;
    scene.was_allowed_everything()
}

#[tokio::test]
async fn a_state_that_others_change_is_brought_back_and_told() -> Result<()> {
    let mut scene = scene().await?;
    let admin = &scene.admin().clone();
    scene.operator.start()?;
    scene.is_ready().await?;
    join(admin, "node-0").await?;
    admin.create(&policy("a", &["ens1f0"], &json!({}))).await?;
    has_groups(admin, "node-0", &["ens1f0 0-3 a"]).await?;
    let emptied = json!({ "spec": { "interfaces": null } });
    let changed = admin.merge(NODE_STATE, "node-0", &emptied).await?;
    ensure!(changed["spec"].get("interfaces").is_none(), "{changed}");
    has_groups(admin, "node-0", &["ens1f0 0-3 a"]).await?;
    eventually(PATIENCE, "an Event about it", async || {
        let events = admin.list(EVENT).await?;
        let told = events.iter().any(|event| {
            event["reason"] == "DriftRepaired" && event["involvedObject"]["name"] == "node-0"
        });
        ensure!(told, "nobody was told");
        Ok(())
    })
    .await?;
    scene.was_allowed_everything()
}
