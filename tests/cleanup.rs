//! `sriov-operator cleanup`: what the product has made goes, whoever is there to help.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::support::kinds::{CONFIG, LEASE, NETWORK, NODE, POOL};
use crate::support::operator::account_kubeconfig;
use crate::support::scene::{PATIENCE, Scene, both_webhooks};
use crate::support::wait::eventually;
use crate::support::{NAMESPACE, cli, world};

const NETWORK_FINALIZER: &str = "netattdef.finalizers.sriovnetwork.openshift.io";
const POOL_FINALIZER: &str = "poolconfig.finalizers.sriovnetwork.openshift.io";
const CORDONED_BY: &str = "sriovnetwork.openshift.io/cordoned-by";
const LABEL: &str = "sriovnetwork.openshift.io/device-plugin";

/// A network and a pool as the reference's operator left them.
fn left_behind() -> [Value; 2] {
    let mut network = world::custom(NETWORK, "fast", &json!({ "resourceName": "fast_nics" }));
    network["metadata"]["finalizers"] = json!([NETWORK_FINALIZER, "example.com/other"]);
    network["metadata"]["namespace"] = "default".into();
    let mut pool = world::custom(POOL, "workers", &json!({ "maxUnavailable": 1 }));
    pool["metadata"]["finalizers"] = json!([POOL_FINALIZER]);
    [network, pool]
}

#[tokio::test]
async fn a_running_operator_finishes_its_work_and_a_second_time_there_is_nothing_to_do()
-> Result<()> {
    let mut scene = Scene::installed().await?;
    let before = scene.objects().await?;
    scene.configure(&both_webhooks()).await?;
    scene.operator.start()?;
    scene.is_ready().await?;
    let kubeconfig = scene.cluster.admin_kubeconfig();
    let told = cli::run(&kubeconfig, &["cleanup"]).await?.succeeded()?;
    ensure!(told.ends_with("everything is gone\n"), "{told}");
    scene.is_as_before(&before).await?;
    let told = cli::run(&kubeconfig, &["cleanup"]).await?.succeeded()?;
    ensure!(told == "there is nothing to remove\n", "{told}");
    Ok(())
}

#[tokio::test]
async fn without_an_operator_everything_goes_all_the_same() -> Result<()> {
    let mut scene = Scene::installed().await?;
    let before = scene.objects().await?;
    for object in left_behind() {
        scene.admin().create(&object).await?;
    }
    scene.configure(&both_webhooks()).await?;
    scene.operator.start()?;
    scene.is_ready().await?;
    eventually(PATIENCE, "the nodes' label", async || {
        let node = scene.admin().must_get(NODE, "worker-0").await?;
        ensure!(node["metadata"]["labels"].get(LABEL).is_some(), "{node}");
        Ok(())
    })
    .await?;
    scene.operator.stop().await?;
    // It was in the middle of a drain, as was the administrator.
    let ours = json!({ "metadata": { "annotations": { CORDONED_BY: "sriov-operator" } },
        "spec": { "unschedulable": true } });
    scene.admin().merge(NODE, "worker-0", &ours).await?;
    let theirs = json!({ "spec": { "unschedulable": true } });
    scene.admin().merge(NODE, "worker-1", &theirs).await?;

    // Looking changes nothing.
    let registered = scene.objects().await?;
    let kubeconfig = scene.cluster.admin_kubeconfig();
    let told = cli::run(&kubeconfig, &["cleanup", "--dry-run"])
        .await?
        .succeeded()?;
    for line in [
        "would remove SriovOperatorConfig default\n",
        "would remove MutatingWebhookConfiguration network-resources-injector-config\n",
        "would remove DaemonSet sriov-device-plugin\n",
        "would remove Secret sriov-operator-ca\n",
        &format!("would remove finalizer {NETWORK_FINALIZER} of SriovNetwork default/fast\n"),
        &format!("would remove label {LABEL} of Node worker-0\n"),
        "would remove cordon of Node worker-0\n",
    ] {
        ensure!(told.contains(line), "{line} is not in: {told}");
    }
    ensure!(scene.objects().await? == registered, "something changed");

    let told = cli::run(&kubeconfig, &["cleanup"]).await?.succeeded()?;
    let position = |what: &str| told.find(what).unwrap_or(usize::MAX);
    ensure!(
        position("WebhookConfiguration") < position("remove Service "),
        "a backend went before its webhook: {told}"
    );
    scene.is_as_before(&before).await?;
    ensure!(scene.admin().get(LEASE, "sriov-operator").await?.is_none());
    let node = scene.admin().must_get(NODE, "worker-0").await?;
    ensure!(node["metadata"]["labels"].get(LABEL).is_none(), "{node}");
    ensure!(node["spec"]["unschedulable"] != true, "{node}");
    ensure!(
        node["metadata"]["annotations"].get(CORDONED_BY).is_none(),
        "{node}"
    );
    let node = scene.admin().must_get(NODE, "worker-1").await?;
    ensure!(node["spec"]["unschedulable"] == true, "{node}");

    // What users made is still there, and can be deleted now.
    let network = scene.admin().must_get(NETWORK, "default/fast").await?;
    ensure!(network["metadata"]["finalizers"] == json!(["example.com/other"]));
    scene.admin().delete(POOL, "workers").await?;
    ensure!(scene.admin().get(POOL, "workers").await?.is_none());
    Ok(())
}

