//! From what was read to what is told. Pure: the clock comes with what was read.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::DynamicObject;
use serde_json::Value;

use super::{
    Gathered, certificates,
    machine_pools::MachinePoolStatus,
    networks,
    nodes::Nodes,
    problems,
    report::{
        Authority, Backend, ComponentStatus, ConditionStatus, Config, Leader, Part, Policy,
        Registered, Report, UNKNOWN_KIND, Webhook, Workload,
    },
};
use crate::{
    api::{SriovNetworkNodePolicy, SriovOperatorConfig},
    certs::{
        bundle::Bundle,
        names::{INJECTOR_SERVICE, OPERATOR_SERVICE},
        published::Configuration,
    },
    features::{Feature, Features},
    render::Component,
};

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
            certificate_mode: certificates::mode(gathered),
            certificates: certificates::all(gathered),
            policies: gathered.policies.as_ref().map(|policies| ordered(policies)),
            nodes: gathered
                .node_states
                .as_ref()
                .map(|states| Nodes::new(states)),
            networks: networks::all(&gathered.networks, &gathered.definitions),
            machine_config_pools: machine_pools(gathered),
            config,
            problems: Vec::new(),
        };
        report.problems = problems::of(&report);
        report
    }
}

/// Nothing where there is no such kind.
fn machine_pools(gathered: &Gathered) -> Option<Part<Vec<MachinePoolStatus>>> {
    let read = |pools: &Vec<DynamicObject>| {
        let pools = pools.iter();
        pools
            .map(|pool| MachinePoolStatus::new(pool, &gathered.machine_configs))
            .collect()
    };
    match &gathered.machine_pools {
        Part::Unreadable { unreadable } if unreadable == UNKNOWN_KIND => None,
        pools => Some(pools.as_ref().map(read)),
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
pub(super) fn enabled(gathered: &Gathered, component: Component) -> Option<bool> {
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
        registered: registered.map(|live| live.as_ref().map(self::registered)),
        served_by: backend(gathered, service),
        service,
    }
}

pub(super) fn live(gathered: &Gathered, configuration: Configuration) -> Part<&Option<Value>> {
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

pub(super) fn bundle(live: &Value) -> Bundle {
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
