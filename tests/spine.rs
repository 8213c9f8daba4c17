//! The main job, told from outside: one configuration object, and what comes and goes with it.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::chart;
use crate::support::cluster::Cluster;
use crate::support::kinds::{
    CONFIG, DAEMON_SET, MUTATING, NAMESPACES, POD, POLICY, SERVICE, VALIDATING, text,
};
use crate::support::scene::{INJECTOR_WEBHOOK, OPERATOR_WEBHOOKS, PATIENCE, Scene, both_webhooks};
use crate::support::user::Refuser;
use crate::support::wait::{eventually, throughout};
use crate::support::{NAMESPACE, world};

const FINALIZER: &str = "operatorconfig.finalizers.sriovnetwork.openshift.io";
/// How long a repair may take.
const AT_ONCE: Duration = Duration::from_secs(2);
const BOTH: [&[&str]; 2] = [OPERATOR_WEBHOOKS, INJECTOR_WEBHOOK];

/// Eight VFs of the Intel NIC that both workers have.
fn policy(name: &str) -> Value {
    let spec = json!({
        "resourceName": "fast_nics",
        "nodeSelector": { "node-role.kubernetes.io/worker": "" },
        "numVfs": 8,
        "nicSelector": { "pfNames": ["ens1f0"] },
    });
    world::custom(POLICY, name, &spec)
}

#[tokio::test]
async fn without_a_configuration_the_operator_is_ready_and_waits() -> Result<()> {
    let scene = Scene::running().await?;
    let before = scene.objects().await?;
    throughout(Duration::from_secs(2), "doing nothing", async || {
        ensure!(
            scene.objects().await? == before,
            "it made or changed something"
        );
        Ok(())
    })
    .await?;
    scene.was_allowed_everything()
}

#[tokio::test]
async fn a_configuration_registers_both_webhooks_and_becomes_ready() -> Result<()> {
    let mut scene = Scene::running().await?;
    scene.configure(&both_webhooks()).await?;
    scene.is_ready().await?;
    scene.has_webhooks(&BOTH.concat()).await?;

    let config = scene.admin().must_get(CONFIG, "default").await?;
    ensure!(config["metadata"]["finalizers"] == json!([FINALIZER]));
    for (kind, name, path) in [
        (
            MUTATING,
            "sriov-operator-webhook-config",
            "/mutating-custom-resource",
        ),
        (
            VALIDATING,
            "sriov-operator-webhook-config",
            "/validating-custom-resource",
        ),
        (MUTATING, "network-resources-injector-config", "/mutate"),
    ] {
        let registered = scene.admin().must_get(kind, name).await?;
        let called = &registered["webhooks"][0]["clientConfig"];
        ensure!(
            !text(called, "/caBundle").is_empty(),
            "{name} has no caBundle"
        );
        ensure!(
            called["service"]["path"] == path,
            "{name} is called at {called}"
        );
    }
    scene.was_allowed_everything()
}

#[tokio::test]
async fn the_daemon_sets_of_the_nodes_are_rolled_out() -> Result<()> {
    let scene = Scene::registered().await?;
    for name in ["sriov-network-config-daemon", "sriov-device-plugin"] {
        let daemon_set = scene.admin().must_get(DAEMON_SET, name).await?;
        let owner = &daemon_set["metadata"]["ownerReferences"][0];
        ensure!(owner["kind"] == CONFIG.name, "{name} is owned by {owner}");
        ensure!(owner["controller"] == true, "{name} is owned by {owner}");
    }
    scene.was_allowed_everything()
}

#[tokio::test]
async fn a_policy_gets_its_defaults() -> Result<()> {
    let scene = Scene::registered().await?;
    let stored = scene.admin().create(&policy("nics")).await?;
    ensure!(stored["spec"]["priority"] == 99);
    ensure!(stored["spec"]["deviceType"] == "netdevice");
    ensure!(stored["spec"]["isRdma"] == false);
    Ok(())
}

