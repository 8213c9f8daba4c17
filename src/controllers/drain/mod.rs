//! Drains: what the config daemons ask for on their Nodes is done, as many nodes at a time as the pools allow.
//!
//! ```text
//! Nodes, node states, pools -> stores -> budget
//!                                 '-> next step (pure) -> pause the MachineConfigPool, cordon, evict, report
//! pods of a node that is drained -> evictions
//! ```
//!
//! Who drains how far stands in annotations (see [`crate::drain`]), so every pass may be the last one of this process. A
//! pass never waits for a pod: it asks for evictions and ends, and the watch of the node's pods brings the next. Whether
//! nodes are drained at all (`disableDrain`) is for the daemons to decide, who ask or do not.

mod announcer;
mod calls;
mod evictions;
mod machine_pools;
mod objects;
mod progress;
mod stores;

use std::{collections::HashMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use kube::Client;
use parking_lot::Mutex;
use tokio::time::Instant;

use self::{
    announcer::Announcer,
    calls::Calls,
    evictions::{Evictions, Progress},
    machine_pools::{MachinePools, Paused},
    objects::{Node, State},
    stores::Stores,
};
use super::{
    Controller, Error, Outcome, Queue,
    calls::{Answer, bounded},
};
use crate::{
    api::DEFAULT_CONFIG_NAME,
    drain::{Cordon, DRAIN_COMPLETE, IDLE, Request, Step, next, protocol},
    operator::{Events, Reason},
    stores::{Key as ObjectKey, Mirror},
};

/// At the beginning of a leadership no drain begins for that long: by then a write of the leader before, which the first
/// lists do not show, has come to its end.
const SETTLE: Duration = Duration::from_secs(3);
/// For how long what is to be told of all drains is gathered.
const TOGETHER: Duration = Duration::from_secs(1);

/// What a pass is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A node, by name.
    Node(Box<str>),
    /// The MachineConfigPools that are paused.
    Pauses,
    /// What is told of all drains together.
    Report,
}

/// What does not change while the process runs.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The operator's namespace.
    pub namespace: String,
    /// The prefix of resource names.
    pub resource_prefix: String,
    /// Whether the cluster is OpenShift.
    pub is_openshift: bool,
}

/// How the API server is reached.
#[derive(Clone)]
pub struct Clients {
    /// As everywhere.
    pub client: Client,
    /// One that repeats no request that the server refuses for now.
    pub once: Client,
}

/// The controller of drains.
pub struct Drains {
    setting: Setting,
    client: Client,
    calls: Calls,
    stores: Arc<Stores>,
    queue: Queue<Key>,
    machine_pools: MachinePools,
    announcer: Announcer,
    evictions: Mutex<HashMap<Box<str>, Evictions>>,
    began: Instant,
}

impl Drains {
    /// The controller of one leadership, and the tasks that fill its stores.
    pub fn start(
        clients: &Clients,
        setting: &Setting,
        events: &Events,
        queue: &Queue<Key>,
    ) -> (Self, Vec<Mirror>) {
        let Clients { client, once } = clients;
        let namespace = &setting.namespace;
        let (stores, mirrors) = Stores::start(client, namespace, setting.is_openshift, queue);
        let calls = Calls::new(bounded(client), once.clone(), namespace);
        queue.add(Key::Pauses);
        // By then it is known what is held up.
        queue.add_after(Key::Report, SETTLE);
        let drains = Self {
            setting: setting.clone(),
            client: client.clone(),
            machine_pools: MachinePools::new(Arc::clone(&stores), calls.clone()),
            calls,
            stores,
            queue: queue.clone(),
            announcer: Announcer::new(events, namespace, queue),
            evictions: Mutex::default(),
            began: Instant::now(),
        };
        (drains, mirrors)
    }
}

impl Controller for Drains {
    type Key = Key;
    const NAME: &'static str = "drain";
    const WORKERS: usize = 32;

