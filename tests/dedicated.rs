//! Dedicated serving: the webhooks are answered by workloads of their own, which may read what they need and no more.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;

use crate::chart;
use crate::support::kinds::{CONFIG, MUTATING, POLICY, text};
use crate::support::scene::{INJECTOR_WEBHOOK, OPERATOR_WEBHOOKS, Scene, both_webhooks};
use crate::support::wait::{eventually, throughout};
use crate::support::{NAMESPACE, world};

#[tokio::test]
async fn workloads_of_their_own_answer_the_webhooks() -> Result<()> {
    let mut scene = Scene::installed().await?;
    chart::grant(scene.admin(), "dedicated").await?;
    scene.operator.set("ADMISSION_SERVING", "dedicated");
    scene.operator.start()?;
    scene.configure(&both_webhooks()).await?;

    // Nothing is registered before somebody could answer.
    let operator_webhook = scene.run_pod_of("operator-webhook", 11).await?;
    scene.has_webhooks(OPERATOR_WEBHOOKS).await?;
    throughout(Duration::from_secs(1), "an injector alone", async || {
        let missing = scene
            .admin()
            .get(MUTATING, "network-resources-injector-config")
            .await?;
        ensure!(missing.is_none(), "the injector is registered");
        Ok(())
    })
    .await?;
    let injector = scene.run_pod_of("network-resources-injector", 12).await?;
    scene.is_ready().await?;
    scene
        .has_webhooks(&[OPERATOR_WEBHOOKS, INJECTOR_WEBHOOK].concat())
        .await?;

    // The operator is not asked: they answer without it.
    scene.operator.stop().await?;
    let spec = |vfs: u16| {
        json!({
            "resourceName": "fast_nics",
            "nodeSelector": { "node-role.kubernetes.io/worker": "" },
            "numVfs": vfs,
            "nicSelector": { "pfNames": ["ens1f0"] },
        })
    };
    let defaulted = scene
        .admin()
        .ask_create(&world::custom(POLICY, "nics", &spec(8)))
        .await?
        .object()?;
    ensure!(defaulted["spec"]["priority"] == 99, "{defaulted}");
    let refused = scene
        .admin()
        .ask_create(&world::custom(POLICY, "nics", &spec(500)))
        .await?;
    ensure!(
        refused.message().contains("spec.numVfs"),
        "it says {refused:?}"
    );
    let pod = scene
        .admin()
        .ask_create(&world::pod("app", &format!("{NAMESPACE}/nowhere")))
        .await?;
    ensure!(pod.message().contains("nowhere"), "it says {pod:?}");

    // Each follows the log level, and neither asks for what its roles do not give.
    let level = json!({ "spec": { "logLevel": 0 } });
    scene.admin().merge(CONFIG, "default", &level).await?;
    eventually(Duration::from_secs(10), "both to be ready", async || {
        operator_webhook.pod().probe.ready().await?;
        injector.pod().probe.ready().await
    })
    .await?;
    scene.was_allowed_everything()
}

#[tokio::test]
async fn back_in_process_their_workloads_go() -> Result<()> {
    let mut scene = Scene::installed().await?;
    chart::grant(scene.admin(), "dedicated").await?;
    scene.operator.set("ADMISSION_SERVING", "dedicated");
    scene.operator.start()?;
    scene
        .configure(&json!({ "enableOperatorWebhook": true, "enableInjector": false }))
        .await?;
    let _pod = scene.run_pod_of("operator-webhook", 11).await?;
    scene.is_ready().await?;
    scene.operator.stop().await?;
    chart::grant(scene.admin(), "in-process").await?;
    scene.operator.set("ADMISSION_SERVING", "in-process");
    scene.operator.start()?;
    eventually(
        Duration::from_secs(20),
        "the workload to be gone",
        async || {
            let left: Vec<String> = scene
                .objects()
                .await?
                .into_keys()
                .filter(|name| {
                    let of_webhook = name.contains(" operator-webhook");
                    of_webhook && !name.contains("-service") && !name.contains("-cert")
                })
                .collect();
            ensure!(left.is_empty(), "left are {left:?}");
            Ok(())
        },
    )
    .await?;
    let service = scene
        .admin()
        .must_get(crate::support::kinds::SERVICE, "operator-webhook-service")
        .await?;
    let selected = text(&service, "/spec/selector/app.kubernetes.io~1name");
    ensure!(selected == "sriov-operator", "{service}");
    scene.is_ready().await
}
