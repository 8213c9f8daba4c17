//! The stores of one leadership, and whom a change concerns.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kube::{Client, Resource};
use parking_lot::Mutex;

use super::{
    Key, TOGETHER,
    objects::{MachinePool, Node, State},
};
use crate::{
    api::{
        DEFAULT_CONFIG_NAME, SriovNetworkNodeState, SriovNetworkPoolConfig, SriovOperatorConfig,
    },
    controllers::{Queue, openshift::Infrastructure},
    drain::{Budget, Pool, protocol},
    pools::MACHINES,
    stores::{Change, Mirror, Objects},
};

/// Nodes, node states and pools, with the budget that follows from them; on OpenShift the MachineConfigPools.
pub(super) struct Stores {
    pub(super) nodes: Arc<Objects<Node>>,
    pub(super) states: Arc<Objects<State>>,
    pub(super) config: Arc<Objects<SriovOperatorConfig>>,
    pub(super) openshift: Option<OpenShift>,
    budget: Arc<Mutex<Budget>>,
    queue: Queue<Key>,
}

/// What is watched on OpenShift.
pub(super) struct OpenShift {
    pub(super) infrastructure: Arc<Objects<Infrastructure>>,
    pub(super) machine_pools: Arc<Objects<MachinePool>>,
    /// The nodes that wait for their MachineConfigPool.
    pub(super) waiting: Arc<Mutex<BTreeSet<Box<str>>>>,
}

impl Stores {
    /// Empty stores that will add to the queue, and the tasks that fill them.
    pub(super) fn start(
        client: &Client,
        namespace: &str,
        is_openshift: bool,
        queue: &Queue<Key>,
    ) -> (Arc<Self>, Vec<Mirror>) {
        let budget: Arc<Mutex<Budget>> = Arc::default();
        let (nodes, nodes_mirror) = Objects::mirror(client, "nodes", "/api/v1/nodes".into(), {
            let (budget, queue) = (Arc::clone(&budget), queue.clone());
            move |change| on_node(change, &budget, &queue)
        });
        let states_path = SriovNetworkNodeState::url_path(&(), Some(namespace));
        let (states, states_mirror) =
            Objects::mirror(client, "sriovnetworknodestates", states_path, {
                let (budget, queue) = (Arc::clone(&budget), queue.clone());
                move |change| on_state(change, &budget, &queue)
            });
        let pools_path = SriovNetworkPoolConfig::url_path(&(), Some(namespace));
        let (_, pools_mirror) = Objects::mirror(client, "sriovnetworkpoolconfigs", pools_path, {
            let (budget, queue) = (Arc::clone(&budget), queue.clone());
            let pools: Mutex<BTreeMap<Box<str>, Pool>> = Mutex::default();
            move |change| on_pool(change, &pools, &budget, &queue)
        });
        let config_path = SriovOperatorConfig::url_path(&(), Some(namespace));
        let (config, config_mirror) =
            Objects::mirror_one(client, DEFAULT_CONFIG_NAME, config_path, {
                let queue = queue.clone();
                move |_: &Change<'_, SriovOperatorConfig>| queue.add_after(Key::Report, TOGETHER)
            });
        let mut mirrors = vec![nodes_mirror, states_mirror, pools_mirror, config_mirror];
        let openshift = is_openshift.then(|| OpenShift::start(client, queue, &mut mirrors));
        let stores = Self {
            nodes,
            states,
            config,
            openshift,
            budget,
            queue: queue.clone(),
        };
        (Arc::new(stores), mirrors)
    }

    /// The budget. What the question changes for others wakes them.
    pub(super) fn budget<R>(&self, ask: impl FnOnce(&mut Budget) -> R) -> R {
        ask(&mut self.budget.lock())
    }

    /// A node needs no place in the budget now.
    pub(super) fn give_back(&self, node: &str) {
        let woken = self.budget(|budget| budget.give_back(node));
        wake(&self.queue, &woken);
    }
}

impl OpenShift {
    fn start(client: &Client, queue: &Queue<Key>, mirrors: &mut Vec<Mirror>) -> Self {
        let waiting: Arc<Mutex<BTreeSet<Box<str>>>> = Arc::default();
        let wake_all = {
            let (waiting, queue) = (Arc::clone(&waiting), queue.clone());
            move || {
                for node in std::mem::take(&mut *waiting.lock()) {
                    queue.add(Key::Node(node));
                }
                queue.add(Key::Pauses);
            }
        };
        let (infrastructure, mirror) = Infrastructure::watch(client, wake_all.clone());
        mirrors.push(mirror);
        let path = format!("/apis/{MACHINES}/v1/machineconfigpools");
        let (machine_pools, mirror) = Objects::mirror(
            client,
            "machineconfigpools",
            path,
            move |change: &Change<'_, MachinePool>| {
                let view = |pool: &Arc<MachinePool>| format!("{:?}", pool.view());
                if change.before.map(view) != change.after.map(view) {
                    wake_all();
                }
            },
        );
        mirrors.push(mirror);
        Self {
            infrastructure,
            machine_pools,
            waiting,
        }
    }
}

fn wake(queue: &Queue<Key>, nodes: &[Arc<str>]) {
    for node in nodes {
        queue.add(Key::Node((**node).into()));
    }
}

/// Whether nothing has changed that decides about drains.
fn is_alike<T>(change: &Change<'_, T>, is_like: fn(&T, &T) -> bool) -> bool {
    let both = change.before.zip(change.after);
    both.is_some_and(|(before, after)| is_like(before, after))
}

fn on_node(change: &Change<'_, Node>, budget: &Mutex<Budget>, queue: &Queue<Key>) {
    if is_alike(change, Node::is_like) {
        return;
    }
    let labels = change.after.map(|node| &node.metadata.labels);
    let woken = budget.lock().set_node(&change.key.name, labels);
    wake(queue, &woken);
    queue.add(Key::Node(change.key.name.clone()));
    // A node that asks no longer, has left its MachineConfigPool or is gone may have been the last of it.
    if change
        .before
        .is_some_and(|node| protocol::is_asking(node.wanted()))
    {
        queue.add(Key::Pauses);
    }
}

fn on_state(change: &Change<'_, State>, budget: &Mutex<Budget>, queue: &Queue<Key>) {
    if is_alike(change, State::is_like) {
        return;
    }
    let current = change.after.and_then(|state| state.current());
    let busy = protocol::is_busy(current);
    let woken = budget.lock().set_busy(&change.key.name, busy);
    wake(queue, &woken);
    queue.add_after(Key::Report, TOGETHER);
    queue.add(Key::Node(change.key.name.clone()));
}

fn on_pool(
    change: &Change<'_, SriovNetworkPoolConfig>,
    pools: &Mutex<BTreeMap<Box<str>, Pool>>,
    budget: &Mutex<Budget>,
    queue: &Queue<Key>,
) {
    let name = &change.key.name;
    let pool = change.after.and_then(|pool| Pool::new(name, &pool.spec));
    let mut pools = pools.lock();
    if pools.get(name) == pool.as_ref() {
        return;
    }
    match pool {
        Some(pool) => pools.insert(name.clone(), pool),
        None => pools.remove(name),
    };
    let woken = budget.lock().set_pools(pools.values().cloned().collect());
    wake(queue, &woken);
}
