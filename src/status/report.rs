//! From what was read to what is told. Pure: the clock comes with what was read.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Secret, Service};
use serde::Serialize;
use serde_json::Value;

use super::{Gathered, problems};
use crate::{
    api::{SriovNetworkNodePolicy, SriovNetworkNodeState, SriovOperatorConfig},
    certs::{
        bundle::Bundle,
        keeper::secrets::AUTHORITY_SECRET,
        names::{Endpoint, INJECTOR_SERVICE, OPERATOR_SERVICE, endpoints},
        pair::{PairContents, ServingPair},
        published::Configuration,
    },
    features::{Feature, Features},
    render::Component,
};

/// A part that was read, or why it was not.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Part<T> {
    /// It was read.
    Read(T),
    /// It was not.
    Unreadable {
        /// Why, in a few words.
        unreadable: String,
    },
}

impl<T> Part<T> {
    /// Changes what was read.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Part<U> {
        match self {
            Self::Read(read) => Part::Read(change(read)),
            Self::Unreadable { unreadable } => Part::Unreadable { unreadable },
        }
    }

    /// The same by reference.
    pub fn as_ref(&self) -> Part<&T> {
        match self {
            Self::Read(read) => Part::Read(read),
            Self::Unreadable { unreadable } => Part::Unreadable {
                unreadable: unreadable.clone(),
            },
        }
    }

    /// What was read.
    pub fn read(&self) -> Option<&T> {
        match self {
            Self::Read(read) => Some(read),
            Self::Unreadable { .. } => None,
        }
    }
}

/// Everything that is told.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The operator's namespace.
    pub namespace: String,
    /// When it was read.
    pub observed_at: Timestamp,
    /// The config; null when there is none.
    pub config: Part<Option<Config>>,
    /// Who leads; null when there is no Lease.
    pub leader: Part<Option<Leader>>,
    /// The components, the operator itself first.
    pub components: Vec<ComponentStatus>,
    /// The webhook configurations.
    pub webhooks: Vec<Webhook>,
    /// Who writes the serving pairs, as far as it shows.
    pub certificate_mode: &'static str,
    /// The certificates.
    pub certificates: Vec<CertificateStatus>,
    /// The policies in the order in which they apply: of two that match one NIC, the later one counts.
    pub policies: Part<Vec<Policy>>,
    /// The nodes.
    pub nodes: Part<Nodes>,
    /// What is wrong, and what to do about it.
    pub problems: Vec<Problem>,
}

/// `SriovOperatorConfig/default`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Config {
    /// `metadata.generation`.
    pub generation: Option<i64>,
    /// Since when it is being deleted.
    pub deleting_since: Option<Timestamp>,
    /// Its finalizers.
    pub finalizers: Vec<String>,
    /// `spec.logLevel`.
    pub log_level: i64,
    /// The conditions of its status.
    pub conditions: Vec<ConditionStatus>,
    /// The known gates: whether each is in force.
    pub gates: BTreeMap<&'static str, bool>,
}

/// One condition.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConditionStatus {
    /// `Ready`, `Degraded`.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False`, `Unknown`.
    pub status: String,
    /// One word.
    pub reason: String,
    /// For people.
    pub message: String,
    /// Since when.
    pub since: String,
    /// Whether it is about the config as it is now.
    pub current: bool,
}

/// Who holds the Lease.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Leader {
    /// The replica; empty when it was released.
    pub holder: String,
    /// When it was renewed last.
    pub renewed: Option<Timestamp>,
    /// Whether it is in force.
    pub in_force: bool,
}

/// One component.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ComponentStatus {
    /// Its name.
    pub name: &'static str,
    /// Whether the config switches it on; null when that is not known.
    pub enabled: Option<bool>,
    /// Its workload.
    pub workload: Part<Option<Workload>>,
}

/// A workload's counts.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Workload {
    /// Kind and name.
    pub name: String,
    /// Pods that there should be.
    pub desired: i32,
    /// Pods that are ready.
    pub ready: i32,
}

/// A webhook configuration.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Webhook {
    /// Kind and name.
    pub configuration: String,
    /// Whether the config wants it; null when that is not known.
    pub wanted: Option<bool>,
    /// What is registered; null when nothing is.
    pub registered: Part<Option<Registered>>,
    /// Who answers it.
    pub served_by: Part<Backend>,
    /// The Service that is called.
    #[serde(skip)]
    pub service: &'static str,
}

