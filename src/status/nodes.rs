//! The nodes: what is wanted of each, what its config daemon reports, and how far its drain is. Pure.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
};

use serde::Serialize;

use super::screen::{line, table};
use crate::{
    api::{
        SriovNetworkNodeState,
        node_state::{Interface, InterfaceStatus},
    },
    drain::{CURRENT_STATE, DESIRED_STATE, DRAIN_STARTED, EXTERNAL_DRAINER, IDLE},
};

/// How many nodes the screen shows.
const SHOWN: usize = 30;
/// What the daemon reports when it is done.
const SUCCEEDED: &str = "Succeeded";

/// The nodes with a state.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Nodes {
    /// How many there are.
    pub total: usize,
    /// How many, by `status.syncStatus`.
    pub by_sync_status: BTreeMap<String, usize>,
    /// What failed, by node.
    pub errors: BTreeMap<String, String>,
    /// Each of them, by name.
    pub states: Vec<NodeStatus>,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus {
    /// Its name.
    pub name: String,
    /// `status.syncStatus`.
    pub sync_status: String,
    /// The NICs that its state configures.
    pub interfaces: Vec<NicStatus>,
    /// The drain that is asked for or goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain: Option<DrainStatus>,
}

/// A NIC of a node: wanted beside reported.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NicStatus {
    /// Its name.
    pub name: String,
    /// Its PCI address.
    pub pci_address: String,
    /// How many virtual functions it is to have.
    pub num_vfs: i64,
    /// How many the daemon reports; null when it does not list the NIC.
    pub reported_vfs: Option<i64>,
    /// What they are for.
    pub vf_groups: Vec<GroupStatus>,
}

/// Some virtual functions of a NIC.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupStatus {
    /// The resource that they make.
    pub resource_name: String,
    /// Which they are.
    pub vf_range: String,
    /// The policy that says so.
    pub policy_name: String,
}

/// A drain.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DrainStatus {
    /// What the daemon asks for.
    pub asked: String,
    /// How far the operator is.
    pub current: String,
    /// When the operator began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Whether somebody else drains the node.
    pub external: bool,
}

impl Nodes {
    pub(super) fn new(reported: &[SriovNetworkNodeState]) -> Self {
        let mut nodes = Self {
            total: reported.len(),
            states: reported.iter().map(node).collect(),
            ..Self::default()
        };
        nodes.states.sort_by(|a, b| a.name.cmp(&b.name));
        for (state, node) in reported.iter().zip(reported.iter().map(node)) {
            *nodes.by_sync_status.entry(node.sync_status).or_default() += 1;
            let error = state
                .status
                .as_ref()
                .and_then(|status| status.last_sync_error.clone());
            if let Some(error) = error.filter(|error| !error.is_empty()) {
                nodes.errors.insert(node.name, error);
            }
        }
        nodes
    }

    pub(super) fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.by_sync_status.iter();
        let counts: Vec<String> = counts
            .map(|(status, count)| format!("{count} {status}"))
            .collect();
        let counts = if counts.is_empty() {
            String::new()
        } else {
            format!(": {}", counts.join(", "))
        };
        line(
            f,
            format_args!("Nodes      {} with a node state{counts}", self.total),
        )?;
        if self.states.is_empty() {
            return Ok(());
        }
        // What wants attention comes first.
        let mut states: Vec<&NodeStatus> = self.states.iter().collect();
        states.sort_by_key(|node| node.is_settled());
        let rows = states.iter().take(SHOWN).map(|node| node.row());
        table(
            f,
            &["NODE", "WANTED", "VFS REPORTED", "SYNC", "DRAIN"],
            rows,
        )?;
        let more = states.len().saturating_sub(SHOWN);
        if more > 0 {
            line(
                f,
                format_args!("and {more} more, which --output json shows"),
            )?;
        }
        Ok(())
    }
}

impl NodeStatus {
    /// Whether nothing is to be waited for.
    fn is_settled(&self) -> bool {
        self.sync_status == SUCCEEDED && self.drain.is_none()
    }

    fn row(&self) -> Vec<String> {
        let each = |nic: fn(&NicStatus) -> String| {
            let nics: Vec<String> = self.interfaces.iter().map(nic).collect();
            if nics.is_empty() {
                "-".to_owned()
            } else {
                nics.join("; ")
            }
        };
        let reported = each(|nic| {
            let count = nic
                .reported_vfs
                .map_or_else(|| "not listed".to_owned(), |n| n.to_string());
            format!("{} {count}", nic.name)
        });
        let drain = self
            .drain
            .as_ref()
            .map_or_else(|| "-".to_owned(), DrainStatus::told);
        vec![
            self.name.clone(),
            each(NicStatus::wanted),
            reported,
            self.sync_status.clone(),
            drain,
        ]
    }
}

impl NicStatus {
    fn wanted(&self) -> String {
        let groups: Vec<String> = self
            .vf_groups
            .iter()
            .map(|group| format!("{} {}", group.resource_name, group.vf_range))
            .collect();
        format!("{} {}: {}", self.name, self.num_vfs, groups.join(", "))
    }
}

impl DrainStatus {
    fn told(&self) -> String {
        let mut text = format!("{}, asked for {}", self.current, self.asked);
        if let Some(since) = &self.since {
            // Writing to a text does not fail.
            let _ = write!(text, ", since {since}");
        }
        if self.external {
            text.push_str(", by another drainer");
        }
        text
    }
}

fn node(state: &SriovNetworkNodeState) -> NodeStatus {
    let status = state.status.as_ref();
    let found = status
        .and_then(|status| status.interfaces.as_deref())
        .unwrap_or_default();
    let synced = status.and_then(|status| status.sync_status.clone());
    NodeStatus {
        name: state.metadata.name.clone().unwrap_or_default(),
        sync_status: synced
            .filter(|text| !text.is_empty())
            .unwrap_or_else(|| "Unknown".to_owned()),
        interfaces: state
            .spec
            .interfaces
            .iter()
            .flatten()
            .map(|wanted| nic(wanted, found))
            .collect(),
        drain: drain(state),
    }
}

fn nic(wanted: &Interface, found: &[InterfaceStatus]) -> NicStatus {
    let reported = found
        .iter()
        .find(|nic| nic.pci_address == wanted.pci_address);
    let group = |group: &crate::api::node_state::VfGroup| GroupStatus {
        resource_name: group.resource_name.clone().unwrap_or_default(),
        vf_range: group.vf_range.clone().unwrap_or_default(),
        policy_name: group.policy_name.clone().unwrap_or_default(),
    };
    NicStatus {
        name: wanted.name.clone().unwrap_or_default(),
        pci_address: wanted.pci_address.clone(),
        num_vfs: wanted.num_vfs.unwrap_or_default(),
        reported_vfs: reported.map(|nic| nic.num_vfs.unwrap_or_default()),
        vf_groups: wanted.vf_groups.iter().flatten().map(group).collect(),
    }
}

fn drain(state: &SriovNetworkNodeState) -> Option<DrainStatus> {
    let annotation = |key: &str| state.metadata.annotations.as_ref()?.get(key).cloned();
    let or_idle = |key| annotation(key).unwrap_or_else(|| IDLE.to_owned());
    let (asked, current) = (or_idle(DESIRED_STATE), or_idle(CURRENT_STATE));
    (asked != IDLE || current != IDLE).then(|| DrainStatus {
        asked,
        current,
        since: annotation(DRAIN_STARTED),
        external: annotation(EXTERNAL_DRAINER).as_deref() == Some("true"),
    })
}
