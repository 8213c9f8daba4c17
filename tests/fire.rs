//! Under fire: an API server that is away, slow or refuses, and strangers at the webhook port.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::CipherSuite;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::support::NAMESPACE;
use crate::support::caller::{Caller, Reply, creation};
use crate::support::cluster::Cluster;
use crate::support::gateway::{Trouble, most_repeated};
use crate::support::issuer::{CONFIGURATIONS, live_bundle};
use crate::support::kinds::{NAD, POLICY, SERVICE, text};
use crate::support::load::Load;
use crate::support::scene::{INJECTOR_WEBHOOK, PATIENCE, Scene, both_webhooks};
use crate::support::wait::eventually;
use crate::support::{is_long, world};

const POLICIES: [&str; 3] = [
    "sriovnetwork.openshift.io",
    "v1",
    "sriovnetworknodepolicies",
];
const PODS: [&str; 3] = ["", "v1", "pods"];
const VALIDATE: &str = "/validating-custom-resource";
/// How many connections strangers open.
const STRANGERS: u32 = 10_000;
/// How many connections a replica takes.
const PLACES: usize = 3000;

/// How long stores are fresh for certain: their last sign of life may be a minute old when the API server goes.
const FRESH: Duration = Duration::from_secs(25);

/// How long the API server stays away each time: for minutes with `LONG=1` (`make long`).
fn stays_away() -> Duration {
    Duration::from_secs(if is_long() { 150 } else { 6 })
}

/// Lets this process have so many files open: its own ends of the strangers' connections. Root may have more than its
/// limit.
fn room_for(files: u64) -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let maximum = limit.maximum.map(|most| most.max(files));
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    setrlimit(Resource::Nofile, raised).with_context(|| {
        let most = limit.maximum;
        format!("{files} files have to be open at a time, and `ulimit -Hn` allows {most:?}")
    })
}

fn policy(vfs: u32) -> Value {
    let spec = json!({
        "resourceName": "fast_nics",
        "nodeSelector": { "node-role.kubernetes.io/worker": "" },
        "numVfs": vfs,
        "priority": 99,
        "deviceType": "netdevice",
        "isRdma": false,
        "nicSelector": { "pfNames": ["ens1f0"] },
    });
    world::custom(POLICY, "nics", &spec)
}

fn network(name: &str) -> Value {
    json!({
        "apiVersion": NAD.api_version,
        "kind": NAD.name,
        "metadata": {
            "name": name,
            "namespace": "default",
            "annotations": { "k8s.v1.cni.cncf.io/resourceName": format!("openshift.io/{name}") },
        },
        "spec": { "config": "{}" },
    })
}

/// Calls the operator webhook as the API server does.
async fn caller(scene: &Scene) -> Result<Caller> {
    let (kind, name) = CONFIGURATIONS[0];
    let bundle = live_bundle(scene.admin(), kind, name).await?;
    let name = format!("operator-webhook-service.{NAMESPACE}.svc");
    Caller::new(scene.operator.webhook(), &name, &bundle)
}

/// A pod of that network gets its resource.
async fn injects(scene: &Scene, name: &str) -> Result<()> {
    let pod = world::pod("app", name);
    let pod = scene.admin().ask_create(&pod).await?.object()?;
    let limits = &pod["spec"]["containers"][0]["resources"]["limits"];
    let resource = match name {
        "fast" => "openshift.io/fast_nics".to_owned(),
        other => format!("openshift.io/{other}"),
    };
    ensure!(limits[&resource] == "1", "its limits are {limits}");
    Ok(())
}