    async fn reconcile(&self, key: &Key) -> Result<Outcome, Error> {
        match key {
            Key::Node(name) => self.node(name).await,
            Key::Pauses => self.machine_pools.resume().await.map(|()| Outcome::Done),
            Key::Report => self.report().await.map(|()| Outcome::Done),
        }
    }
}

impl Drains {
    async fn node(&self, name: &str) -> Result<Outcome, Error> {
        let Some(node) = self.stores.nodes.get("", name) else {
            self.rest(name);
            self.announcer.forget(name);
            return Ok(Outcome::Done);
        };
        let state = self.stores.states.get(&self.setting.namespace, name);
        let step = next(node.view(), state.as_deref().map(State::view));
        let Some(state) = &state else {
            self.rest(name);
            self.announcer.forget(name);
            if let Step::End { cordon, .. } = step {
                self.uncordon(name, &node, cordon).await?;
            }
            return Ok(Outcome::Done);
        };
        match step {
            Step::Begin(request) => return self.begin(name, state, request).await,
            Step::Drain(request) => return self.drain(name, &node, state, request).await,
            Step::Rest => self.rest(name),
            Step::Initialise {
                wanted,
                current,
                desired,
            } => {
                self.rest(name);
                if wanted {
                    self.take_node(name, self.calls.initialise_node(name, &node).await?);
                }
                if current || desired {
                    let written = self.calls.initialise_state(name, state, current, desired);
                    self.take_state(name, written.await?);
                }
            }
            Step::End { cordon, report } => {
                self.rest(name);
                self.end(name, &node, state, cordon, report).await?;
            }
            Step::Forget => {
                self.rest(name);
                self.uncordon(name, &node, Cordon::Forget).await?;
            }
            Step::Unknown(wanted) => {
                self.evictions.lock().remove(name);
                self.stores.give_back(name);
                let text = format!(
                    "the annotation {} of the Node is {wanted:?}, which is none of Idle, Drain_Required and Reboot_Required",
                    crate::drain::STATE
                );
                self.announcer
                    .tell(name, state, Reason::DrainBlocked, &text);
            }
        }
        Ok(Outcome::Done)
    }

    /// Nothing is being drained here: its pods are no matter, and a place that it waits for or holds is another's.
    fn rest(&self, name: &str) {
        self.evictions.lock().remove(name);
        self.announcer.go_on(name);
        self.stores.give_back(name);
    }

    /// Begins to drain the node if there is a place for it.
    async fn begin(&self, name: &str, state: &State, request: Request) -> Result<Outcome, Error> {
        self.evictions.lock().remove(name);
        let settled = self.began.elapsed();
        if settled < SETTLE {
            return Ok(Outcome::Again(SETTLE.saturating_sub(settled)));
        }
        if let Err(refusal) = self.stores.budget(|budget| budget.claim(name)) {
            let reason = if refusal.is_lasting() {
                Reason::DrainBlocked
            } else {
                Reason::DrainWaiting
            };
            self.announcer
                .tell(name, state, reason, &refusal.to_string());
            return Ok(Outcome::Done);
        }
        match self.calls.begin(name, state).await {
            Ok(written) => {
                let pods = match request {
                    Request::Drain => "its pods that use virtual functions are evicted",
                    Request::Reboot => "all its pods are evicted, and it will be rebooted",
                };
                self.announcer.tell(name, state, Reason::DrainStarted, pods);
                self.take_state(name, written);
                Ok(Outcome::Done)
            }
            // Nothing was written now, but perhaps by a try before, of which nothing is known: the place is kept until
            // the stores show what is there.
            Err(error @ (Error::Outdated(_) | Error::Unclear { .. })) => Err(error),
            Err(error) => {
                self.stores.give_back(name);
                Err(error)
            }
        }
    }

