//! Moving from the reference's operator with nodes at work, and back: what is equal is not written, no pod is replaced, no
//! drain begins, and the one that goes on is ended by whoever is there.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::networks::migration::{as_reference, provisioned_definition};
use crate::support::NAMESPACE;
use crate::support::cluster::Cluster;
use crate::support::kinds::{
    CONFIG, CONFIG_MAP, CRD, DAEMON_SET, Kind, NAD, NETWORK, NODE, NODE_STATE, POLICY, POOL, text,
};
use crate::support::scene::{PATIENCE, Scene};
use crate::support::user::User;
use crate::support::wait::{eventually, throughout};
use crate::support::{manifests, world};
use crate::takeover::made_by_the_go_operator;

const STATE: &str = "sriovnetwork.openshift.io/state";
const CURRENT: &str = "sriovnetwork.openshift.io/current-state";
const DESIRED: &str = "sriovnetwork.openshift.io/desired-state";
const LABEL: &str = "sriovnetwork.openshift.io/device-plugin";
const WORKER: &str = "node-role.kubernetes.io/worker";
const DAEMON_SETS: [&str; 2] = ["sriov-network-config-daemon", "sriov-device-plugin"];

/// An operator beside an installation of the reference's: two nodes, of which the second is drained and its daemon at work.
async fn left_at_work() -> Result<Scene> {
    let mut scene = Scene::bare(Cluster::boot().await?).await?;
    scene.operator.set("OVS_CNI_IMAGE", "");
    let admin = scene.admin();
    let crds = world::seeds()?.into_iter();
    let crds: Vec<Value> = crds.filter(|one| one["kind"] == CRD.name).collect();
    world::load(admin, &crds).await?;
    let mut config = world::config(&json!({
        "enableInjector": false, "enableOperatorWebhook": false,
        "featureGates": { "blockDevicePluginUntilConfigured": false },
    }));
    config["metadata"]["finalizers"] =
        json!(["operatorconfig.finalizers.sriovnetwork.openshift.io"]);
    let config = admin.create(&config).await?;
    let owners = json!([{
        "apiVersion": CONFIG.api_version, "kind": CONFIG.name, "name": "default",
        "uid": config["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
    }]);
    let mut resources = json!({});
    for (node, asked, current) in [
        ("one", "Idle", "Idle"),
        ("two", "Drain_Required", "DrainComplete"),
    ] {
        admin.create(&node_of(node, asked)).await?;
        let mut state = state_of(node, asked, current);
        state["metadata"]["ownerReferences"] = owners.clone();
        as_reference(admin, &state).await?;
        let status = json!({ "syncStatus": "Succeeded", "interfaces": [
            { "name": "ens1f0", "pciAddress": "0000:18:00.0", "vendor": "8086", "deviceID": "158b", "totalvfs": 64 },
        ] });
        admin.merge_status(NODE_STATE, node, &status).await?;
        resources[node] = r#"{"resourceList":[{"resourceName":"fast","selectors":{"pfNames":["ens1f0"],"IsRdma":false,"NeedVhostNet":false},"SelectorObj":null}]}"#.into();
    }
    as_reference(admin, &json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": resources,
        "metadata": { "name": "device-plugin-config", "namespace": NAMESPACE, "ownerReferences": owners },
    }))
    .await?;
    admin
        .create(&world::custom(
            POLICY,
            "fast",
            &json!({
                "resourceName": "fast", "nodeSelector": { WORKER: "" }, "numVfs": 4, "priority": 10,
                "nicSelector": { "pfNames": ["ens1f0"] },
            }),
        ))
        .await?;
    admin
        .create(&world::custom(
            POOL,
            "one-by-one",
            &json!({ "maxUnavailable": 1 }),
        ))
        .await?;
    provisioned_definition(admin, "net").await?;
    let objects = manifests::read_yaml(&manifests::root().join("tests/data/reference.yaml"))?;
    for mut object in objects {
        if object["kind"] != DAEMON_SET.name
            || !DAEMON_SETS.contains(&text(&object, "/metadata/name"))
        {
            continue;
        }
        whole(&mut object);
        made_by_the_go_operator(admin, object, &config).await?;
    }
    Ok(scene)
}

/// Without what the data has of an older config.
fn whole(daemon_set: &mut Value) {
    let pod = &mut daemon_set["spec"]["template"]["spec"];
    if let Some(fields) = pod.as_object_mut() {
        fields.remove("imagePullSecrets");
    }
    if let Some(selector) = pod["nodeSelector"].as_object_mut() {
        selector.remove("left");
    }
    if let Some(arguments) = pod["containers"][0]["args"].as_array_mut() {
        arguments.retain(|argument| argument != "--use-cdi");
    }
    for list in ["/containers/0/volumeMounts", "/volumes"] {
        if let Some(entries) = pod.pointer_mut(list).and_then(Value::as_array_mut) {
            entries.retain(|entry| entry["name"] != "dynamic-cdi");
        }
    }
}

