//! What is told of an installation: the shape of `--output json`. Public fields, no logic but comparing two looks.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use super::{machine_pools::MachinePoolStatus, networks::NetworkStatus, nodes::Nodes};

/// Why a kind cannot be read that is not installed.
pub(super) const UNKNOWN_KIND: &str = "the API server does not know the kind";

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
    /// The networks of all namespaces.
    pub networks: Part<Vec<NetworkStatus>>,
    /// On OpenShift, the MachineConfigPools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_config_pools: Option<Part<Vec<MachinePoolStatus>>>,
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