    /// Goes on with the drain of a node.
    async fn drain(
        &self,
        name: &str,
        node: &Node,
        state: &State,
        request: Request,
    ) -> Result<Outcome, Error> {
        match self.machine_pools.pause(name, node).await? {
            Paused::Yes => {}
            Paused::NotYet(why) => {
                self.announcer.tell(name, state, Reason::DrainWaiting, &why);
                return Ok(Outcome::Done);
            }
            Paused::Unknown(why) => {
                let text = format!("the MachineConfigPool of the node is not known: {why}");
                self.announcer
                    .tell(name, state, Reason::DrainBlocked, &text);
                return Ok(Outcome::Retry);
            }
        }
        let alone = self.stores.nodes.look(|nodes| nodes.len() == 1);
        if request == Request::Reboot && alone {
            let text =
                "the only node of the cluster is rebooted as it is: its pods have nowhere to go";
            return self.complete(name, state, text).await;
        }
        if !node.view().unschedulable {
            self.take_node(name, self.calls.cordon(name, node).await?);
        }
        let known = self.evictions.lock().remove(name);
        let mut evictions =
            known.unwrap_or_else(|| Evictions::start(&self.client, name, &self.queue));
        let progress = evictions
            .go_on(&self.calls, request, &self.setting.resource_prefix)
            .await;
        self.evictions.lock().insert(name.into(), evictions);
        match progress? {
            Progress::Listing => Ok(Outcome::Done),
            Progress::Drained => self.complete(name, state, "the node is drained").await,
            Progress::Left { why, again } => {
                match why {
                    Some(why) => self.announcer.tell(name, state, Reason::DrainBlocked, &why),
                    None => self.announcer.go_on(name),
                }
                Ok(Outcome::Again(again))
            }
        }
    }

    async fn complete(&self, name: &str, state: &State, text: &str) -> Result<Outcome, Error> {
        let written = self.calls.report(name, state, DRAIN_COMPLETE).await?;
        self.announcer
            .tell(name, state, Reason::DrainCompleted, text);
        self.take_state(name, written);
        Ok(Outcome::Done)
    }

    /// The node goes back into use. What says so to its daemon comes last, so that an end that was cut short is made
    /// again.
    async fn end(
        &self,
        name: &str,
        node: &Node,
        state: &State,
        cordon: Cordon,
        report: bool,
    ) -> Result<(), Error> {
        self.uncordon(name, node, cordon).await?;
        self.machine_pools.resume().await?;
        if report {
            let written = self.calls.report(name, state, IDLE).await?;
            self.announcer.tell(
                name,
                state,
                Reason::DrainEnded,
                "the drain of the node is over",
            );
            self.take_state(name, written);
        }
        Ok(())
    }

    async fn uncordon(&self, name: &str, node: &Node, cordon: Cordon) -> Result<(), Error> {
        if cordon != Cordon::Keep {
            let lift = cordon == Cordon::Lift;
            self.take_node(name, self.calls.uncordon(name, node, lift).await?);
        }
        Ok(())
    }

    /// Brings the condition of the config up to date.
    async fn report(&self) -> Result<(), Error> {
        let namespace = &self.setting.namespace;
        let Some(config) = self.stores.config.get(namespace, DEFAULT_CONFIG_NAME) else {
            return Ok(());
        };
        let busy = self.stores.states.look(|states| {
            states
                .values()
                .any(|state| protocol::is_busy(state.current()))
        });
        let blocked = self.announcer.blocked();
        let Some(condition) = progress::condition(&config, busy, &blocked, Timestamp::now()) else {
            return Ok(());
        };
        let uid = config.metadata.uid.as_deref();
        let answer = self.calls.tell(uid, &condition).await?;
        let key = ObjectKey::new(namespace, DEFAULT_CONFIG_NAME);
        self.stores
            .config
            .absorb(&key, &answer.version, answer.body);
        Ok(())
    }

    fn take_node(&self, name: &str, answer: Answer<Node>) {
        let key = ObjectKey::new("", name);
        self.stores.nodes.absorb(&key, &answer.version, answer.body);
    }

    fn take_state(&self, name: &str, answer: Answer<State>) {
        let key = ObjectKey::new(&self.setting.namespace, name);
        self.stores
            .states
            .absorb(&key, &answer.version, answer.body);
    }
}
