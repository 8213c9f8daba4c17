//! Rotation with compressed lifetimes: no call fails while CAs follow one another, and a kill in any phase loses nothing.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use serde_json::{Value, json};

use crate::support::issuer::{CONFIGURATIONS, live_bundle};
use crate::support::kinds::{SECRET, text};
use crate::support::load::Load;
use crate::support::operator::Operator;
use crate::support::scene::{PATIENCE, Scene, both_webhooks};
use crate::support::wait::eventually;
use crate::support::{NAMESPACE, SERVICE_ACCOUNT, is_long};

const CA_SECRET: &str = "sriov-operator-ca";

/// How long certificates last and how long the load goes on, in seconds.
struct Pace {
    ca: u64,
    certificate: u64,
    lasts: u64,
    /// How many CAs there are at least.
    authorities: usize,
}

/// `LONG=1` (`make long`) is three minutes, with a CA that lasts for one.
fn pace() -> Pace {
    if is_long() {
        return Pace {
            ca: 60,
            certificate: 20,
            lasts: 180,
            authorities: 4,
        };
    }
    Pace {
        ca: 30,
        certificate: 15,
        lasts: 75,
        authorities: 3,
    }
}

fn arguments(operator: &mut Operator, pace: &Pace) {
    operator.argument(&format!("--ca-lifetime={}s", pace.ca));
    operator.argument(&format!("--certificate-lifetime={}s", pace.certificate));
    operator.argument("--rotation-settle-time=2s");
}

async fn authority(scene: &Scene) -> Result<Value> {
    let secret = scene.admin().must_get(SECRET, CA_SECRET).await?;
    Ok(secret["data"].clone())
}

/// The certificates of a bundle, each once; a repetition is an error.
fn certificates(bundle: &str) -> Result<BTreeSet<String>> {
    let blocks: Vec<String> = bundle
        .split_inclusive("-----END CERTIFICATE-----\n")
        .map(str::to_owned)
        .collect();
    let unique: BTreeSet<String> = blocks.iter().cloned().collect();
    ensure!(unique.len() == blocks.len(), "a CA is there twice");
    Ok(unique)
}

/// A token of the operator's ServiceAccount that is good for as long as the Secret is there that it is bound to.
async fn bound_token(scene: &Scene, name: &str) -> Result<String> {
    let anchor = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "name": name, "namespace": NAMESPACE },
    });
    scene.admin().create(&anchor).await?;
    let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{SERVICE_ACCOUNT}/token");
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {
            "expirationSeconds": 3600,
            "boundObjectRef": { "apiVersion": "v1", "kind": "Secret", "name": name },
        },
    });
    let answer = scene
        .admin()
        .call(Method::POST, &path, "application/json", Some(&request))
        .await?
        .object()?;
    Ok(text(&answer, "/status/token").to_owned())
}

#[tokio::test]
async fn not_one_call_fails_while_cas_follow_one_another_and_tokens_are_replaced() -> Result<()> {
    let pace = pace();
    let mut scene = Scene::installed().await?;
    let mut second = scene.replica(2).await?;
    // Mounted tokens are replaced in time; the file is what counts.
    let token = scene.cluster.directory().join("token");
    std::fs::write(&token, bound_token(&scene, "first-token").await?)?;
    for operator in [&mut scene.operator, &mut second] {
        arguments(operator, &pace);
        operator.token_file(&token)?;
    }
    scene.configure(&both_webhooks()).await?;
    // Both at once, without a Secret: there is one CA all the same.
    scene.operator.start()?;
    second.start()?;
    scene.is_ready().await?;
    scene.operator.ready().await?;
    second.ready().await?;
    let (kind, name) = CONFIGURATIONS[0];
    let first = certificates(&live_bundle(scene.admin(), kind, name).await?)?;
    ensure!(first.len() == 1, "there are {} CAs", first.len());

    let load = Load::start(scene.admin(), 100).await?;
    let start = Instant::now();
    let lasts = Duration::from_secs(pace.lasts);
    let mut seen = first;
    let mut replaced = false;
    let mut revoked = false;
    while start.elapsed() < lasts {
        for (kind, name) in CONFIGURATIONS {
            let bundle = certificates(&live_bundle(scene.admin(), kind, name).await?)?;
            ensure!(bundle.len() <= 3, "a bundle holds {} CAs", bundle.len());
            seen.extend(bundle);
        }
        if !replaced {
            std::fs::write(&token, bound_token(&scene, "second-token").await?)?;
            replaced = true;
        }
        // A minute is how long a client may keep a token.
        if !revoked && start.elapsed() > Duration::from_secs(61) {
            scene.admin().delete(SECRET, "first-token").await?;
            revoked = true;
        }
        if load.failures() > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let tally = load.stop().await;
    println!("{} CAs were published in {lasts:?}", seen.len());
    println!("the second replica:\n{}", second.log(40));
    scene
        .tells(&[
            ("CertificateRenewed", "issues from now on"),
            ("CertificateRenewed", "is trusted no longer"),
            (
                "CertificateRenewed",
                "was issued into Secret operator-webhook-cert",
            ),
        ])
        .await?;
    tally.is_spotless(usize::try_from(pace.lasts)? * 10)?;
    ensure!(seen.len() >= pace.authorities, "only {} CAs", seen.len());
    ensure!(revoked, "the first token was not revoked");
    // Who still used it would be refused by now.
    second.ready().await?;
    scene.operator.ready().await?;
    scene.was_allowed_everything()
}

/// Where rotation stands, as the CA Secret tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// A successor is made; not every configuration is known to carry it.
    Publishing,
    /// Every configuration carries it.
    Settling,
    /// It issues, and the one before is still trusted.
    Retiring,
}

