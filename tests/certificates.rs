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

/// Nothing in the cluster names our CA.
async fn nothing_of_ours_is_left(scene: &Scene) -> Result<()> {
    eventually(PATIENCE, "our CA and marks to be gone", async || {
        let authority = scene.admin().get(SECRET, CA_SECRET).await?;
        ensure!(authority.is_none(), "our CA is still there");
        for (_, name) in ENDPOINTS {
            let secret = scene.admin().must_get(SECRET, name).await?;
            let metadata = &secret["metadata"];
            ensure!(metadata["labels"].is_null(), "{name} has our label");
            ensure!(metadata["ownerReferences"].is_null(), "{name} is owned");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn the_mode_of_a_running_installation_changes_without_a_window() -> Result<()> {
    let mut scene = Scene::registered().await?;
    both_answer(&scene).await?;

    // To cert-manager: our bundle and our pair stay until it has filled in its own.
    scene.operator.stop().await?;
    scene.operator.set(CERT_MANAGER, "true");
    scene.operator.start()?;
    scene.operator.ready().await?;
    both_answer(&scene).await?;
    throughout(Duration::from_secs(2), "service by ours", async || {
        scene
            .admin()
            .ask_create(&policy())
            .await?
            .object()
            .map(drop)
    })
    .await?;
    let issuer = Issuer::new("cert-manager")?;
    let bundle = issuer.bundle();
    let stand_in = StandIn::start(scene.admin(), Role::CertManager, issuer);
    filled_by_others(&mut scene, &bundle).await?;
    nothing_of_ours_is_left(&scene).await?;

    // To the administrator's own: cert-manager's pair is served until theirs is there.
    scene.operator.stop().await?;
    drop(stand_in);
    let administrator = Issuer::new("administrator")?;
    scene.operator.set(CERT_MANAGER, "");
    for variable in CA_CRT {
        scene.operator.set(variable, &administrator.bundle());
    }
    scene.operator.start()?;
    scene.operator.ready().await?;
    says(&scene, "Ready", &["False", ENDPOINTS[0].1, CA_CRT[0]]).await?;
    both_answer(&scene).await?;
    for (service, name) in ENDPOINTS {
        let pair = administrator.issue(service)?;
        let wanted = secret(name, "kubernetes.io/tls", &pair, &administrator.bundle());
        edit(&scene, name, &wanted["data"]).await?;
        scene.admin().ask_create(&policy()).await?.object()?;
    }
    scene.is_ready().await?;
    both_answer(&scene).await?;
    for (kind, name) in CONFIGURATIONS {
        eventually(PATIENCE, "the given bundle alone", async || {
            let live = live_bundle(scene.admin(), kind, name).await?;
            ensure!(live == administrator.bundle(), "{name} carries {live}");
            let annotations = &scene.admin().must_get(kind, name).await?["metadata"]["annotations"];
            ensure!(annotations.is_null(), "{name} has {annotations}");
            Ok(())
        })
        .await?;
    }

    // Back to our own: the administrator's Secrets are named, and served until they are deleted.
    scene.operator.stop().await?;
    for variable in CA_CRT {
        scene.operator.set(variable, "");
    }
    scene.operator.start()?;
    scene.operator.ready().await?;
    says(&scene, "Ready", &["False", ENDPOINTS[0].1, "delete it"]).await?;
    both_answer(&scene).await?;
    for (_, name) in ENDPOINTS {
        scene.admin().delete(SECRET, name).await?;
    }
    scene.is_ready().await?;
    throughout(Duration::from_secs(1), "service by ours", async || {
        scene
            .admin()
            .ask_create(&policy())
            .await?
            .object()
            .map(drop)
    })
    .await?;
    both_answer(&scene).await?;
    scene.was_allowed_everything()
}
