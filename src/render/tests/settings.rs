//! Each variable of the environment reaches the places that are meant for it, and no others.

use serde_json::Value;

use super::{super::Desired, World};

/// A legal image, name, path and prefix that stands nowhere by itself.
const MARK: &str = "mark-3f";
/// It as an absolute path.
const PATH: &str = "/mark-3f";

/// Everything on, so that each variable has its places.
fn world() -> World {
    World::new()
        .gate("metricsExporter", true)
        .with("ADMISSION_SERVING", "dedicated")
        .with("METRICS_EXPORTER_PROMETHEUS_OPERATOR_ENABLED", "true")
        .with("OVS_CNI_IMAGE", "example.com/ovs-cni")
        .with("RDMA_CNI_IMAGE", "example.com/rdma-cni")
}

/// Where the mark stands: object and place, those within a pod without what leads to the pod.
fn places(world: &World) -> Vec<String> {
    let mut found = Vec::new();
    for (_, outcome) in world.all() {
        let Desired::On(rendered) = outcome.unwrap() else {
            continue;
        };
        for object in rendered.objects.iter().chain(&rendered.created_once) {
            let name = object["metadata"]["name"].as_str().unwrap();
            let title = format!("{} {name}", object["kind"].as_str().unwrap());
            look(object, "", &title, &mut found);
        }
    }
    found
}

fn look(value: &Value, place: &str, title: &str, found: &mut Vec<String>) {
    match value {
        Value::String(text) if text.contains(MARK) => {
            let place = place.trim_start_matches("/spec/template");
            found.push(format!("{title} {place}"));
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                look(item, &format!("{place}/{index}"), title, found);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                look(field, &format!("{place}/{name}"), title, found);
            }
        }
        _ => {}
    }
}

const OPERATOR_WEBHOOK: &str = "DaemonSet operator-webhook";
const INJECTOR: &str = "DaemonSet network-resources-injector";
const DAEMON: &str = "DaemonSet sriov-network-config-daemon";
const PLUGIN: &str = "DaemonSet sriov-device-plugin";
const EXPORTER: &str = "DaemonSet sriov-network-metrics-exporter";

#[test]
fn images() {
    let image = |object: &str, place: &str| format!("{object} /spec/{place}/image");
    for (variable, expected) in [
        (
            "SRIOV_NETWORK_CONFIG_DAEMON_IMAGE",
            vec![
                image(DAEMON, "containers/0"),
                image(PLUGIN, "initContainers/0"),
            ],
        ),
        ("SRIOV_CNI_IMAGE", vec![image(DAEMON, "initContainers/0")]),
        (
            "SRIOV_INFINIBAND_CNI_IMAGE",
            vec![image(DAEMON, "initContainers/1")],
        ),
        ("OVS_CNI_IMAGE", vec![image(DAEMON, "initContainers/2")]),
        ("RDMA_CNI_IMAGE", vec![image(DAEMON, "initContainers/3")]),
        (
            "SRIOV_DEVICE_PLUGIN_IMAGE",
            vec![image(PLUGIN, "containers/0")],
        ),
        (
            "SRIOV_NETWORK_WEBHOOK_IMAGE",
            vec![image(OPERATOR_WEBHOOK, "containers/0")],
        ),
        (
            "NETWORK_RESOURCES_INJECTOR_IMAGE",
            vec![image(INJECTOR, "containers/0")],
        ),
        (
            "METRICS_EXPORTER_IMAGE",
            vec![image(EXPORTER, "containers/0")],
        ),
        (
            "METRICS_EXPORTER_KUBE_RBAC_PROXY_IMAGE",
            vec![image(EXPORTER, "containers/1")],
        ),
    ] {
        assert_eq!(
            places(&world().with(variable, MARK)),
            expected,
            "{variable}"
        );
    }
}

#[test]
fn what_every_workload_has() {
    let all = [OPERATOR_WEBHOOK, INJECTOR, DAEMON, PLUGIN, EXPORTER];
    let secrets = world().with("IMAGE_PULL_SECRETS", &format!(" one, ,{MARK} ,"));
    assert_eq!(
        places(&secrets),
        all.map(|object| format!("{object} /spec/imagePullSecrets/1/name"))
    );
    let version = "/metadata/annotations/release.openshift.io/version";
    assert_eq!(
        places(&world().with("RELEASEVERSION", MARK)),
        [OPERATOR_WEBHOOK, INJECTOR, DAEMON, PLUGIN].map(|object| format!("{object} {version}"))
    );
}

#[test]
fn what_only_one_component_has() {
    let secret = |of: &str, daemon_set: &str, variable: u8| {
        vec![
            format!("Role {of} /rules/0/resourceNames/0"),
            format!("{daemon_set} /spec/containers/0/env/{variable}/value"),
        ]
    };
    let egress = |of: &str| {
        vec![format!(
            "NetworkPolicy {of}-allow-traffic-api-server /spec/egress/0/ports/0/port"
        )]
    };
    for (variable, expected) in [
        (
            "ADMISSION_CONTROLLERS_CERTIFICATES_OPERATOR_SECRET_NAME",
            secret("operator-webhook", OPERATOR_WEBHOOK, 3),
        ),
        (
            "ADMISSION_CONTROLLERS_CERTIFICATES_INJECTOR_SECRET_NAME",
            secret("network-resources-injector", INJECTOR, 2),
        ),
        (
            "OPERATOR_WEBHOOK_NETWORK_POLICY_PORT",
            egress("operator-webhook"),
        ),
        (
            "INJECTOR_WEBHOOK_NETWORK_POLICY_PORT",
            egress("network-resources-injector"),
        ),
        (
            "SRIOV_CNI_BIN_PATH",
            vec![format!("{DAEMON} /spec/volumes/1/hostPath/path")],
        ),
        (
            "RESOURCE_PREFIX",
            vec![format!("{PLUGIN} /spec/containers/0/args/1")],
        ),
        (
            "METRICS_EXPORTER_SECRET_NAME",
            vec![format!("{EXPORTER} /spec/volumes/5/secret/secretName")],
        ),
        (
            "METRICS_EXPORTER_PROMETHEUS_OPERATOR_SERVICE_ACCOUNT",
            vec!["RoleBinding prometheus-k8s /subjects/0/name".to_owned()],
        ),
        (
            "METRICS_EXPORTER_PROMETHEUS_OPERATOR_NAMESPACE",
            vec!["RoleBinding prometheus-k8s /subjects/0/namespace".to_owned()],
        ),
    ] {
        let value = if variable.ends_with("_PATH") {
            PATH
        } else {
            MARK
        };
        assert_eq!(
            places(&world().with(variable, value)),
            expected,
            "{variable}"
        );
    }
}

#[test]
fn the_exporters_port() {
    let world = world().with("METRICS_EXPORTER_PORT", "9119");
    let exporter = super::super::Component::MetricsExporter;
    let pod = super::pod(&world.object(exporter, "DaemonSet")).clone();
    let arguments = |container: usize| super::arguments(&pod["containers"][container]).join(" ");
    assert!(arguments(0).contains("--web.listen-address=127.0.0.1:9119"));
    assert!(arguments(1).contains("--secure-listen-address=[$(HOST_IP)]:9119"));
    assert!(arguments(1).contains("--upstream=http://127.0.0.1:9119/"));
    assert_eq!(pod["containers"][1]["ports"][0]["containerPort"], 9119);
    let port = &world.object(exporter, "Service")["spec"]["ports"][0];
    assert_eq!(
        (&port["port"], &port["targetPort"]),
        (&9119.into(), &9119.into())
    );
}
