//! Several replicas: all serve, one writes, and whoever leaves is missed by nobody.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::support::kinds::{DAEMON_SET, LEASE, SECRET, text};
use crate::support::load::Load;
use crate::support::operator::Operator;
use crate::support::scene::{PATIENCE, Scene, both_webhooks};
use crate::support::wait::eventually;

const LEASE_NAME: &str = "sriov-operator";
const LEADS: &str = "leader_election_master_status{name=\"sriov-operator\"}";
/// How long the end of leadership may take to be everywhere.
const AT_ONCE: Duration = Duration::from_secs(2);
const LEASE_DURATION: Duration = Duration::from_secs(4);
const RETRY_PERIOD: Duration = Duration::from_secs(1);
/// What a busy machine may add to a limit.
const SLACK: Duration = Duration::from_millis(1500);

fn elect(operator: &mut Operator) {
    operator.argument("--leader-elect-lease-duration=4s");
    operator.argument("--leader-elect-renew-deadline=3s");
    operator.argument("--leader-elect-retry-period=1s");
}

/// Two replicas behind the Services; the first leads.
async fn two_replicas() -> Result<(Scene, Operator)> {
    let mut scene = Scene::installed().await?;
    let mut second = scene.replica(2).await?;
    elect(&mut scene.operator);
    elect(&mut second);
    scene.configure(&both_webhooks()).await?;
    scene.operator.start()?;
    scene.is_ready().await?;
    second.start()?;
    second.ready().await?;
    ensure!(leads(&scene.operator).await?, "the first does not lead");
    ensure!(!leads(&second).await?, "both lead");
    Ok((scene, second))
}

async fn leads(operator: &Operator) -> Result<bool> {
    Ok(operator.metric(LEADS).await? == Some(1.0))
}

async fn holder(scene: &Scene) -> Result<String> {
    let lease = scene.admin().must_get(LEASE, LEASE_NAME).await?;
    Ok(text(&lease, "/spec/holderIdentity").to_owned())
}

