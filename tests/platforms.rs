//! OpenShift, on an API server with stand-ins for its kinds: TLS profile, systemd mode, Hypershift.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::chart;
use crate::support::kinds::{
    API_SERVER, CONFIG, DAEMON_SET, INFRASTRUCTURE, Kind, MACHINE_CONFIG, MUTATING, SERVICE, text,
};
use crate::support::manifests;
use crate::support::scene::{PATIENCE, Scene};
use crate::support::wait::{eventually, throughout};
use crate::support::world;

const EXPORTER: &str = "sriov-network-metrics-exporter";
const UNITS: &str = "sriov-config-service";

/// An operator that is told that this is OpenShift, not started.
async fn openshift() -> Result<Scene> {
    let mut scene = Scene::installed().await?;
    let values = json!({ "operator": { "clusterType": "openshift" } });
    chart::grant_for(scene.admin(), &values).await?;
    scene.operator.set("CLUSTER_TYPE", "openshift");
    scene.operator.set_exporter_images();
    Ok(scene)
}

fn cluster(kind: Kind, content: &Value) -> Value {
    let mut object = content.clone();
    object["apiVersion"] = kind.api_version.into();
    object["kind"] = kind.name.into();
    object["metadata"] = json!({ "name": "cluster" });
    object
}

async fn proxy_arguments(scene: &Scene) -> Result<Vec<String>> {
    let object = scene.admin().must_get(DAEMON_SET, EXPORTER).await?;
    let arguments = &object["spec"]["template"]["spec"]["containers"][1]["args"];
    Ok(serde_json::from_value(arguments.clone())?)
}

#[tokio::test]
async fn kinds_of_openshift_that_are_missing_are_no_errors() -> Result<()> {
    let mut scene = openshift().await?;
    scene.operator.start()?;
    scene
        .configure(&json!({ "enableInjector": true, "logLevel": 2 }))
        .await?;
    scene.is_ready().await?;
    // The service CA makes pairs and fills in bundles.
    let service = scene
        .admin()
        .must_get(SERVICE, "network-resources-injector-service")
        .await?;
    ensure!(
        service["metadata"]["annotations"]["service.alpha.openshift.io/serving-cert-secret-name"]
            == "network-resources-injector-cert",
        "{service}"
    );
    let webhook = scene
        .admin()
        .must_get(MUTATING, "network-resources-injector-config")
        .await?;
    ensure!(
        webhook["metadata"]["annotations"]["service.beta.openshift.io/inject-cabundle"] == "true",
        "{webhook}"
    );

    // Without the kind, the units of systemd mode are left out with a warning.
    scene
        .reconfigure(&json!({ "configurationMode": "systemd" }))
        .await?;
    scene.is_ready().await?;
    let config = scene.admin().must_get(CONFIG, "default").await?;
    let degraded = world::condition(&config, "Degraded")?;
    ensure!(
        text(&degraded, "/message").contains("MachineConfig"),
        "{degraded}"
    );
    scene.was_allowed_everything()
}

#[tokio::test]
async fn the_tls_profile_is_followed_and_the_units_come_and_go() -> Result<()> {
    let mut scene = openshift().await?;
    let kinds = [INFRASTRUCTURE, API_SERVER, MACHINE_CONFIG];
    manifests::learn(scene.admin(), &kinds).await?;
    let topology = json!({ "status": { "controlPlaneTopology": "HighlyAvailable" } });
    scene
        .admin()
        .create(&cluster(INFRASTRUCTURE, &topology))
        .await?;
    let legacy = json!({ "spec": { "tlsAdherence": "LegacyAdheringComponentsOnly",
        "tlsSecurityProfile": { "type": "Modern", "modern": {} } } });
    scene.admin().create(&cluster(API_SERVER, &legacy)).await?;
    scene.operator.start()?;
    let selector = json!({ "example.com/sriov": "007" });
    scene
        .configure(&json!({
            "featureGates": { "metricsExporter": true },
            "configDaemonNodeSelector": selector,
            "logLevel": 2,
        }))
        .await?;
    scene.is_ready().await?;
    ensure!(
        !proxy_arguments(&scene)
            .await?
            .iter()
            .any(|argument| argument.starts_with("--tls-min")),
        "{:?}",
        proxy_arguments(&scene).await?
    );

    profiles_are_followed(&mut scene).await?;
    units_come_and_go(&mut scene).await?;
    nothing_of_the_kind_when_hosted(&mut scene).await?;
    scene.admin().delete(CONFIG, "default").await?;
    scene.is_gone(CONFIG, "default").await?;
    scene.was_allowed_everything()
}

