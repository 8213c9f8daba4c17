//! From what a watch says to the pure structures that answer: one sink a kind, and what is decoded of that kind.
//!
//! Everything else of an object is dropped while it is decoded, so memory grows with what is used.

mod settings;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use jiff::SignedDuration;
use parking_lot::{Mutex, RwLock};
use serde::Deserialize;
use tokio::sync::watch;

use super::heads::{HeadBody, Heads};
use super::listener::{Listener, Touched};
use super::object::{Key, at_least};
use super::recent::Recent;
use super::reflect::Sink;
use crate::api::{SriovNetworkNodePolicy, SriovNetworkNodeStateSpec};
use crate::policy::{Cluster, NicIds, ParsedPolicy, ReportedState};

pub(super) use settings::{ConfigSink, SwitchSink};

/// Each node state begins without a status, and its daemon may take that long. One that is seen without a status when it is
/// older is set aside: its node counts as one that has reported nothing.
const FIRST_REPORT_WITHIN: SignedDuration = SignedDuration::from_mins(5);

/// The cluster as the policy rules see it, behind the one lock that its sinks and reviews share.
pub(super) type SharedCluster = Arc<RwLock<Cluster>>;

/// A key of the seen ones, by name.
fn is_seen(seen: &HashSet<Key>) -> impl Fn(&str) -> bool {
    let names: HashSet<&str> = seen.iter().map(|key| &*key.name).collect();
    move |name| names.contains(name)
}

/// What `keep` does not want, noted while something is retained.
fn noting<'a>(
    gone: &'a RefCell<Vec<String>>,
    keep: impl Fn(&str) -> bool + 'a,
) -> impl Fn(&str) -> bool + 'a {
    move |name| {
        let kept = keep(name);
        if !kept {
            gone.borrow_mut().push(name.to_owned());
        }
        kept
    }
}

/// Nodes: labels and provider id.
pub(super) struct NodeSink {
    pub(super) cluster: SharedCluster,
    pub(super) listener: Listener,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct NodeBody {
    metadata: NodeMeta,
    #[serde(default)]
    spec: NodeSpec,
}

#[derive(Debug, Clone, Deserialize)]
struct NodeMeta {
    labels: Option<HashMap<Box<str>, Box<str>>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct NodeSpec {
    #[serde(rename = "providerID")]
    provider_id: Option<Box<str>>,
}

impl Sink for NodeSink {
    type Body = NodeBody;

    fn put(&self, key: &Key, _: &str, body: NodeBody) -> Vec<String> {
        let labels = body.metadata.labels.unwrap_or_default();
        let labels = labels.iter().map(|(key, value)| (&**key, &**value));
        let provider_id = body.spec.provider_id.unwrap_or_default();
        let differs = self
            .cluster
            .write()
            .insert_node(&key.name, labels, &provider_id);
        if differs {
            self.listener.tell_nodes([&*key.name]);
        }
        Vec::new()
    }

    fn remove(&self, key: &Key) {
        self.cluster.write().remove_node(&key.name);
        self.listener.tell_nodes([&*key.name]);
    }

    fn retain(&self, seen: &HashSet<Key>, _: &str) {
        let gone = RefCell::default();
        self.cluster
            .write()
            .retain_nodes(noting(&gone, is_seen(seen)));
        self.listener
            .tell_nodes(gone.take().iter().map(String::as_str));
    }

    fn len(&self) -> usize {
        self.cluster.read().nodes().len()
    }
}

/// Node states: interfaces without VFs, whether the node is being configured, and what we wrote.
pub(super) struct StateSink {
    pub(super) cluster: SharedCluster,
    pub(super) heads: Heads,
    pub(super) listener: Listener,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct StateBody {
    #[serde(default)]
    metadata: HeadBody,
    spec: Option<SriovNetworkNodeStateSpec>,
    status: Option<ReportedState>,
}

impl Sink for StateSink {
    type Body = StateBody;

    fn put(&self, key: &Key, version: &str, body: StateBody) -> Vec<String> {
        let complaints = match body.status {
            None if body.metadata.is_older_than(FIRST_REPORT_WITHIN) => {
                vec!["it has no status".to_owned()]
            }
            _ => Vec::new(),
        };
        let state = body.status.unwrap_or_default();
        let reported = self.cluster.write().insert_state(&key.name, state);
        let spec = body.spec.unwrap_or_default();
        let written = self
            .heads
            .put(&key.name, body.metadata.head(version, &spec));
        if reported || written {
            self.listener.tell_nodes([&*key.name]);
        }
        complaints
    }

    fn remove(&self, key: &Key) {
        self.cluster.write().remove_state(&key.name);
        self.heads.remove(&key.name);
        self.listener.tell_nodes([&*key.name]);
    }

    fn retain(&self, seen: &HashSet<Key>, _: &str) {
        let gone = RefCell::default();
        self.cluster
            .write()
            .retain_states(noting(&gone, is_seen(seen)));
        self.heads.retain(is_seen(seen));
        self.listener
            .tell_nodes(gone.take().iter().map(String::as_str));
    }

