//! What flags and environment say, typed. Read once, at start.
//!
//! A flag wins over its environment variable, and both over the default; an empty text counts as not given. What is not
//! legal is an error that names the setting, its value and what is legal, and ends the process. The environment
//! is passed in, so nothing here touches the process, the file system or the cluster.
//!
//! [`SETTINGS`] is the one table that the command line, the reader and the documentation are made from.

mod certificates;
mod flags;
mod parse;
mod read;
mod reader;
mod table;
#[cfg(test)]
mod tests;
pub mod tls;

use std::{ffi::OsStr, ffi::OsString, path::PathBuf, time::Duration};

use serde::Serialize;

pub use certificates::{CertificateMode, ProvidedBundles};
pub use flags::{Flags, Run, SettingsCommand, Webhook};
pub use parse::{BindAddress, PolicyPort, duration as parse_duration, format_duration};
pub use reader::SettingsError;
pub use table::{Group, SETTINGS, Scope, Setting};

/// The variable with the CA bundle of the operator webhook's own pair.
pub const OPERATOR_CA_CRT: &str =
    table::ADMISSION_CONTROLLERS_CERTIFICATES_OPERATOR_CA_CRT.variable;
/// The variable with the CA bundle of the injector's own pair.
pub const INJECTOR_CA_CRT: &str =
    table::ADMISSION_CONTROLLERS_CERTIFICATES_INJECTOR_CA_CRT.variable;

use reader::Reader;
use tls::TlsOptions;

/// All settings of `run`.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Listeners, logs, cluster access.
    pub process: ProcessSettings,
    /// What the admission server does, in this process or handed on to dedicated ones.
    pub admission: AdmissionSettings,
    /// The Lease; `None` when a single replica writes without one.
    pub leader_election: Option<LeaderElection>,
    /// Who makes the serving pairs.
    pub certificate_mode: CertificateMode,
    /// Lifetimes of what the operator makes itself.
    pub lifetimes: Lifetimes,
    /// A directory of templates in place of those built in.
    pub templates_dir: Option<PathBuf>,
    /// What is rolled out.
    pub components: ComponentSettings,
}

/// All settings of `webhook`.
#[derive(Clone, Debug)]
pub struct WebhookSettings {
    /// Listeners, logs, cluster access.
    pub process: ProcessSettings,
    /// What the admission server does.
    pub admission: AdmissionSettings,
}

/// Listeners beside the admission server, logs, cluster access.
#[derive(Clone, Debug)]
pub struct ProcessSettings {
    /// The operator's namespace.
    pub namespace: String,
    /// This pod's name, where it is known.
    pub pod_name: Option<String>,
    /// The kubeconfig files to merge; empty for the pod's `ServiceAccount`.
    pub kubeconfig: Vec<PathBuf>,
    /// Where `/healthz` and `/readyz` are answered; `None` is off.
    pub health_probe_bind_address: Option<BindAddress>,
    /// Where `/metrics` is answered; `None` is off.
    pub metrics_bind_address: Option<BindAddress>,
    /// How long admission goes on after SIGTERM.
    pub shutdown_delay: Duration,
    /// How log lines look.
    pub log_format: LogFormat,
}

/// The admission server.
#[derive(Clone, Debug)]
pub struct AdmissionSettings {
    /// Where it listens; the port is not 0.
    pub bind_address: BindAddress,
    /// Whether network cards that are not listed are accepted.
    pub dev_mode: DevMode,
    /// The Secrets with the serving pairs.
    pub secret_names: SecretNames,
    /// TLS as the administrator asks for it.
    pub tls: TlsOptions,
    /// Whose certificate a client must present; `None`: none is asked for.
    pub client_ca: Option<ClientCa>,
    /// How pods are injected.
    pub injector: InjectorSettings,
}

/// The names of the Secrets with the serving pairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretNames {
    /// That of the operator webhook.
    pub operator: String,
    /// That of the injector.
    pub injector: String,
}

/// Which clients are admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCa {
    /// PEM certificates.
    pub file: PathBuf,
    /// The names of which a client's certificate must have one; empty: any.
    pub allowed_names: Vec<String>,
}

/// `DEV_MODE`, which is handed on to the config daemon as it was given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DevMode {
    enabled: bool,
    text: String,
}

impl DevMode {
    fn parse(text: &str) -> Option<Self> {
        let enabled = parse::boolean(text)?;
        // The config daemon knows `TRUE` only; other texts stay as they are, so that its pods do not restart.
        let text = if enabled { "TRUE" } else { text };
        Some(Self {
            enabled,
            text: text.to_owned(),
        })
    }

    /// Whether it is on.
    pub const fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// The variable's value for other programs.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// How pods are injected, at start; the `ConfigMap` `nri-control-switches` overrides the two switches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InjectorSettings {
    /// The annotations of a NAD that name its resource; never empty.
    pub resource_name_keys: Vec<String>,
    /// Whether the attachments' count is added to what a pod asks for.
    pub honor_resources: bool,
    /// Whether hugepages are shown in `podnetinfo`.
    pub inject_hugepage_down_api: bool,
    /// Where default networks without a namespace are looked up last.
    pub multus_namespace: String,
}

