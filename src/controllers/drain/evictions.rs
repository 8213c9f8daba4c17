//! The pods of one node that is drained: watched from its cordon on, evicted, waited for.
//!
//! What is kept here is lost with the process and may be: the next one lists the pods again and tries at once.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{StreamExt, future, stream};
use kube::Client;
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    Key,
    calls::{Calls, Evicted},
    objects::Pod,
};
use crate::{
    controllers::{Queue, calls::Error},
    drain::{
        Request,
        pods::{Rounds, is_evicted},
    },
    stores::{Objects, Source},
};

/// The least time between two tries to evict one pod.
const BETWEEN_TRIES: Duration = Duration::from_secs(5);
/// After that time, a pod that has not ended is told of.
const SLOW: Duration = Duration::from_secs(90);
/// How many evictions of one node are asked for side by side.
const AT_ONCE: usize = 8;
/// How many pods a message names.
const NAMED: usize = 3;

/// How far a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Its pods are not known yet.
    Listing,
    /// They are all gone.
    Drained,
    /// Some are left; to be looked at again after that time at the latest.
    Left {
        /// What keeps them, when it is more than time.
        why: Option<String>,
        /// When it is time for another try.
        again: Duration,
    },
}

/// The evictions of one node.
pub(super) struct Evictions {
    pods: Arc<Objects<Pod>>,
    filled: Arc<AtomicBool>,
    rounds: Rounds,
    tried: HashMap<Box<str>, Instant>,
    refused: BTreeMap<Box<str>, String>,
    daemon_sets: HashMap<(Box<str>, Box<str>), bool>,
    began: Instant,
    _watch: AbortOnDropHandle<()>,
}

impl Evictions {
    /// Begins to watch the pods of a node, which must be cordoned: then its first list has every pod that counts.
    pub(super) fn start(client: &Client, node: &str, queue: &Queue<Key>) -> Self {
        let filled = Arc::new(AtomicBool::new(false));
        let source =
            Source::all("pods of a node", "/api/v1/pods".into()).with("spec.nodeName", node);
        let key = Key::Node(node.into());
        let (pods, mirror) = Objects::mirror_of(client, source, {
            let (filled, queue, key) = (Arc::clone(&filled), queue.clone(), key.clone());
            move |_| {
                if filled.load(Ordering::Relaxed) {
                    queue.add(key.clone());
                }
            }
        });
        let listed = mirror.filled();
        let watch = {
            let (filled, queue) = (Arc::clone(&filled), queue.clone());
            tokio::spawn(async move {
                let listed = async {
                    listed.await;
                    filled.store(true, Ordering::Relaxed);
                    queue.add(key);
                };
                let _ = future::join(mirror.run(CancellationToken::new()), listed).await;
            })
        };
        Self {
            pods,
            filled,
            rounds: Rounds::default(),
            tried: HashMap::new(),
            refused: BTreeMap::new(),
            daemon_sets: HashMap::new(),
            began: Instant::now(),
            _watch: AbortOnDropHandle::new(watch),
        }
    }

    /// Looks at the pods, and evicts those whose time has come.
    pub(super) async fn go_on(
        &mut self,
        calls: &Calls,
        request: Request,
        prefix: &str,
    ) -> Result<Progress, Error> {
        if !self.filled.load(Ordering::Relaxed) {
            return Ok(Progress::Listing);
        }
        let pods: Vec<Arc<Pod>> = self.pods.look(|pods| pods.values().cloned().collect());
        let mut going = Vec::new();
        for pod in pods {
            let has_daemon_set = self.has_daemon_set(calls, &pod).await?;
            let requests = pod.requests();
            if is_evicted(pod.view(&requests, has_daemon_set), request, prefix) {
                going.push(pod);
            }
        }
        let present: BTreeSet<Box<str>> =
            going.iter().map(|pod| pod.metadata.uid.clone()).collect();
        let left = self.rounds.left(&present);
        going.retain(|pod| left.contains(&pod.metadata.uid));
        self.tried.retain(|uid, _| left.contains(uid));
        self.refused.retain(|uid, _| left.contains(uid));
        if going.is_empty() {
            return Ok(Progress::Drained);
        }
        self.evict(calls, &going).await;
        Ok(self.left(&going))
    }

    async fn evict(&mut self, calls: &Calls, going: &[Arc<Pod>]) {
        let now = Instant::now();
        let due: Vec<&Arc<Pod>> = going
            .iter()
            .filter(|pod| !pod.is_ending() && self.wait(pod, now).is_zero())
            .collect();
        for pod in &due {
            self.tried.insert(pod.metadata.uid.clone(), now);
        }
        let asked: Vec<_> = due.into_iter().map(|pod| ask(calls, pod)).collect();
        let answers: Vec<_> = stream::iter(asked)
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        for (pod, answer) in answers {
            match answer {
                Evicted::Yes => self.refused.remove(&pod.metadata.uid),
                Evicted::No(why) => self.refused.insert(pod.metadata.uid.clone(), why),
            };
        }
    }

    /// How long until a pod may be tried.
    fn wait(&self, pod: &Pod, now: Instant) -> Duration {
        let tried = self.tried.get(&pod.metadata.uid);
        tried.map_or(Duration::ZERO, |tried| {
            BETWEEN_TRIES.saturating_sub(now.duration_since(*tried))
        })
    }

    fn left(&self, going: &[Arc<Pod>]) -> Progress {
        let now = Instant::now();
        let slow = SLOW.saturating_sub(now.duration_since(self.began));
        let mut reasons = Vec::new();
        let mut again = if slow.is_zero() { SLOW } else { slow };
        for pod in going {
            let name = format!("{}/{}", pod.metadata.namespace, pod.metadata.name);
            if pod.is_ending() {
                if slow.is_zero() {
                    reasons.push(format!("pod {name} is evicted and does not end"));
                }
                continue;
            }
            again = again.min(self.wait(pod, now));
            if let Some(why) = self.refused.get(&pod.metadata.uid) {
                reasons.push(format!("pod {name} is not evicted: {why}"));
            }
        }
        let more = reasons.len().saturating_sub(NAMED);
        reasons.truncate(NAMED);
        let mut why = reasons.join("; ");
        if more > 0 {
            why = format!("{why}; and {more} more");
        }
        Progress::Left {
            why: (!why.is_empty()).then_some(why),
            again,
        }
    }

    async fn has_daemon_set(&mut self, calls: &Calls, pod: &Pod) -> Result<bool, Error> {
        let Some(name) = pod.daemon_set() else {
            return Ok(false);
        };
        let key = (pod.metadata.namespace.clone(), Box::from(name));
        if let Some(known) = self.daemon_sets.get(&key) {
            return Ok(*known);
        }
        let exists = calls.has_daemon_set(&key.0, &key.1).await?;
        self.daemon_sets.insert(key, exists);
        Ok(exists)
    }
}

async fn ask<'p>(calls: &Calls, pod: &'p Pod) -> (&'p Pod, Evicted) {
    (pod, calls.evict(pod).await)
}
