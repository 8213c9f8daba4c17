//! `sriov-operator status`: how an installation stands, with the rights of whoever asks.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::support::kinds::text;
use crate::support::operator::account_kubeconfig;
use crate::support::scene::{Scene, both_webhooks};
use crate::support::{NAMESPACE, cli};

async fn report(scene: &Scene) -> Result<Value> {
    let told = cli::run(
        &scene.cluster.admin_kubeconfig(),
        &["status", "--output=json"],
    )
    .await?
    .succeeded()?;
    serde_json::from_str(&told).context("it is no JSON")
}

fn problems(report: &Value) -> Vec<&str> {
    let problems = report["problems"].as_array().into_iter().flatten();
    problems.map(|problem| text(problem, "/what")).collect()
}

#[tokio::test]
async fn it_follows_an_installation_from_nothing_to_ready() -> Result<()> {
    let mut scene = Scene::installed().await?;
    let before = report(&scene).await?;
    let told = problems(&before);
    ensure!(
        told.iter()
            .any(|what| what.contains("there is no SriovOperatorConfig default")),
        "{told:?}"
    );
    scene.configure(&both_webhooks()).await?;
    scene.operator.start()?;
    scene.is_ready().await?;

    let ready = report(&scene).await?;
    ensure!(ready["certificateMode"] == "self-signed", "{ready}");
    ensure!(ready["leader"]["inForce"] == true, "{}", ready["leader"]);
    for webhook in ready["webhooks"].as_array().into_iter().flatten() {
        let authorities = webhook["registered"]["caBundle"].as_array();
        ensure!(authorities.is_some_and(|all| all.len() == 1), "{webhook}");
        ensure!(webhook["servedBy"]["serving"] == "in-process", "{webhook}");
    }
    for certificate in ready["certificates"].as_array().into_iter().flatten() {
        ensure!(
            certificate["certificate"]["fault"].is_null(),
            "{certificate}"
        );
    }
    // There is no kubelet here: nobody runs pods, and that is all that it finds.
    let told = problems(&ready);
    ensure!(
        told.iter().all(|what| what.contains("no ready pod")),
        "{told:?}"
    );

    let kubeconfig = scene.cluster.admin_kubeconfig();
    let screen = cli::run(&kubeconfig, &["status"]).await?.succeeded()?;
    ensure!(screen.contains("sriov-network-config-daemon"), "{screen}");
    let yaml = cli::run(&kubeconfig, &["status", "-o", "yaml"])
        .await?
        .succeeded()?;
    let yaml: Value = serde_saphyr::from_str(&yaml)?;
    ensure!(yaml["namespace"] == NAMESPACE, "{yaml}");
    Ok(())
}

#[tokio::test]
async fn somebody_without_rights_sees_what_is_missing_and_the_rest() -> Result<()> {
    let scene = Scene::installed().await?;
    scene.configure(&json!({ "enableInjector": false })).await?;
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": { "name": "viewer", "namespace": NAMESPACE },
    });
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": { "name": "viewer", "namespace": NAMESPACE },
        "rules": [{
            "apiGroups": ["sriovnetwork.openshift.io"],
            "resources": ["sriovoperatorconfigs"], "verbs": ["get"],
        }],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": { "name": "viewer", "namespace": NAMESPACE },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "viewer" },
        "subjects": [{ "kind": "ServiceAccount", "name": "viewer", "namespace": NAMESPACE }],
    });
    for object in [account, role, binding] {
        scene.admin().create(&object).await?;
    }
    let admin = std::fs::read_to_string(scene.cluster.admin_kubeconfig())?;
    let directory = tempfile::tempdir()?;
    let kubeconfig = directory.path().join("viewer.kubeconfig");
    let own = account_kubeconfig(scene.admin(), &admin, "viewer").await?;
    std::fs::write(&kubeconfig, own)?;
    let told = cli::run(&kubeconfig, &["status", "--output=json"])
        .await?
        .succeeded()?;
    let report: Value = serde_json::from_str(&told)?;
    ensure!(report["config"]["generation"] == 1, "{report}");
    for part in ["leader", "policies", "nodes"] {
        ensure!(
            report[part]["unreadable"] == "you have no right to read it",
            "{part}: {}",
            report[part]
        );
    }
    Ok(())
}