#[tokio::test]
async fn what_keeps_it_from_ending_is_named() -> Result<()> {
    let scene = Scene::installed().await?;
    let mut config = world::config(&both_webhooks());
    config["metadata"]["finalizers"] = json!(["example.com/backup"]);
    scene.admin().create(&config).await?;
    let kubeconfig = scene.cluster.admin_kubeconfig();
    let complaint = cli::run(&kubeconfig, &["cleanup", "--timeout=2s"])
        .await?
        .failed()?;
    ensure!(
        complaint.contains("SriovOperatorConfig default")
            && complaint.contains("example.com/backup"),
        "{complaint}"
    );
    let none = json!({ "metadata": { "finalizers": null } });
    scene.admin().merge(CONFIG, "default", &none).await?;
    cli::run(&kubeconfig, &["cleanup"]).await?.succeeded()?;

    // A cluster that never had the definitions is clean, too.
    for definition in scene
        .admin()
        .list(crate::support::kinds::CRD)
        .await?
        .iter()
        .filter(|definition| definition["spec"]["group"] == "sriovnetwork.openshift.io")
    {
        let name = definition["metadata"]["name"].as_str().unwrap_or_default();
        scene
            .admin()
            .delete(crate::support::kinds::CRD, name)
            .await?;
    }
    let told = cli::run(&kubeconfig, &["cleanup"]).await?.succeeded()?;
    ensure!(told == "there is nothing to remove\n", "{told}");
    Ok(())
}

/// With no operator whose rights could do it, waiting for rights is in vain.
#[tokio::test]
async fn rights_that_are_missing_are_named_at_once_and_keep_back_nothing_else() -> Result<()> {
    let mut scene = Scene::installed().await?;
    scene.configure(&both_webhooks()).await?;
    scene.operator.start()?;
    scene.is_ready().await?;
    scene.operator.stop().await?;
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": "some-rights" },
        "rules": [
            { "apiGroups": ["sriovnetwork.openshift.io"], "resources": ["*"], "verbs": ["*"] },
            { "apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": ["*"] },
        ],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": { "name": "some-rights" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "some-rights" },
        "subjects": [{ "kind": "ServiceAccount", "name": "somebody", "namespace": NAMESPACE }],
    });
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": { "name": "somebody", "namespace": NAMESPACE },
    });
    for object in [role, binding, account] {
        scene.admin().create(&object).await?;
    }
    let admin = std::fs::read_to_string(scene.cluster.admin_kubeconfig())?;
    let directory = tempfile::tempdir()?;
    let kubeconfig = directory.path().join("somebody.kubeconfig");
    let own = account_kubeconfig(scene.admin(), &admin, "somebody").await?;
    std::fs::write(&kubeconfig, own)?;

    let began = Instant::now();
    let complaint = cli::run(&kubeconfig, &["cleanup", "--timeout=5m"])
        .await?
        .failed()?;
    ensure!(began.elapsed() < Duration::from_mins(1), "{complaint}");
    for line in [
        "DaemonSet sriov-device-plugin",
        "Secret sriov-operator-ca",
        "nodes: ",
    ] {
        ensure!(complaint.contains(line), "{line} is not in: {complaint}");
    }
    scene.has_webhooks(&[]).await?;
    scene.admin().must_get(CONFIG, "default").await?;
    let kubeconfig = scene.cluster.admin_kubeconfig();
    cli::run(&kubeconfig, &["cleanup"]).await?.succeeded()?;
    ensure!(scene.admin().get(CONFIG, "default").await?.is_none());
    Ok(())
}
