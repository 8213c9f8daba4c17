//! The steps, in order. Each does one thing as a user would, and checks what came of it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::stage::Stage;
use crate::support::kinds::{CONFIG, MUTATING, VALIDATING, text};
use crate::support::user::Refuser;
use crate::support::wait::eventually;
use crate::support::{NAMESPACE, SERVICE_ACCOUNT, manifests, world};
use crate::transcript::Transcript;

/// How long a step may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// How long a repair may take.
const AT_ONCE: Duration = Duration::from_secs(2);
const INJECTOR: &str = "network-resources-injector-config";
const OPERATOR_WEBHOOK: &str = "sriov-operator-webhook-config";

/// What an administrator prepares.
pub(crate) async fn opening(told: &Transcript, stage: &mut Stage) -> Result<()> {
    let place = stage.describe();
    told.step("a Kubernetes API server runs", async || {
        let version = stage.admin.version().await?;
        Ok(vec![format!("Kubernetes {version}, {place}")])
    })
    .await?;
    told.step(
        "the definitions, the operator's roles and two nodes are in it",
        async || {
            stage.seed().await?;
            Ok(vec![
                "worker-0: ens1f0 (Intel XXV710, 64 VFs), ens2f0 (ConnectX-5, 8 VFs)".to_owned(),
                "worker-1: ens1f0 (Intel E810-C, 128 VFs)".to_owned(),
                "network fast: resource openshift.io/fast_nics".to_owned(),
            ])
        },
    )
    .await?;
    told.step(
        "the operator runs, with nothing but its ServiceAccount's rights",
        async || {
            stage.operator.start()?;
            stage.operator.ready().await?;
            Ok(vec![
                format!("system:serviceaccount:{NAMESPACE}:{SERVICE_ACCOUNT}"),
                "ready, and waiting for SriovOperatorConfig/default".to_owned(),
            ])
        },
    )
    .await
}

/// What one object brings about.
pub(crate) async fn registration(told: &Transcript, stage: &mut Stage) -> Result<()> {
    told.step(
        "SriovOperatorConfig/default is created: both webhooks are registered",
        async || {
            let spec =
                json!({ "enableInjector": true, "enableOperatorWebhook": true, "logLevel": 1 });
            stage.admin.create(&world::config(&spec)).await?;
            let ready = ready(stage).await?;
            let mut lines = Vec::new();
            for (kind, name) in [
                (MUTATING, OPERATOR_WEBHOOK),
                (VALIDATING, OPERATOR_WEBHOOK),
                (MUTATING, INJECTOR),
            ] {
                let registered = stage.admin.must_get(kind, name).await?;
                lines.push(described(&registered)?);
            }
            lines.push(format!(
                "Ready {}: {}",
                text(&ready, "/status"),
                text(&ready, "/message")
            ));
            Ok(lines)
        },
    )
    .await
}

/// What the webhooks do.
pub(crate) async fn admission(told: &Transcript, stage: &mut Stage) -> Result<()> {
    told.step("a policy is created: it gets its defaults", async || {
        let stored = stage.admin.create(&manifest("policy.yaml")?).await?;
        let spec = &stored["spec"];
        ensure!(
            spec["priority"] == 99 && spec["deviceType"] == "netdevice",
            "it is {spec}"
        );
        ensure!(spec["isRdma"] == false, "it is {spec}");
        Ok(vec![
            "priority: 99, deviceType: netdevice, isRdma: false".to_owned(),
        ])
    })
    .await?;
    told.step(
        "a policy that cannot work is refused, with every reason",
        async || {
            let answer = stage
                .admin
                .ask_create(&manifest("impossible-policy.yaml")?)
                .await?;
            ensure!(
                answer.refuser() == Some(Refuser::Webhook),
                "the answer was {answer:?}"
            );
            ensure!(answer.code == 422, "the answer was {answer:?}");
            for field in ["spec.numVfs", "spec.resourceName"] {
                ensure!(
                    answer.message().contains(field),
                    "{field} is missing: {answer:?}"
                );
            }
            let mut lines = vec![format!("{} {}", answer.code, text(&answer.body, "/reason"))];
            lines.extend(answer.causes());
            Ok(lines)
        },
    )
    .await?;
    told.step(
        "a pod asks for the network fast twice: it gets two VFs",
        async || {
            let pod = stage.admin.create(&manifest("pod.yaml")?).await?;
            let resources = &pod["spec"]["containers"][0]["resources"];
            ensure!(
                resources["limits"]["openshift.io/fast_nics"] == "2",
                "it has {resources}"
            );
            Ok(vec![format!("resources: {resources}")])
        },
    )
    .await
}

