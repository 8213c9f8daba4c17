//! Admission of the custom resources on a running cluster: what many requests, changes of the cluster and odd objects in
//! the store do to verdicts. What is legal is told beside the rules.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use serde_json::{Value, json};

use crate::support::kinds::{CONFIG, CONFIG_MAP, NETWORK, NODE_STATE, POLICY, POOL};
use crate::support::operator::binary;
use crate::support::scene::{Scene, both_webhooks};
use crate::support::user::{Answer, Refuser, User};
use crate::support::wait::eventually;
use crate::support::{NAMESPACE, world};

const ROUNDS: usize = 1_000;
/// Rounds under way at a time, each about VFs of its own.
const LANES: usize = 8;
/// How long a change of the list of NICs may take to count.
const COUNTS_WITHIN: Duration = Duration::from_secs(1);

/// A policy for these VFs of the Intel NIC that both workers have.
fn policy(name: &str, pf_name: &str) -> Value {
    let spec = json!({
        "resourceName": name.replace('-', "_"),
        "nodeSelector": { "node-role.kubernetes.io/worker": "" },
        "numVfs": 64,
        "nicSelector": { "pfNames": [pf_name] },
    });
    world::custom(POLICY, name, &spec)
}

/// Fails unless a webhook refused it, with this in its message.
fn is_refused(answer: &Answer, part: &str) -> Result<()> {
    ensure!(
        answer.refuser() == Some(Refuser::Webhook) && answer.message().contains(part),
        "it should be refused for {part}: {} {}",
        answer.code,
        answer.message()
    );
    Ok(())
}

#[tokio::test]
async fn policies_applied_one_after_the_other_are_always_judged_against_each_other() -> Result<()> {
    let scene = Scene::registered().await?;
    let admin = scene.admin();
    let lanes = (0..LANES).map(async |lane| {
        // VFs 4 apart, so that lanes have nothing to do with each other.
        let first = lane * 4;
        let ours = format!("ens1f0#{first}-{}", first + 1);
        let beside = format!("ens1f0#{}-{}", first + 2, first + 3);
        let across = format!("ens1f0#{}-{}", first + 1, first + 2);
        let (stored, asked) = (format!("stored-{lane}"), format!("asked-{lane}"));
        for round in 0..ROUNDS / LANES {
            admin.create(&policy(&stored, &ours)).await?;
            let answer = admin.ask_create(&policy(&asked, &across)).await?;
            is_refused(&answer, &format!("overlaps policy \"{stored}\""))
                .with_context(|| format!("lane {lane}, round {round}"))?;
            admin.ask_create(&policy(&asked, &beside)).await?.object()?;
            admin.delete(POLICY, &stored).await?;
        }
        Ok::<_, anyhow::Error>(())
    });
    futures::future::try_join_all(lanes).await.map(drop)
}

#[tokio::test]
async fn good_and_bad_reviews_at_the_same_time_do_not_touch_each_other() -> Result<()> {
    let scene = Scene::registered().await?;
    let admin = scene.admin();
    let mut too_many = policy("bad", "ens1f0");
    too_many["spec"]["numVfs"] = 65.into();
    let nowhere = policy("nowhere", "ens9f9");
    let mut off = world::config(&both_webhooks());
    off["spec"]["configDaemonEnvVars"] = json!({ "NODE_NAME": "x" });
    let network = |namespace: &str| {
        let spec = json!({ "resourceName": "r", "networkNamespace": "default" });
        let mut network = world::custom(NETWORK, "net", &spec);
        network["metadata"]["namespace"] = namespace.into();
        network
    };
    let reviews = [
        (policy("good", "ens1f0"), None),
        (too_many, Some("spec.numVfs")),
        (nowhere, Some("ens9f9")),
        (policy("good-range", "ens1f0#0-7"), None),
        (off, Some("spec.configDaemonEnvVars[NODE_NAME]")),
        (network(NAMESPACE), None),
        (network("default"), Some("spec.networkNamespace")),
        (world::pod("good", "fast"), None),
        (world::pod("bad", "a/b/c"), Some("a/b/c")),
    ];
    // A good one and a bad one a round, more or less.
    let all = reviews.iter().cycle().take(2 * ROUNDS);
    futures::stream::iter(all)
        .map(async |(object, fault)| {
            let answer = if object["kind"] == CONFIG.name {
                admin.ask_update(object).await?
            } else {
                admin.ask_create(object).await?
            };
            match fault {
                None => answer.object().map(drop),
                Some(part) => is_refused(&answer, part),
            }
        })
        .buffer_unordered(32)
        .try_collect()
        .await
}

#[tokio::test]
async fn a_nic_that_is_listed_counts_within_a_second() -> Result<()> {
    let scene = Scene::registered().await?;
    let admin = scene.admin();
    let asked = policy("nics", "ens1f0");
    let none = json!({ "Intel_i40e_XXV710": null, "Intel_ice_E810-C": null });
    let one = json!({ "Intel_i40e_XXV710": "8086 158b 154c" });
    for (lines, allowed) in [(none, false), (one, true)] {
        admin
            .merge(CONFIG_MAP, "supported-nic-ids", &json!({ "data": lines }))
            .await?;
        eventually(COUNTS_WITHIN, "the list to count", async || {
            let answer = admin.ask_create(&asked).await?;
            ensure!(answer.allowed() == allowed, "{}", answer.message());
            if !allowed {
                is_refused(&answer, "supported-nic-ids")?;
            }
            Ok(())
        })
        .await?;
    }
    Ok(())
}

