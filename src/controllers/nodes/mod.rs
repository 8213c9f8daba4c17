//! Node policies: the `SriovNetworkNodeState` of each node, its part of the `ConfigMap` `device-plugin-config`, and its
//! label `sriovnetwork.openshift.io/device-plugin`.
//!
//! ```text
//! nodes, states, policies (stores of admission) --+                     +-> situation -> nodes::plan
//! config, pools, ConfigMap (stores of its own) ---+-> keys: one a node -+       |
//!                                                                       +-> state, label, plugin config, plugin pod
//! ```
//!
//! What a node is to be is decided by [`crate::nodes`]. Here is decided whether that differs from what the stores show,
//! and in which order it is written: for a node that runs a device plugin, configuration, label and then the state, whose
//! change makes the config daemon restart the plugin; for one that does not, the reverse. Of a change one node is worked
//! on for each node that it touches, and only what differs is written.

mod plugin_config;
mod plugin_map;
mod stale;
mod told;
mod writer;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Client, Resource};
use parking_lot::RwLock;
use tracing::warn;

use self::{
    plugin_config::{PluginConfig, Written},
    plugin_map::{Edit, PluginMap},
    told::Told,
    writer::{Failure, Writer},
};
use super::{
    Controller, Error, Outcome, Queue,
    calls::bounded,
    drift::{Cause, Drift},
};
use crate::{
    api::{DEFAULT_CONFIG_NAME, SriovNetworkPoolConfig, SriovOperatorConfig},
    apply::Contested,
    nodes::{
        self, Plan, meaning,
        plugin::{Spelling, text},
        rdma::Pool,
        situation::{self, Situation, Wanted, manages_bridges},
    },
    operator::Events,
    server::metrics::Metrics,
    stores::{ClusterStores, Mirror, Objects, Touched},
};

const ENABLED: &str = "Enabled";
const DISABLED: &str = "Disabled";
/// How soon it is tried again while the stores are not filled.
const SOON: Duration = Duration::from_millis(200);

/// What a pass is made about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// What touches all nodes: each becomes a key of its own.
    Everything,
    /// A policy, to tell its author what of it is not done.
    Policy(Box<str>),
    /// A node, or the state of one that is gone.
    Node(Box<str>),
}

/// The pools that choose nodes, by name.
type Pools = Arc<RwLock<BTreeMap<Box<str>, Pool>>>;

/// What the controller is made of.
#[derive(Clone)]
pub struct Parts {
    /// The client.
    pub client: Client,
    /// The operator's namespace.
    pub namespace: String,
    /// Nodes, node states, policies and supported NICs.
    pub stores: Arc<ClusterStores>,
    /// Where Events are handed in.
    pub events: Events,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// How long the state of a node is kept on which the config daemon does not run any more.
    pub stale_after: Duration,
}

/// The controller of node policies, for one leadership.
pub struct NodePolicies {
    stores: Arc<ClusterStores>,
    config: Arc<Objects<SriovOperatorConfig>>,
    pools: Pools,
    plugin: PluginConfig,
    writer: Writer,
    told: Told,
    /// The meaning of the states' specs, by node.
    drift: Drift<Box<str>, u64>,
    queue: Queue<Key>,
    namespace: String,
    stale_after: Duration,
}