/// How the injector's webhook is registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InjectorWebhook {
    /// `None`: Fail with the match-condition gate, else Ignore.
    pub failure_policy: Option<FailurePolicy>,
    /// `timeoutSeconds`, 1 to 30.
    pub timeout_seconds: u32,
    /// Namespaces that are exempt beside `kube-system` and our own.
    pub exempt_namespaces: Vec<String>,
}

/// `failurePolicy` of a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum FailurePolicy {
    /// Requests go on without an answer.
    Ignore,
    /// Requests are refused without an answer.
    Fail,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines.
    Json,
}

/// The three durations of the Lease: lease > renew deadline > 1.2 × retry period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderElection {
    /// How long a Lease that is not renewed is respected.
    pub lease_duration: Duration,
    /// How long the leader tries to renew.
    pub renew_deadline: Duration,
    /// How often the Lease is tried.
    pub retry_period: Duration,
}

/// Lifetimes of what the operator makes: CA ≥ certificate > 3 × settle time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// Of a CA.
    pub ca: Duration,
    /// Of a serving certificate.
    pub certificate: Duration,
    /// How long a new CA is published before it is used.
    pub settle_time: Duration,
}

/// The platform that the environment names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ClusterType {
    /// Any Kubernetes.
    Kubernetes,
    /// OpenShift.
    OpenShift,
}

impl ClusterType {
    /// The value of `CLUSTER_TYPE`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kubernetes => "kubernetes",
            Self::OpenShift => "openshift",
        }
    }
}

/// Who answers the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmissionServing {
    /// This process.
    InProcess,
    /// `DaemonSet`s that run `sriov-operator webhook`.
    Dedicated,
}

/// What is rolled out.
#[derive(Clone, Debug)]
pub struct ComponentSettings {
    /// The platform.
    pub cluster_type: ClusterType,
    /// Who answers the API server.
    pub serving: AdmissionServing,
    /// The prefix of resource names; never empty.
    pub resource_prefix: String,
    /// The release's version, possibly empty.
    pub release_version: String,
    /// The images; an empty one of a component that is switched on is that component's error.
    pub images: Images,
    /// Names of the pull secrets, each once.
    pub image_pull_secrets: Vec<String>,
    /// Where CNI plugins are installed on the nodes.
    pub cni_bin_path: String,
    /// Whether another controller drains nodes.
    pub use_external_drainer: bool,
    /// How long node states of vanished nodes are kept.
    pub stale_node_state_cleanup_delay: Duration,
    /// The API server's port in the network policy of the operator webhook's own workload.
    pub operator_api_server_port: PolicyPort,
    /// The API server's port in the network policy of the injector's own workload.
    pub injector_api_server_port: PolicyPort,
    /// How the injector's webhook is registered.
    pub injector_webhook: InjectorWebhook,
    /// The metrics exporter.
    pub metrics_exporter: MetricsExporterSettings,
}

/// The images of the components, possibly empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the image of what it is named after")]
pub struct Images {
    pub config_daemon: String,
    pub sriov_cni: String,
    pub infiniband_cni: String,
    pub ovs_cni: String,
    pub rdma_cni: String,
    pub device_plugin: String,
    pub operator_webhook: String,
    pub injector: String,
    pub metrics_exporter: String,
    pub kube_rbac_proxy: String,
}

/// The metrics exporter and what tells Prometheus of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsExporterSettings {
    /// Its port, not 0.
    pub port: u16,
    /// The Secret with its serving pair.
    pub secret_name: String,
    /// `None` without the Prometheus operator.
    pub prometheus: Option<Prometheus>,
}

/// The Prometheus operator's installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prometheus {
    /// The `ServiceAccount` of Prometheus.
    pub service_account: String,
    /// Its namespace.
    pub namespace: String,
    /// Whether a `PrometheusRule` is made.
    pub deploy_rules: bool,
}

impl Settings {
    /// Reads the settings of `run` from its flags and the environment.
    pub fn read<K, V>(
        flags: &Flags<Run>,
        environment: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, SettingsError>
    where
        K: AsRef<OsStr>,
        V: Into<OsString>,
    {
        let reader = Reader::new(flags, environment);
        let components = read::components(&reader)?;
        let admission = read::admission(&reader)?;
        let certificate_mode = certificates::mode(&reader, components.cluster_type)?;
        let names = &admission.secret_names;
        if certificate_mode == CertificateMode::SelfSigned && names.operator == names.injector {
            return Err(reader.conflict(
                &table::ADMISSION_CONTROLLERS_CERTIFICATES_INJECTOR_SECRET_NAME,
                "another Secret than that of the operator webhook",
            ));
        }
        Ok(Self {
            process: read::process(&reader)?,
            admission,
            leader_election: read::leader_election(&reader)?,
            certificate_mode,
            lifetimes: read::lifetimes(&reader)?,
            templates_dir: reader.optional(&table::TEMPLATES_DIR, |t| Some(PathBuf::from(t)))?,
            components,
        })
    }
}

impl WebhookSettings {
    /// Reads the settings of `webhook` from its flags and the environment.
    pub fn read<K, V>(
        flags: &Flags<Webhook>,
        environment: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, SettingsError>
    where
        K: AsRef<OsStr>,
        V: Into<OsString>,
    {
        let reader = Reader::new(flags, environment);
        Ok(Self {
            process: read::process(&reader)?,
            admission: read::admission(&reader)?,
        })
    }
}