/// Whether what is deleted by hand comes back: somebody writes.
async fn somebody_writes(scene: &Scene) -> Result<()> {
    let name = "sriov-device-plugin";
    scene.admin().delete(DAEMON_SET, name).await?;
    eventually(PATIENCE, "it to be back", async || {
        scene.admin().must_get(DAEMON_SET, name).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn a_leader_that_is_stopped_is_replaced_at_once_and_no_call_is_lost() -> Result<()> {
    let (mut scene, second) = two_replicas().await?;
    let load = Load::start(scene.admin(), 100).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let probe = scene.operator.health();
    let asked = Instant::now();
    scene.operator.signal("TERM")?;
    eventually(Duration::from_secs(5), "the second to lead", async || {
        ensure!(leads(&second).await?, "it does not");
        Ok(())
    })
    .await?;
    println!("replaced after {:?}", asked.elapsed());
    // The one that leaves still answers, and says that it leaves.
    let (code, body) = probe.get("/readyz?verbose").await?;
    ensure!(code == 503, "/readyz answers {code}");
    ensure!(body.contains("[-]shutdown failed"), "{body}");
    let status = scene.operator.ended(Duration::from_secs(40)).await?;
    ensure!(status.success(), "it ended with {status}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    load.stop().await.is_spotless(100)?;
    somebody_writes(&scene).await?;
    println!("the second replica:\n{}", second.log(20));
    scene.was_allowed_everything()
}

#[tokio::test]
async fn a_leader_that_is_killed_is_replaced_when_its_lease_ends() -> Result<()> {
    let (mut scene, mut second) = two_replicas().await?;
    let load = Load::start(scene.admin(), 50).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    scene.operator.kill();
    let limit = LEASE_DURATION + RETRY_PERIOD + SLACK;
    // Only calls that were under way are lost: a second later there is none.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let lost = load.failures();
    eventually(limit, "the second to lead", async || {
        ensure!(leads(&second).await?, "it does not");
        Ok(())
    })
    .await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let tally = load.stop().await;
    println!("{lost} calls were lost to the kill: {:#?}", tally.failed);
    ensure!(tally.failed.len() == lost, "calls were lost later");
    somebody_writes(&scene).await?;

    // One that comes back follows, and serves.
    scene.operator.start()?;
    scene.operator.ready().await?;
    ensure!(!leads(&scene.operator).await?, "both lead");
    second.stop().await?;
    somebody_writes(&scene).await?;
    scene.was_allowed_everything()
}

#[tokio::test]
async fn losing_the_lease_ends_writing_and_nothing_else() -> Result<()> {
    let scene = Scene::installed().await?;
    let mut scene = scene;
    elect(&mut scene.operator);
    scene.configure(&both_webhooks()).await?;
    scene.operator.start()?;
    scene.is_ready().await?;
    let load = Load::start(scene.admin(), 20).await?;
    let identity = holder(&scene).await?;
    let stranger = json!({ "spec": {
        "holderIdentity": "somebody-else",
        "leaseDurationSeconds": 6,
        // Its clock is not ours: what counts is when we saw it change.
        "renewTime": "2099-01-01T00:00:00.000000Z",
    } });
    scene.admin().merge(LEASE, LEASE_NAME, &stranger).await?;
    eventually(Duration::from_secs(3), "leadership to end", async || {
        ensure!(!leads(&scene.operator).await?, "it still leads");
        Ok(())
    })
    .await?;
    let phase = "sriov_operator_rotation_phase{phase=\"stable\"}";
    eventually(AT_ONCE, "no word of a rotation", async || {
        let told = scene.operator.metric(phase).await?;
        ensure!(told.is_none(), "it tells of one");
        Ok(())
    })
    .await?;
    // It does not write, and is ready all the same.
    let name = "sriov-device-plugin";
    scene.admin().delete(DAEMON_SET, name).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    ensure!(
        scene.admin().get(DAEMON_SET, name).await?.is_none(),
        "it writes without the Lease"
    );
    scene.operator.health().ready().await?;

    // The other one never renews: then it is ours again, and what happened meanwhile is put right.
    eventually(PATIENCE, "the Lease to be taken back", async || {
        ensure!(holder(&scene).await? == identity, "it is not");
        scene.admin().must_get(DAEMON_SET, name).await.map(drop)
    })
    .await?;
    load.stop().await.is_spotless(50)?;
    scene.was_allowed_everything()
}

#[tokio::test]
async fn the_readiness_probe_tells_the_truth() -> Result<()> {
    let mut scene = Scene::installed().await?;
    // Given bundles, and no Secret yet: nobody could answer.
    let issuer = crate::support::issuer::Issuer::new("administrator")?;
    for of in ["OPERATOR", "INJECTOR"] {
        let variable = format!("ADMISSION_CONTROLLERS_CERTIFICATES_{of}_CA_CRT");
        scene.operator.set(&variable, &issuer.bundle());
    }
    scene.operator.start()?;
    scene.operator.ready().await?;
    let probe = scene.operator.health();
    let (code, body) = probe.get("/readyz?verbose").await?;
    ensure!(code == 200, "without a configuration it answers {code}");
    for check in [
        "shutdown",
        "config-store",
        "cluster-stores",
        "pod-stores",
        "webhook-configurations",
        "serving",
    ] {
        ensure!(body.contains(&format!("[+]{check} ok")), "{body}");
    }
    scene.configure(&both_webhooks()).await?;
    let name = "operator-webhook-cert";
    eventually(PATIENCE, "it not to be ready", async || {
        let (code, body) = probe.get("/readyz").await?;
        ensure!(code == 503 && body.contains("[-]serving failed"), "{body}");
        ensure!(body.contains(name), "{body}");
        Ok(())
    })
    .await?;
    for (service, name) in crate::support::issuer::ENDPOINTS {
        let pair = issuer.issue(service)?;
        let pair = crate::support::issuer::secret(name, "Opaque", &pair, "");
        scene.admin().create(&pair).await?;
    }
    scene.operator.ready().await?;
    scene.is_ready().await?;
    ensure!(scene.admin().get(SECRET, name).await?.is_some());
    ensure!(probe.get("/healthz").await?.0 == 200);
    Ok(())
}

#[tokio::test]
async fn a_second_signal_ends_at_once() -> Result<()> {
    let mut scene = Scene::running().await?;
    scene.operator.signal("TERM")?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let asked = Instant::now();
    scene.operator.signal("INT")?;
    let status = scene.operator.ended(Duration::from_secs(2)).await?;
    ensure!(asked.elapsed() < Duration::from_secs(2));
    ensure!(status.code().context("it was killed")? != 0);
    // The Lease was given up before, so the next one need not wait.
    ensure!(holder(&scene).await?.is_empty(), "the Lease is held");
    Ok(())
}
