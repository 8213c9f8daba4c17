//! Installing over what is there: the Go operator's installation is taken over in place, another one of ours is not.

mod way_back;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use http::Method;
use serde_json::{Value, json};

use crate::chart;
use crate::support::caller::{Caller, creation};
use crate::support::kinds::{
    CLUSTER_ROLE, CONFIG, CONFIG_MAP, DAEMON_SET, Kind, MUTATING, POLICY, SECRET, SERVICE,
    VALIDATING, text,
};
use crate::support::old_webhook::{OldWebhook, REFUSAL};
use crate::support::operator::Operator;
use crate::support::scene::{BOTH_WEBHOOKS, PATIENCE, Scene, both_webhooks};
use crate::support::user::{Refuser, User};
use crate::support::wait::eventually;
use crate::support::workload::Workload;
use crate::support::{NAMESPACE, manifests, world};

/// Group, version and plural of policies.
const POLICIES: [&str; 3] = [
    "sriovnetwork.openshift.io",
    "v1",
    "sriovnetworknodepolicies",
];
const OLD_MANAGER: &str = "sriov-network-operator";
/// How long a new CA is made known before it counts.
const SETTLE: Duration = Duration::from_secs(1);
/// How long what nobody needs any longer may stay.
const SOON: Duration = Duration::from_secs(8);
const SERVICE_NAME: &str = "operator-webhook-service";

/// Makes what the Go operator made.
async fn left_by_the_go_operator(admin: &User, owner: &Value, ca: &str) -> Result<Vec<Value>> {
    let objects = manifests::read_yaml(&manifests::root().join("tests/data/reference.yaml"))?;
    let mut stored = Vec::new();
    for mut object in objects {
        if let Some(webhook) = object.pointer_mut("/webhooks/0/clientConfig") {
            webhook["caBundle"] = base64::engine::general_purpose::STANDARD.encode(ca).into();
        }
        stored.push(made_by_the_go_operator(admin, object, owner).await?);
    }
    Ok(stored)
}