#[tokio::test]
async fn with_the_api_server_away_admission_answers_and_everything_resumes() -> Result<()> {
    let mut scene = Scene::registered().await?;
    injects(&scene, "fast").await?;
    let caller = caller(&scene).await?;
    let pod = creation(PODS, &world::pod("app", "fast"));
    let policies = [policy(8), policy(500)].map(|policy| creation(POLICIES, &policy));
    // Whoever is told so asks again.
    let later = |reply: &Reply| reply.code == 503 && reply.head.contains("retry-after: 1");
    let judge = async |away: Duration| -> Result<()> {
        let pod = caller.review("/mutate", &pod).await?;
        let old = later(&pod) && away > FRESH;
        ensure!(old || pod.body["response"]["patch"].is_string(), "{pod:?}");
        for (policy, allowed) in policies.iter().zip([true, false]) {
            let reply = caller.review(VALIDATE, policy).await?;
            // Conflicts are not judged by a list that may be old.
            ensure!(
                later(&reply) || reply.body["response"]["allowed"] == allowed,
                "{reply:?}"
            );
        }
        Ok(())
    };
    judge(Duration::ZERO).await?;
    let open = scene.operator.open_files()?;

    for _ in 0..2 {
        scene.cluster.stop_api_server();
        let away = Instant::now();
        while away.elapsed() < stays_away() {
            judge(away.elapsed())
                .await
                .context("with the API server away")?;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        // A network that no store has seen cannot be looked up: that is said, and the API server asks again.
        let unknown = creation(PODS, &world::pod("app", "unknown"));
        let reply = caller.review("/mutate", &unknown).await?;
        ensure!(later(&reply), "{reply:?}");
        scene.cluster.start_api_server().await?;
    }

    // What changes is seen again, admission is called again, the Lease is held again.
    scene.admin().create(&network("later")).await?;
    eventually(PATIENCE, "the stores to follow", async || {
        injects(&scene, "later").await
    })
    .await?;
    let (kind, name) = CONFIGURATIONS[2];
    eventually(PATIENCE, "repairs to go on", async || {
        scene.admin().delete(kind, name).await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        scene.admin().must_get(kind, name).await.map(drop)
    })
    .await?;
    scene.is_ready().await?;
    scene.operator.ready().await?;
    eventually(PATIENCE, "what was open to be closed", async || {
        let now = scene.operator.open_files()?;
        ensure!(now <= open + 12, "{now} files are open, {open} were before");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn an_api_server_that_refuses_forgets_or_is_silent_is_waited_for() -> Result<()> {
    let mut scene = Scene::installed().await?;
    let gateway = scene.cluster.gateway(21).await?;
    scene.operator.reach(&gateway.url())?;
    scene.configure(&both_webhooks()).await?;
    scene.operator.start()?;
    scene.is_ready().await?;
    injects(&scene, "fast").await?;

    for (index, trouble) in [
        Trouble::TooManyRequests(2),
        Trouble::Gone,
        Trouble::Broken,
        Trouble::Silence,
    ]
    .into_iter()
    .enumerate()
    {
        gateway.asked();
        gateway.make(trouble);
        tokio::time::sleep(Duration::from_secs(5)).await;
        injects(&scene, "fast")
            .await
            .with_context(|| format!("under {trouble:?}"))?;
        let asked = gateway.asked();
        println!("{trouble:?}: {} requests", asked.len());
        // It neither gives up nor hammers.
        ensure!(asked.len() < 400, "{} requests in 5 s", asked.len());
        if trouble == Trouble::TooManyRequests(2) {
            // A handful of tasks follow the config, each asking three times in that time and no more.
            let (count, request) = most_repeated(&asked);
            ensure!(count <= 15, "{count} times {request}");
        }
        gateway.make(Trouble::None);
        let name = format!("after-{index}");
        scene.admin().create(&network(&name)).await?;
        eventually(Duration::from_secs(60), "stores to follow", async || {
            injects(&scene, &name).await
        })
        .await
        .with_context(|| format!("after {trouble:?}"))?;
        let (kind, name) = CONFIGURATIONS[0];
        let uid = scene.admin().must_get(kind, name).await?["metadata"]["uid"].clone();
        scene.admin().delete(kind, name).await?;
        eventually(Duration::from_secs(60), "repairs", async || {
            let again = scene.admin().must_get(kind, name).await?;
            ensure!(again["metadata"]["uid"] != uid);
            Ok(())
        })
        .await
        .with_context(|| format!("after {trouble:?}"))?;
    }
    scene.is_ready().await?;
    scene.was_allowed_everything()
}

#[tokio::test]
async fn strangers_at_the_port_keep_nobody_out() -> Result<()> {
    room_for(u64::from(STRANGERS) + 5000)?;
    let scene = Scene::registered().await?;
    injects(&scene, "fast").await?;
    let address = scene.operator.webhook();
    let open = scene.operator.open_files()?;
    let load = Load::start(scene.admin(), 20).await?;

    // Ten thousand, most of which say nothing, and some what is not TLS, or only the beginning of it.
    let mut silent = Vec::new();
    let mut noisy = JoinSet::new();
    for number in 0..STRANGERS {
        let mut stream = TcpStream::connect(address).await?;
        if number % 20 != 0 {
            silent.push(stream);
            continue;
        }
        noisy.spawn(async move {
            let words: &[u8] = match number % 80 {
                0 => b"GET /mutate HTTP/1.1\r\nHost: x\r\n\r\n",
                20 => &[0x16, 0x03, 0x01, 0x02, 0x00, 0x01],
                40 => &[0xff; 600],
                _ => &[0x15, 0x03, 0x03, 0x00, 0x02, 0x01, 0x00],
            };
            // It may hang up at any point.
            let _ = stream.write_all(words).await;
            let _ = stream.read(&mut [0; 64]).await;
        });
    }
    // Those who speak TLS and then stop, in the head and in the body.
    let caller = caller(&scene).await?;
    let mut slow = Vec::new();
    for words in [
        "POST /mutate HTTP/1.1\r\nHost: x\r\nContent-",
        "POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
    ] {
        for _ in 0..20 {
            let mut stream = caller.connect().await?;
            stream.write_all(words.as_bytes()).await?;
            slow.push(stream);
        }
    }
    let taken = scene.operator.open_files()?;
    ensure!(
        (2500..PLACES + 200).contains(&taken),
        "it has {taken} files open"
    );
    scene.operator.health().ready().await?;
    for _ in 0..20 {
        let reply = caller
            .review(VALIDATE, &creation(POLICIES, &policy(8)))
            .await?;
        ensure!(reply.body["response"]["allowed"] == true, "{reply:?}");
    }
    // The limits end them, without anybody doing anything: 10 s for a handshake and for a head.
    eventually(
        Duration::from_secs(25),
        "strangers to be dropped",
        async || {
            let now = scene.operator.open_files()?;
            ensure!(now < open + 100, "{now} files are open, {open} were before");
            Ok(())
        },
    )
    .await?;
    load.stop().await.is_spotless(100)?;
    drop((silent, slow));
    noisy.shutdown().await;
    let dropped = "sriov_operator_connections_ended_total{listener=\"webhook\",reason=\"";
    for reason in ["evicted", "slow_handshake", "slow_head", "handshake_failed"] {
        let name = format!("{dropped}{reason}\"}}");
        let count = scene.operator.metric(&name).await?.unwrap_or_default();
        ensure!(count > 0.0, "none is counted as {reason}");
    }
    scene.was_allowed_everything()
}

#[tokio::test]
async fn what_answers_a_webhook_outlives_its_registration() -> Result<()> {
    let scene = Scene::registered().await?;
    let service = "operator-webhook-service";
    let off = json!({ "enableOperatorWebhook": false });
    scene.reconfigure(&off).await?;
    scene.has_webhooks(INJECTOR_WEBHOOK).await?;
    // Calls of an API server that does not know of it yet are still answered.
    scene.admin().must_get(SERVICE, service).await?;
    scene.is_gone(SERVICE, service).await
}

#[tokio::test]
async fn versions_and_suites_of_tls_are_those_that_are_set() -> Result<()> {
    let suites = [
        (
            CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
            &rustls::version::TLS12,
        ),
        (
            CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
            &rustls::version::TLS12,
        ),
        (
            CipherSuite::TLS13_AES_128_GCM_SHA256,
            &rustls::version::TLS13,
        ),
    ];
    let mut scene = Scene::registered().await?;
    for (suites_set, minimum, accepted) in [
        ("", "", [true, true, true]),
        (
            "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,TLS_AES_256_GCM_SHA384,TLS_RSA_WITH_AES_128_CBC_SHA",
            "",
            [true, false, false],
        ),
        ("", "VersionTLS13", [false, false, true]),
        ("", "VersionTLS10", [true, true, true]),
    ] {
        scene.operator.stop().await?;
        scene.operator.set("TLS_CIPHER_SUITES", suites_set);
        scene.operator.set("TLS_MIN_VERSION", minimum);
        scene.operator.start()?;
        scene.operator.ready().await?;
        let caller = caller(&scene).await?;
        for ((suite, version), accepted) in suites.iter().zip(accepted) {
            let caller = caller.clone().with_version(version).with_suites(&[*suite]);
            let answer = caller.connect().await;
            ensure!(
                answer.is_ok() == accepted,
                "{suite:?} with {suites_set:?} {minimum:?}: {answer:?}"
            );
        }
        // What the API server speaks is among it every time. The forwarder takes a moment to know the new process.
        eventually(Duration::from_secs(5), "the injector", async || {
            injects(&scene, "fast").await
        })
        .await?;
    }
    Ok(())
}

#[tokio::test]
async fn with_a_client_ca_only_the_api_server_may_call() -> Result<()> {
    let cluster = Cluster::boot_known_to_webhooks().await?;
    let mut scene = Scene::on(cluster).await?;
    let ca = scene.cluster.pki().file("ca.crt");
    scene.operator.argument(&format!("--client-ca-file={ca}"));
    scene
        .operator
        .set("CLIENT_ALLOWED_NAMES", "admin,kube-apiserver");
    scene.configure(&both_webhooks()).await?;
    scene.operator.start()?;
    scene.is_ready().await?;
    // The API server presents its certificate, and is answered.
    injects(&scene, "fast").await?;
    let answer = scene.admin().ask_create(&policy(500)).await?;
    ensure!(answer.message().contains("spec.numVfs"), "{answer:?}");

    let caller = caller(&scene).await?;
    let review = creation(POLICIES, &policy(8));
    let pki = scene.cluster.pki();
    let known = caller
        .clone()
        .with_identity(&pki.admin_certificate, &pki.admin_key);
    let reply = known.review(VALIDATE, &review).await?;
    ensure!(reply.body["response"]["allowed"] == true, "{reply:?}");
    let stranger = crate::support::issuer::Issuer::new("stranger")?.issue_for("admin")?;
    let stranger = caller
        .clone()
        .with_identity(&stranger.certificate, &stranger.key);
    for refused in [&caller, &stranger] {
        ensure!(
            refused.review(VALIDATE, &review).await.is_err(),
            "a stranger is answered"
        );
    }

    // A certificate of the same CA with another name.
    scene.operator.stop().await?;
    scene.operator.set("CLIENT_ALLOWED_NAMES", "kube-apiserver");
    scene.operator.start()?;
    scene.operator.ready().await?;
    ensure!(
        known.review(VALIDATE, &review).await.is_err(),
        "a name that is not allowed is answered"
    );
    let answer = scene.admin().ask_create(&policy(8)).await?;
    ensure!(!answer.allowed(), "nobody judged it: {answer:?}");
    ensure!(!text(&answer.body, "/message").is_empty());
    Ok(())
}
