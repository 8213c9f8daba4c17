//! What others do to rolled out objects: it is repaired, told and, when it goes on and on, spaced out. At rest there is
//! not one request.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use http::Method;
use serde_json::{Value, json};

use crate::chart;
use crate::support::NAMESPACE;
use crate::support::cluster::Cluster;
use crate::support::issuer::{Issuer, Role, StandIn};
use crate::support::kinds::{
    ACCOUNT, CLUSTER_ROLE, CLUSTER_ROLE_BINDING, CONFIG, CONFIG_MAP, DAEMON_SET, Kind, MUTATING,
    NAMESPACES, NETWORK_POLICY, ROLE, ROLE_BINDING, SERVICE, VALIDATING, text,
};
use crate::support::scene::{PATIENCE, Scene, both_webhooks};
use crate::support::user::User;
use crate::support::wait::{eventually, throughout};

const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// How long a repair may take. That on a busy machine a single one takes longer is no fault: see the fastest.
const REPAIR: Duration = Duration::from_secs(2);

/// Everything that a user can see of an object, but for what the API server counts.
fn content(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in [
            "resourceVersion",
            "uid",
            "generation",
            "creationTimestamp",
            "managedFields",
        ] {
            metadata.remove(field);
        }
        // The controller of DaemonSets counts in it.
        if let Some(annotations) = metadata
            .get_mut("annotations")
            .and_then(Value::as_object_mut)
        {
            annotations.remove("deprecated.daemonset.template.generation");
        }
    }
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(spec) = object["spec"].as_object_mut() {
        // A Service that is made again may get another address.
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    }
    object
}

async fn repaired(admin: &User, kind: Kind, name: &str, before: &Value) -> Result<Duration> {
    let start = Instant::now();
    let what = format!("{} {name} to be repaired", kind.name);
    eventually(PATIENCE, &what, async || {
        let now = content(&admin.must_get(kind, name).await?);
        ensure!(now == *before, "it is {now}, and was {before}");
        Ok(())
    })
    .await?;
    Ok(start.elapsed())
}

/// What is done to an object of each kind, by JSON patch.
fn meddling() -> Vec<(Kind, &'static str, Value)> {
    let replace =
        |path: &str, value: Value| json!([{ "op": "replace", "path": path, "value": value }]);
    let orphan = json!([{ "op": "remove", "path": "/metadata/ownerReferences" }]);
    let nothing = json!([]);
    vec![
        (
            SERVICE,
            "operator-webhook-service",
            replace("/spec/selector", json!({ "app": "x" })),
        ),
        (ACCOUNT, "operator-webhook-sa", orphan.clone()),
        (ROLE, "sriov-plugin", replace("/rules", nothing.clone())),
        (
            ROLE_BINDING,
            "sriov-device-plugin",
            replace("/subjects", nothing.clone()),
        ),
        (
            CLUSTER_ROLE,
            "operator-webhook",
            replace("/rules", nothing.clone()),
        ),
        (
            CLUSTER_ROLE_BINDING,
            "sriov-metrics-kube-rbac-rolebinding",
            replace("/subjects", nothing.clone()),
        ),
        (
            NETWORK_POLICY,
            "operator-webhook-allow-traffic-api-server",
            replace("/spec/ingress", nothing),
        ),
        (
            DAEMON_SET,
            "sriov-network-config-daemon",
            replace("/spec/template/spec/containers/0/image", "evil".into()),
        ),
        (
            MUTATING,
            "sriov-operator-webhook-config",
            replace("/webhooks/0/failurePolicy", "Ignore".into()),
        ),
        (
            VALIDATING,
            "sriov-operator-webhook-config",
            replace("/webhooks/0/clientConfig/caBundle", "".into()),
        ),
        (CONFIG_MAP, "nri-control-switches", orphan),
    ]
}