/// What a configuration carries.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Registered {
    /// What happens to requests that are not answered.
    pub failure_policy: String,
    /// How long the API server waits.
    pub timeout_seconds: i64,
    /// The certificates of its `caBundle`.
    pub ca_bundle: Vec<Authority>,
}

/// A certificate of a bundle.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Authority {
    /// The subject's common name.
    pub name: String,
    /// When it expires.
    pub expires: Timestamp,
}

/// The pods behind a Service.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Backend {
    /// `in-process`, `dedicated`, or empty when there is no Service.
    pub serving: &'static str,
    /// The pods that the Service selects.
    pub pods: usize,
    /// Those that are ready.
    pub ready: usize,
}

/// A certificate in a Secret.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CertificateStatus {
    /// The Secret.
    pub secret: String,
    /// What is in it; null when there is no Secret.
    pub certificate: Part<Option<Leaf>>,
    /// Whether a webhook needs it; null when that is not known.
    pub needed: Option<bool>,
}

/// A certificate.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Leaf {
    /// Who issued it.
    pub issuer: String,
    /// When it expires.
    pub expires: Option<Timestamp>,
    /// When it is due to be renewed.
    pub renewal: Option<Timestamp>,
    /// Why the API server would not accept it.
    pub fault: Option<String>,
}

/// A policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// Its priority; lower ones win.
    pub priority: i64,
    /// The resource that it makes.
    pub resource_name: String,
    /// Virtual functions a NIC.
    pub num_vfs: i64,
    /// What it selects NICs by.
    pub nics: String,
    /// What it selects nodes by.
    pub nodes: String,
}

/// The nodes' states in sum.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Nodes {
    /// How many there are.
    pub total: usize,
    /// How many, by `status.syncStatus`.
    pub by_sync_status: BTreeMap<String, usize>,
    /// What failed, by node.
    pub errors: BTreeMap<String, String>,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// What.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

impl Report {
    /// Makes the report.
    #[must_use]
    pub fn new(gathered: &Gathered) -> Self {
        let config = gathered
            .config
            .as_ref()
            .map(|config| config.as_ref().map(|config| self::config(config)));
        let mut report = Self {
            namespace: gathered.namespace.clone(),
            observed_at: gathered.now,
            leader: gathered
                .lease
                .as_ref()
                .map(|lease| lease.as_ref().map(|lease| leader(lease, gathered.now))),
            components: components(gathered),
            webhooks: Configuration::ALL
                .into_iter()
                .map(|configuration| webhook(gathered, configuration))
                .collect(),
            certificate_mode: certificate_mode(gathered),
            certificates: certificates(gathered),
            policies: gathered.policies.as_ref().map(|policies| ordered(policies)),
            nodes: gathered.node_states.as_ref().map(|states| nodes(states)),
            config,
            problems: Vec::new(),
        };
        report.problems = problems::of(&report);
        report
    }

    /// Whether another report tells the same, but for the time and what follows from it alone.
    #[must_use]
    pub fn says_the_same(&self, other: &Self) -> bool {
        let timeless = |report: &Self| {
            let mut report = report.clone();
            report.observed_at = Timestamp::UNIX_EPOCH;
            if let Part::Read(Some(leader)) = &mut report.leader {
                leader.renewed = None;
            }
            report
        };
        timeless(self) == timeless(other)
    }
}

fn config(config: &SriovOperatorConfig) -> Config {
    let features = Features::new(config.spec.feature_gates.iter().flatten());
    let generation = config.metadata.generation;
    let conditions = config.status.iter().flat_map(|status| &status.conditions);
    Config {
        generation,
        deleting_since: config.metadata.deletion_timestamp.as_ref().map(|at| at.0),
        finalizers: config.metadata.finalizers.clone().unwrap_or_default(),
        log_level: config.spec.log_level.unwrap_or_default(),
        conditions: conditions
            .map(|condition| ConditionStatus {
                type_: condition.type_.clone(),
                status: condition.status.clone(),
                reason: condition.reason.clone(),
                message: condition.message.clone(),
                since: condition.last_transition_time.clone(),
                current: condition.observed_generation == generation,
            })
            .collect(),
        gates: Feature::KNOWN
            .iter()
            .map(|feature| (feature.name(), features.is_enabled(*feature)))
            .collect(),
    }
}

