//! What a config rolls out, as the API server stores it: every toggle both ways, everything that can be taken out again,
//! any text, and what happens when a part of it cannot be rolled out.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::support::kinds::{CONFIG, CONFIG_MAP, DAEMON_SET, MUTATING, ROLE, SERVICE, text};
use crate::support::scene::{PATIENCE, Scene, both_webhooks};
use crate::support::wait::eventually;
use crate::support::world;

const CONFIG_DAEMON: &str = "sriov-network-config-daemon";
const DEVICE_PLUGIN: &str = "sriov-device-plugin";
const EXPORTER: &str = "sriov-network-metrics-exporter";
const SWITCHES: &str = "nri-control-switches";
/// Text that YAML, JSON, shells and label selectors all read in their own way.
const NASTY: [&str; 9] = [
    "true",
    "007",
    "a: b",
    "say \"hi\"",
    "back\\slash",
    "two\nlines\n",
    "{{ braces }} %d $(X)",
    " blanks ",
    "- dash # é ☃ \u{1f600}",
];

impl Scene {
    /// The pod spec of a DaemonSet.
    async fn pod_spec(&self, name: &str) -> Result<Value> {
        let object = self.admin().must_get(DAEMON_SET, name).await?;
        Ok(object["spec"]["template"]["spec"].clone())
    }
}

fn arguments(pod: &Value) -> Vec<&str> {
    let list = pod["containers"][0]["args"].as_array();
    list.into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array()
        .into_iter()
        .flatten()
        .map(|item| text(item, "/name"))
        .collect()
}

#[tokio::test]
async fn every_field_of_a_config_goes_in_and_out_again() -> Result<()> {
    let mut scene = Scene::installed().await?;
    scene.operator.set_exporter_images();
    scene.operator.start()?;
    scene.configure(&both_webhooks()).await?;
    scene.is_ready().await?;
    let before = [
        scene.pod_spec(CONFIG_DAEMON).await?,
        scene.pod_spec(DEVICE_PLUGIN).await?,
    ];

    everything_goes_in(&mut scene).await?;
    one_key_goes_out(&mut scene).await?;
    scene
        .ready_with(&json!({
            "useCDI": false,
            "configDaemonNodeSelector": { "sriov": null },
            "configurationMode": "daemon",
            "disablePlugins": null,
            "configDaemonEnvVars": null,
            "featureGates": null,
        }))
        .await?;
    let after = [
        scene.pod_spec(CONFIG_DAEMON).await?,
        scene.pod_spec(DEVICE_PLUGIN).await?,
    ];
    ensure!(after == before, "left behind: {after:?}");
    for (kind, name) in [
        (DAEMON_SET, EXPORTER),
        (SERVICE, "sriov-network-metrics-exporter-service"),
        (ROLE, "metrics-exporter-role"),
    ] {
        scene.is_gone(kind, name).await?;
    }
    scene
        .tells(&[
            ("ComponentEnabled", "metrics-exporter is rolled out"),
            ("ComponentDisabled", "metrics-exporter is removed"),
            ("ReadyChanged", "Ready is True"),
            (
                "CertificateRenewed",
                "issued into Secret operator-webhook-cert",
            ),
        ])
        .await?;

    changes_are_followed_at_once(&scene).await?;
    scene.was_allowed_everything()
}

async fn everything_goes_in(scene: &mut Scene) -> Result<()> {
    let selector = json!({ "rack": "007", "sriov": "true" });
    scene
        .ready_with(&json!({
            "useCDI": true,
            "configDaemonNodeSelector": selector,
            "configurationMode": "systemd",
            "disablePlugins": ["mellanox"],
            "configDaemonEnvVars": { "LEVEL": "007" },
            "featureGates": {
                "parallelNicConfig": true,
                "manageSoftwareBridges": true,
                "blockDevicePluginUntilConfigured": false,
                "metricsExporter": true,
            },
        }))
        .await?;
    let daemon = scene.pod_spec(CONFIG_DAEMON).await?;
    ensure!(daemon["nodeSelector"] == selector, "{daemon}");
    ensure!(
        arguments(&daemon)
            == [
                "start",
                "--use-systemd-service",
                "--disable-plugins=mellanox",
                "--parallel-nic-config",
                "--manage-software-bridges"
            ],
        "{daemon}"
    );
    ensure!(
        names(&daemon["initContainers"]).contains(&"sriov-service-copy"),
        "{daemon}"
    );
    let plugin = scene.pod_spec(DEVICE_PLUGIN).await?;
    ensure!(arguments(&plugin).contains(&"--use-cdi"), "{plugin}");
    ensure!(
        names(&plugin["volumes"]).contains(&"dynamic-cdi"),
        "{plugin}"
    );
    ensure!(plugin.get("initContainers").is_none(), "{plugin}");
    ensure!(
        plugin["nodeSelector"]["sriovnetwork.openshift.io/device-plugin"] == "Enabled",
        "{plugin}"
    );
    scene
        .is_gone(ROLE, "sriov-device-plugin-pod-access")
        .await?;
    let exporter = scene.pod_spec(EXPORTER).await?;
    ensure!(exporter["nodeSelector"] == selector, "{exporter}");
    Ok(())
}