#[tokio::test]
async fn a_policy_that_cannot_work_is_refused_with_every_fault_at_its_field() -> Result<()> {
    let scene = Scene::registered().await?;
    let mut impossible = policy("nics");
    impossible["spec"]["numVfs"] = 65.into();
    impossible["spec"]["resourceName"] = "fast.nics".into();
    let answer = scene.admin().ask_create(&impossible).await?;

    ensure!(answer.refuser() == Some(Refuser::Webhook), "{answer:?}");
    ensure!(
        answer.code == 422 && answer.body["reason"] == "Invalid",
        "{answer:?}"
    );
    let details = &answer.body["details"];
    ensure!(
        details["kind"] == POLICY.name && details["name"] == "nics",
        "{details}"
    );
    for field in ["spec.numVfs", "spec.resourceName"] {
        let named = answer.causes().iter().any(|cause| cause.starts_with(field));
        ensure!(named, "no cause is about {field}: {:?}", answer.causes());
        ensure!(answer.message().contains(field), "{}", answer.message());
    }
    ensure!(
        answer.message().contains("worker-0"),
        "{}",
        answer.message()
    );
    Ok(())
}

#[tokio::test]
async fn a_pod_gets_the_resources_of_its_networks() -> Result<()> {
    let scene = Scene::registered().await?;
    let pod = scene
        .admin()
        .create(&world::pod("app", "fast,fast"))
        .await?;
    let resources = &pod["spec"]["containers"][0]["resources"];
    for list in ["limits", "requests"] {
        ensure!(
            resources[list]["openshift.io/fast_nics"] == "2",
            "it has {resources}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_pod_of_an_unknown_network_is_refused_by_name() -> Result<()> {
    let scene = Scene::registered().await?;
    let answer = scene.admin().ask_create(&world::pod("app", "slow")).await?;
    ensure!(answer.refuser() == Some(Refuser::Webhook), "{answer:?}");
    ensure!(answer.message().contains("slow"), "{}", answer.message());
    Ok(())
}

#[tokio::test]
async fn the_injector_goes_and_comes_with_its_switch() -> Result<()> {
    let mut scene = Scene::registered().await?;
    scene
        .reconfigure(&json!({ "enableInjector": false }))
        .await?;
    scene.is_ready().await?;
    scene.has_webhooks(OPERATOR_WEBHOOKS).await?;
    scene
        .is_gone(SERVICE, "network-resources-injector-service")
        .await?;
    let pod = scene
        .admin()
        .ask_create(&world::pod("app", "fast"))
        .await?
        .object()?;
    ensure!(
        pod["spec"]["containers"][0]["resources"] == json!({}),
        "injected: {pod}"
    );

    scene
        .reconfigure(&json!({ "enableInjector": true }))
        .await?;
    scene.is_ready().await?;
    scene.has_webhooks(&BOTH.concat()).await?;
    // Whoever leads calls to a new Service takes a moment to know it.
    eventually(Duration::from_secs(5), "the injector", async || {
        let pod = scene
            .admin()
            .ask_create(&world::pod("app", "fast"))
            .await?
            .object()?;
        ensure!(
            pod["spec"]["containers"][0]["resources"] != json!({}),
            "not injected: {pod}"
        );
        Ok(())
    })
    .await?;
    scene.was_allowed_everything()
}

#[tokio::test]
async fn what_is_deleted_by_hand_comes_back_at_once() -> Result<()> {
    let scene = Scene::registered().await?;
    for (kind, name) in [
        (MUTATING, "sriov-operator-webhook-config"),
        (VALIDATING, "sriov-operator-webhook-config"),
        (MUTATING, "network-resources-injector-config"),
        (SERVICE, "operator-webhook-service"),
        (DAEMON_SET, "sriov-device-plugin"),
    ] {
        scene.admin().delete(kind, name).await?;
        eventually(
            AT_ONCE,
            &format!("{} {name} to be back", kind.name),
            async || scene.admin().must_get(kind, name).await,
        )
        .await?;
    }
    Ok(())
}

#[tokio::test]
async fn what_is_changed_by_hand_is_repaired_at_once() -> Result<()> {
    let scene = Scene::registered().await?;
    let name = "network-resources-injector-config";
    let before = scene.admin().must_get(MUTATING, name).await?["webhooks"].clone();
    let mut changed = before.clone();
    changed[0]["clientConfig"]["caBundle"] = "".into();
    changed[0]["rules"] = json!([]);
    scene
        .admin()
        .merge(MUTATING, name, &json!({ "webhooks": changed }))
        .await?;
    eventually(AT_ONCE, "the webhook to be as it was", async || {
        let now = scene.admin().must_get(MUTATING, name).await?["webhooks"].clone();
        ensure!(now == before, "it is {now}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn deleting_the_configuration_leaves_nothing_behind() -> Result<()> {
    let mut scene = Scene::installed().await?;
    let before = scene.objects().await?;
    scene.operator.start()?;
    scene.configure(&both_webhooks()).await?;
    scene.is_ready().await?;
    scene.admin().delete(CONFIG, "default").await?;
    scene.is_as_before(&before).await?;
    scene.was_allowed_everything()
}

#[tokio::test]
async fn a_configuration_that_comes_changes_and_goes_within_a_second_ends_right() -> Result<()> {
    let mut scene = Scene::running().await?;
    let before = scene.objects().await?;
    for pause in [0, 60, 250] {
        let pause = Duration::from_millis(pause);
        scene.configure(&both_webhooks()).await?;
        tokio::time::sleep(pause).await;
        scene
            .reconfigure(&json!({ "enableInjector": false }))
            .await?;
        tokio::time::sleep(pause).await;
        scene.admin().delete(CONFIG, "default").await?;
        scene.is_as_before(&before).await?;
    }
    // Made again as soon as the name is free: everything is there, and belongs to the new one.
    for _ in 0..3 {
        scene.configure(&both_webhooks()).await?;
        scene.is_ready().await?;
        scene.admin().delete(CONFIG, "default").await?;
        let new = eventually(PATIENCE, "the name to be free", async || {
            let config = world::config(&both_webhooks());
            scene.admin().create(&config).await
        })
        .await?;
        scene.is_ready().await?;
        scene.has_webhooks(&BOTH.concat()).await?;
        for (kind, name) in [
            (DAEMON_SET, "sriov-device-plugin"),
            (SERVICE, "operator-webhook-service"),
        ] {
            let live = scene.admin().must_get(kind, name).await?;
            let owner = &live["metadata"]["ownerReferences"][0]["uid"];
            ensure!(*owner == new["metadata"]["uid"], "{name} is of {owner}");
        }
        scene.admin().delete(CONFIG, "default").await?;
        scene.is_as_before(&before).await?;
    }
    Ok(())
}

#[tokio::test]
async fn explicit_false_and_zero_survive_everything_the_operator_writes() -> Result<()> {
    let mut scene = Scene::running().await?;
    let spec = json!({
        "enableInjector": false,
        "enableOperatorWebhook": false,
        "disableDrain": false,
        "useCDI": false,
        "logLevel": 0,
        "featureGates": { "parallelNicConfig": false },
    });
    scene.configure(&spec).await?;
    scene.is_ready().await?;
    let config = scene.admin().must_get(CONFIG, "default").await?;
    ensure!(config["metadata"]["finalizers"] == json!([FINALIZER]));
    let mut stored = config["spec"].clone();
    if let Some(fields) = stored.as_object_mut() {
        fields.retain(|field, _| spec.get(field).is_some());
    }
    ensure!(stored == spec, "the spec became {}", config["spec"]);
    scene.has_webhooks(&[]).await
}

#[tokio::test]
async fn an_operator_that_is_stopped_loses_nothing() -> Result<()> {
    let mut scene = Scene::installed().await?;
    let before = scene.objects().await?;
    scene.configure(&both_webhooks()).await?;
    for life in [0, 100, 400, 1500] {
        scene.operator.start()?;
        tokio::time::sleep(Duration::from_millis(life)).await;
        let status = scene.operator.stop().await?;
        // A signal that comes before the process can take one ends it, and that loses nothing either.
        let before_it_could_answer = status.signal() == Some(15);
        ensure!(
            status.success() || before_it_could_answer,
            "after {life} ms it ended with {status}"
        );
    }
    scene.operator.start()?;
    // What the config says of being ready may be from an earlier life.
    scene.operator.ready().await?;
    scene.is_ready().await?;
    scene.has_webhooks(&BOTH.concat()).await?;

    // A deletion is never asked about, so it needs nobody; what follows from it waits for the operator.
    let status = scene.operator.stop().await?;
    ensure!(status.success(), "it ended with {status}");
    scene.admin().delete(CONFIG, "default").await?;
    scene.has_webhooks(&BOTH.concat()).await?;
    scene.operator.start()?;
    scene.is_as_before(&before).await
}

#[tokio::test]
async fn an_operator_that_is_killed_loses_nothing() -> Result<()> {
    let mut scene = Scene::installed().await?;
    let before = scene.objects().await?;
    scene.operator.start()?;
    scene.configure(&both_webhooks()).await?;
    tokio::time::sleep(Duration::from_millis(150)).await;
    scene.operator.kill();
    scene.operator.start()?;
    scene.is_ready().await?;
    scene.has_webhooks(&BOTH.concat()).await?;

    scene.admin().delete(CONFIG, "default").await?;
    tokio::time::sleep(Duration::from_millis(20)).await;
    scene.operator.kill();
    scene.operator.start()?;
    scene.is_as_before(&before).await
}

#[tokio::test]
async fn webhooks_work_again_as_soon_as_the_operator_runs_again() -> Result<()> {
    let mut scene = Scene::registered().await?;
    scene.operator.stop().await?;
    let answer = scene.admin().ask_create(&policy("nics")).await?;
    ensure!(
        answer.refuser() == Some(Refuser::Failure),
        "nobody judged it: {answer:?}"
    );
    scene.operator.start()?;
    scene.operator.ready().await?;
    eventually(AT_ONCE, "the policy to be judged", async || {
        scene.admin().ask_create(&policy("nics")).await?.object()
    })
    .await
    .map(drop)
}

#[tokio::test]
async fn a_reconcile_with_nothing_to_do_writes_nothing() -> Result<()> {
    let scene = Scene::registered().await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (writes, objects) = (scene.writes()?.len(), scene.objects().await?);
    for round in 0..3 {
        let note = json!({ "metadata": { "annotations": { "round": format!("{round}") } } });
        scene.admin().merge(CONFIG, "default", &note).await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let since = scene.writes()?.split_off(writes);
    ensure!(since.is_empty(), "it wrote {since:?}");
    ensure!(scene.objects().await? == objects, "objects changed");
    Ok(())
}

#[tokio::test]
async fn the_log_level_follows_the_configuration_while_running() -> Result<()> {
    let mut scene = Scene::installed().await?;
    scene.operator.argument("--log-format=json");
    scene.operator.start()?;
    scene.configure(&both_webhooks()).await?;
    scene.is_ready().await?;
    let levels = levels(&scene)?;
    ensure!(
        levels.contains("DEBUG") || levels.contains("TRACE"),
        "at level 2 it says {levels:?}"
    );

    scene.reconfigure(&json!({ "logLevel": 0 })).await?;
    scene.is_ready().await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = scene.operator.log(usize::MAX).lines().count();
    scene
        .reconfigure(&json!({ "enableInjector": false }))
        .await?;
    scene.is_ready().await?;
    let log = scene.operator.log(usize::MAX);
    let loud = log
        .lines()
        .skip(before)
        .find(|line| line.contains("DEBUG") || line.contains("TRACE"));
    ensure!(loud.is_none(), "at level 0 it says {loud:?}");
    Ok(())
}

/// The levels of all lines so far, each of which has to be JSON.
fn levels(scene: &Scene) -> Result<BTreeSet<String>> {
    let log = scene.operator.log(usize::MAX);
    log.lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
            Ok(text(&line, "/level").to_owned())
        })
        .collect()
}

#[tokio::test]
async fn a_second_replica_serves_and_takes_over_when_the_first_is_stopped() -> Result<()> {
    let mut scene = Scene::registered().await?;
    let mut second = scene.replica(2).await?;
    second.start()?;
    second.ready().await?;
    scene.operator.stop().await?;
    scene.admin().ask_create(&policy("nics")).await?.object()?;
    scene
        .admin()
        .delete(MUTATING, "network-resources-injector-config")
        .await?;
    eventually(PATIENCE, "the configuration to be back", async || {
        scene
            .admin()
            .must_get(MUTATING, "network-resources-injector-config")
            .await
    })
    .await
    .map(drop)
    .with_context(|| second.log(40))
}

#[tokio::test]
async fn deleting_the_whole_namespace_leaves_nothing_behind() -> Result<()> {
    let mut scene = Scene::on(Cluster::boot().await?.with_controller_manager()?).await?;
    scene.operator.start()?;
    scene.configure(&both_webhooks()).await?;
    scene.is_ready().await?;
    scene.admin().delete(NAMESPACES, NAMESPACE).await?;
    eventually(
        Duration::from_secs(60),
        "the namespace to be gone",
        async || {
            let namespace = scene.admin().get(NAMESPACES, NAMESPACE).await?;
            ensure!(
                namespace.is_none(),
                "its status is {:?}",
                namespace.map(|it| it["status"].clone())
            );
            Ok(())
        },
    )
    .await?;
    scene.has_webhooks(&[]).await
}

#[tokio::test]
async fn dedicated_serving_renders_the_workloads_of_both_webhooks() -> Result<()> {
    let mut scene = Scene::installed().await?;
    chart::grant(scene.admin(), "dedicated").await?;
    scene.operator.set("ADMISSION_SERVING", "dedicated");
    scene.operator.start()?;
    scene.configure(&both_webhooks()).await?;
    for name in ["operator-webhook", "network-resources-injector"] {
        let daemon_set = eventually(PATIENCE, &format!("DaemonSet {name}"), async || {
            scene.admin().must_get(DAEMON_SET, name).await
        })
        .await?;
        let container = &daemon_set["spec"]["template"]["spec"]["containers"][0];
        ensure!(
            container["image"] == "example.com/sriov-operator:test",
            "{container}"
        );
        let service = scene
            .admin()
            .must_get(SERVICE, &format!("{name}-service"))
            .await?;
        ensure!(
            service["spec"]["selector"] == json!({ "app": name }),
            "{service}"
        );
    }
    scene.was_allowed_everything()
}

#[tokio::test]
async fn a_setting_that_is_not_legal_ends_the_process_and_is_named() -> Result<()> {
    let mut scene = Scene::installed().await?;
    scene.operator.set("CLUSTER_TYPE", "openshfit");
    scene.operator.start()?;
    let status = scene.operator.ended(Duration::from_secs(10)).await?;
    ensure!(!status.success(), "it ended with {status}");
    let log = scene.operator.log(20);
    for said in ["CLUSTER_TYPE", "openshfit", "openshift", "kubernetes"] {
        ensure!(log.contains(said), "{said} is not in: {log}");
    }
    Ok(())
}

#[tokio::test]
async fn an_ordinary_pod_is_left_as_it_is() -> Result<()> {
    let scene = Scene::registered().await?;
    let mut pod = world::pod("app", "fast");
    pod["metadata"]["annotations"] = json!({ "team": "net" });
    let stored = scene.admin().create(&pod).await?;
    ensure!(
        stored["spec"]["containers"][0]["resources"] == json!({}),
        "{stored}"
    );
    ensure!(stored["spec"].get("volumes").is_none(), "{stored}");
    scene
        .admin()
        .must_get(POD, "default/app")
        .await
        .map(drop)
        .context("it is stored")
}
