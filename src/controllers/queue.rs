//! The keys that wait for a reconcile: each once, none while it is being worked on, failures after growing pauses.

use std::{
    collections::{BTreeSet, HashMap},
    hash::Hash,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use super::Outcome;

/// The first pause after a failure; it doubles up to [`LONGEST_RETRY`].
const FIRST_RETRY: Duration = Duration::from_millis(200);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// A queue of keys. Clones are the same queue.
pub struct Queue<K>(Arc<Shared<K>>);

struct Shared<K> {
    state: Mutex<State<K>>,
    added: Notify,
}

struct State<K> {
    /// When each waiting key is due, in order of time and by key.
    order: BTreeSet<(Instant, K)>,
    due: HashMap<K, Instant>,
    /// What is worked on, and when it is due again if it was added meanwhile.
    running: HashMap<K, Option<Instant>>,
    failures: HashMap<K, u32>,
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        let state = State {
            order: BTreeSet::new(),
            due: HashMap::new(),
            running: HashMap::new(),
            failures: HashMap::new(),
        };
        Self(Arc::new(Shared {
            state: Mutex::new(state),
            added: Notify::new(),
        }))
    }
}

impl<K: Clone + Eq + Hash + Ord> Queue<K> {
    /// Something about `key` has changed: it is due now, also when it waits for a retry.
    pub fn add(&self, key: K) {
        self.add_at(key, Instant::now());
    }

    /// `key` is due after that time, unless it is due earlier.
    pub fn add_after(&self, key: K, pause: Duration) {
        self.add_at(key, Instant::now() + pause);
    }

    /// The next key, once it is due. It is worked on from then on, until [`Self::done`].
    pub(super) async fn next(&self) -> K {
        loop {
            let added = self.0.added.notified();
            let first = {
                let mut state = self.0.state.lock();
                if let Some(key) = state.take(Instant::now()) {
                    return key;
                }
                state.order.first().map(|(due, _)| *due)
            };
            match first {
                Some(due) => tokio::select! {
                    () = sleep_until(due) => {}
                    () = added => {}
                },
                None => added.await,
            }
        }
    }

    /// Work on `key` has ended so.
    pub(super) fn done(&self, key: K, outcome: Outcome) {
        let mut state = self.0.state.lock();
        let added = state.running.remove(&key).flatten();
        let pause = match outcome {
            Outcome::Done | Outcome::Again(_) => {
                state.failures.remove(&key);
                match outcome {
                    Outcome::Again(pause) => Some(pause),
                    _ => None,
                }
            }
            Outcome::Retry => {
                let failures = state.failures.entry(key.clone()).or_default();
                *failures = failures.saturating_add(1);
                Some(retry_after(*failures))
            }
        };
        let due = pause.map(|pause| Instant::now() + pause);
        if let Some(due) = added.into_iter().chain(due).min() {
            state.wait(key, due);
            drop(state);
            self.0.added.notify_one();
        }
    }

    fn add_at(&self, key: K, due: Instant) {
        let mut state = self.0.state.lock();
        match state.running.get_mut(&key) {
            Some(again) => *again = Some(again.map_or(due, |before| before.min(due))),
            None => state.wait(key, due),
        }
        drop(state);
        self.0.added.notify_one();
    }
}

impl<K: Clone + Eq + Hash + Ord> State<K> {
    fn wait(&mut self, key: K, due: Instant) {
        if let Some(before) = self.due.get(&key).copied() {
            if before <= due {
                return;
            }
            self.order.remove(&(before, key.clone()));
        }
        self.due.insert(key.clone(), due);
        self.order.insert((due, key));
    }

    fn take(&mut self, now: Instant) -> Option<K> {
        if self.order.first().is_none_or(|(due, _)| *due > now) {
            return None;
        }
        let (_, key) = self.order.pop_first()?;
        self.due.remove(&key);
        self.running.insert(key.clone(), None);
        Some(key)
    }
}

fn retry_after(failures: u32) -> Duration {
    FIRST_RETRY
        .saturating_mul(1 << failures.saturating_sub(1).min(16))
        .min(LONGEST_RETRY)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn now(queue: &Queue<u8>) -> Option<u8> {
        queue.next().now_or_never()
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_waits_once_and_is_worked_on_once_at_a_time() {
        let queue = Queue::default();
        queue.add(1);
        queue.add(1);
        assert_eq!(now(&queue), Some(1));
        queue.add(1);
        assert_eq!(now(&queue), None, "it is being worked on");
        queue.done(1, Outcome::Done);
        assert_eq!(now(&queue), Some(1), "it changed meanwhile");
        queue.done(1, Outcome::Done);
        assert_eq!(now(&queue), None);
    }

    #[tokio::test(start_paused = true)]
    async fn failures_are_spaced_out() {
        let queue = Queue::default();
        queue.add(1);
        assert_eq!(queue.next().await, 1);
        for pause in [200, 400, 800] {
            let failed = Instant::now();
            queue.done(1, Outcome::Retry);
            assert_eq!(queue.next().await, 1);
            assert_eq!(failed.elapsed().as_millis() / 10, pause / 10);
        }
        queue.done(1, Outcome::Done);
        queue.add(1);
        assert_eq!(queue.next().await, 1);
        let failed = Instant::now();
        queue.done(1, Outcome::Retry);
        assert_eq!(queue.next().await, 1);
        assert_eq!(failed.elapsed().as_millis() / 10, 20, "success forgives");
        assert_eq!(retry_after(100), LONGEST_RETRY);
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_does_not_wait_for_a_retry() {
        let queue = Queue::default();
        queue.add(1);
        assert_eq!(now(&queue), Some(1));
        queue.done(1, Outcome::Retry);
        assert_eq!(now(&queue), None);
        queue.add(1);
        assert_eq!(now(&queue), Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn the_earliest_of_several_times_counts() {
        let queue = Queue::default();
        let start = Instant::now();
        queue.add_after(1, Duration::from_secs(60));
        queue.add_after(1, Duration::from_secs(5));
        queue.add_after(1, Duration::from_secs(30));
        assert_eq!(queue.next().await, 1);
        assert_eq!(start.elapsed().as_secs(), 5);
        queue.add_after(1, Duration::from_secs(9));
        queue.done(1, Outcome::Again(Duration::from_secs(7)));
        assert_eq!(queue.next().await, 1);
        assert_eq!(start.elapsed().as_secs(), 12);
    }
}