/// Makes one object as the Go operator does: a POST where nothing is there, then a full update that keeps the labels and
/// annotations that are there.
pub(crate) async fn made_by_the_go_operator(
    admin: &User,
    mut object: Value,
    owner: &Value,
) -> Result<Value> {
    let kind = Kind::of(&object)?;
    if kind.is_namespaced() {
        object["metadata"]["namespace"] = NAMESPACE.into();
        object["metadata"]["ownerReferences"] = json!([{
            "apiVersion": CONFIG.api_version, "kind": CONFIG.name, "name": "default",
            "uid": owner["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
        }]);
    }
    let query = format!("?fieldManager={OLD_MANAGER}");
    let name = text(&object, "/metadata/name").to_owned();
    let there = if let Some(there) = admin.get(kind, &name).await? {
        there
    } else {
        let path = format!("{}{query}", kind.collection(None));
        admin
            .call(Method::POST, &path, "application/json", Some(&object))
            .await?
            .object()
            .with_context(|| format!("{object}"))?
    };
    for kept in ["resourceVersion", "labels", "annotations"] {
        object["metadata"][kept] = there["metadata"][kept].clone();
    }
    let path = format!("{}/{name}{query}", kind.collection(None));
    admin
        .call(Method::PUT, &path, "application/json", Some(&object))
        .await?
        .object()
        .with_context(|| format!("{object}"))
}

/// A policy that neither webhook lets through.
fn impossible() -> Value {
    let spec = json!({
        "resourceName": "fast_nics",
        "nodeSelector": { "node-role.kubernetes.io/worker": "" },
        "numVfs": 500,
        "nicSelector": { "pfNames": ["ens1f0"] },
    });
    world::custom(POLICY, "impossible", &spec)
}

/// Waits until the old webhook has refused it.
async fn the_old_webhook_judges(scene: &Scene) -> Result<()> {
    eventually(PATIENCE, "the old webhook to judge", async || {
        let answer = scene.admin().ask_create(&impossible()).await?;
        ensure!(answer.message().contains(REFUSAL), "{answer:?}");
        Ok(())
    })
    .await
}

/// A second operator, which has its webhooks served by pods of their own, and these pods.
struct Workloads {
    operator: Operator,
    injector: Workload,
    webhook: Workload,
}

/// The second operator takes the place of the first, as in a roll-out.
async fn to_workloads(scene: &mut Scene) -> Result<Workloads> {
    let mut operator = scene.replica(2).await?;
    operator.set("ADMISSION_SERVING", "dedicated");
    operator.argument("--shutdown-delay=1s");
    operator.start()?;
    operator.ready().await?;
    scene.operator.stop().await?;
    Ok(Workloads {
        operator,
        injector: scene.run_pod_of("network-resources-injector", 12).await?,
        webhook: scene.run_pod_of("operator-webhook", 11).await?,
    })
}

/// Asks about it all the time; says how often each of the two judged it, and fails when nobody did.
async fn judged(admin: User, until: tokio::sync::watch::Receiver<bool>) -> Result<(usize, usize)> {
    let (mut old, mut new) = (0, 0);
    while !*until.borrow() {
        let answer = admin.ask_create(&impossible()).await?;
        ensure!(
            answer.refuser() == Some(Refuser::Webhook),
            "after {old} and {new} nobody judged it: {answer:?}"
        );
        if answer.message().contains(REFUSAL) {
            old += 1;
        } else {
            new += 1;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok((old, new))
}

#[tokio::test]
async fn the_go_operators_installation_is_taken_over_without_a_gap() -> Result<()> {
    let mut scene = Scene::installed().await?;
    scene.operator.set("OVS_CNI_IMAGE", "");
    scene.operator.argument("--rotation-settle-time=1s");
    scene.operator.argument("--shutdown-delay=2s");
    let mut spec = both_webhooks();
    spec["featureGates"] = json!({ "blockDevicePluginUntilConfigured": false });
    let mut config = world::config(&spec);
    config["metadata"]["finalizers"] =
        json!(["operatorconfig.finalizers.sriovnetwork.openshift.io"]);
    let config = scene.admin().create(&config).await?;
    let service = format!("{SERVICE_NAME}.{NAMESPACE}.svc");
    let address = scene.cluster.address(20);
    let old = OldWebhook::start(address, "operator-webhook", &service).await?;
    scene.add(old.pod());
    let left = left_by_the_go_operator(scene.admin(), &config, &old.ca).await?;
    let find = |kind: Kind, name: &str| {
        left.iter()
            .find(|one| one["kind"] == kind.name && text(one, "/metadata/name") == name)
            .cloned()
            .context("it is not in the data")
    };
    // Users have been at it, too.
    let note = json!({ "data": { "notes": "kept" } });
    scene
        .admin()
        .merge(CONFIG_MAP, "nri-control-switches", &note)
        .await?;
    // Its serving pair, which is not ours to replace.
    let secret = json!({ "apiVersion": "v1", "kind": SECRET.name, "type": "Opaque",
        "metadata": { "name": "operator-webhook-cert", "namespace": NAMESPACE },
        "stringData": { "ca.crt": "x", "tls.crt": "x", "tls.key": "x" } });
    scene.admin().create(&secret).await?;
    the_old_webhook_judges(&scene).await?;

    let (stop, until) = tokio::sync::watch::channel(false);
    let judging = tokio::spawn(judged(scene.admin().clone(), until));
    scene.operator.start()?;
    the_old_webhook_goes_on(&scene, &left).await?;

    scene
        .admin()
        .delete(SECRET, "operator-webhook-cert")
        .await?;
    scene.is_ready().await?;
    for name in ["operator-webhook", "network-resources-injector"] {
        scene.is_gone(DAEMON_SET, name).await?;
        scene.is_gone(CLUSTER_ROLE, name).await?;
    }
    // Our bundle alone is left.
    eventually(PATIENCE, "the old CA to be gone", async || {
        for name in [
            "sriov-operator-webhook-config",
            "network-resources-injector-config",
        ] {
            let bundle = bundle(&scene.admin().must_get(MUTATING, name).await?)?;
            ensure!(!bundle.contains(&old.ca), "{name} has it");
        }
        Ok(())
    })
    .await?;
    stop.send_replace(true);
    let (by_old, by_new) = judging.await??;
    ensure!(
        by_old > 0 && by_new > 0,
        "judged {by_old} and {by_new} times"
    );
    scene.has_webhooks(&BOTH_WEBHOOKS).await?;

    nothing_old_is_left(&scene, &find(DAEMON_SET, "sriov-network-config-daemon")?).await?;

    // And it goes like what we made ourselves.
    scene.admin().delete(CONFIG, "default").await?;
    scene.is_gone(CONFIG, "default").await?;
    scene.has_webhooks(&[]).await?;
    scene.is_gone(CONFIG_MAP, "nri-control-switches").await?;
    scene.is_gone(DAEMON_SET, "sriov-device-plugin").await?;
    scene.was_allowed_everything()
}

/// Until the pair can be replaced, the old webhook goes on; what is named is how to go on.
async fn the_old_webhook_goes_on(scene: &Scene, left: &[Value]) -> Result<()> {
    scene
        .is_not_ready(
            "OperatorConfigSyncFailed",
            &[
                "operator-webhook-cert",
                "delete it",
                "operator-webhook: waiting for",
            ],
        )
        .await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    for kind in [MUTATING, VALIDATING] {
        let name = "sriov-operator-webhook-config";
        let now = scene.admin().must_get(kind, name).await?;
        ensure!(left.contains(&now), "it was touched: {now}");
    }
    let now = scene.admin().must_get(SERVICE, SERVICE_NAME).await?;
    ensure!(
        now["spec"]["selector"]["app"] == "operator-webhook",
        "{now}"
    );
    Ok(())
}

/// The template of the config daemon is the same, so its pods go on; nothing else of the old specs is left.
async fn nothing_old_is_left(scene: &Scene, was: &Value) -> Result<()> {
    let is = scene
        .admin()
        .must_get(DAEMON_SET, "sriov-network-config-daemon")
        .await?;
    ensure!(
        was["spec"] == is["spec"],
        "{} became {}",
        was["spec"],
        is["spec"]
    );
    ensure!(
        was["metadata"]["generation"] == is["metadata"]["generation"],
        "its pods would be replaced"
    );
    let plugin = scene
        .admin()
        .must_get(DAEMON_SET, "sriov-device-plugin")
        .await?;
    let pod = &plugin["spec"]["template"]["spec"];
    ensure!(
        pod["nodeSelector"].get("left").is_none() && pod.get("imagePullSecrets").is_none(),
        "{pod}"
    );
    ensure!(!pod.to_string().contains("cdi"), "{pod}");
    let service = scene.admin().must_get(SERVICE, SERVICE_NAME).await?;
    ensure!(
        service["spec"]["selector"] == json!({ "app.kubernetes.io/name": "sriov-operator" }),
        "{service}"
    );
    ensure!(
        service["spec"]["ports"]
            .as_array()
            .is_some_and(|it| it.len() == 1)
    );
    let switches = scene
        .admin()
        .must_get(CONFIG_MAP, "nri-control-switches")
        .await?;
    ensure!(switches["data"]["notes"] == "kept", "{switches}");
    for object in [&plugin, &service, &is] {
        let managers = object["metadata"]["managedFields"].to_string();
        ensure!(!managers.contains(OLD_MANAGER), "{managers}");
    }
    Ok(())
}

fn bundle(configuration: &Value) -> Result<String> {
    let encoded = text(configuration, "/webhooks/0/clientConfig/caBundle");
    let pem = base64::engine::general_purpose::STANDARD.decode(encoded)?;
    Ok(String::from_utf8(pem)?)
}

#[tokio::test]
async fn its_workload_becomes_ours_pod_by_pod() -> Result<()> {
    let mut scene = Scene::installed().await?;
    chart::grant(scene.admin(), "dedicated").await?;
    scene.operator.set("ADMISSION_SERVING", "dedicated");
    scene
        .operator
        .argument(&format!("--rotation-settle-time={}s", SETTLE.as_secs()));
    let config = world::config(&json!({ "enableOperatorWebhook": true }));
    let config = scene.admin().create(&config).await?;
    let service = format!("{SERVICE_NAME}.{NAMESPACE}.svc");
    let address = scene.cluster.address(20);
    let old = OldWebhook::start(address, "operator-webhook", &service).await?;
    scene.add(old.pod());
    left_by_the_go_operator(scene.admin(), &config, &old.ca).await?;
    the_old_webhook_judges(&scene).await?;

    let (stop, until) = tokio::sync::watch::channel(false);
    let judging = tokio::spawn(judged(scene.admin().clone(), until));
    scene.operator.start()?;
    let name = "operator-webhook";
    eventually(PATIENCE, "the workload to be ours", async || {
        let now = scene.admin().must_get(DAEMON_SET, name).await?;
        let command = &now["spec"]["template"]["spec"]["containers"][0]["command"];
        ensure!(*command == json!(["sriov-operator"]), "{now}");
        Ok(())
    })
    .await?;
    let rolled = async |updated: u8| -> Result<()> {
        let generation = &scene.admin().must_get(DAEMON_SET, name).await?["metadata"]["generation"];
        let status = json!({ "observedGeneration": generation, "desiredNumberScheduled": 2,
            "updatedNumberScheduled": updated, "numberReady": 2 });
        scene
            .admin()
            .merge_status(DAEMON_SET, name, &status)
            .await?;
        Ok(())
    };
    let new = scene.run_pod_of(name, 11).await?;
    rolled(1).await?;
    // Half of the pods are old ones: both are believed.
    let configuration = "sriov-operator-webhook-config";
    for kind in [MUTATING, VALIDATING] {
        let both = bundle(&scene.admin().must_get(kind, configuration).await?)?;
        ensure!(both.contains(&old.ca), "the old CA is gone");
        ensure!(both.matches("BEGIN").count() == 2, "ours is not there");
    }
    // The API server keeps its connection to whichever pod it has; another one of it may reach the new pod at any time.
    let both = bundle(&scene.admin().must_get(VALIDATING, configuration).await?)?;
    let caller = Caller::new((new.pod().ip, 6443).into(), &service, &both)?;
    let review = creation(POLICIES, &impossible());
    let reply = caller
        .review("/validating-custom-resource", &review)
        .await?;
    ensure!(reply.code == 200, "{}", reply.head);
    ensure!(reply.body["response"]["allowed"] == false, "{}", reply.body);
    // However long that lasts: here longer than a CA of another issuer is kept by time alone.
    tokio::time::sleep(SETTLE * 4 + Duration::from_secs(2)).await;
    for kind in [MUTATING, VALIDATING] {
        let both = bundle(&scene.admin().must_get(kind, configuration).await?)?;
        ensure!(
            both.contains(&old.ca),
            "the old CA went before the last old pod"
        );
    }
    // The last old pod is gone: so is the CA that nobody but it needed.
    scene.remove(&old.pod());
    rolled(2).await?;
    eventually(SOON, "the old CA to be gone", async || {
        for kind in [MUTATING, VALIDATING] {
            let ours = bundle(&scene.admin().must_get(kind, configuration).await?)?;
            ensure!(!ours.contains(&old.ca), "{} has it", kind.name);
            ensure!(
                ours.matches("BEGIN").count() == 1,
                "{} has {ours}",
                kind.name
            );
        }
        Ok(())
    })
    .await?;
    stop.send_replace(true);
    let (by_old, by_new) = judging.await??;
    ensure!(by_old + by_new > 50, "judged {by_old} and {by_new} times");
    scene.is_ready().await?;

    drop(new);
    scene.was_allowed_everything()
}

#[tokio::test]
async fn the_way_of_serving_changes_without_a_gap_and_leaves_nothing() -> Result<()> {
    let mut scene = Scene::registered().await?;
    chart::grant(scene.admin(), "dedicated").await?;
    let before = scene.objects().await?;
    let (stop, until) = tokio::sync::watch::channel(false);
    let judging = tokio::spawn(judged(scene.admin().clone(), until));

    // To a workload of its own: this process goes on until that one answers. Replicas overlap, as in a roll-out.
    let Workloads {
        operator: mut next,
        injector,
        webhook,
    } = to_workloads(&mut scene).await?;
    let led_to = async |label: &str, value: &str| {
        let (label, value) = (label.to_owned(), value.to_owned());
        eventually(PATIENCE, "the Service to be led over", async || {
            let service = scene.admin().must_get(SERVICE, SERVICE_NAME).await?;
            ensure!(
                service["spec"]["selector"] == json!({ label.clone(): value }),
                "{service}"
            );
            Ok(())
        })
        .await
    };
    led_to("app", "operator-webhook").await?;

    // And back.
    let mut last = scene.replica(3).await?;
    last.argument("--shutdown-delay=1s");
    last.start()?;
    last.ready().await?;
    next.stop().await?;
    led_to("app.kubernetes.io/name", "sriov-operator").await?;
    for name in ["operator-webhook", "network-resources-injector"] {
        scene.is_gone(DAEMON_SET, name).await?;
    }
    stop.send_replace(true);
    let (by_old, by_new) = judging.await??;
    ensure!(by_old == 0 && by_new > 50, "judged {by_new} times");
    drop((webhook, injector));
    eventually(PATIENCE, "the same objects as before", async || {
        let (now, before): (Vec<_>, Vec<_>) = (
            scene.objects().await?.into_keys().collect(),
            before.keys().cloned().collect(),
        );
        ensure!(now == before, "there are {now:?}, and were {before:?}");
        Ok(())
    })
    .await?;
    drop(last);
    scene.was_allowed_everything()
}

#[tokio::test]
async fn a_second_installation_touches_nothing_of_the_first_and_says_so() -> Result<()> {
    let mut scene = Scene::installed().await?;
    let made = |kind: Kind, name: &str, content: &Value| {
        let mut object = content.clone();
        object["apiVersion"] = kind.api_version.into();
        object["kind"] = kind.name.into();
        object["metadata"] = json!({ "name": name, "labels": { "app.kubernetes.io/managed-by": "sriov-operator" },
            "ownerReferences": [{ "apiVersion": "v1", "kind": "Namespace", "name": "elsewhere", "uid": "7b0c2a53-0c3a-4b43-9a3f-5b8c5d0d5a11" }] });
        object
    };
    let first = [
        made(
            MUTATING,
            "network-resources-injector-config",
            &json!({ "webhooks": [{
                "name": "network-resources-injector-config.k8s.io", "sideEffects": "None", "failurePolicy": "Ignore",
                "admissionReviewVersions": ["v1"],
                "clientConfig": { "service": { "name": "network-resources-injector-service", "namespace": "elsewhere" } },
                "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"] }],
            }] }),
        ),
        made(
            CLUSTER_ROLE,
            "sriov-metrics-kube-rbac-role",
            &json!({ "rules": [] }),
        ),
    ];
    let mut stored = Vec::new();
    for object in &first {
        stored.push(scene.admin().create(object).await?);
    }
    let admin = scene.admin().clone();
    let untouched = async || -> Result<()> {
        for object in &stored {
            let kind = Kind::of(object)?;
            let now = admin.must_get(kind, text(object, "/metadata/name")).await?;
            ensure!(
                now["metadata"]["resourceVersion"] == object["metadata"]["resourceVersion"],
                "{now}"
            );
        }
        Ok(())
    };
    scene.operator.start()?;
    scene.operator.ready().await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    untouched().await?;

    scene.configure(&both_webhooks()).await?;
    scene
        .is_not_ready(
            "OperatorConfigSyncFailed",
            &["network-resources-injector-config", "namespace elsewhere"],
        )
        .await?;
    untouched().await?;
    ensure!(
        scene.admin().list(DAEMON_SET).await?.is_empty(),
        "it rolled something out"
    );
    // The config of the second one can be deleted, which harms nobody either.
    scene.admin().delete(CONFIG, "default").await?;
    scene.is_gone(CONFIG, "default").await?;
    untouched().await?;

    // When the first one is gone, the second has the cluster.
    for object in &stored {
        let kind = Kind::of(object)?;
        scene
            .admin()
            .delete(kind, text(object, "/metadata/name"))
            .await?;
    }
    scene.configure(&both_webhooks()).await?;
    scene.is_ready().await?;
    scene.was_allowed_everything()
}
