//! Certificates in their four modes: who writes what, what is accepted, and that nothing breaks or is left behind.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use serde_json::{Value, json};

use crate::support::issuer::{
    CONFIGURATIONS, ENDPOINTS, Issuer, Role, StandIn, live_bundle, secret,
};
use crate::support::kinds::{CONFIG, Kind, POLICY, SECRET, SERVICE, text};
use crate::support::operator::Operator;
use crate::support::scene::{INJECTOR_WEBHOOK, OPERATOR_WEBHOOKS, PATIENCE, Scene, both_webhooks};
use crate::support::wait::{eventually, throughout};
use crate::support::world;

/// How long a repair may take.
const AT_ONCE: Duration = Duration::from_secs(2);
const CA_SECRET: &str = "sriov-operator-ca";
const CERT_MANAGER: &str = "ADMISSION_CONTROLLERS_CERTIFICATES_CERT_MANAGER_ENABLED";
const CA_CRT: [&str; 2] = [
    "ADMISSION_CONTROLLERS_CERTIFICATES_OPERATOR_CA_CRT",
    "ADMISSION_CONTROLLERS_CERTIFICATES_INJECTOR_CA_CRT",
];

fn policy() -> Value {
    let spec = json!({
        "resourceName": "fast_nics",
        "nodeSelector": { "node-role.kubernetes.io/worker": "" },
        "numVfs": 8,
        "nicSelector": { "pfNames": ["ens1f0"] },
    });
    world::custom(POLICY, "nics", &spec)
}

/// Both webhooks answer, with certificates that their bundles verify.
async fn both_answer(scene: &Scene) -> Result<()> {
    eventually(PATIENCE, "both webhooks to answer", async || {
        let stored = scene.admin().ask_create(&policy()).await?.object()?;
        ensure!(stored["spec"]["priority"] == 99, "not defaulted: {stored}");
        let pod = scene.admin().ask_create(&world::pod("app", "fast")).await?;
        let pod = pod.object()?;
        let limits = &pod["spec"]["containers"][0]["resources"]["limits"];
        ensure!(
            limits["openshift.io/fast_nics"] == "1",
            "not injected: {pod}"
        );
        Ok(())
    })
    .await
}

/// Writes a Secret's data as an administrator with `kubectl edit` does.
async fn edit(scene: &Scene, name: &str, data: &Value) -> Result<()> {
    let patch = json!({ "data": data });
    scene.admin().merge(SECRET, name, &patch).await.map(drop)
}

async fn set_bundle(
    scene: &Scene,
    kind: Kind,
    name: &str,
    bundle: &Value,
    manager: &str,
) -> Result<()> {
    let mut webhooks = scene.admin().must_get(kind, name).await?["webhooks"].clone();
    webhooks[0]["clientConfig"]["caBundle"] = bundle.clone();
    let path = format!("{}/{name}?fieldManager={manager}", kind.collection(None));
    let merge = "application/merge-patch+json";
    let answer = scene
        .admin()
        .call(
            Method::PATCH,
            &path,
            merge,
            Some(&json!({ "webhooks": webhooks })),
        )
        .await?;
    answer.object().map(drop)
}

/// The bundles of all configurations and the data of all Secrets, to be compared.
async fn everything(scene: &Scene) -> Result<Vec<Value>> {
    let mut all = Vec::new();
    for (kind, name) in CONFIGURATIONS {
        all.push(scene.admin().must_get(kind, name).await?["webhooks"].clone());
    }
    for (_, name) in ENDPOINTS {
        all.push(scene.admin().must_get(SECRET, name).await?["data"].clone());
    }
    Ok(all)
}

fn conditions(config: &Value, kind: &str) -> String {
    world::condition(config, kind)
        .map(|condition| condition.to_string())
        .unwrap_or_default()
}