async fn one_key_goes_out(scene: &mut Scene) -> Result<()> {
    scene
        .ready_with(&json!({ "configDaemonNodeSelector": { "rack": null } }))
        .await?;
    for name in [CONFIG_DAEMON, DEVICE_PLUGIN, EXPORTER] {
        let pod = scene.pod_spec(name).await?;
        ensure!(
            pod["nodeSelector"].get("rack").is_none() && pod["nodeSelector"]["sriov"] == "true",
            "{name} {pod}"
        );
    }
    Ok(())
}

/// Within half a second. The machine may be busy, so the best of some tries counts.
async fn changes_are_followed_at_once(scene: &Scene) -> Result<()> {
    let mut fastest = Duration::MAX;
    for round in 0..6 {
        let wanted = round % 2 == 0;
        let start = Instant::now();
        scene.reconfigure(&json!({ "useCDI": wanted })).await?;
        eventually(PATIENCE, "the change to be followed", async || {
            let pod = scene.pod_spec(DEVICE_PLUGIN).await?;
            ensure!(arguments(&pod).contains(&"--use-cdi") == wanted);
            Ok(())
        })
        .await?;
        fastest = fastest.min(start.elapsed());
    }
    ensure!(fastest < Duration::from_millis(500), "it took {fastest:?}");
    println!("a change was followed within {fastest:?}");
    Ok(())
}

#[tokio::test]
async fn gates_and_switches_of_the_injector_go_both_ways() -> Result<()> {
    let mut scene = Scene::registered().await?;
    let name = "network-resources-injector-config";
    let webhook = async |scene: &Scene| -> Result<Value> {
        Ok(scene.admin().must_get(MUTATING, name).await?["webhooks"][0].clone())
    };
    ensure!(webhook(&scene).await?["failurePolicy"] == "Ignore");
    scene
        .ready_with(&json!({ "featureGates": { "resourceInjectorMatchCondition": true } }))
        .await?;
    let gated = webhook(&scene).await?;
    ensure!(gated["failurePolicy"] == "Fail", "{gated}");
    ensure!(!gated["matchConditions"][0].is_null(), "{gated}");

    // The labels of injections in force are part of the condition, and go with them.
    let config = |content: &Value| json!({ "data": { "config.json": content.to_string() } });
    let injection = json!({ "user-defined-injections": { "net.io/inject":
        { "op": "add", "path": "/metadata/annotations", "value": { "a": "b" } } } });
    let mut switches = config(&injection);
    switches["metadata"] = json!({ "annotations": { "team": "net" }, "labels": { "mine": "yes" } });
    switches["data"]["notes"] = "kept".into();
    scene.admin().merge(CONFIG_MAP, SWITCHES, &switches).await?;
    eventually(PATIENCE, "the label in the condition", async || {
        let condition = webhook(&scene).await?["matchConditions"][0].clone();
        ensure!(
            text(&condition, "/expression").contains("net.io/inject"),
            "{condition}"
        );
        Ok(())
    })
    .await?;

    scene
        .ready_with(&json!({ "featureGates": { "resourceInjectorMatchCondition": false } }))
        .await?;
    let ungated = webhook(&scene).await?;
    ensure!(
        ungated["failurePolicy"] == "Ignore" && ungated.get("matchConditions").is_none(),
        "{ungated}"
    );

    // What users wrote stays through all of this, and while the injector is off.
    scene
        .ready_with(&json!({ "enableInjector": false }))
        .await?;
    scene.is_gone(MUTATING, name).await?;
    let kept = scene.admin().must_get(CONFIG_MAP, SWITCHES).await?;
    ensure!(kept["data"] == switches["data"], "{kept}");
    ensure!(
        kept["metadata"]["annotations"]["team"] == "net"
            && kept["metadata"]["labels"]["mine"] == "yes",
        "{kept}"
    );
    scene.ready_with(&json!({ "enableInjector": true })).await?;
    ensure!(
        scene.admin().must_get(CONFIG_MAP, SWITCHES).await?["data"] == switches["data"],
        "it was written again"
    );

    // Deleted, it starts anew.
    scene.admin().delete(CONFIG_MAP, SWITCHES).await?;
    eventually(
        Duration::from_secs(2),
        "the switches to be back",
        async || {
            let new = scene.admin().must_get(CONFIG_MAP, SWITCHES).await?;
            ensure!(
                text(&new, "/data/config.json").contains("enableHugePageDownApi"),
                "{new}"
            );
            ensure!(new["data"].get("notes").is_none(), "{new}");
            Ok(())
        },
    )
    .await?;

    // A gate that does not exist is told, and changes nothing. The webhook warns about it as well.
    scene
        .ready_with(&json!({ "featureGates": { "metricsexporter": true } }))
        .await?;
    scene
        .tells(&[("UnknownFeatureGate", "metricsexporter")])
        .await?;
    let config = scene.admin().must_get(CONFIG, "default").await?;
    let degraded = world::condition(&config, "Degraded")?;
    ensure!(
        text(&degraded, "/message").contains("metricsexporter"),
        "{degraded}"
    );

    scene.admin().delete(CONFIG, "default").await?;
    scene.is_gone(CONFIG_MAP, SWITCHES).await?;
    scene.was_allowed_everything()
}