/// Dedicated webhooks and the exporter, so that there is an object of every kind; nobody answers.
async fn everything() -> Result<Scene> {
    let mut scene = Scene::installed().await?;
    chart::grant(scene.admin(), "dedicated").await?;
    scene.operator.set("ADMISSION_SERVING", "dedicated");
    scene.operator.set_exporter_images();
    scene.operator.start()?;
    let mut spec = both_webhooks();
    spec["featureGates"] = json!({ "metricsExporter": true });
    scene.configure(&spec).await?;
    let status = json!({ "currentNumberScheduled": 1, "desiredNumberScheduled": 1,
        "numberMisscheduled": 0, "numberReady": 1 });
    for name in ["operator-webhook", "network-resources-injector"] {
        eventually(PATIENCE, name, async || {
            scene.admin().merge_status(DAEMON_SET, name, &status).await
        })
        .await?;
    }
    scene.is_ready().await?;
    Ok(scene)
}

#[tokio::test]
async fn drift_of_each_kind_is_repaired_and_told() -> Result<()> {
    let scene = everything().await?;
    scene.is_quiet("with workloads of their own").await?;
    let mut slow = Vec::new();
    for (kind, name, change) in &meddling() {
        let path = format!("{}/{name}?fieldManager=meddler", kind.collection(None));
        let before = content(&scene.admin().must_get(*kind, name).await?);
        let label = json!([{ "op": "remove", "path": format!("/metadata/labels/{}", MANAGED_BY.replace('/', "~1")) }]);
        for patch in [change, &label] {
            scene
                .admin()
                .call(
                    Method::PATCH,
                    &path,
                    "application/json-patch+json",
                    Some(patch),
                )
                .await?
                .object()
                .with_context(|| format!("{} {name}", kind.name))?;
            let took = repaired(scene.admin(), *kind, name, &before).await?;
            if took > REPAIR {
                slow.push((kind.name, *name, took));
            }
        }
        scene.admin().delete(*kind, name).await?;
        let took = repaired(scene.admin(), *kind, name, &before).await?;
        if took > REPAIR {
            slow.push((kind.name, *name, took));
        }
    }
    ensure!(
        slow.len() <= 2,
        "repairs took longer than {REPAIR:?}: {slow:?}"
    );
    scene
        .tells(&[
            (
                "DriftRepaired",
                "Service operator-webhook-service was changed by meddler",
            ),
            ("DriftRepaired", "Role sriov-plugin was deleted"),
            (
                "DriftRepaired",
                "ConfigMap nri-control-switches was deleted",
            ),
        ])
        .await?;

    what_others_add_stays(&scene).await?;
    scene.was_allowed_everything()
}

/// A variable in a container, a label: what is not ours.
async fn what_others_add_stays(scene: &Scene) -> Result<()> {
    let path = format!(
        "{}/sriov-device-plugin?fieldManager=meddler",
        DAEMON_SET.collection(None)
    );
    let addition = json!([
        { "op": "add", "path": "/spec/template/spec/containers/0/env/-", "value": { "name": "THEIRS", "value": "1" } },
        { "op": "add", "path": "/metadata/labels/theirs", "value": "yes" },
    ]);
    let theirs = scene
        .admin()
        .call(
            Method::PATCH,
            &path,
            "application/json-patch+json",
            Some(&addition),
        )
        .await?
        .object()?;
    throughout(Duration::from_secs(2), "what others added", async || {
        let now = scene
            .admin()
            .must_get(DAEMON_SET, "sriov-device-plugin")
            .await?;
        ensure!(
            now["metadata"]["resourceVersion"] == theirs["metadata"]["resourceVersion"],
            "it was touched"
        );
        Ok(())
    })
    .await
}

