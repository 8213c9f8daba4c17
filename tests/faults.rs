//! What goes wrong around the operator, and that it is told, costs little, harms nothing else, and is over when it is over:
//! without a restart.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::support::cluster::Cluster;
use crate::support::kinds::{
    ADMISSION_POLICY, ADMISSION_POLICY_BINDING, CONFIG, CONFIG_MAP, DAEMON_SET, Kind, MUTATING,
    NAD, PROMETHEUS_RULE, ROLE, SERVICE, SERVICE_MONITOR, VALIDATING, text,
};
use crate::support::scene::{OPERATOR_WEBHOOKS, PATIENCE, Scene, both_webhooks};
use crate::support::wait::{eventually, throughout};
use crate::support::{NAMESPACE, manifests, world};

const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
const CONFIG_DAEMON: &str = "sriov-network-config-daemon";
const DEVICE_PLUGIN: &str = "sriov-device-plugin";
const EXPORTER: &str = "sriov-network-metrics-exporter";
/// The definition that Multus brings.
const NADS: &str = "network-attachment-definitions.k8s.cni.cncf.io";
/// How long what is watched for may go unnoticed on a busy machine.
const NOTICED: Duration = Duration::from_secs(10);
/// Longer than every time-out and back-off but that of forgetting an outage.
const OUTAGE: Duration = Duration::from_secs(75);
/// How long after an outage the operator may still be busy with it: the longest back-off, and a busy machine.
const RECOVERY: Duration = Duration::from_secs(15);