fn leader(lease: &k8s_openapi::api::coordination::v1::Lease, now: Timestamp) -> Leader {
    let spec = lease.spec.clone().unwrap_or_default();
    let renewed = spec.renew_time.map(|at| at.0);
    let holder = spec.holder_identity.unwrap_or_default();
    let seconds = i64::from(spec.lease_duration_seconds.unwrap_or_default());
    let expires = renewed.and_then(|at| {
        at.checked_add(jiff::SignedDuration::from_secs(seconds))
            .ok()
    });
    Leader {
        in_force: !holder.is_empty() && expires.is_some_and(|expires| expires > now),
        holder,
        renewed,
    }
}

/// Whether the config switches a component on. The machine configuration is the platform's affair, too, and is not told.
fn is_enabled(config: &SriovOperatorConfig, component: Component) -> bool {
    let spec = &config.spec;
    match component {
        Component::OperatorWebhook => spec.enable_operator_webhook == Some(true),
        Component::Injector => spec.enable_injector == Some(true),
        Component::MetricsExporter => {
            Features::new(spec.feature_gates.iter().flatten()).is_enabled(Feature::MetricsExporter)
        }
        Component::ConfigDaemon | Component::DevicePlugin => true,
        Component::MachineConfig => spec.configuration_mode.as_deref() == Some("systemd"),
    }
}

/// `None` when the config could not be read.
fn enabled(gathered: &Gathered, component: Component) -> Option<bool> {
    let config = gathered.config.read()?;
    Some(
        config
            .as_ref()
            .is_some_and(|config| is_enabled(config, component)),
    )
}

fn components(gathered: &Gathered) -> Vec<ComponentStatus> {
    let operator = ComponentStatus {
        name: "operator",
        enabled: Some(true),
        workload: gathered.deployments.as_ref().map(|deployments| {
            let ours = deployments.iter().find(|deployment| {
                let template = deployment.spec.as_ref().map(|spec| &spec.template);
                let labels =
                    template.and_then(|template| template.metadata.as_ref()?.labels.as_ref());
                labels.is_some_and(|labels| {
                    labels.get("app.kubernetes.io/name").map(String::as_str)
                        == Some("sriov-operator")
                })
            })?;
            let name = ours.metadata.name.clone().unwrap_or_default();
            Some(Workload {
                name: format!("Deployment {name}"),
                desired: ours
                    .spec
                    .as_ref()
                    .and_then(|spec| spec.replicas)
                    .unwrap_or(1),
                ready: ours
                    .status
                    .as_ref()
                    .and_then(|status| status.ready_replicas)
                    .unwrap_or_default(),
            })
        }),
    };
    let others = Component::ALL.into_iter().map(|component| {
        let daemon_set = component
            .objects()
            .iter()
            .find(|object| object.kind == "DaemonSet");
        let workload = gathered.daemon_sets.as_ref().map(|daemon_sets| {
            let name = daemon_set?.name;
            let live = daemon_sets
                .iter()
                .find(|live| live.metadata.name.as_deref() == Some(name))?;
            let status = live.status.clone().unwrap_or_default();
            Some(Workload {
                name: format!("DaemonSet {name}"),
                desired: status.desired_number_scheduled,
                ready: status.number_ready,
            })
        });
        ComponentStatus {
            name: component.name(),
            enabled: enabled(gathered, component),
            workload,
        }
    });
    std::iter::once(operator).chain(others).collect()
}

fn component_of(configuration: Configuration) -> (Component, &'static str) {
    match configuration {
        Configuration::OperatorMutating | Configuration::OperatorValidating => {
            (Component::OperatorWebhook, OPERATOR_SERVICE)
        }
        Configuration::Injector => (Component::Injector, INJECTOR_SERVICE),
    }
}

fn webhook(gathered: &Gathered, configuration: Configuration) -> Webhook {
    let (component, service) = component_of(configuration);
    let registered = live(gathered, configuration);
    Webhook {
        configuration: configuration.to_string(),
        wanted: enabled(gathered, component),
        registered: registered.map(|live| live.as_ref().map(|live| self::registered(live))),
        served_by: backend(gathered, service),
        service,
    }
}

fn live(gathered: &Gathered, configuration: Configuration) -> Part<&Option<Value>> {
    match gathered.configurations.get(&configuration) {
        Some(part) => part.as_ref(),
        None => Part::Unreadable {
            unreadable: "it was not asked for".to_owned(),
        },
    }
}

