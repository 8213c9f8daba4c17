//! The names of all objects that the built-in templates can make, whatever config and settings say.
//!
//! From it follow what is removed when it is no longer rendered, what is watched by name, and the rights that the
//! operator needs. A test compares it with what is rendered.

use super::Component;

/// An object by kind and name. Namespaced ones are in the operator's namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName {
    /// `group/version`, or the version alone in the core group.
    pub api_version: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// The name.
    pub name: &'static str,
}

const fn object(api_version: &'static str, kind: &'static str, name: &'static str) -> ObjectName {
    ObjectName {
        api_version,
        kind,
        name,
    }
}

const CORE: &str = "v1";
const APPS: &str = "apps/v1";
const RBAC: &str = "rbac.authorization.k8s.io/v1";
const NETWORKING: &str = "networking.k8s.io/v1";
const ADMISSION: &str = "admissionregistration.k8s.io/v1";
const MONITORING: &str = "monitoring.coreos.com/v1";
const MACHINE_CONFIGURATION: &str = "machineconfiguration.openshift.io/v1";

/// The `ConfigMap` that is created once with the injector, kept when it is switched off, and removed with the config.
pub const SWITCHES: ObjectName = object(CORE, "ConfigMap", "nri-control-switches");

/// The `ConfigMap` of the nodes' device plugins: no template makes it, the controller of node policies writes it.
pub const DEVICE_PLUGIN_CONFIG: ObjectName = object(CORE, "ConfigMap", "device-plugin-config");

impl Component {
    /// Every object that its templates can make, in the order in which they are applied.
    pub const fn objects(self) -> &'static [ObjectName] {
        match self {
            Self::OperatorWebhook => OPERATOR_WEBHOOK,
            Self::Injector => INJECTOR,
            Self::ConfigDaemon => CONFIG_DAEMON,
            Self::DevicePlugin => DEVICE_PLUGIN,
            Self::MetricsExporter => METRICS_EXPORTER,
            Self::MachineConfig => MACHINE_CONFIG,
        }
    }
}

const OPERATOR_WEBHOOK: &[ObjectName] = &[
    object(CORE, "Service", "operator-webhook-service"),
    object(CORE, "ServiceAccount", "operator-webhook-sa"),
    object(RBAC, "ClusterRole", "operator-webhook"),
    object(RBAC, "ClusterRoleBinding", "operator-webhook-role-binding"),
    object(RBAC, "Role", "operator-webhook"),
    object(RBAC, "RoleBinding", "operator-webhook"),
    object(
        NETWORKING,
        "NetworkPolicy",
        "operator-webhook-allow-traffic-api-server",
    ),
    object(APPS, "DaemonSet", "operator-webhook"),
    object(
        ADMISSION,
        "MutatingWebhookConfiguration",
        "sriov-operator-webhook-config",
    ),
    object(
        ADMISSION,
        "ValidatingWebhookConfiguration",
        "sriov-operator-webhook-config",
    ),
];

const INJECTOR: &[ObjectName] = &[
    object(CORE, "Service", "network-resources-injector-service"),
    object(CORE, "ServiceAccount", "network-resources-injector-sa"),
    object(RBAC, "ClusterRole", "network-resources-injector"),
    object(
        RBAC,
        "ClusterRoleBinding",
        "network-resources-injector-role-binding",
    ),
    object(RBAC, "Role", "network-resources-injector"),
    object(RBAC, "RoleBinding", "network-resources-injector"),
    object(
        NETWORKING,
        "NetworkPolicy",
        "network-resources-injector-allow-traffic-api-server",
    ),
    object(APPS, "DaemonSet", "network-resources-injector"),
    object(
        ADMISSION,
        "MutatingWebhookConfiguration",
        "network-resources-injector-config",
    ),
];

const CONFIG_DAEMON: &[ObjectName] = &[object(APPS, "DaemonSet", "sriov-network-config-daemon")];

const DEVICE_PLUGIN: &[ObjectName] = &[
    object(CORE, "ServiceAccount", "sriov-device-plugin"),
    object(RBAC, "Role", "sriov-plugin"),
    object(RBAC, "RoleBinding", "sriov-device-plugin"),
    object(RBAC, "Role", "sriov-device-plugin-pod-access"),
    object(RBAC, "RoleBinding", "sriov-device-plugin-pod-access"),
    object(APPS, "DaemonSet", "sriov-device-plugin"),
];

const METRICS_EXPORTER: &[ObjectName] = &[
    object(CORE, "ServiceAccount", "metrics-exporter-sa"),
    object(RBAC, "Role", "metrics-exporter-role"),
    object(RBAC, "RoleBinding", "metrics-exporter-rb"),
    object(RBAC, "ClusterRole", "sriov-metrics-kube-rbac-role"),
    object(
        RBAC,
        "ClusterRoleBinding",
        "sriov-metrics-kube-rbac-rolebinding",
    ),
    object(CORE, "Service", "sriov-network-metrics-exporter-service"),
    object(APPS, "DaemonSet", "sriov-network-metrics-exporter"),
    object(RBAC, "Role", "prometheus-k8s"),
    object(RBAC, "RoleBinding", "prometheus-k8s"),
    object(
        MONITORING,
        "ServiceMonitor",
        "sriov-network-metrics-exporter",
    ),
    object(MONITORING, "PrometheusRule", "sriov-vf-rules"),
];

const MACHINE_CONFIG: &[ObjectName] = &[object(
    MACHINE_CONFIGURATION,
    "MachineConfig",
    "sriov-config-service",
)];
