//! `sriov-operator cleanup`: what the product has made goes, whoever is there to help.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::support::kinds::{CONFIG, LEASE, NETWORK, POOL};
use crate::support::scene::{Scene, both_webhooks};
use crate::support::{cli, world};

const NETWORK_FINALIZER: &str = "netattdef.finalizers.sriovnetwork.openshift.io";
const POOL_FINALIZER: &str = "poolconfig.finalizers.sriovnetwork.openshift.io";

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
    scene.operator.stop().await?;

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