fn registered(live: &Value) -> Registered {
    let webhook = &live["webhooks"][0];
    Registered {
        failure_policy: webhook["failurePolicy"]
            .as_str()
            .unwrap_or("Fail")
            .to_owned(),
        timeout_seconds: webhook["timeoutSeconds"].as_i64().unwrap_or(10),
        ca_bundle: bundle(live)
            .certificates()
            .iter()
            .map(|certificate| Authority {
                name: certificate.common_name().to_owned(),
                expires: certificate.validity().not_after,
            })
            .collect(),
    }
}

fn bundle(live: &Value) -> Bundle {
    let text = live.pointer("/webhooks/0/clientConfig/caBundle");
    let bytes = text
        .and_then(Value::as_str)
        .and_then(|text| STANDARD.decode(text).ok())
        .unwrap_or_default();
    Bundle::from_live(&bytes)
}

fn backend(gathered: &Gathered, name: &str) -> Part<Backend> {
    let services = match gathered.services.as_ref() {
        Part::Read(services) => services,
        Part::Unreadable { unreadable } => return Part::Unreadable { unreadable },
    };
    let selector = services
        .iter()
        .find(|service| service.metadata.name.as_deref() == Some(name))
        .and_then(selector);
    gathered.pods.as_ref().map(|pods| {
        let selected: Vec<&Pod> = pods
            .iter()
            .filter(|pod| selector.is_some_and(|selector| selects(selector, pod)))
            .collect();
        Backend {
            serving: match selector {
                None => "",
                Some(selector) if selector.contains_key("app.kubernetes.io/name") => "in-process",
                Some(_) => "dedicated",
            },
            pods: selected.len(),
            ready: selected.iter().filter(|pod| is_ready(pod)).count(),
        }
    })
}

fn selector(service: &Service) -> Option<&BTreeMap<String, String>> {
    service.spec.as_ref()?.selector.as_ref()
}

fn selects(selector: &BTreeMap<String, String>, pod: &Pod) -> bool {
    let labels = pod.metadata.labels.as_ref();
    !selector.is_empty()
        && selector
            .iter()
            .all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
}

fn is_ready(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_none()
        && pod
            .status
            .iter()
            .flat_map(|status| status.conditions.iter().flatten())
            .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Who writes the pairs shows in what the configurations ask for, and in whose the CA Secret is.
fn certificate_mode(gathered: &Gathered) -> &'static str {
    let annotated = |key: &str| {
        gathered
            .configurations
            .values()
            .filter_map(|part| part.read()?.as_ref())
            .any(|live| live["metadata"]["annotations"].get(key).is_some())
    };
    let authority = gathered.secrets.get(AUTHORITY_SECRET);
    if annotated("cert-manager.io/inject-ca-from") {
        "cert-manager"
    } else if annotated("service.beta.openshift.io/inject-cabundle") {
        "service-ca"
    } else {
        match authority.and_then(Part::read) {
            Some(Some(_)) => "self-signed",
            Some(None)
                if gathered
                    .secrets
                    .values()
                    .any(|part| part.read().is_some_and(Option::is_some)) =>
            {
                "provided"
            }
            _ => "unknown",
        }
    }
}

fn certificates(gathered: &Gathered) -> Vec<CertificateStatus> {
    let names = &gathered.secret_names;
    let served = endpoints(&gathered.namespace, &names.operator, &names.injector);
    let called = [
        (
            Component::OperatorWebhook,
            Configuration::OperatorValidating,
        ),
        (Component::Injector, Configuration::Injector),
    ];
    let mut certificates = Vec::new();
    for (endpoint, (component, configuration)) in served.iter().zip(called) {
        let bundle = live(gathered, configuration)
            .read()
            .and_then(|live| live.as_ref().map(bundle));
        certificates.push(CertificateStatus {
            secret: endpoint.secret.clone(),
            certificate: secret(gathered, &endpoint.secret).map(|secret| {
                secret
                    .as_ref()
                    .map(|secret| leaf(secret, endpoint, bundle.as_ref(), gathered.now))
            }),
            needed: enabled(gathered, component),
        });
    }
    if let Part::Read(Some(authority)) = secret(gathered, AUTHORITY_SECRET) {
        let data = PairContents::from_data(authority.data.as_ref());
        let validity = Bundle::from_live(&data.ca_crt)
            .certificates()
            .first()
            .map(|certificate| (certificate.common_name().to_owned(), certificate.validity()));
        certificates.push(CertificateStatus {
            secret: AUTHORITY_SECRET.to_owned(),
            certificate: Part::Read(validity.map(|(name, validity)| {
                Leaf {
                    issuer: name,
                    expires: Some(validity.not_after),
                    renewal: Some(validity.renew_at()),
                    fault: (!validity.contains(gathered.now))
                        .then(|| "the CA certificate is out of date".to_owned()),
                }
            })),
            needed: None,
        });
    }
    certificates
}