#[tokio::test]
async fn any_text_arrives_as_it_was_written() -> Result<()> {
    let mut scene = Scene::installed().await?;
    let nasty = NASTY.concat();
    scene.operator.set("RELEASEVERSION", "v: \"007\" \\ # é");
    scene.operator.set("RESOURCE_PREFIX", "007");
    scene
        .operator
        .set("SRIOV_CNI_BIN_PATH", "/opt/c n i/\"bin\": true");
    scene
        .operator
        .set("SRIOV_NETWORK_CONFIG_DAEMON_IMAGE", "true:\"007\"\\n");
    scene
        .operator
        .set("IMAGE_PULL_SECRETS", " 007 , ,true,007,a-b ");
    scene.operator.start()?;
    let variables: serde_json::Map<String, Value> = NASTY
        .iter()
        .chain([&nasty.as_str()])
        .enumerate()
        .map(|(index, value)| (format!("NASTY_{index}"), (*value).into()))
        .collect();
    let selector = json!({ "true": "007", "example.com/on": "yes", "n": "", "null": "1e3" });
    scene
        .configure(&json!({
            "configDaemonEnvVars": variables,
            "configDaemonNodeSelector": selector,
            "logLevel": 2,
        }))
        .await?;
    scene.is_ready().await?;

    let object = scene.admin().must_get(DAEMON_SET, CONFIG_DAEMON).await?;
    ensure!(
        object["metadata"]["annotations"]["release.openshift.io/version"] == "v: \"007\" \\ # é",
        "{}",
        object["metadata"]["annotations"]
    );
    let daemon = scene.pod_spec(CONFIG_DAEMON).await?;
    let container = &daemon["containers"][0];
    for (name, value) in &variables {
        let list = container["env"].as_array().context("no env")?;
        let stored = list.iter().find(|variable| variable["name"] == **name);
        let stored = stored.with_context(|| format!("{name} is not there"))?;
        ensure!(stored["value"] == *value, "{name}: {value} became {stored}");
    }
    ensure!(container["image"] == "true:\"007\"\\n", "{container}");
    ensure!(daemon["nodeSelector"] == selector, "{daemon}");
    let path = daemon["volumes"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|volume| volume["name"] == "cnibin");
    ensure!(
        path.is_some_and(|path| path["hostPath"]["path"] == "/opt/c n i/\"bin\": true"),
        "{path:?}"
    );
    let secrets = json!([{ "name": "007" }, { "name": "true" }, { "name": "a-b" }]);
    ensure!(daemon["imagePullSecrets"] == secrets, "{daemon}");
    let plugin = scene.pod_spec(DEVICE_PLUGIN).await?;
    ensure!(
        arguments(&plugin).contains(&"--resource-prefix=007"),
        "{plugin}"
    );

    // Settings that are gone are gone from the objects, too; a component without its image is left as it is, and named.
    scene.operator.stop().await?;
    scene.operator.set("IMAGE_PULL_SECRETS", " , ");
    scene.operator.set("OVS_CNI_IMAGE", "");
    scene.operator.set("SRIOV_DEVICE_PLUGIN_IMAGE", "");
    scene.operator.start()?;
    let ready = scene
        .is_not_ready(
            "OperatorConfigSyncFailed",
            &["device-plugin", "SRIOV_DEVICE_PLUGIN_IMAGE"],
        )
        .await?;
    ensure!(
        !text(&ready, "/message").contains("config-daemon"),
        "{ready}"
    );
    let daemon = scene.pod_spec(CONFIG_DAEMON).await?;
    ensure!(daemon.get("imagePullSecrets").is_none(), "{daemon}");
    ensure!(
        names(&daemon["initContainers"]) == ["sriov-cni", "sriov-infiniband-cni", "rdma-cni"],
        "{daemon}"
    );
    ensure!(
        scene.pod_spec(DEVICE_PLUGIN).await? == plugin,
        "it was touched"
    );
    scene.was_allowed_everything()
}
