//! The workloads on the nodes: where they run, with what, and what systemd mode adds.

use serde_json::{Value, json};

use super::{
    super::{Component, ComponentError, Desired},
    World, arguments, pod,
};
use crate::settings::tls::TlsOptions;

#[test]
fn an_empty_node_selector_is_none() {
    for selector in [Value::Null, json!({})] {
        let world = World::new()
            .gate("metricsExporter", true)
            .config("configDaemonNodeSelector", selector);
        let linux_workers =
            json!({"kubernetes.io/os": "linux", "node-role.kubernetes.io/worker": ""});
        for component in [Component::ConfigDaemon, Component::MetricsExporter] {
            let daemon_set = world.object(component, "DaemonSet");
            assert_eq!(pod(&daemon_set)["nodeSelector"], linux_workers);
        }
        assert_eq!(
            pod(&world.object(Component::DevicePlugin, "DaemonSet"))["nodeSelector"],
            json!({"kubernetes.io/os": "linux", "sriovnetwork.openshift.io/device-plugin": "Enabled"})
        );
    }
}

#[test]
fn a_node_selector_replaces_the_defaults() {
    let world = World::new().gate("metricsExporter", true).config(
        "configDaemonNodeSelector",
        json!({"a": "b", "sriovnetwork.openshift.io/device-plugin": "x"}),
    );
    for component in [Component::ConfigDaemon, Component::MetricsExporter] {
        assert_eq!(
            pod(&world.object(component, "DaemonSet"))["nodeSelector"],
            json!({"a": "b", "sriovnetwork.openshift.io/device-plugin": "x"})
        );
    }
    assert_eq!(
        pod(&world.object(Component::DevicePlugin, "DaemonSet"))["nodeSelector"],
        json!({"a": "b", "sriovnetwork.openshift.io/device-plugin": "Enabled"})
    );
}

#[test]
fn a_variable_that_shadows_a_fixed_one_is_left_out_with_a_warning() {
    let world = World::new().config(
        "configDaemonEnvVars",
        json!({"NODE_NAME": "x", "ZED": "1", "ALPHA": "2", "USE_EXTERNAL_DRAINER": "true"}),
    );
    let rendered = world.rendered(Component::ConfigDaemon);
    let names: Vec<&Value> = pod(&rendered.objects[0])["containers"][0]["env"]
        .as_array()
        .unwrap()
        .iter()
        .map(|variable| &variable["name"])
        .collect();
    assert_eq!(
        names,
        [
            "NODE_NAME",
            "NAMESPACE",
            "CLUSTER_TYPE",
            "DEV_MODE",
            "ALPHA",
            "ZED"
        ]
    );
    let told: Vec<String> = rendered.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 2);
    assert!(
        told[0].starts_with("spec.configDaemonEnvVars[NODE_NAME]"),
        "{told:?}"
    );
}

#[test]
fn systemd_mode() {
    let kubernetes = World::new().config("configurationMode", json!("systemd"));
    let daemon_set = kubernetes.object(Component::ConfigDaemon, "DaemonSet");
    assert!(arguments(&pod(&daemon_set)["containers"][0]).contains(&"--use-systemd-service"));
    assert_eq!(
        kubernetes.outcome(Component::MachineConfig),
        Ok(Desired::Off)
    );

    let openshift = World::new()
        .openshift()
        .config("configurationMode", json!("systemd"))
        .config("configDaemonNodeSelector", json!({"a": "b"}));
    let labels =
        openshift.object(Component::MachineConfig, "MachineConfig")["metadata"]["labels"].clone();
    assert_eq!(labels["machineconfiguration.openshift.io/role"], "worker");
    assert_eq!(labels["a"], "b");

    let mut hypershift = openshift;
    hypershift.hypershift = true;
    let error = hypershift.outcome(Component::MachineConfig).unwrap_err();
    assert!(matches!(error, ComponentError::Unsupported(_)));
    assert!(hypershift.outcome(Component::ConfigDaemon).is_ok());
    let daemon_mode = hypershift.config("configurationMode", json!("daemon"));
    assert_eq!(
        daemon_mode.outcome(Component::MachineConfig),
        Ok(Desired::Off)
    );
}

#[test]
fn tls_of_the_cluster_replaces_that_of_the_environment() {
    let mut world = World::new()
        .gate("metricsExporter", true)
        .with("ADMISSION_SERVING", "dedicated")
        .with("TLS_MIN_VERSION", "VersionTLS13")
        .with(
            "TLS_CIPHER_SUITES",
            "AES128-SHA,ECDHE-RSA-AES128-GCM-SHA256",
        )
        .with("TLS_CURVE_PREFERENCES", "X25519");
    let proxy = |world: &World| {
        let daemon_set = world.object(Component::MetricsExporter, "DaemonSet");
        pod(&daemon_set)["containers"][1].clone()
    };
    let webhook = |world: &World| {
        let daemon_set = world.object(Component::OperatorWebhook, "DaemonSet");
        pod(&daemon_set)["containers"][0].clone()
    };
    assert!(
        arguments(&proxy(&world))
            .contains(&"--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")
    );
    assert!(arguments(&webhook(&world)).contains(&"--tls-curve-preferences=X25519"));
    let warnings = world.rendered(Component::MetricsExporter).warnings;
    assert!(
        warnings[0]
            .to_string()
            .contains("TLS_RSA_WITH_AES_128_CBC_SHA")
    );
    world.cluster_tls = Some(TlsOptions::default());
    for container in [proxy(&world), webhook(&world)] {
        assert!(
            !arguments(&container)
                .iter()
                .any(|a| a.starts_with("--tls-min-version"))
        );
    }
}