fn secret<'a>(gathered: &'a Gathered, name: &str) -> Part<&'a Option<Secret>> {
    match gathered.secrets.get(name) {
        Some(part) => part.as_ref(),
        None => Part::Unreadable {
            unreadable: "it was not asked for".to_owned(),
        },
    }
}

/// The pair of a Secret, judged as the API server would.
fn leaf(secret: &Secret, endpoint: &Endpoint, bundle: Option<&Bundle>, now: Timestamp) -> Leaf {
    let contents = PairContents::from_data(secret.data.as_ref());
    let pair = match ServingPair::load(&contents.tls_crt, &contents.tls_key) {
        Ok(pair) => pair,
        Err(error) => {
            return Leaf {
                issuer: String::new(),
                expires: None,
                renewal: None,
                fault: Some(error.to_string()),
            };
        }
    };
    let judged = pair
        .covers(&endpoint.service.called_as())
        .and_then(|()| pair.in_date(now))
        .and_then(|()| bundle.map_or(Ok(()), |bundle| pair.trusted_by(bundle, now)));
    let certificate = pair.leaf();
    Leaf {
        issuer: certificate.issuer_common_name().to_owned(),
        expires: Some(certificate.validity().not_after),
        renewal: Some(certificate.validity().renew_at()),
        fault: judged.err().map(|error| error.to_string()),
    }
}

/// Policies apply from the highest number to the lowest, by name among equals.
fn ordered(policies: &[SriovNetworkNodePolicy]) -> Vec<Policy> {
    let mut ordered: Vec<Policy> = policies.iter().map(policy).collect();
    ordered.sort_by(|a, b| {
        b.priority
            .cmp(&a.priority)
            .then_with(|| a.name.cmp(&b.name))
    });
    ordered
}

fn policy(policy: &SriovNetworkNodePolicy) -> Policy {
    let spec = policy.spec.clone().unwrap_or_default();
    let selector = &spec.nic_selector;
    let list = |list: &Option<Vec<String>>| list.clone().unwrap_or_default().join(",");
    let nics: Vec<String> = [
        ("", list(&selector.pf_names)),
        ("", list(&selector.root_devices)),
        ("vendor=", selector.vendor.clone().unwrap_or_default()),
        ("device=", selector.device_id.clone().unwrap_or_default()),
        ("filter=", selector.net_filter.clone().unwrap_or_default()),
    ]
    .into_iter()
    .filter(|(_, text)| !text.is_empty())
    .map(|(key, text)| format!("{key}{text}"))
    .collect();
    let nodes: Vec<String> = spec
        .node_selector
        .iter()
        .map(|(key, value)| {
            if value.is_empty() {
                key.clone()
            } else {
                format!("{key}={value}")
            }
        })
        .collect();
    Policy {
        name: policy.metadata.name.clone().unwrap_or_default(),
        priority: spec.priority.unwrap_or_default(),
        resource_name: spec.resource_name,
        num_vfs: spec.num_vfs,
        nics: nics.join(" "),
        nodes: nodes.join(","),
    }
}

fn nodes(states: &[SriovNetworkNodeState]) -> Nodes {
    let mut nodes = Nodes {
        total: states.len(),
        ..Nodes::default()
    };
    for state in states {
        let status = state.status.clone().unwrap_or_default();
        let synced = status.sync_status.filter(|text| !text.is_empty());
        let synced = synced.unwrap_or_else(|| "Unknown".to_owned());
        *nodes.by_sync_status.entry(synced).or_default() += 1;
        if let Some(error) = status.last_sync_error.filter(|error| !error.is_empty()) {
            let name = state.metadata.name.clone().unwrap_or_default();
            nodes.errors.insert(name, error);
        }
    }
    nodes
}