impl NodePolicies {
    /// The controller, and the tasks that keep what it alone watches. Changes of its stores become keys of the queue.
    pub fn start(parts: &Parts, queue: &Queue<Key>) -> (Self, Vec<Mirror>) {
        let Parts {
            client, namespace, ..
        } = parts;
        let everything = || {
            let queue = queue.clone();
            move || queue.add(Key::Everything)
        };
        let (config, config_mirror) = Objects::<SriovOperatorConfig>::mirror_one(
            client,
            DEFAULT_CONFIG_NAME,
            SriovOperatorConfig::url_path(&(), Some(namespace)),
            {
                let add = everything();
                move |change| {
                    if change.before.map(|c| matters(c)) != change.after.map(|c| matters(c)) {
                        add();
                    }
                }
            },
        );
        let pools = Pools::default();
        let (_, pool_mirror) = Objects::<SriovNetworkPoolConfig>::mirror(
            client,
            "sriovnetworkpoolconfigs",
            SriovNetworkPoolConfig::url_path(&(), Some(namespace)),
            {
                let (add, pools) = (everything(), Arc::clone(&pools));
                move |change| {
                    let name = &change.key.name;
                    let pool = change.after.and_then(|pool| Pool::new(name, &pool.spec));
                    let mut pools = pools.write();
                    if pools.get(name) == pool.as_ref() {
                        return;
                    }
                    match pool {
                        Some(pool) => pools.insert(name.clone(), pool),
                        None => pools.remove(name),
                    };
                    add();
                }
            },
        );
        let written = Written::default();
        let (plugin_map, plugin_mirror) = Objects::<PluginMap>::mirror_one(
            client,
            plugin_config::NAME,
            ConfigMap::url_path(&(), Some(namespace)),
            {
                let (queue, written) = (queue.clone(), written.clone());
                move |change| {
                    if let (Some(gone), None) = (change.before, change.after) {
                        written.is_gone(gone);
                    }
                    for node in plugin_map::differing(change.before, change.after) {
                        queue.add(Key::Node(node));
                    }
                    // When it is new, the config may have gone while it was made.
                    if change.before.is_none() || change.after.is_none() {
                        queue.add(Key::Everything);
                    }
                }
            },
        );
        parts.stores.listen({
            let queue = queue.clone();
            move |touched| match touched {
                Touched::Node(name) => queue.add(Key::Node(name)),
                Touched::Policy(name, nodes) => {
                    queue.add(Key::Policy(name));
                    for node in nodes {
                        queue.add(Key::Node(node));
                    }
                }
                Touched::Everything => queue.add(Key::Everything),
            }
        });
        queue.add(Key::Everything);
        let calls = bounded(client);
        let controller = Self {
            stores: Arc::clone(&parts.stores),
            config,
            pools,
            plugin: PluginConfig::new(&calls, namespace, plugin_map, written),
            writer: Writer::new(&calls, namespace),
            told: Told::new(client, namespace, parts.events.clone()),
            drift: Drift::new("node-states", &parts.metrics),
            queue: queue.clone(),
            namespace: namespace.clone(),
            stale_after: parts.stale_after,
        };
        (controller, vec![config_mirror, pool_mirror, plugin_mirror])
    }

    /// The config, unless there is none or it goes.
    fn config(&self) -> Option<Arc<SriovOperatorConfig>> {
        self.config
            .get(&self.namespace, DEFAULT_CONFIG_NAME)
            .filter(|config| config.metadata.deletion_timestamp.is_none())
    }

    /// Gives every node, node state and policy its turn.
    async fn everything(&self) -> Result<Outcome, Failure> {
        let (mut names, policies) = self.stores.look(|cluster| {
            let names: Vec<Box<str>> = cluster.nodes().names().map(Box::from).collect();
            let stored = cluster.policies().map(|policy| policy.name());
            let malformed = cluster.malformed_policies().map(|(name, _)| name);
            let policies: Vec<Box<str>> = stored.chain(malformed).map(Box::from).collect();
            (names, policies)
        });
        names.extend(self.stores.state_names());
        names.extend(self.plugin.nodes());
        for name in names {
            self.queue.add(Key::Node(name));
        }
        for name in policies {
            self.queue.add(Key::Policy(name));
        }
        match self.config() {
            None => self.plugin.remove().await?,
            Some(config) => {
                if let Err(fault) = situation::daemon_selector(&config) {
                    self.told.selector(&config, &fault);
                }
                let pools: Vec<Pool> = self.pools.read().values().cloned().collect();
                for pool in pools {
                    if let Some(fault) = pool.fault() {
                        self.told.pool(&pool.name, &fault).await;
                    }
                }
            }
        }
        Ok(Outcome::Done)
    }

    /// Tells what of a policy is not done, whatever the node.
    async fn policy(&self, name: &str) {
        let bridges = self.config().is_some_and(|config| manages_bridges(&config));
        let faults = self.stores.look(|cluster| {
            if let Some(reason) = cluster.malformed_policy(name) {
                return vec![format!("{reason}: the policy has no effect")];
            }
            let policy = cluster.policy(name);
            policy.map_or_else(Vec::new, |policy| nodes::faults(policy, bridges))
        });
        self.told.policy(name, faults).await;
    }

    async fn node(&self, name: &str) -> Result<Outcome, Failure> {
        let config = self.config();
        let stored = if self.needs_stored_spec(name) {
            self.writer.spec(name).await?
        } else {
            None
        };
        let head = self.stores.state(name);
        let situation = self.stores.look(|cluster| {
            situation::of(
                name,
                cluster,
                config.as_deref(),
                self.pools.read().values(),
                head.as_ref().and_then(|head| head.rdma_mode.as_deref()),
                stored.as_ref(),
            )
        });
        match situation {
            Situation::Unclear => Ok(Outcome::Done),
            Situation::NoConfig { labelled } => {
                self.drift.forget(&name.into());
                if labelled {
                    self.writer.label(name, None).await?;
                }
                Ok(Outcome::Done)
            }
            Situation::Unselected { labelled } => self.leave(name, labelled, head.as_deref()).await,
            Situation::Selected(wanted) => self.bring(name, *wanted).await,
        }
    }