fn node_of(name: &str, asked: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name,
            "labels": { "kubernetes.io/os": "linux", WORKER: "", LABEL: "Enabled" },
            "annotations": { STATE: asked },
        },
        "spec": if asked == "Idle" { json!({}) } else { json!({ "unschedulable": true }) },
    })
}

fn state_of(node: &str, asked: &str, current: &str) -> Value {
    json!({
        "apiVersion": NODE_STATE.api_version, "kind": NODE_STATE.name,
        "metadata": {
            "name": node, "namespace": NAMESPACE, "annotations": { DESIRED: asked, CURRENT: current },
        },
        "spec": { "bridges": {}, "system": {}, "interfaces": [{
            "name": "ens1f0", "pciAddress": "0000:18:00.0", "numVfs": 4,
            "vfGroups": [{ "deviceType": "netdevice", "policyName": "fast", "resourceName": "fast", "vfRange": "0-3" }],
        }] },
    })
}

/// Versions of all that is at work, and the generations of what has pods.
async fn inventory(admin: &User) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for kind in [NODE, NODE_STATE, POLICY, POOL, NETWORK] {
        for object in admin.list(kind).await? {
            all.push(told(kind, &object, "resourceVersion"));
        }
    }
    for (kind, name) in [(CONFIG_MAP, "device-plugin-config"), (NAD, "default/net")] {
        let object = admin.must_get(kind, name).await?;
        all.push(told(kind, &object, "resourceVersion"));
    }
    for name in DAEMON_SETS {
        let object = admin.must_get(DAEMON_SET, name).await?;
        let template = &object["spec"]["template"];
        all.push(format!("{} {template}", told(DAEMON_SET, &object, "uid")));
    }
    Ok(all)
}

fn told(kind: Kind, object: &Value, field: &str) -> String {
    format!(
        "{} {} {}",
        kind.name,
        text(object, "/metadata/name"),
        object["metadata"][field]
    )
}

#[tokio::test]
async fn nothing_that_is_equal_is_written_and_the_drain_that_goes_on_ends() -> Result<()> {
    let mut scene = left_at_work().await?;
    let admin = scene.admin().clone();
    let before = inventory(&admin).await?;
    let same = async || {
        let now = inventory(&admin).await?;
        let pairs = before.iter().zip(&now);
        let changed: Vec<_> = pairs.filter(|(was, is)| was != is).collect();
        ensure!(changed.is_empty(), "what changed: {changed:#?}");
        Ok(())
    };
    scene.operator.start()?;
    scene.is_ready().await?;
    throughout(Duration::from_secs(4), "what is at work", same).await?;
    ensure!(
        !scene
            .writes()?
            .iter()
            .any(|call| call.uri.contains("/eviction")),
        "somebody was evicted"
    );

    // The daemon of the second node is done, and the first one's turn comes.
    ask(&admin, "two", "Idle").await?;
    becomes(&admin, "two", "Idle", false).await?;
    ask(&admin, "one", "Drain_Required").await?;
    becomes(&admin, "one", "DrainComplete", true).await?;

    // Back: the reference's operator ends a drain of ours as it ends its own, and its daemons go on.
    scene.operator.stop().await?;
    ask(&admin, "one", "Idle").await?;
    admin
        .merge(NODE, "one", &json!({ "spec": { "unschedulable": false } }))
        .await?;
    annotate(&admin, NODE_STATE, "one", CURRENT, "Idle").await?;

    // And here again: nothing of it is taken for a drain.
    scene.operator.start()?;
    eventually(PATIENCE, "our record to go", async || {
        let node = admin.must_get(NODE, "one").await?;
        ensure!(
            node["metadata"]["annotations"]["sriovnetwork.openshift.io/cordoned-by"].is_null(),
            "{node}"
        );
        Ok(())
    })
    .await?;
    becomes(&admin, "one", "Idle", false).await?;
    scene.was_allowed_everything()
}

async fn annotate(admin: &User, kind: Kind, name: &str, key: &str, value: &str) -> Result<()> {
    let patch = json!({ "metadata": { "annotations": { key: value } } });
    admin.merge(kind, name, &patch).await.map(drop)
}

/// As a config daemon writes it.
async fn ask(admin: &User, node: &str, what: &str) -> Result<()> {
    annotate(admin, NODE, node, STATE, what).await?;
    annotate(admin, NODE_STATE, node, DESIRED, what).await
}

async fn becomes(admin: &User, node: &str, current: &str, cordoned: bool) -> Result<()> {
    eventually(PATIENCE, &format!("{node} to be {current}"), async || {
        let state = admin.must_get(NODE_STATE, node).await?;
        ensure!(
            state["metadata"]["annotations"][CURRENT] == current,
            "{state}"
        );
        let object = admin.must_get(NODE, node).await?;
        ensure!(
            (object["spec"]["unschedulable"] == true) == cordoned,
            "{object}"
        );
        Ok(())
    })
    .await
    .with_context(|| node.to_owned())
}