#[tokio::test]
async fn at_rest_there_is_not_one_request_and_a_fight_is_spaced_out() -> Result<()> {
    let mut scene = Scene::registered().await?;
    scene.is_quiet("at rest").await?;

    // What others write into the status, or beside the spec, wakes nobody.
    let mark = scene.mark()?;
    let status = json!({ "injector": "theirs" });
    scene
        .admin()
        .merge_status(CONFIG, "default", &status)
        .await?;
    let note = json!({ "metadata": { "annotations": { "note": "theirs" } } });
    scene.admin().merge(CONFIG, "default", &note).await?;
    scene
        .stays_quiet(&mark, "after a change of the status")
        .await?;

    // A change that changes no object costs the status of the new generation, and nothing else.
    let before = scene.requests()?.len();
    scene.ready_with(&json!({ "disableDrain": true })).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let since = scene.requests()?.split_off(before);
    ensure!(
        since.len() == 1 && since[0].uri.contains("/default/status"),
        "it asked {since:?}"
    );

    // Somebody who insists is named, and answered less and less often.
    let name = "network-resources-injector-service";
    let evil = json!({ "spec": { "selector": { "app": "theirs" } } });
    let path = format!("{}/{name}?fieldManager=insister", SERVICE.collection(None));
    let before = scene.writes()?.len();
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(4) {
        scene
            .admin()
            .call(
                Method::PATCH,
                &path,
                "application/merge-patch+json",
                Some(&evil),
            )
            .await?
            .object()?;
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    let repairs = scene
        .writes()?
        .split_off(before)
        .iter()
        .filter(|call| call.uri.contains(name))
        .count();
    ensure!(
        (5..=8).contains(&repairs),
        "it was repaired {repairs} times"
    );
    scene
        .is_not_ready(
            "OperatorConfigSyncFailed",
            &["Service network-resources-injector-service", "insister"],
        )
        .await?;
    scene.tells(&[("RepairsSpacedOut", "insister")]).await?;
    // It ends right when the other one stops.
    scene.is_ready().await?;
    let service = scene.admin().must_get(SERVICE, name).await?;
    ensure!(
        service["spec"]["selector"] == json!({ "app.kubernetes.io/name": "sriov-operator" }),
        "{service}"
    );
    scene.was_allowed_everything()
}

#[tokio::test]
async fn at_rest_nothing_is_asked_where_others_issue_certificates() -> Result<()> {
    let mut scene = Scene::installed().await?;
    scene.operator.set(
        "ADMISSION_CONTROLLERS_CERTIFICATES_CERT_MANAGER_ENABLED",
        "true",
    );
    scene.operator.start()?;
    scene.configure(&both_webhooks()).await?;
    let issuer = Issuer::new("cert-manager")?;
    let _stand_in = StandIn::start(scene.admin(), Role::CertManager, issuer);
    scene.is_ready().await?;
    scene.is_quiet("with cert-manager").await?;
    scene.was_allowed_everything()
}

#[tokio::test]
async fn deletion_leaves_nothing_with_a_collector_and_without_an_operator() -> Result<()> {
    let mut scene = Scene::on(Cluster::boot().await?.with_controller_manager()?).await?;
    let before = scene.objects().await?;
    scene.operator.set_exporter_images();
    scene.operator.start()?;
    let mut spec = both_webhooks();
    spec["featureGates"] = json!({ "metricsExporter": true });
    for _ in 0..2 {
        scene.configure(&spec).await?;
        scene.is_ready().await?;
        scene.admin().delete(CONFIG, "default").await?;
        scene.is_as_before(&before).await?;
    }

    // The Namespace goes while no operator runs: what is cluster-wide goes with it.
    scene.configure(&spec).await?;
    scene.is_ready().await?;
    let owned = scene
        .admin()
        .must_get(CLUSTER_ROLE, "sriov-metrics-kube-rbac-role")
        .await?;
    ensure!(
        owned["metadata"]["ownerReferences"][0]["kind"] == "Namespace",
        "{owned}"
    );
    scene.operator.kill();
    scene
        .admin()
        .merge(
            CONFIG,
            "default",
            &json!({ "metadata": { "finalizers": null } }),
        )
        .await?;
    scene.admin().delete(NAMESPACES, NAMESPACE).await?;
    eventually(
        Duration::from_secs(90),
        "everything to be gone",
        async || {
            let namespace = scene.admin().get(NAMESPACES, NAMESPACE).await?;
            ensure!(namespace.is_none(), "the Namespace is there");
            let left = scene.webhooks().await?;
            ensure!(left.is_empty(), "left are {left:?}");
            let role = scene
                .admin()
                .get(CLUSTER_ROLE, text(&owned, "/metadata/name"))
                .await?;
            ensure!(role.is_none(), "the ClusterRole is there");
            Ok(())
        },
    )
    .await
}