fn is_in(phase: Phase, data: &Value) -> bool {
    let there = |key: &str| data[key].is_string();
    match phase {
        Phase::Publishing => there("next.crt") && !there("next.published"),
        Phase::Settling => there("next.published"),
        Phase::Retiring => there("retired.json") && !there("next.crt"),
    }
}

#[tokio::test]
async fn a_kill_in_any_phase_is_resumed_and_makes_no_second_rotation() -> Result<()> {
    let pace = Pace {
        ca: 24,
        certificate: 9,
        lasts: 0,
        authorities: 0,
    };
    let mut scene = Scene::installed().await?;
    arguments(&mut scene.operator, &pace);
    // With nobody else there, the Lease of the one that was killed is all that is waited for.
    scene.operator.argument("--leader-elect=false");
    scene.configure(&both_webhooks()).await?;
    scene.operator.start()?;
    scene.is_ready().await?;
    let first = authority(&scene).await?["ca.crt"].clone();

    let mut successor = Value::Null;
    for phase in [Phase::Publishing, Phase::Settling, Phase::Retiring] {
        let rotation = Duration::from_secs(pace.ca);
        let data = eventually(rotation, &format!("phase {phase:?}"), async || {
            let data = authority(&scene).await?;
            // Publishing lasts for a moment; the one after it may be all that is seen.
            let seen = is_in(phase, &data)
                || (phase == Phase::Publishing && is_in(Phase::Settling, &data));
            ensure!(seen, "it holds {:?}", keys(&data));
            Ok(data)
        })
        .await?;
        scene.operator.kill();
        let made = match phase {
            Phase::Publishing | Phase::Settling => data["next.crt"].clone(),
            Phase::Retiring => data["ca.crt"].clone(),
        };
        if successor.is_null() {
            successor = made.clone();
        }
        ensure!(
            made == successor,
            "a second rotation began before {phase:?}"
        );
        scene.operator.start()?;
        scene.operator.ready().await?;
    }
    eventually(
        PATIENCE,
        "the first CA to be trusted no longer",
        async || {
            let data = authority(&scene).await?;
            ensure!(!data["retired.json"].is_string(), "it is still retiring");
            Ok(())
        },
    )
    .await?;
    let data = authority(&scene).await?;
    ensure!(
        data["ca.crt"] == successor || data["next.crt"].is_string(),
        "the successor is not in force"
    );
    let (kind, name) = CONFIGURATIONS[0];
    eventually(PATIENCE, "bundles without it", async || {
        let bundle = live_bundle(scene.admin(), kind, name).await?;
        let first = String::from_utf8(STANDARD.decode(first.as_str().context("no CA")?)?)?;
        ensure!(!bundle.contains(first.trim()), "it is still published");
        certificates(&bundle).map(drop)
    })
    .await?;
    scene.is_ready().await?;
    let load = Load::start(scene.admin(), 20).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    load.stop().await.is_spotless(5)?;
    scene.was_allowed_everything()
}

#[tokio::test]
async fn what_expired_while_nobody_ran_is_made_anew_at_once() -> Result<()> {
    let pace = Pace {
        ca: 15,
        certificate: 10,
        lasts: 0,
        authorities: 0,
    };
    let mut scene = Scene::installed().await?;
    arguments(&mut scene.operator, &pace);
    scene.configure(&both_webhooks()).await?;
    scene.operator.start()?;
    scene.is_ready().await?;
    let first = authority(&scene).await?["ca.crt"].clone();
    scene.operator.stop().await?;
    tokio::time::sleep(Duration::from_secs(pace.ca + 1)).await;

    // Nothing that is there can be used: the CA, its certificates, the bundles.
    scene.operator.start()?;
    scene.operator.ready().await?;
    scene.is_ready().await?;
    let now = authority(&scene).await?["ca.crt"].clone();
    ensure!(now != first, "the expired CA is still in force");
    let load = Load::start(scene.admin(), 20).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    load.stop().await.is_spotless(10)?;
    scene.was_allowed_everything()
}

fn keys(data: &Value) -> Vec<&String> {
    data.as_object()
        .map(|data| data.keys().collect())
        .unwrap_or_default()
}