/// Systemd mode: the units, with the role that a pool looks for beside the selector, and repaired like the rest.
async fn units_come_and_go(scene: &mut Scene) -> Result<()> {
    ensure!(
        scene.admin().get(MACHINE_CONFIG, UNITS).await?.is_none(),
        "it is there in daemon mode"
    );
    scene
        .ready_with(&json!({ "configurationMode": "systemd" }))
        .await?;
    let made = scene.admin().must_get(MACHINE_CONFIG, UNITS).await?;
    let labels = &made["metadata"]["labels"];
    ensure!(
        labels["machineconfiguration.openshift.io/role"] == "worker"
            && labels["example.com/sriov"] == "007",
        "{labels}"
    );
    ensure!(
        made["metadata"].get("ownerReferences").is_none(),
        "its removal reboots nodes: {made}"
    );
    let units = &made["spec"]["config"]["systemd"]["units"];
    ensure!(
        units[0]["name"] == "sriov-config.service"
            && units[1]["name"] == "sriov-config-post-network.service",
        "{units}"
    );
    scene
        .admin()
        .merge(
            MACHINE_CONFIG,
            UNITS,
            &json!({ "spec": { "config": { "systemd": { "units": [] } } } }),
        )
        .await?;
    eventually(Duration::from_secs(2), "the units to be back", async || {
        let now = scene.admin().must_get(MACHINE_CONFIG, UNITS).await?;
        ensure!(now["spec"] == made["spec"], "{now}");
        Ok(())
    })
    .await?;
    scene
        .ready_with(&json!({ "configDaemonNodeSelector": null }))
        .await?;
    let now = scene.admin().must_get(MACHINE_CONFIG, UNITS).await?;
    ensure!(
        now["metadata"]["labels"].get("example.com/sriov").is_none(),
        "{now}"
    );
    scene
        .ready_with(&json!({ "configurationMode": "daemon" }))
        .await?;
    scene.is_gone(MACHINE_CONFIG, UNITS).await
}

/// On a hosted control plane there is no such mode. That is said at once, and once; the rest goes on.
async fn nothing_of_the_kind_when_hosted(scene: &mut Scene) -> Result<()> {
    let hosted = json!({ "status": { "controlPlaneTopology": "External" } });
    scene
        .admin()
        .merge(INFRASTRUCTURE, "cluster", &hosted)
        .await?;
    scene
        .reconfigure(&json!({ "configurationMode": "systemd", "useCDI": true }))
        .await?;
    scene
        .is_not_ready(
            "UnsupportedConfiguration",
            &["spec.configurationMode", "Hypershift"],
        )
        .await?;
    ensure!(
        scene.admin().get(MACHINE_CONFIG, UNITS).await?.is_none(),
        "it was made"
    );
    let plugin = scene
        .admin()
        .must_get(DAEMON_SET, "sriov-device-plugin")
        .await?;
    ensure!(plugin.to_string().contains("--use-cdi"), "{plugin}");
    // What nodes make of the change is written within the pause between two writes of their configuration.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let calls = scene.requests()?.len();
    throughout(Duration::from_secs(3), "not trying again", async || {
        let now = scene.requests()?;
        ensure!(now.len() == calls, "it asked {:?}", &now[calls..]);
        Ok(())
    })
    .await?;
    scene
        .ready_with(&json!({ "configurationMode": "daemon" }))
        .await
}

/// An adherence that counts is followed at once; what cannot be served is a warning, never an end.
async fn profiles_are_followed(scene: &mut Scene) -> Result<()> {
    let spec = |profile: &Value| json!({ "spec": { "tlsAdherence": "StrictAllComponents", "tlsSecurityProfile": profile } });
    for (profile, expected) in [
        (
            json!({ "type": "Modern" }),
            "--tls-min-version=VersionTLS13",
        ),
        (
            json!({ "type": "Custom", "custom": {
                "ciphers": ["ECDHE-RSA-AES128-GCM-SHA256", "TLS_AES_128_GCM_SHA256", "MADE-UP"],
                "minTLSVersion": "VersionTLS12",
                "groups": ["X25519", "SecP256r1MLKEM768"],
            } }),
            "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_AES_128_GCM_SHA256",
        ),
        (json!({ "type": "Old" }), "--tls-min-version=VersionTLS12"),
    ] {
        scene
            .admin()
            .merge(API_SERVER, "cluster", &spec(&profile))
            .await?;
        eventually(PATIENCE, expected, async || {
            let arguments = proxy_arguments(scene).await?;
            ensure!(
                arguments.iter().any(|argument| argument == expected),
                "{arguments:?}"
            );
            Ok(())
        })
        .await?;
        scene.is_ready().await?;
    }
    eventually(PATIENCE, "a warning about TLS 1.0", async || {
        let config = scene.admin().must_get(CONFIG, "default").await?;
        let degraded = world::condition(&config, "Degraded")?;
        ensure!(degraded["status"] == "True", "{degraded}");
        Ok(())
    })
    .await
}