/// A webhook of somebody else's that nobody answers, about the DaemonSets of our namespace.
fn unanswered_webhook() -> Value {
    json!({
        "apiVersion": VALIDATING.api_version, "kind": VALIDATING.name,
        "metadata": { "name": "policy-engine" },
        "webhooks": [{
            "name": "policy-engine.example.com",
            "admissionReviewVersions": ["v1"],
            "clientConfig": { "service": { "name": "policy-engine", "namespace": "default" } },
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "rules": [{ "apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["daemonsets"] }],
        }],
    })
}

#[tokio::test]
async fn what_fails_fails_alone_is_named_and_recovers_without_a_restart() -> Result<()> {
    let mut scene = Scene::installed().await?;
    // Somebody else's objects under our names.
    let foreign = [
        json!({ "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": "network-resources-injector-service", "namespace": NAMESPACE },
            "spec": { "ports": [{ "port": 80 }], "selector": { "app": "theirs" } } }),
        json!({ "apiVersion": ROLE.api_version, "kind": ROLE.name,
            "metadata": { "name": "sriov-plugin", "namespace": NAMESPACE }, "rules": [] }),
    ];
    let mut stored = Vec::new();
    for object in &foreign {
        stored.push(scene.admin().create(object).await?);
    }
    scene.admin().create(&unanswered_webhook()).await?;
    scene.operator.start()?;
    scene.configure(&both_webhooks()).await?;
    scene
        .is_not_ready(
            "OperatorConfigSyncFailed",
            &[
                "injector: Service network-resources-injector-service exists and is not managed by this operator",
                "device-plugin: Role sriov-plugin exists and is not managed by this operator",
                "config-daemon: failed to apply DaemonSet sriov-network-config-daemon",
                "policy-engine.example.com",
            ],
        )
        .await?;
    // The operator webhook has neither, and is there; the injector has no backend, and is not.
    scene
        .has_webhooks(&[
            OPERATOR_WEBHOOKS[0],
            OPERATOR_WEBHOOKS[1],
            "ValidatingWebhookConfiguration policy-engine",
        ])
        .await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    // The condition stands still while nothing changes, so nobody is woken by it.
    let told = async || -> Result<Value> {
        let config = scene.admin().must_get(CONFIG, "default").await?;
        Ok(config["status"].clone())
    };
    let status = told().await?;
    throughout(Duration::from_secs(2), "the status", async || {
        let now = told().await?;
        ensure!(now == status, "it became {now}");
        Ok(())
    })
    .await?;

    // The other webhook goes: recovered at the next try.
    scene.admin().delete(VALIDATING, "policy-engine").await?;
    eventually(PATIENCE, "the DaemonSet", async || {
        scene.admin().must_get(DAEMON_SET, CONFIG_DAEMON).await
    })
    .await?;
    // What is others' was not touched, and goes.
    for object in &stored {
        let kind = Kind::of(object)?;
        let now = scene
            .admin()
            .must_get(kind, text(object, "/metadata/name"))
            .await?;
        ensure!(
            now["metadata"]["resourceVersion"] == object["metadata"]["resourceVersion"],
            "it was touched: {now}"
        );
        scene
            .admin()
            .delete(kind, text(object, "/metadata/name"))
            .await?;
    }
    a_right_goes_and_comes(&scene).await?;
    a_policy_refuses_and_gives_in(&scene).await?;
    scene.is_ready().await?;
    scene
        .admin()
        .must_get(MUTATING, "network-resources-injector-config")
        .await
        .map(drop)
}

/// A rule of the cluster's that refuses one of our objects is quoted, and its end is noticed.
async fn a_policy_refuses_and_gives_in(scene: &Scene) -> Result<()> {
    let name = "no-device-plugins";
    let policy = json!({
        "apiVersion": ADMISSION_POLICY.api_version, "kind": ADMISSION_POLICY.name,
        "metadata": { "name": name },
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": { "resourceRules": [{ "apiGroups": ["apps"], "apiVersions": ["v1"],
                "operations": ["CREATE", "UPDATE"], "resources": ["daemonsets"] }] },
            "validations": [{ "expression": "object.metadata.name != 'sriov-device-plugin'",
                "message": "not on our cluster" }],
        },
    });
    let binding = json!({
        "apiVersion": ADMISSION_POLICY_BINDING.api_version, "kind": ADMISSION_POLICY_BINDING.name,
        "metadata": { "name": name },
        "spec": { "policyName": name, "validationActions": ["Deny"] },
    });
    scene.admin().create(&policy).await?;
    scene.admin().create(&binding).await?;
    // It is in force a moment later.
    eventually(PATIENCE, "the refusal", async || {
        scene.admin().delete(DAEMON_SET, DEVICE_PLUGIN).await.ok();
        let config = scene.admin().must_get(CONFIG, "default").await?;
        let ready = world::condition(&config, "Ready")?;
        let message = text(&ready, "/message");
        ensure!(
            message.contains("device-plugin: failed to apply DaemonSet sriov-device-plugin")
                && message.contains("not on our cluster"),
            "{ready}"
        );
        Ok(())
    })
    .await?;
    scene.admin().delete(ADMISSION_POLICY_BINDING, name).await?;
    scene.admin().delete(ADMISSION_POLICY, name).await?;
    eventually(PATIENCE, "the device plugin", async || {
        scene.admin().must_get(DAEMON_SET, DEVICE_PLUGIN).await
    })
    .await
    .map(drop)
}

/// A right that is missing is named, and its return is noticed.
async fn a_right_goes_and_comes(scene: &Scene) -> Result<()> {
    let role = scene
        .admin()
        .must_get(ROLE, "sriov-network-operator")
        .await?;
    let mut less = role.clone();
    if let Some(rules) = less["rules"].as_array_mut() {
        rules.retain(|rule| {
            rule["resources"] != json!(["daemonsets"]) || rule.get("resourceNames").is_none()
        });
    }
    scene
        .admin()
        .merge(
            ROLE,
            "sriov-network-operator",
            &json!({ "rules": less["rules"] }),
        )
        .await?;
    scene.reconfigure(&json!({ "useCDI": true })).await?;
    scene
        .is_not_ready(
            "OperatorConfigSyncFailed",
            &[
                "device-plugin: failed to apply DaemonSet sriov-device-plugin",
                "forbidden",
            ],
        )
        .await?;
    scene
        .admin()
        .merge(
            ROLE,
            "sriov-network-operator",
            &json!({ "rules": role["rules"] }),
        )
        .await
        .map(drop)
}

