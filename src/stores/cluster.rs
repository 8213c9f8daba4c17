//! What the custom resources are judged by: nodes, node states, policies and supported NICs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kube::Resource;
use parking_lot::RwLock;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tracing::{Instrument as _, debug_span};

use super::heads::{Heads, StateHead};
use super::listener::{Listener, Touched};
use super::mirror::{Mirror, NotReady, Status, Watched, mirror};
use super::recent::Recent;
use super::reflect::refresh;
use super::sinks::{NicIdSink, NodeSink, PolicySink, SharedCluster, StateSink};
use super::source::Source;
use crate::api::{SriovNetworkNodePolicy, SriovNetworkNodeState};
use crate::lines::causes;
use crate::policy::{self, Cluster, Kind, Operation, Rules, Subject, Verdict, View, nic_ids};

/// What a list of the policies may take while a review waits for it.
const LIST_WITHIN: Duration = Duration::from_secs(2);

/// No verdict is possible at this moment: to be asked again.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Unavailable {
    /// A store is not filled yet.
    #[error(transparent)]
    NotReady(#[from] NotReady),
    /// The watch of the policies is interrupted, and they could not be listed instead.
    #[error("policies cannot be read: {0}")]
    Policies(String),
}

/// The stores behind the custom resources.
pub struct ClusterStores {
    cluster: SharedCluster,
    states: Arc<StateSink>,
    listener: Listener,
    recent: Arc<Recent>,
    nic_ids: Arc<NicIdSink>,
    policies: LivePolicies,
    policy_watch: Watched,
    others: Vec<Watched>,
}

impl ClusterStores {
    /// The stores of the operator's `namespace`, and the tasks that fill them.
    #[must_use]
    pub fn start(client: &kube::Client, namespace: &str) -> (Arc<Self>, Vec<Mirror>) {
        let cluster: SharedCluster = Arc::new(RwLock::new(Cluster::default()));
        let listener = Listener::default();
        let recent = Arc::new(Recent::default());
        let nic_ids = Arc::new(NicIdSink::new(Arc::clone(&cluster), listener.clone()));
        let policies = LivePolicies {
            client: client.clone(),
            source: collection::<SriovNetworkNodePolicy>("sriovnetworknodepolicies", namespace),
            sink: Arc::new(PolicySink::new(
                Arc::clone(&cluster),
                Arc::clone(&recent),
                listener.clone(),
            )),
            turns: AtomicU64::new(0),
            last: tokio::sync::Mutex::default(),
        };
        let node_sink = Arc::new(NodeSink {
            cluster: Arc::clone(&cluster),
            listener: listener.clone(),
        });
        let state_sink = Arc::new(StateSink {
            cluster: Arc::clone(&cluster),
            heads: Heads::default(),
            listener: listener.clone(),
        });
        let nodes = Source::all("nodes", "/api/v1/nodes".to_owned());
        let states = collection::<SriovNetworkNodeState>("sriovnetworknodestates", namespace);
        let (policy_watch, policy_mirror) = mirror(client, policies.source.clone(), &policies.sink);
        let (others, mut mirrors): (Vec<_>, Vec<_>) = [
            mirror(client, nodes, &node_sink),
            mirror(client, states, &state_sink),
            mirror(client, config_map(nic_ids::CONFIG_MAP, namespace), &nic_ids),
        ]
        .into_iter()
        .unzip();
        mirrors.push(policy_mirror);
        let stores = Self {
            cluster,
            states: state_sink,
            listener,
            recent,
            nic_ids,
            policies,
            policy_watch,
            others,
        };
        (Arc::new(stores), mirrors)
    }

    /// Judges an object.
    ///
    /// A policy is judged against the stored ones and those that this replica admitted a moment ago. One that is
    /// admitted counts from then on, unless it is a dry run; so of two in flight the later sees the earlier.
    ///
    /// Makes no call unless the watch of the policies is interrupted: then they are listed, and the review waits.
    pub async fn validate(
        &self,
        subject: &Subject<'_>,
        rules: &Rules,
        dry_run: bool,
    ) -> Result<Verdict, Unavailable> {
        let asks_cluster = matches!(subject.kind, Kind::NodePolicy | Kind::OperatorConfig)
            && subject.operation != Operation::Delete;
        if asks_cluster {
            self.filled()?;
        }
        if !asks_cluster || subject.kind != Kind::NodePolicy {
            let cluster = self.cluster.read();
            return Ok(policy::validate(subject, View::from(&*cluster), rules));
        }
        if !self.policy_watch.health().live(Instant::now()) {
            let span = debug_span!("list policies");
            self.policies.refresh().instrument(span).await?;
        }
        let now = Instant::now();
        let mut recent = self.recent.lock();
        let view = View {
            cluster: &self.cluster.read(),
            admitted: recent.at(now),
        };
        let verdict = policy::validate(subject, view, rules);
        if !dry_run && let Some(policy) = verdict.admitted() {
            recent.record(Arc::clone(policy), now);
        }
        Ok(verdict)
    }