    /// Whether the node keeps something of its stored spec, which is not held in memory.
    fn needs_stored_spec(&self, name: &str) -> bool {
        self.stores.state(name).is_some_and(|head| head.configures)
            && self
                .stores
                .look(|cluster| cluster.nics(name).is_none_or(<[_]>::is_empty))
    }

    /// Brings a node to what it is to be.
    async fn bring(&self, name: &str, wanted: Wanted) -> Result<Outcome, Failure> {
        let Wanted {
            plan,
            label,
            rdma_note,
            owner,
        } = wanted;
        if let Some(note) = rdma_note {
            self.told.rdma(name, &note);
        }
        for problem in &plan.problems {
            self.told.problem(name, problem).await;
        }
        let head = self.stores.state(name);
        let spec = meaning::of_spec(&plan.spec);
        let node = Box::from(name);
        let change = match &head {
            Some(head) if head.spec == spec => None,
            _ => match self.drift.judge(&node, &spec) {
                Ok(change) => Some(change),
                Err(Contested { retry_in, .. }) => {
                    self.told.contested(name, head.as_deref());
                    return Ok(Outcome::Again(retry_in));
                }
            },
        };
        let state_stays = head.as_ref().is_some_and(|head| head.spec == spec);
        let edit = self.edit(name, &plan, |stored| {
            // A plugin that runs reads its configuration once; the config daemon restarts it when the state changes.
            state_stays && stored && label.as_deref() == Some(ENABLED)
        });
        let word = if plan.enabled { ENABLED } else { DISABLED };
        let configure = async || match edit {
            Some(edit) => self.plugin.edit(edit, &owner).await,
            None => Ok(()),
        };
        let relabel = async || {
            if label.as_deref() == Some(word) {
                return Ok(());
            }
            self.writer.label(name, Some(word)).await
        };
        let state = async || {
            let head = head.as_deref();
            let written = self
                .writer
                .state(name, head, &plan.spec, spec, &owner)
                .await?;
            match change {
                None => self.drift.is_as_wanted(&node, spec),
                Some(change) => self.drift.written(&node, spec, change, None),
            }
            if let Some(head) = written {
                if change == Some(Cause::Drifted) {
                    self.told.repaired(name, &head);
                }
                self.stores.wrote_state(name, head);
            }
            Ok::<(), Failure>(())
        };
        if plan.enabled {
            configure().await?;
            relabel().await?;
            state().await?;
        } else {
            state().await?;
            relabel().await?;
            configure().await?;
        }
        if self.plugin.is_restart_due(name) {
            self.writer.restart_plugin(name).await?;
            self.plugin.edit(Edit::restarted(name), &owner).await?;
        }
        Ok(Outcome::Done)
    }

    /// The change of the node's part of the `ConfigMap`, if there is one. `restarts` is told whether it was there before.
    fn edit(&self, name: &str, plan: &Plan, restarts: impl FnOnce(bool) -> bool) -> Option<Edit> {
        let resources = plan.resources.as_ref()?;
        let stored = self.plugin.get(name);
        let full = text(resources, Spelling::Full);
        if stored
            .as_deref()
            .is_some_and(|stored| meaning::same_plugin(stored, &full))
        {
            return None;
        }
        let terse = text(resources, Spelling::Terse);
        Some(Edit::put(name, full, terse, restarts(stored.is_some())))
    }
}

impl Controller for NodePolicies {
    type Key = Key;

    const NAME: &'static str = "sriovnetworknodepolicy";
    // Writes of the ConfigMap are shared by the nodes that wait for one.
    const WORKERS: usize = 256;

    async fn reconcile(&self, key: &Key) -> Result<Outcome, Error> {
        if self.stores.filled().is_err() {
            return Ok(Outcome::Again(SOON));
        }
        let outcome = match key {
            Key::Everything => self.everything().await,
            Key::Policy(name) => {
                self.policy(name).await;
                Ok(Outcome::Done)
            }
            Key::Node(name) => self.node(name).await,
        };
        match outcome {
            Ok(outcome) => Ok(outcome),
            Err(Failure::Call(error)) => Err(error),
            Err(failure @ Failure::Full(_)) => {
                warn!(?key, %failure);
                if let Some(config) = self.config() {
                    self.told.full(&config, &failure.to_string());
                }
                Ok(Outcome::Retry)
            }
        }
    }
}

/// What of a config decides about nodes.
fn matters(config: &SriovOperatorConfig) -> impl PartialEq + use<'_> {
    (
        &config.metadata.uid,
        config.metadata.deletion_timestamp.is_some(),
        &config.spec.config_daemon_node_selector,
        manages_bridges(config),
    )
}