/// Asks for all that the metrics exporter has for the Prometheus operator.
fn wants_prometheus(scene: &mut Scene) {
    scene.operator.set_exporter_images();
    for name in [
        "METRICS_EXPORTER_PROMETHEUS_OPERATOR_ENABLED",
        "METRICS_EXPORTER_PROMETHEUS_DEPLOY_RULES",
    ] {
        scene.operator.set(name, "true");
    }
}

#[tokio::test]
async fn without_the_prometheus_operator_its_objects_are_left_out_until_it_comes() -> Result<()> {
    let mut scene = Scene::installed().await?;
    wants_prometheus(&mut scene);
    scene.operator.start()?;
    scene
        .configure(&json!({ "featureGates": { "metricsExporter": true }, "logLevel": 2 }))
        .await?;
    scene.is_ready().await?;
    let config = scene.admin().must_get(CONFIG, "default").await?;
    let degraded = world::condition(&config, "Degraded")?;
    ensure!(
        text(&degraded, "/message").contains("ServiceMonitor"),
        "{degraded}"
    );

    for (kind, plural) in [
        ("ServiceMonitor", "servicemonitors"),
        ("PrometheusRule", "prometheusrules"),
    ] {
        let crd = manifests::stand_in("monitoring.coreos.com", kind, plural, "Namespaced");
        scene.admin().create(&crd).await?;
        manifests::established(scene.admin(), text(&crd, "/metadata/name")).await?;
    }
    eventually(PATIENCE, "the ServiceMonitor", async || {
        scene.admin().must_get(SERVICE_MONITOR, EXPORTER).await
    })
    .await?;
    eventually(PATIENCE, "the warning to be gone", async || {
        let config = scene.admin().must_get(CONFIG, "default").await?;
        let degraded = world::condition(&config, "Degraded")?;
        ensure!(degraded["status"] == "False", "{degraded}");
        Ok(())
    })
    .await?;

    // Switched off in the settings, its objects go.
    scene.operator.stop().await?;
    scene
        .operator
        .set("METRICS_EXPORTER_PROMETHEUS_OPERATOR_ENABLED", "false");
    scene.operator.start()?;
    scene.is_gone(SERVICE_MONITOR, EXPORTER).await?;
    scene.is_gone(ROLE, "prometheus-k8s").await?;
    scene.admin().must_get(DAEMON_SET, EXPORTER).await?;
    scene.was_allowed_everything()
}

/// An object of a user's under a name of ours.
fn of_a_user(kind: Kind, name: &str, content: &Value) -> Value {
    let mut object = content.clone();
    object["apiVersion"] = kind.api_version.into();
    object["kind"] = kind.name.into();
    object["metadata"] = json!({ "name": name, "namespace": NAMESPACE });
    object
}

