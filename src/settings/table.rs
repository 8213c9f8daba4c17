//! The table of all settings: variable, flag, default, what is legal and what it means.
//!
//! The command line, the reader and the generated documentation are all made from it, so that a setting
//! is written down once. It parses nothing.

/// Which commands take a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// `run`, and `webhook` too.
    Serving,
    /// `run` only.
    Run,
}

/// Where a setting stands in `--help` and in the documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Listeners, logs, cluster access.
    Process,
    /// What the admission server presents and accepts.
    Tls,
    /// How pods are injected.
    Injector,
    /// The Lease.
    LeaderElection,
    /// Certificates that the operator makes or is given.
    Certificates,
    /// What is rolled out, and where.
    Components,
    /// The metrics exporter and Prometheus.
    MetricsExporter,
}

impl Group {
    /// The groups in the order of the documentation.
    pub const ALL: [Self; 7] = [
        Self::Process,
        Self::Tls,
        Self::Injector,
        Self::LeaderElection,
        Self::Certificates,
        Self::Components,
        Self::MetricsExporter,
    ];

    /// The heading under which the group's flags and variables stand.
    pub const fn heading(self) -> &'static str {
        match self {
            Self::Process => "Process",
            Self::Tls => "TLS",
            Self::Injector => "Injector",
            Self::LeaderElection => "Leader election",
            Self::Certificates => "Certificates",
            Self::Components => "Components",
            Self::MetricsExporter => "Metrics exporter",
        }
    }
}

/// One setting.
#[derive(Debug)]
pub struct Setting {
    /// The environment variable; it also identifies the setting.
    pub variable: &'static str,
    /// The flag's long name without dashes; it wins over the variable.
    pub flag: Option<&'static str>,
    /// The value that counts when nothing, or an empty text, is given; empty when there is none.
    pub default: &'static str,
    /// What is legal, to follow "must be".
    pub legal: &'static str,
    /// What it means, one or two sentences.
    pub meaning: &'static str,
    /// Which commands take it.
    pub scope: Scope,
    /// Where it is documented.
    pub group: Group,
    /// Whether the flag alone, without a value, means `true`.
    pub is_switch: bool,
}

impl Setting {
    /// How messages name it: `--log-format (LOG_FORMAT)` or `NAMESPACE`.
    pub fn name(&self) -> String {
        match self.flag {
            Some(flag) => format!("--{flag} ({})", self.variable),
            None => self.variable.to_owned(),
        }
    }
}

const BOOLEAN: &str = "true or false";
const DURATION: &str = "a duration such as 90s, 5m or 1h30m";
const LIFETIME: &str = "a duration above zero such as 90s, 12h or 3650d";
const ADDRESS: &str =
    "an address and port such as :8080, 127.0.0.1:8080 or [::1]:8080, or 0 for off";
const NAMESPACES: &str = "namespace names between commas";
const IMAGE: &str = "an image reference";
const SECRET: &str = "the name of a Secret";
const CA: &str = "PEM certificates, as they are or in base64";

/// Declares the settings as constants, and the table that holds them in order.
macro_rules! settings {
    ($($group:ident { $(
        $variable:ident $scope:ident $([$flag:literal])? $(switch $switch:literal)? = $default:literal,
        $legal:expr, $meaning:literal;
    )+ })+) => {
        $($(
            pub(super) const $variable: Setting = Setting {
                variable: stringify!($variable),
                flag: settings!(@flag $($flag)?),
                default: $default,
                legal: $legal,
                meaning: $meaning,
                scope: Scope::$scope,
                group: Group::$group,
                is_switch: settings!(@switch $($switch)?),
            };
        )+)+
        /// All settings, in the order of the documentation.
        pub const SETTINGS: &[Setting] = &[$($($variable,)+)+];
    };
    (@flag) => { None };
    (@flag $flag:literal) => { Some($flag) };
    (@switch) => { false };
    (@switch $switch:literal) => { $switch };
}