#[tokio::test]
async fn with_dev_mode_nics_that_are_not_listed_are_taken() -> Result<()> {
    let mut scene = Scene::installed().await?;
    scene
        .admin()
        .delete(CONFIG_MAP, "supported-nic-ids")
        .await?;
    scene.operator.set("DEV_MODE", "TRUE");
    scene.operator.start()?;
    scene.configure(&both_webhooks()).await?;
    scene.is_ready().await?;
    let answer = scene.admin().ask_create(&policy("nics", "ens1f0")).await?;
    answer.object()?;
    // Other rules hold all the same.
    let mut too_many = policy("nics", "ens1f0");
    too_many["spec"]["numVfs"] = 65.into();
    is_refused(&scene.admin().ask_create(&too_many).await?, "spec.numVfs")
}

#[tokio::test]
async fn malformed_objects_in_the_store_harm_no_other_verdict() -> Result<()> {
    let mut scene = Scene::installed().await?;
    let admin = scene.admin();
    // Nobody judges these: there is no webhook yet.
    admin.create(&policy("broken", "ens1#3")).await?;
    admin.create(&policy("stored", "ens1f0#0-3")).await?;
    let mut without_status = world::custom(NODE_STATE, "worker-9", &json!({}));
    without_status["spec"] = json!({});
    admin.create(&without_status).await?;
    let line = json!({ "data": { "two_fields": "8086 1572" } });
    admin.merge(CONFIG_MAP, "supported-nic-ids", &line).await?;

    scene.operator.start()?;
    scene.configure(&both_webhooks()).await?;
    scene.is_ready().await?;
    let admin = scene.admin();
    for _ in 0..3 {
        admin
            .ask_create(&policy("asked", "ens1f0#4-7"))
            .await?
            .object()?;
        let answer = admin.ask_create(&policy("asked", "ens1f0#3-4")).await?;
        is_refused(&answer, "overlaps policy \"stored\"")?;
    }
    // What is broken can be mended.
    let mended = admin.ask_update(&policy("broken", "ens1f0#8-9")).await?;
    mended.object()?;

    let (_, metrics) = scene.operator.metrics().get("/metrics").await?;
    let log = scene.operator.log(usize::MAX);
    for (store, name) in [
        ("sriovnetworknodepolicies", "broken"),
        ("supported-nic-ids", "two_fields"),
    ] {
        let metric = format!("sriov_operator_store_set_aside_total{{store=\"{store}\"}} 1\n");
        ensure!(metrics.contains(&metric), "no {metric} in {metrics}");
        let lines = log
            .lines()
            .filter(|line| line.contains("malformed, set aside") && line.contains(name));
        ensure!(lines.count() == 1, "not one line about {name}");
    }
    Ok(())
}

#[tokio::test]
async fn check_says_what_the_server_says() -> Result<()> {
    let scene = Scene::registered().await?;
    let admin = scene.admin();
    admin.create(&policy("stored", "ens1f0#0-3")).await?;
    let mut many_faults = policy("many", "ens1f0#2-70");
    many_faults["spec"]["resourceName"] = "a.b".into();
    many_faults["spec"]["mtu"] = 9_000.into();
    let unknown_gate = json!({ "featureGates": { "parallelNics": true } });
    let asked = [
        policy("fine", "ens1f0#4-7"),
        policy("nowhere", "ens1f9"),
        policy("clash", "ens1f0#3-5"),
        policy("stored", "ens1f0#0-8"),
        many_faults,
        world::custom(POOL, "pool", &json!({ "maxUnavailable": "120%" })),
        world::custom(CONFIG, "other", &unknown_gate),
        world::custom(CONFIG, "default", &unknown_gate),
        world::pod("fine", "fast"),
        world::pod("missing", "slow"),
    ];
    for object in &asked {
        let served = served(admin, object).await?;
        // What the watch shows is what check lists, a moment later.
        eventually(Duration::from_secs(5), "the same words", async || {
            let checked = checked(&scene, object)?;
            ensure!(checked == served, "check: {checked:?}, server: {served:?}");
            Ok(())
        })
        .await?;
    }
    Ok(())
}

/// Whether it is allowed, its faults, its warnings.
type Words = (bool, BTreeSet<String>, BTreeSet<String>);

async fn served(admin: &User, object: &Value) -> Result<Words> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let answer = if name == "stored" || name == "default" {
        admin.ask_update(object).await?
    } else {
        admin.ask_create(object).await?
    };
    let mut faults: BTreeSet<String> = answer.causes().into_iter().collect();
    if faults.is_empty() && !answer.allowed() {
        let message = answer.message();
        let told = message.split_once("denied the request: ");
        faults.insert(told.map_or(message, |(_, told)| told).to_owned());
    }
    let warnings = answer.warnings.iter().cloned().collect();
    Ok((answer.allowed(), faults, warnings))
}

fn checked(scene: &Scene, object: &Value) -> Result<Words> {
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), object.to_string())?;
    let output = Command::new(binary()?)
        .args(["check", "-o", "json", "--kubeconfig"])
        .arg(scene.cluster.admin_kubeconfig())
        .arg(file.path())
        .output()?;
    let report: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    let allowed = report["allowed"] == true;
    ensure!(output.status.code() == Some(i32::from(!allowed)));
    let judged = &report["objects"][0];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let faults = judged["faults"].as_array().into_iter().flatten();
    let faults = faults.map(|fault| match text(&fault["field"]).as_str() {
        "" => text(&fault["message"]),
        field => format!("{field}: {}", text(&fault["message"])),
    });
    let warnings = judged["warnings"].as_array().into_iter().flatten();
    Ok((allowed, faults.collect(), warnings.map(text).collect()))
}