#[tokio::test]
async fn missing_kinds_and_names_of_others_cost_nothing_and_their_change_is_noticed() -> Result<()>
{
    let mut scene = Scene::bare(Cluster::boot().await?).await?;
    // Neither Multus nor the Prometheus operator.
    let (networks, others): (Vec<Value>, Vec<Value>) = world::seeds()?
        .into_iter()
        .partition(|object| object["kind"] == NAD.name || text(object, "/metadata/name") == NADS);
    world::load(scene.admin(), &others).await?;
    wants_prometheus(&mut scene);
    let theirs = [
        of_a_user(
            SERVICE,
            "network-resources-injector-service",
            &json!({ "spec": { "ports": [{ "port": 80 }], "selector": { "app": "theirs" } } }),
        ),
        of_a_user(ROLE, "sriov-plugin", &json!({ "rules": [] })),
        of_a_user(
            CONFIG_MAP,
            "nri-control-switches",
            &json!({ "data": { "config.json": "{}" } }),
        ),
    ];
    for object in &theirs {
        scene.admin().create(object).await?;
    }
    let mut spec = both_webhooks();
    spec["featureGates"] = json!({ "metricsExporter": true });
    scene.configure(&spec).await?;
    scene.operator.start()?;
    let said = ["network-resources-injector-service", "Role sriov-plugin"];
    scene
        .is_not_ready("OperatorConfigSyncFailed", &said)
        .await?;
    scene.is_quiet("without kinds, beside others").await?;

    // A pass asks for none of it again; it costs the status of the new generation.
    let before = scene.requests()?.len();
    scene.reconfigure(&json!({ "disableDrain": true })).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let since = scene.requests()?.split_off(before);
    ensure!(
        since.len() == 1 && since[0].uri.contains("/default/status"),
        "it asked {since:?}"
    );

    // Each name is taken as soon as it is free.
    for object in &theirs {
        let (kind, name) = (Kind::of(object)?, text(object, "/metadata/name"));
        scene.admin().delete(kind, name).await?;
        eventually(NOTICED, &format!("our {} {name}", kind.name), async || {
            let now = scene.admin().must_get(kind, name).await?;
            let label = &now["metadata"]["labels"][MANAGED_BY];
            ensure!(*label == "sriov-operator", "it is {now}");
            Ok(())
        })
        .await?;
    }
    scene.is_ready().await?;

    // And kinds are noticed as soon as the server knows them.
    for (kind, plural, name) in [
        (SERVICE_MONITOR, "servicemonitors", EXPORTER),
        (PROMETHEUS_RULE, "prometheusrules", "sriov-vf-rules"),
    ] {
        let crd = manifests::stand_in("monitoring.coreos.com", kind.name, plural, "Namespaced");
        scene.admin().create(&crd).await?;
        eventually(NOTICED, &format!("the {}", kind.name), async || {
            scene.admin().must_get(kind, name).await
        })
        .await?;
    }
    world::load(scene.admin(), &networks).await?;
    eventually(NOTICED, "pods of networks to be seen to", async || {
        let pod = scene.admin().ask_create(&world::pod("app", "fast")).await?;
        let pod = pod.object()?;
        let limits = &pod["spec"]["containers"][0]["resources"]["limits"];
        ensure!(limits["openshift.io/fast_nics"] == "1", "{pod}");
        Ok(())
    })
    .await?;
    scene.is_quiet("with all kinds").await?;
    scene.was_allowed_everything()
}

#[tokio::test]
async fn an_api_server_that_is_gone_for_minutes_is_waited_for() -> Result<()> {
    let mut scene = Scene::registered().await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (process, files) = (scene.operator.process_id()?, scene.operator.open_files()?);

    scene.cluster.stop_api_server();
    tokio::time::sleep(OUTAGE).await;
    ensure!(scene.operator.open_files()? <= files, "files leak");
    let (healthy, _) = scene.operator.health().get("/healthz").await?;
    ensure!(healthy == 200, "it is not alive");
    scene.cluster.start_api_server().await?;

    // At once it leads, follows, repairs and serves again.
    let back = Instant::now();
    let webhook = "network-resources-injector-config";
    scene.admin().delete(MUTATING, webhook).await?;
    // Our own webhook judges the change, as soon as it is ready again.
    eventually(RECOVERY, "the change to be judged", async || {
        scene.reconfigure(&json!({ "useCDI": true })).await
    })
    .await?;
    eventually(RECOVERY, "repairs", async || {
        scene.admin().must_get(MUTATING, webhook).await
    })
    .await?;
    eventually(RECOVERY, "the change to be followed", async || {
        let plugin = scene
            .admin()
            .must_get(DAEMON_SET, "sriov-device-plugin")
            .await?;
        ensure!(plugin.to_string().contains("--use-cdi"), "{plugin}");
        Ok(())
    })
    .await?;
    eventually(RECOVERY, "pods to be injected", async || {
        let pod = scene.admin().ask_create(&world::pod("app", "fast")).await?;
        let pod = pod.object()?;
        let limits = &pod["spec"]["containers"][0]["resources"]["limits"];
        ensure!(limits["openshift.io/fast_nics"] == "1", "{pod}");
        Ok(())
    })
    .await?;
    scene.operator.ready().await?;
    scene.is_ready().await?;
    println!("everything was well after {:?}", back.elapsed());
    ensure!(scene.operator.process_id()? == process, "it was restarted");
    tokio::time::sleep(Duration::from_secs(2)).await;
    let now = scene.operator.open_files()?;
    ensure!(now <= files + 8, "{files} open files became {now}");
    // That it was refused things is no fault: a server that has just begun does not know its roles yet.
    Ok(())
}