/// Waits until a condition says all of that.
async fn says(scene: &Scene, kind: &str, parts: &[&str]) -> Result<()> {
    eventually(PATIENCE, &format!("condition {kind}"), async || {
        let config = scene.admin().must_get(CONFIG, "default").await?;
        let condition = conditions(&config, kind);
        for part in parts {
            ensure!(condition.contains(part), "{part:?} is not in {condition}");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn self_signed_bundles_and_secrets_are_repaired_at_once_and_never_change_the_ca() -> Result<()>
{
    let scene = Scene::registered().await?;
    both_answer(&scene).await?;
    let before = everything(&scene).await?;
    let stranger = STANDARD.encode(Issuer::new("stranger")?.bundle());

    for (index, (kind, name)) in CONFIGURATIONS.into_iter().enumerate() {
        // Emptied, replaced, and replaced in our own name, which field ownership does not show.
        for (bundle, manager) in [
            (json!(null), "kubectl"),
            (json!(stranger), "kubectl"),
            (json!(stranger), "sriov-operator"),
        ] {
            set_bundle(&scene, kind, name, &bundle, manager).await?;
            eventually(AT_ONCE, &format!("{name} to be repaired"), async || {
                let now = &scene.admin().must_get(kind, name).await?["webhooks"];
                ensure!(*now == before[index], "it is {now}");
                Ok(())
            })
            .await?;
        }
    }

    let garbage = STANDARD.encode("garbage");
    for (_, name) in ENDPOINTS {
        for data in [
            json!({ "ca.crt": garbage }),
            json!({ "tls.key": garbage }),
            json!({ "tls.crt": null, "tls.key": null }),
        ] {
            edit(&scene, name, &data).await.ok();
            whole(&scene, name, &before[0]).await?;
        }
        scene.admin().delete(SECRET, name).await?;
        whole(&scene, name, &before[0]).await?;
    }
    for (index, (kind, name)) in CONFIGURATIONS.into_iter().enumerate() {
        let now = &scene.admin().must_get(kind, name).await?["webhooks"];
        ensure!(*now == before[index], "{name} has changed to {now}");
    }
    both_answer(&scene).await?;
    scene.was_allowed_everything()
}

/// Waits until a serving Secret holds a pair and the bundle that the configurations carry.
async fn whole(scene: &Scene, name: &str, webhooks: &Value) -> Result<()> {
    eventually(AT_ONCE, &format!("Secret {name} to be whole"), async || {
        let data = scene.admin().must_get(SECRET, name).await?["data"].clone();
        ensure!(
            data["ca.crt"] == webhooks[0]["clientConfig"]["caBundle"],
            "ca.crt is {}",
            data["ca.crt"]
        );
        for key in ["tls.crt", "tls.key"] {
            let value = STANDARD.decode(text(&data, &format!("/{key}")))?;
            ensure!(value.starts_with(b"-----BEGIN "), "{key} is no PEM");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_lost_ca_gives_way_to_a_new_one_without_a_window() -> Result<()> {
    let mut scene = Scene::installed().await?;
    scene.operator.argument("--rotation-settle-time=1s");
    scene.configure(&both_webhooks()).await?;
    scene.operator.start()?;
    scene.is_ready().await?;
    both_answer(&scene).await?;
    let (kind, name) = CONFIGURATIONS[0];
    let old = live_bundle(scene.admin(), kind, name).await?;
    for emptied in [true, false] {
        if emptied {
            let nothing = json!({ "ca.crt": null, "ca.key": null });
            edit(&scene, CA_SECRET, &nothing).await?;
        } else {
            scene.admin().delete(SECRET, CA_SECRET).await?;
        }
        eventually(AT_ONCE, "a new CA beside the old", async || {
            let data = scene.admin().must_get(SECRET, CA_SECRET).await?["data"].clone();
            let made = data["ca.crt"].is_string() || data["next.crt"].is_string();
            ensure!(made, "there is no CA");
            let live = live_bundle(scene.admin(), kind, name).await?;
            ensure!(live.contains(old.trim()), "the old CA is not trusted");
            ensure!(live != old, "the new CA is not published");
            Ok(())
        })
        .await?;
        throughout(Duration::from_secs(3), "every call answered", async || {
            let answer = scene.admin().ask_create(&policy()).await?;
            answer.object().map(drop)
        })
        .await?;
    }
    both_answer(&scene).await?;
    scene.was_allowed_everything()
}

#[tokio::test]
async fn at_rest_the_operator_asks_and_writes_nothing_about_certificates() -> Result<()> {
    let scene = Scene::registered().await?;
    both_answer(&scene).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let asked = |calls: Vec<crate::support::audit::Call>| -> Vec<String> {
        calls
            .into_iter()
            // The Lease is renewed all the time.
            .filter(|call| call.verb != "watch" && !call.uri.contains("/leases"))
            .map(|call| format!("{} {}", call.verb, call.uri))
            .collect()
    };
    let before = asked(scene.cluster.calls()?).len();
    // Each change of the config makes it look at everything once.
    for round in 0..3 {
        let note = json!({ "metadata": { "annotations": { "round": format!("{round}") } } });
        scene.admin().merge(CONFIG, "default", &note).await?;
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
    let since = asked(scene.cluster.calls()?).split_off(before);
    ensure!(since.is_empty(), "it asked {since:#?}");

    let metrics = &scene.operator;
    for certificate in ["ca", "operator-webhook", "injector"] {
        let name = format!(
            "sriov_operator_certificate_expiry_timestamp_seconds{{certificate=\"{certificate}\"}}"
        );
        let expiry = metrics.metric(&name).await?.context(name)?;
        let now = jiff::Timestamp::now().as_duration().as_secs_f64();
        ensure!(expiry > now, "{certificate} expires at {expiry}");
    }
    for name in [
        "sriov_operator_rotation_phase{phase=\"stable\"}",
        "sriov_operator_certificate_reloads_total{certificate=\"injector\",result=\"succeeded\"}",
        "leader_election_master_status{name=\"sriov-operator\"}",
    ] {
        ensure!(metrics.metric(name).await? == Some(1.0), "{name} is not 1");
    }
    let fresh = "sriov_operator_store_fresh_timestamp_seconds{store=\"nodes\"}";
    ensure!(
        metrics.metric(fresh).await?.is_some(),
        "there is no {fresh}"
    );
    let log = scene.operator.log(usize::MAX);
    ensure!(!log.contains("PRIVATE KEY"), "a key is in the log");
    Ok(())
}

#[tokio::test]
async fn a_secret_of_somebody_else_is_left_alone_and_named() -> Result<()> {
    let scene = Scene::running().await?;
    let (service, name) = ENDPOINTS[0];
    let issuer = Issuer::new("somebody")?;
    let theirs = secret(
        name,
        "kubernetes.io/tls",
        &issuer.issue(service)?,
        &issuer.bundle(),
    );
    let theirs = scene.admin().create(&theirs).await?;
    scene.configure(&both_webhooks()).await?;
    says(&scene, "Ready", &["False", name, CA_CRT[0], "delete it"]).await?;
    // The other webhook does not wait for it.
    scene.has_webhooks(INJECTOR_WEBHOOK).await?;
    let now = scene.admin().must_get(SECRET, name).await?;
    ensure!(now["metadata"] == theirs["metadata"], "it was touched");

    scene.admin().delete(SECRET, name).await?;
    scene
        .has_webhooks(&[OPERATOR_WEBHOOKS, INJECTOR_WEBHOOK].concat())
        .await?;
    both_answer(&scene).await?;
    scene.was_allowed_everything()
}

#[tokio::test]
async fn cert_manager_fills_in_secrets_and_bundles() -> Result<()> {
    let mut scene = Scene::installed().await?;
    scene.operator.set(CERT_MANAGER, "true");
    scene.operator.start()?;
    scene.configure(&both_webhooks()).await?;
    scene
        .has_webhooks(&[OPERATOR_WEBHOOKS, INJECTOR_WEBHOOK].concat())
        .await?;
    // Nothing verifies anything yet: registered without a bundle, and ignored.
    for (kind, name) in CONFIGURATIONS {
        let live = scene.admin().must_get(kind, name).await?;
        ensure!(live["webhooks"][0]["failurePolicy"] == "Ignore", "{live}");
        ensure!(live_bundle(scene.admin(), kind, name).await? == "");
    }
    scene.admin().ask_create(&policy()).await?.object()?;

    let issuer = Issuer::new("cert-manager")?;
    let bundle = issuer.bundle();
    let stand_in = StandIn::start(scene.admin(), Role::CertManager, issuer);
    filled_by_others(&mut scene, &bundle).await?;
    ensure!(
        scene.admin().get(SECRET, CA_SECRET).await?.is_none(),
        "there is a CA of ours"
    );

    // A process that has just started changes nothing of it, and never touches what the other one fills in.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = everything(&scene).await?;
    scene.operator.stop().await?;
    scene.operator.start()?;
    throughout(Duration::from_secs(3), "nothing changed", async || {
        ensure!(everything(&scene).await? == before, "something changed");
        Ok(())
    })
    .await?;
    scene.operator.ready().await?;
    both_answer(&scene).await?;

    // Renewals come half written and from elsewhere: what is served stays, and somebody is told until when.
    drop(stand_in);
    let (service, name) = ENDPOINTS[0];
    let issuer = Issuer::new("somebody else")?;
    let pair = issuer.issue(service)?;
    let broken = [
        (
            json!({ "tls.crt": STANDARD.encode(&pair.certificate) }),
            "does not match",
        ),
        (
            json!({ "tls.key": STANDARD.encode(&pair.key) }),
            "does not verify",
        ),
        (json!({ "tls.crt": "" }), "missing or empty"),
    ];
    for (data, complaint) in broken {
        edit(&scene, name, &data).await?;
        says(&scene, "Degraded", &[name, complaint, "until"]).await?;
        scene.tells(&[("CertificateRefused", complaint)]).await?;
        both_answer(&scene).await?;
    }
    scene
        .tells(&[
            ("CertificateRefused", "does not match"),
            ("CertificateRefused", "missing or empty"),
        ])
        .await?;
    let failed = "sriov_operator_certificate_reloads_total{certificate=\"operator-webhook\",result=\"failed\"}";
    let failed = scene.operator.metric(failed).await?.unwrap_or_default();
    ensure!(failed >= 3.0, "{failed} failed reloads are counted");
    scene.was_allowed_everything()
}

/// Waits until everything is as the other issuer's bundle wants it, and works.
async fn filled_by_others(scene: &mut Scene, bundle: &str) -> Result<()> {
    eventually(PATIENCE, "bundles and policies of others", async || {
        for (kind, name) in CONFIGURATIONS {
            let live = scene.admin().must_get(kind, name).await?;
            let policy = &live["webhooks"][0]["failurePolicy"];
            let own = if name.starts_with("network-resources") {
                "Ignore"
            } else {
                "Fail"
            };
            ensure!(*policy == own, "{name} has {policy}");
            let filled = live_bundle(scene.admin(), kind, name).await?;
            ensure!(filled == bundle, "{name} carries another bundle");
        }
        Ok(())
    })
    .await?;
    scene.is_ready().await?;
    both_answer(scene).await
}

#[tokio::test]
async fn the_service_ca_fills_in_secrets_and_bundles() -> Result<()> {
    let mut scene = Scene::installed().await?;
    let values = json!({ "operator": { "clusterType": "openshift" } });
    crate::chart::grant_for(scene.admin(), &values).await?;
    scene.operator.set("CLUSTER_TYPE", "openshift");
    scene.operator.start()?;
    scene.configure(&both_webhooks()).await?;
    let issuer = Issuer::new("service-ca")?;
    let bundle = issuer.bundle();
    let _stand_in = StandIn::start(scene.admin(), Role::ServiceCa, issuer);
    filled_by_others(&mut scene, &bundle).await?;
    for (service, name) in ENDPOINTS {
        let service = scene.admin().must_get(SERVICE, service).await?;
        let annotations = &service["metadata"]["annotations"];
        ensure!(annotations["service.alpha.openshift.io/serving-cert-secret-name"] == name);
    }
    // A Secret that is deleted is made again by its issuer, and nobody notices.
    scene.admin().delete(SECRET, ENDPOINTS[0].1).await?;
    throughout(Duration::from_secs(2), "every call answered", async || {
        let answer = scene.admin().ask_create(&policy()).await?;
        answer.object().map(drop)
    })
    .await?;
    both_answer(&scene).await
}

#[tokio::test]
async fn provided_pairs_are_used_when_the_given_bundles_verify_them() -> Result<()> {
    let mut scene = Scene::installed().await?;
    let issuer = Issuer::new("administrator")?;
    scene
        .operator
        .set(CA_CRT[0], &STANDARD.encode(issuer.bundle()));
    scene.operator.set(CA_CRT[1], &issuer.bundle());
    scene.operator.start()?;
    scene.configure(&both_webhooks()).await?;
    says(&scene, "Ready", &["False", ENDPOINTS[0].1]).await?;
    scene.has_webhooks(&[]).await?;

    let stranger = Issuer::new("stranger")?;
    let ((operator, first), (injector, second)) = (ENDPOINTS[0], ENDPOINTS[1]);
    for (name, pair) in [
        (first, stranger.issue(operator)?),
        (second, issuer.issue("another-service")?),
    ] {
        let wrong = secret(name, "Opaque", &pair, &stranger.bundle());
        scene.admin().create(&wrong).await?;
    }
    says(&scene, "Degraded", &["does not verify", "does not cover"]).await?;
    scene.has_webhooks(&[]).await?;

    for (service, name) in [(operator, first), (injector, second)] {
        let right = secret(name, "Opaque", &issuer.issue(service)?, "");
        edit(&scene, name, &right["data"]).await?;
    }
    scene
        .has_webhooks(&[OPERATOR_WEBHOOKS, INJECTOR_WEBHOOK].concat())
        .await?;
    scene.is_ready().await?;
    both_answer(&scene).await?;
    for (kind, name) in CONFIGURATIONS {
        let live = live_bundle(scene.admin(), kind, name).await?;
        ensure!(live == issuer.bundle(), "{name} carries {live}");
    }
    // What the administrator wrote is nobody else's.
    let now = scene.admin().must_get(SECRET, first).await?;
    ensure!(now["metadata"]["labels"].is_null() && now["type"] == "Opaque");
    scene.was_allowed_everything()
}

/// Who issues certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    SelfSigned,
    CertManager,
    ServiceCa,
    Provided,
}

impl Mode {
    /// The annotation by which a configuration asks for its bundle.
    fn annotation(self) -> Option<&'static str> {
        match self {
            Self::CertManager => Some("cert-manager.io/inject-ca-from"),
            Self::ServiceCa => Some("service.beta.openshift.io/inject-cabundle"),
            Self::SelfSigned | Self::Provided => None,
        }
    }

    /// The settings of the mode, and none of another.
    fn set(self, operator: &mut Operator, bundle: &str) {
        let (platform, cert_manager, given) = match self {
            Self::SelfSigned => ("kubernetes", "", ""),
            Self::CertManager => ("kubernetes", "true", ""),
            Self::ServiceCa => ("openshift", "", ""),
            Self::Provided => ("kubernetes", "", bundle),
        };
        operator.set("CLUSTER_TYPE", platform);
        operator.set(CERT_MANAGER, cert_manager);
        for variable in CA_CRT {
            operator.set(variable, given);
        }
    }

    /// The roles of the platform that the mode belongs to.
    async fn grant(self, scene: &Scene) -> Result<()> {
        let platform = match self {
            Self::ServiceCa => "openshift",
            _ => "kubernetes",
        };
        let values = json!({ "operator": { "clusterType": platform } });
        crate::chart::grant_for(scene.admin(), &values).await
    }
}

/// Starts the operator anew in another mode. What it served before is served until the new issuer is there, who then
/// does what the real one does; and nothing of the mode before is left. Returns the new issuer's stand-in.
async fn change_to(scene: &mut Scene, from: Mode, to: Mode) -> Result<Option<StandIn>> {
    println!("from {from:?} to {to:?}");
    let issuer = Issuer::new(&format!("{to:?}"))?;
    let bundle = issuer.bundle();
    scene.operator.stop().await?;
    to.grant(scene).await?;
    to.set(&mut scene.operator, &bundle);
    scene.operator.start()?;
    scene.operator.ready().await?;
    both_answer(scene).await?;
    let mut stand_in = None;
    match to {
        Mode::CertManager => {
            throughout(Duration::from_secs(1), "service by the old", async || {
                answers(scene).await
            })
            .await?;
            stand_in = Some(StandIn::start(scene.admin(), Role::CertManager, issuer));
        }
        Mode::ServiceCa => {
            stand_in = Some(StandIn::start(scene.admin(), Role::ServiceCa, issuer));
            // It never fills in a Secret that others made, so these have to be deleted; ours was, by ourselves.
            if from != Mode::SelfSigned {
                says(scene, "Ready", &["False", ENDPOINTS[0].1, "delete it"]).await?;
                delete_pairs(scene).await?;
            }
        }
        Mode::Provided => {
            says(scene, "Ready", &["False", ENDPOINTS[0].1, CA_CRT[0]]).await?;
            both_answer(scene).await?;
            for (service, name) in ENDPOINTS {
                let pair = issuer.issue(service)?;
                let wanted = secret(name, "kubernetes.io/tls", &pair, &bundle);
                if from == Mode::ServiceCa {
                    scene.admin().delete(SECRET, name).await?;
                    scene.admin().create(&wanted).await?;
                } else {
                    edit(scene, name, &wanted["data"]).await?;
                }
                answers(scene).await?;
            }
        }
        Mode::SelfSigned => {
            says(scene, "Ready", &["False", ENDPOINTS[0].1, "delete it"]).await?;
            both_answer(scene).await?;
            delete_pairs(scene).await?;
        }
    }
    let expected = (to != Mode::SelfSigned).then_some(bundle);
    eventually(PATIENCE, &format!("{to:?} alone"), async || {
        is_all_there_is(scene, to, expected.as_deref()).await
    })
    .await?;
    scene.is_ready().await?;
    both_answer(scene).await?;
    throughout(Duration::from_secs(1), "service by the new", async || {
        answers(scene).await
    })
    .await?;
    Ok(stand_in)
}

/// A policy is judged.
async fn answers(scene: &Scene) -> Result<()> {
    let answer = scene.admin().ask_create(&policy()).await?;
    answer.object().map(drop)
}

async fn delete_pairs(scene: &Scene) -> Result<()> {
    for (_, name) in ENDPOINTS {
        scene.admin().delete(SECRET, name).await?;
    }
    Ok(())
}

/// Bundles, annotations, policies and Secrets are those of the mode, and of no other. The bundle is the expected one,
/// or our own CA's alone.
async fn is_all_there_is(scene: &Scene, mode: Mode, expected: Option<&str>) -> Result<()> {
    let admin = scene.admin();
    let ours = admin.get(SECRET, CA_SECRET).await?;
    ensure!(
        ours.is_some() == (mode == Mode::SelfSigned),
        "there is {}CA of ours",
        if ours.is_some() { "a " } else { "no " }
    );
    let bundle = match (expected, &ours) {
        (Some(expected), _) => STANDARD.encode(expected),
        (None, Some(ours)) => text(ours, "/data/ca.crt").to_owned(),
        (None, None) => String::new(),
    };
    for (kind, name) in CONFIGURATIONS {
        let live = admin.must_get(kind, name).await?;
        for webhook in live["webhooks"].as_array().into_iter().flatten() {
            let carried = &webhook["clientConfig"]["caBundle"];
            ensure!(*carried == bundle, "{name} carries another bundle");
        }
        let annotations = live["metadata"]["annotations"].as_object();
        let annotations: Vec<&str> = annotations
            .into_iter()
            .flat_map(|annotations| annotations.keys().map(String::as_str))
            .collect();
        let wanted: Vec<&str> = mode.annotation().into_iter().collect();
        ensure!(annotations == wanted, "{name} has {annotations:?}");
        let proper = if name.starts_with("network-resources") {
            "Ignore"
        } else {
            "Fail"
        };
        let policy = &live["webhooks"][0]["failurePolicy"];
        ensure!(*policy == proper, "{name} has {policy}");
    }
    for (service, name) in ENDPOINTS {
        let metadata = &admin.must_get(SECRET, name).await?["metadata"];
        let marked = !metadata["labels"].is_null() || !metadata["ownerReferences"].is_null();
        ensure!(
            marked == (mode == Mode::SelfSigned),
            "{name} is marked: {metadata}"
        );
        let service = admin.must_get(SERVICE, service).await?;
        let annotation = "service.alpha.openshift.io/serving-cert-secret-name";
        ensure!(
            service["metadata"]["annotations"][annotation].is_string() == (mode == Mode::ServiceCa),
            "the Service has {}",
            service["metadata"]["annotations"]
        );
    }
    Ok(())
}

/// Goes from mode to mode, beginning with our own.
async fn walk(modes: &[Mode]) -> Result<()> {
    let mut scene = Scene::installed().await?;
    // For four times as long what the issuer before has signed is trusted beside ours.
    scene.operator.argument("--rotation-settle-time=1s");
    scene.configure(&both_webhooks()).await?;
    scene.operator.start()?;
    scene.is_ready().await?;
    both_answer(&scene).await?;
    let mut from = Mode::SelfSigned;
    for &to in modes {
        // Whoever issued before is gone when the next one is at work.
        let stand_in = change_to(&mut scene, from, to).await?;
        drop(stand_in);
        from = to;
    }
    scene.was_allowed_everything()
}

// Between them, these two go from each mode to each other one.

#[tokio::test]
async fn a_running_installation_changes_between_the_modes_of_kubernetes_without_a_window()
-> Result<()> {
    let (own, other, given) = (Mode::SelfSigned, Mode::CertManager, Mode::Provided);
    walk(&[other, own, given, other, given, own]).await
}

#[tokio::test]
async fn a_running_installation_changes_to_and_from_the_service_ca_without_a_window() -> Result<()>
{
    let service_ca = Mode::ServiceCa;
    walk(&[
        service_ca,
        Mode::CertManager,
        service_ca,
        Mode::Provided,
        service_ca,
        Mode::SelfSigned,
    ])
    .await
}
