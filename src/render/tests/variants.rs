//! The variants that the golden files show: platforms, serving modes, certificate modes, gates, settings.

use serde_json::json;

use super::World;
use crate::{
    render::Registration,
    settings::{FailurePolicy, tls::TlsOptions},
};

fn waiting() -> Registration {
    Registration {
        ca_bundle: None,
        failure_policy: Some(FailurePolicy::Ignore),
    }
}

/// Everything that can be switched on, with settings that are not the defaults.
fn everything(world: World) -> World {
    [
        "parallelNicConfig",
        "resourceInjectorMatchCondition",
        "metricsExporter",
        "manageSoftwareBridges",
    ]
    .into_iter()
    .fold(world, |world, gate| world.gate(gate, true))
    .config("useCDI", json!(true))
    .config("disablePlugins", json!(["mellanox"]))
    .config(
        "configDaemonNodeSelector",
        json!({"example.com/sriov": "true"}),
    )
    .config(
        "configDaemonEnvVars",
        json!({"B": "a: \"b\" \\ #", "A": "007"}),
    )
    .with("OVS_CNI_IMAGE", "example.com/ovs-cni")
    .with("RDMA_CNI_IMAGE", "example.com/rdma-cni")
    .with("IMAGE_PULL_SECRETS", "one, 123")
    .with("SRIOV_CNI_BIN_PATH", "/opt/cni/bin")
    .with("USE_EXTERNAL_DRAINER", "true")
    .with("DEV_MODE", "TRUE")
    .with("METRICS_EXPORTER_PROMETHEUS_OPERATOR_ENABLED", "true")
    .with("METRICS_EXPORTER_PROMETHEUS_DEPLOY_RULES", "true")
    .with("TLS_MIN_VERSION", "VersionTLS12")
    .with(
        "TLS_CIPHER_SUITES",
        "ECDHE-ECDSA-AES128-GCM-SHA256,ECDHE-RSA-AES128-SHA",
    )
    .with("TLS_CURVE_PREFERENCES", "X25519,secp256r1")
    .with("INJECTOR_EXEMPT_NAMESPACES", "openshift-monitoring")
    .with("INJECTOR_TIMEOUT", "5s")
}

/// The variants by the names of their golden files.
pub(super) fn all() -> Vec<(&'static str, World)> {
    let cert_manager = |world: World| {
        let mut world = world.with(
            "ADMISSION_CONTROLLERS_CERTIFICATES_CERT_MANAGER_ENABLED",
            "true",
        );
        world.operator = waiting();
        world.injector = waiting();
        world
    };
    let systemd = |world: World| world.config("configurationMode", json!("systemd"));
    let mut hypershift = systemd(
        World::new()
            .openshift()
            .with("ADMISSION_SERVING", "dedicated"),
    );
    hypershift.hypershift = true;
    hypershift.cluster_tls = Some(TlsOptions::default());
    let mut printed = World::new();
    printed.owners = crate::render::Owners::default();
    vec![
        ("kubernetes-in-process", World::new()),
        (
            "kubernetes-dedicated",
            World::new().with("ADMISSION_SERVING", "dedicated"),
        ),
        ("kubernetes-cert-manager", cert_manager(World::new())),
        ("kubernetes-everything-in-process", everything(World::new())),
        (
            "kubernetes-everything-dedicated",
            everything(World::new().with("ADMISSION_SERVING", "dedicated")),
        ),
        (
            "kubernetes-nothing-but-the-daemons",
            World::new()
                .config("enableInjector", json!(false))
                .config("enableOperatorWebhook", json!(false))
                .gate("blockDevicePluginUntilConfigured", false),
        ),
        ("kubernetes-systemd", systemd(World::new())),
        ("openshift-in-process", World::new().openshift()),
        (
            "openshift-everything-systemd",
            systemd(everything(World::new().openshift())),
        ),
        ("hypershift-systemd-dedicated", hypershift),
        ("printed-without-owners", printed),
    ]
}