    /// From now on `hear` is told what each change touches, after the change can be seen here. One listens at a time.
    pub fn listen(&self, hear: impl Fn(Touched) + Send + Sync + 'static) {
        self.listener.listen(hear);
    }

    /// Looks at the cluster, which does not change meanwhile.
    pub fn look<R>(&self, look: impl FnOnce(&Cluster) -> R) -> R {
        look(&self.cluster.read())
    }

    /// What is ours in the state of a node.
    pub fn state(&self, node: &str) -> Option<Arc<StateHead>> {
        self.states.heads.get(node)
    }

    /// Names of all node states.
    pub fn state_names(&self) -> Vec<Box<str>> {
        self.states.heads.names()
    }

    /// Takes in what a write of ours made of a node state, before the watch shows it.
    pub fn wrote_state(&self, node: &str, head: StateHead) {
        self.states.heads.put(node, head);
    }

    /// Whether the list of supported NICs exists. Without it, it counts as empty.
    #[must_use]
    pub fn nic_ids_present(&self) -> watch::Receiver<bool> {
        self.nic_ids.present()
    }

    /// Whether every store has ended its first list.
    pub fn filled(&self) -> Result<(), NotReady> {
        self.watched().try_for_each(Watched::filled)
    }

    /// Returns once every store has ended its first list.
    pub async fn wait_filled(&self) {
        for watched in self.watched() {
            watched.health().wait_filled().await;
        }
    }

    /// Whether every store is filled and fresh.
    pub fn ready(&self) -> Result<(), NotReady> {
        let now = Instant::now();
        self.watched().try_for_each(|watched| watched.ready(now))
    }

    /// How each store fares.
    #[must_use]
    pub fn status(&self) -> Vec<Status> {
        let now = Instant::now();
        self.watched().map(|watched| watched.status(now)).collect()
    }

    fn watched(&self) -> impl Iterator<Item = &Watched> {
        self.others.iter().chain([&self.policy_watch])
    }
}

/// Lists the policies when their watch is interrupted. Reviews that wait at the same time share a list, if it began
/// after they asked.
struct LivePolicies {
    client: kube::Client,
    source: Source,
    sink: Arc<PolicySink>,
    /// Numbers questions and lists in the order in which they come.
    turns: AtomicU64,
    /// When the last list began, and what came of it.
    last: tokio::sync::Mutex<Option<(u64, Result<(), Unavailable>)>>,
}

impl LivePolicies {
    async fn refresh(&self) -> Result<(), Unavailable> {
        let asked = self.turns.fetch_add(1, Ordering::Relaxed);
        let mut last = self.last.lock().await;
        if let Some((began, outcome)) = &*last
            && *began > asked
        {
            return outcome.clone();
        }
        let began = self.turns.fetch_add(1, Ordering::Relaxed);
        let listed = timeout(
            LIST_WITHIN,
            refresh(&self.client, &self.source, &*self.sink),
        )
        .await;
        let outcome = match listed {
            Ok(Ok(())) => Ok(()),
            // An unknown kind is an empty list here as well.
            Ok(Err(interruption)) if interruption.is_unknown_kind() => Ok(()),
            Ok(Err(interruption)) => Err(Unavailable::Policies(causes(&interruption))),
            Err(_) => Err(Unavailable::Policies(format!(
                "no answer within {LIST_WITHIN:?}"
            ))),
        };
        *last = Some((began, outcome.clone()));
        outcome
    }
}

fn collection<K: Resource<DynamicType = ()>>(what: &'static str, namespace: &str) -> Source {
    Source::all(what, K::url_path(&(), Some(namespace)))
}

pub(super) fn config_map(name: &'static str, namespace: &str) -> Source {
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    Source::all(name, path).named(name)
}

#[cfg(test)]
mod tests;