settings! {
    Process {
    NAMESPACE Serving = "", "a namespace name",
        "The operator's namespace: where the SriovOperatorConfig named default is, and all that is rolled out. Required.";
    POD_NAME Serving = "", "a pod name",
        "This pod's name: the holder in the Lease and the reporter of Events. The host's name when it is not set.";
    KUBECONFIG Serving ["kubeconfig"] = "", "paths of kubeconfig files",
        "How to reach the cluster, merged as kubectl does. The pod's ServiceAccount when it is not set.";
    WEBHOOK_BIND_ADDRESS Serving ["webhook-bind-address"] = ":6443",
        "an address and port such as :6443, 127.0.0.1:6443 or [::1]:6443",
        "Where the admission server listens. Without a host: all addresses of both families. The Services lead to this port.";
    HEALTH_PROBE_BIND_ADDRESS Serving ["health-probe-bind-address"] = ":8081", ADDRESS,
        "Where /healthz and /readyz are answered.";
    METRICS_BIND_ADDRESS Serving ["metrics-bind-address"] = ":8080", ADDRESS,
        "Where /metrics is answered.";
    SHUTDOWN_DELAY Serving ["shutdown-delay"] = "5s", DURATION,
        "How long the admission server still answers after SIGTERM, so that the endpoints of the Services can follow.";
    LOG_FORMAT Serving ["log-format"] = "text", "text or json",
        "Log lines for people or for machines. Their level follows spec.logLevel.";
    TEMPLATES_DIR Run ["templates-dir"] = "", "a directory",
        "A directory of templates to use in place of those built in.";
    ADMISSION_SERVING Run = "in-process", "in-process or dedicated",
        "Who answers the API server: this process, or DaemonSets that run the same image as `sriov-operator webhook`.";
    }

    Tls {
    TLS_CIPHER_SUITES Serving ["tls-cipher-suites"] = "", "IANA or OpenSSL names of cipher suites between commas",
        "The cipher suites to offer. Those that are known but insecure or not built in are dropped with a warning; with none left, the defaults.";
    TLS_MIN_VERSION Serving ["tls-min-version"] = "", "VersionTLS10, VersionTLS11, VersionTLS12 or VersionTLS13",
        "The lowest TLS version. Below VersionTLS12 it is raised to that with a warning.";
    TLS_CURVE_PREFERENCES Serving ["tls-curve-preferences"] = "",
        "X25519, secp256r1, secp384r1, secp521r1, X25519MLKEM768 or SecP256r1MLKEM768 between commas",
        "The key exchange groups to offer, best first. Those not built in (secp521r1) are dropped with a warning.";
    CLIENT_CA_FILE Serving ["client-ca-file"] = "", "a file of PEM certificates",
        "Admit only clients with a certificate of this CA. The API server presents none unless its AdmissionConfiguration names one, so leave it empty unless yours does.";
    CLIENT_ALLOWED_NAMES Serving ["client-allowed-names"] = "", "certificate names between commas, with --client-ca-file only",
        "Admit only clients whose certificate has one of these common or alternative names. Empty: every certificate of the CA.";
    }

    Injector {
    NETWORK_RESOURCE_NAME_KEYS Serving ["network-resource-name-keys"] = "k8s.v1.cni.cncf.io/resourceName",
        "annotation keys between commas, at least one",
        "The annotations of a NetworkAttachmentDefinition that name its resource.";
    HONOR_RESOURCES Serving ["honor-resources"] switch true = "false", BOOLEAN,
        "Add the count of a pod's attachments to what the pod already asks for, instead of topping up. The ConfigMap nri-control-switches overrides it.";
    INJECT_HUGEPAGE_DOWN_API Serving ["inject-hugepage-down-api"] switch true = "false", BOOLEAN,
        "Show a pod its hugepage requests and limits in the podnetinfo volume. The ConfigMap nri-control-switches overrides it.";
    MULTUS_NAMESPACE Serving ["multus-namespace"] = "kube-system", "a namespace name",
        "Where a default network without a namespace is looked up after the pod's own.";
    INJECTOR_FAILURE_POLICY Run ["injector-failure-policy"] = "", "empty, Ignore or Fail",
        "What the API server does with a pod when the injector does not answer. Empty: Fail with the gate resourceInjectorMatchCondition, else Ignore.";
    INJECTOR_TIMEOUT Run ["injector-timeout"] = "10s", "whole seconds from 1s to 30s",
        "How long the API server waits for the injector.";
    INJECTOR_EXEMPT_NAMESPACES Run ["injector-exempt-namespaces"] = "", NAMESPACES,
        "Namespaces whose pods are never injected, beside kube-system and the operator's own.";
    }

    LeaderElection {
    LEADER_ELECT Run ["leader-elect"] switch true = "true", BOOLEAN,
        "Write to the cluster only while holding a Lease. Needed with more than one replica.";
    LEADER_ELECT_LEASE_DURATION Run ["leader-elect-lease-duration"] = "15s", LIFETIME,
        "How long a Lease that is not renewed keeps others from taking it.";
    LEADER_ELECT_RENEW_DEADLINE Run ["leader-elect-renew-deadline"] = "10s", LIFETIME,
        "How long the leader tries to renew before it gives up leading. Below the lease duration.";
    LEADER_ELECT_RETRY_PERIOD Run ["leader-elect-retry-period"] = "2s", LIFETIME,
        "How often the Lease is tried. Below the renew deadline divided by 1.2.";
    }

    Certificates {
    ADMISSION_CONTROLLERS_CERTIFICATES_OPERATOR_SECRET_NAME Serving = "operator-webhook-cert", SECRET,
        "The Secret with the serving pair of the operator webhook.";
    ADMISSION_CONTROLLERS_CERTIFICATES_INJECTOR_SECRET_NAME Serving = "network-resources-injector-cert", SECRET,
        "The Secret with the serving pair of the injector.";
    ADMISSION_CONTROLLERS_CERTIFICATES_CERT_MANAGER_ENABLED Run = "false", BOOLEAN,
        "On Kubernetes: cert-manager issues the pairs, and its CA injector fills in caBundle. Each Certificate has the name of its Secret.";
    ADMISSION_CONTROLLERS_CERTIFICATES_OPERATOR_CA_CRT Run = "", CA,
        "The CA of the operator webhook's pair, which you provide. Together with that of the injector.";
    ADMISSION_CONTROLLERS_CERTIFICATES_INJECTOR_CA_CRT Run = "", CA,
        "The CA of the injector's pair, which you provide. Together with that of the operator webhook.";
    CA_LIFETIME Run ["ca-lifetime"] = "3650d", LIFETIME,
        "How long a CA that the operator makes is valid. It is renewed in the last third.";
    CERTIFICATE_LIFETIME Run ["certificate-lifetime"] = "365d", LIFETIME,
        "How long a serving certificate that the operator makes is valid, at most as long as its CA. It is renewed in the last third.";
    ROTATION_SETTLE_TIME Run ["rotation-settle-time"] = "60s", DURATION,
        "How long a new CA is in every caBundle before a certificate from it is served. Below a third of the certificate's lifetime.";
    }

    Components {
    CLUSTER_TYPE Run = "", "kubernetes or openshift",
        "The platform. Required.";
    RESOURCE_PREFIX Run = "", "a resource prefix such as openshift.io",
        "What stands before the slash in the names of SR-IOV resources. Required.";
    DEV_MODE Serving = "", BOOLEAN,
        "Accept network cards that are not in the ConfigMap supported-nic-ids.";
    RELEASEVERSION Run = "", "a version",
        "The value of the annotation release.openshift.io/version.";
    RELEASE_VERSION Run = "", "a version",
        "The same, when RELEASEVERSION is not set.";
    IMAGE_PULL_SECRETS Run = "", "names of Secrets between commas",
        "The pull secrets of every workload.";
    SRIOV_NETWORK_CONFIG_DAEMON_IMAGE Run = "", IMAGE,
        "The image of the config daemon.";
    SRIOV_CNI_IMAGE Run = "", IMAGE,
        "The image that installs the SR-IOV CNI plugin.";
    SRIOV_INFINIBAND_CNI_IMAGE Run = "", IMAGE,
        "The image that installs the InfiniBand SR-IOV CNI plugin.";
    OVS_CNI_IMAGE Run = "", IMAGE,
        "The image that installs the OVS CNI plugin. Empty: it is not installed.";
    RDMA_CNI_IMAGE Run = "", IMAGE,
        "The image that installs the RDMA CNI plugin. Empty: it is not installed.";
    SRIOV_DEVICE_PLUGIN_IMAGE Run = "", IMAGE,
        "The image of the device plugin.";
    SRIOV_NETWORK_WEBHOOK_IMAGE Run = "", IMAGE,
        "The image of the operator webhook when it is served by its own DaemonSet: that of sriov-operator.";
    NETWORK_RESOURCES_INJECTOR_IMAGE Run = "", IMAGE,
        "The image of the injector when it is served by its own DaemonSet: that of sriov-operator.";
    SRIOV_CNI_BIN_PATH Run = "/var/lib/cni/bin", "an absolute path",
        "The directory on the nodes where CNI plugins are installed.";
    USE_EXTERNAL_DRAINER Run = "false", BOOLEAN,
        "Leave the draining of nodes to another controller.";
    STALE_NODE_STATE_CLEANUP_DELAY_MINUTES Run = "30", "a whole number of minutes, 0 for at once",
        "How long the node state of a node that is gone is kept.";
    OPERATOR_WEBHOOK_NETWORK_POLICY_PORT Run = "6443", "a port number or name",
        "The port of the API server that the operator webhook's own DaemonSet may reach.";
    INJECTOR_WEBHOOK_NETWORK_POLICY_PORT Run = "6443", "a port number or name",
        "The port of the API server that the injector's own DaemonSet may reach.";
    }

    MetricsExporter {
    METRICS_EXPORTER_IMAGE Run = "", IMAGE,
        "The image of the metrics exporter.";
    METRICS_EXPORTER_KUBE_RBAC_PROXY_IMAGE Run = "", IMAGE,
        "The image of the proxy before the metrics exporter.";
    METRICS_EXPORTER_PORT Run = "9110", "a port number from 1 to 65535",
        "The port of the metrics exporter.";
    METRICS_EXPORTER_SECRET_NAME Run = "metrics-exporter-cert", SECRET,
        "The Secret with the serving pair of the metrics exporter.";
    METRICS_EXPORTER_PROMETHEUS_OPERATOR_ENABLED Run = "false", BOOLEAN,
        "Make a ServiceMonitor, and let Prometheus find the exporter.";
    METRICS_EXPORTER_PROMETHEUS_DEPLOY_RULES Run = "false", BOOLEAN,
        "Make a PrometheusRule too.";
    METRICS_EXPORTER_PROMETHEUS_OPERATOR_SERVICE_ACCOUNT Run = "prometheus-k8s", "the name of a ServiceAccount",
        "The ServiceAccount of Prometheus.";
    METRICS_EXPORTER_PROMETHEUS_OPERATOR_NAMESPACE Run = "monitoring", "a namespace name",
        "The namespace of Prometheus.";
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_flags_match_their_variables() {
        let mut variables = BTreeSet::new();
        for setting in SETTINGS {
            assert!(variables.insert(setting.variable), "{}", setting.variable);
            if let Some(flag) = setting.flag {
                assert_eq!(flag.to_uppercase().replace('-', "_"), setting.variable);
            }
        }
    }
}