    fn len(&self) -> usize {
        self.cluster.read().state_count()
    }
}

/// Policies of our namespace.
pub(super) struct PolicySink {
    cluster: SharedCluster,
    recent: Arc<Recent>,
    listener: Listener,
    /// A list that was read live may be ahead of the watch: what the watch then repeats is skipped.
    versions: Mutex<HashMap<Box<str>, String>>,
}

impl PolicySink {
    pub(super) fn new(cluster: SharedCluster, recent: Arc<Recent>, listener: Listener) -> Self {
        Self {
            cluster,
            recent,
            listener,
            versions: Mutex::default(),
        }
    }

    /// Tells of a policy that was `before`, if it is different now.
    fn tell(&self, name: &str, before: Option<&Arc<ParsedPolicy>>, always: bool) {
        if !self.listener.is_heard() {
            return;
        }
        let cluster = self.cluster.read();
        let after = cluster.policy(name);
        if before == after && !always {
            return;
        }
        let mut nodes: Vec<Box<str>> = before
            .into_iter()
            .chain(after)
            .filter_map(|policy| cluster.nodes().selection(policy.node_selector()))
            .flat_map(|selection| cluster.nodes().selected(&selection))
            .map(|node| node.name().into())
            .collect();
        drop(cluster);
        nodes.sort_unstable();
        nodes.dedup();
        self.listener.tell(|| Touched::Policy(name.into(), nodes));
    }

    fn stored(&self, name: &str) -> Option<Arc<ParsedPolicy>> {
        self.cluster.read().policy(name).cloned()
    }
}

impl Sink for PolicySink {
    type Body = SriovNetworkNodePolicy;

    fn put(&self, key: &Key, version: &str, body: SriovNetworkNodePolicy) -> Vec<String> {
        let mut versions = self.versions.lock();
        if versions
            .get(&key.name)
            .is_some_and(|held| held != version && at_least(held, version))
        {
            return Vec::new();
        }
        versions.insert(key.name.clone(), version.to_owned());
        let before = self.stored(&key.name);
        let inserted = self.cluster.write().insert_policy(&body);
        self.tell(&key.name, before.as_ref(), inserted.is_err());
        if let Err(aside) = inserted {
            return vec![aside.reason];
        }
        if let Some(stored) = self.stored(&key.name) {
            self.recent.shown(&stored);
        }
        Vec::new()
    }

    fn remove(&self, key: &Key) {
        let mut versions = self.versions.lock();
        versions.remove(&key.name);
        let before = self.stored(&key.name);
        self.cluster.write().remove_policy(&key.name);
        self.tell(&key.name, before.as_ref(), false);
    }

    fn retain(&self, seen: &HashSet<Key>, version: &str) {
        let seen = is_seen(seen);
        let mut versions = self.versions.lock();
        // What is newer than the list came in beside it.
        versions.retain(|name, held| seen(name) || !at_least(version, held));
        let before: Vec<Arc<ParsedPolicy>> = self.cluster.read().policies().cloned().collect();
        self.cluster
            .write()
            .retain_policies(|name| versions.contains_key(name));
        for policy in before {
            if !versions.contains_key(policy.name()) {
                self.tell(policy.name(), Some(&policy), false);
            }
        }
    }

    fn len(&self) -> usize {
        self.versions.lock().len()
    }
}

/// What is decoded of a `ConfigMap`.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct ConfigMapBody {
    data: Option<BTreeMap<String, String>>,
}

/// The list of supported NICs.
pub(super) struct NicIdSink {
    cluster: SharedCluster,
    listener: Listener,
    present: watch::Sender<bool>,
}

impl NicIdSink {
    pub(super) fn new(cluster: SharedCluster, listener: Listener) -> Self {
        Self {
            cluster,
            listener,
            present: watch::Sender::new(false),
        }
    }

    /// Whether the `ConfigMap` is there.
    pub(super) fn present(&self) -> watch::Receiver<bool> {
        self.present.subscribe()
    }

    fn set(&self, ids: NicIds, present: bool) {
        let differs = {
            let mut cluster = self.cluster.write();
            let differs = *cluster.nic_ids() != ids;
            cluster.set_nic_ids(ids);
            differs
        };
        if differs {
            self.listener.tell(|| Touched::Everything);
        }
        self.present
            .send_if_modified(|was| std::mem::replace(was, present) != present);
    }
}

impl Sink for NicIdSink {
    type Body = ConfigMapBody;

    fn put(&self, _: &Key, _: &str, body: ConfigMapBody) -> Vec<String> {
        let (ids, aside) = NicIds::parse(&body.data.unwrap_or_default());
        self.set(ids, true);
        aside.into_iter().map(|aside| aside.reason).collect()
    }

    fn remove(&self, _: &Key) {
        self.set(NicIds::default(), false);
    }

    fn retain(&self, seen: &HashSet<Key>, _: &str) {
        if seen.is_empty() {
            self.set(NicIds::default(), false);
        }
    }

    fn len(&self) -> usize {
        usize::from(*self.present.borrow())
    }
}