/// What is switched goes and comes; what is broken by hand is repaired.
pub(crate) async fn switches_and_repairs(told: &Transcript, stage: &mut Stage) -> Result<()> {
    told.step(
        "the injector is switched off: pods are left as they are",
        async || {
            switch_injector(stage, false).await?;
            let pod = stage.admin.ask_create(&another_pod()?).await?.object()?;
            let resources = &pod["spec"]["containers"][0]["resources"];
            ensure!(*resources == json!({}), "a pod has {resources}");
            Ok(vec![format!(
                "MutatingWebhookConfiguration {INJECTOR} is gone, resources: {resources}"
            )])
        },
    )
    .await?;
    told.step("and on again", async || {
        switch_injector(stage, true).await?;
        let pod = stage.admin.ask_create(&another_pod()?).await?.object()?;
        let resources = &pod["spec"]["containers"][0]["resources"];
        ensure!(
            resources["limits"]["openshift.io/fast_nics"] == "2",
            "a pod has {resources}"
        );
        Ok(vec![format!(
            "MutatingWebhookConfiguration {INJECTOR} is back, resources: {resources}"
        )])
    })
    .await?;
    told.step(
        "somebody deletes a webhook configuration: it is repaired",
        async || {
            let admin = &stage.admin;
            let before = admin.must_get(VALIDATING, OPERATOR_WEBHOOK).await?;
            admin.delete(VALIDATING, OPERATOR_WEBHOOK).await?;
            let deleted = Instant::now();
            let after = eventually(AT_ONCE, "it to be back", async || {
                admin.must_get(VALIDATING, OPERATOR_WEBHOOK).await
            })
            .await?;
            ensure!(
                before["metadata"]["uid"] != after["metadata"]["uid"],
                "it was not deleted"
            );
            ensure!(
                before["webhooks"] == after["webhooks"],
                "it came back as {after}"
            );
            Ok(vec![format!(
                "back after {} ms, as it was",
                deleted.elapsed().as_millis()
            )])
        },
    )
    .await
}

/// What is left: nothing.
pub(crate) async fn ending(told: &Transcript, stage: &mut Stage) -> Result<()> {
    told.step(
        "SriovOperatorConfig/default is deleted: everything goes",
        async || {
            let before = world::inventory(&stage.admin).await?;
            stage.admin.delete(CONFIG, "default").await?;
            let left = eventually(PATIENCE, "everything to be gone", async || {
                let config = stage.admin.get(CONFIG, "default").await?;
                ensure!(config.is_none(), "its finalizer is still there");
                let left = world::inventory(&stage.admin).await?;
                let ours: Vec<&String> = left
                    .keys()
                    .filter(|name| !stage.found.contains_key(*name))
                    .collect();
                ensure!(ours.is_empty(), "left are {ours:?}");
                Ok(left)
            })
            .await?;
            let gone: Vec<&str> = before
                .keys()
                .filter(|name| !left.contains_key(*name))
                .map(String::as_str)
                .collect();
            Ok(vec![
                format!("{} objects are gone, among them", gone.len()),
                gone.join(", "),
            ])
        },
    )
    .await?;
    told.step("the operator is stopped", async || {
        let status = stage.operator.stop().await?;
        ensure!(status.success(), "it ended with {status}");
        let Some(cluster) = &stage.cluster else {
            return Ok(Vec::new());
        };
        let calls = cluster.calls()?;
        let forbidden: Vec<_> = calls.iter().filter(|call| call.is_forbidden()).collect();
        ensure!(forbidden.is_empty(), "its roles lack {forbidden:?}");
        let writes = calls.iter().filter(|call| call.is_write()).count();
        Ok(vec![format!(
            "it made {writes} writes in all, and nothing that it asked for was forbidden"
        )])
    })
    .await
}

async fn switch_injector(stage: &Stage, on: bool) -> Result<()> {
    let patch = json!({ "spec": { "enableInjector": on } });
    stage.admin.merge(CONFIG, "default", &patch).await?;
    ready(stage).await?;
    let registered = stage.admin.get(MUTATING, INJECTOR).await?.is_some();
    ensure!(registered == on, "the injector is registered: {registered}");
    Ok(())
}

/// The Ready condition, once it is True for the configuration as it is now.
async fn ready(stage: &Stage) -> Result<Value> {
    eventually(PATIENCE, "the configuration to be Ready", async || {
        let config = stage.admin.must_get(CONFIG, "default").await?;
        let ready = world::condition(&config, "Ready")?;
        ensure!(ready["status"] == "True", "the condition is {ready}");
        let generation = &config["metadata"]["generation"];
        ensure!(
            ready["observedGeneration"] == *generation,
            "the condition is {ready}"
        );
        Ok(ready)
    })
    .await
}

fn described(configuration: &Value) -> Result<String> {
    let webhook = &configuration["webhooks"][0];
    let bundle = text(webhook, "/clientConfig/caBundle");
    ensure!(!bundle.is_empty(), "{configuration} has no caBundle");
    Ok(format!(
        "{} {}: {}{}, {}",
        text(configuration, "/kind"),
        text(configuration, "/metadata/name"),
        text(webhook, "/clientConfig/service/name"),
        text(webhook, "/clientConfig/service/path"),
        text(webhook, "/failurePolicy"),
    ))
}

fn manifest(name: &str) -> Result<Value> {
    let file = manifests::root().join("tests/demo").join(name);
    let objects = manifests::read_yaml(&file)?;
    objects
        .into_iter()
        .next()
        .with_context(|| format!("{name} is empty"))
}

fn another_pod() -> Result<Value> {
    let mut pod = manifest("pod.yaml")?;
    pod["metadata"]["name"] = "another".into();
    Ok(pod)
}
