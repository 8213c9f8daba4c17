//! Keeps one store like the collection that it mirrors: list in pages, watch, recover.
//!
//! Written here rather than taken from the runtime of the Kubernetes client for four things that admission leans on:
//! bookmarks and reconnections are seen (so that freshness is a fact), one object that does not decode does not end
//! the list, a kind that the server does not know is an empty collection, and at a new list the store changes object by
//! object, so that it never looks empty to a review.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::TryStreamExt as _;
use kube::api::WatchEvent;
use kube::runtime::utils::Backoff as _;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};
use tracing::{debug, info, warn};

use super::health::Health;
use super::object::{Key, Object};
use super::source::{Interruption, Source, within};
use crate::lines::causes;
use crate::watching::{CustomKind, Pauses, WATCH_SECONDS};

/// What the head of a watch may take.
const WATCH_OPEN_WITHIN: Duration = Duration::from_secs(10);
/// A watch that is silent for longer than it may last is dead.
const SILENCE: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 10);
/// How often a kind that the server does not know, and whose definition is watched, counts as looked at.
const UNKNOWN_KIND_PERIOD: Duration = Duration::from_secs(20);

/// Where the objects go.
pub(super) trait Sink: Send + Sync + 'static {
    /// What is used of an object.
    type Body: DeserializeOwned + Clone + Send;

    /// Takes an object, new or changed. What is returned are the complaints about it: parts that were set aside.
    fn put(&self, key: &Key, version: &str, body: Self::Body) -> Vec<String>;

    /// The object is gone, or has become unusable.
    fn remove(&self, key: &Key);

    /// Removes all objects but these, which were listed at `version`.
    fn retain(&self, seen: &HashSet<Key>, version: &str);

    /// How many objects it holds.
    fn len(&self) -> usize;
}

/// One store's mirror.
pub(super) struct Reflector<S> {
    client: kube::Client,
    source: Source,
    sink: Arc<S>,
    health: Arc<Health>,
    malformed: Arc<AtomicU64>,
    /// Complaints are logged once a version.
    complained: HashMap<Key, String>,
}

impl<S: Sink> Reflector<S> {
    pub(super) fn new(
        client: kube::Client,
        source: Source,
        sink: Arc<S>,
        health: Arc<Health>,
        malformed: Arc<AtomicU64>,
    ) -> Self {
        Self {
            client,
            source,
            sink,
            health,
            malformed,
            complained: HashMap::new(),
        }
    }

    /// Mirrors for ever.
    pub(super) async fn run(mut self) -> Infallible {
        let mut backoff = Pauses::default();
        let mut kind = self.source.kind(&self.client);
        let mut known = true;
        loop {
            let interruption = match self.list().await {
                Ok(version) => {
                    if !known {
                        info!(what = self.source.what, "the server knows the kind now");
                    }
                    known = true;
                    kind.is_known();
                    backoff.reset();
                    self.watch(version, &mut backoff).await
                }
                Err(interruption) if interruption.is_unknown_kind() => {
                    if known {
                        info!(
                            what = self.source.what,
                            "unknown to the server, counts as empty"
                        );
                    }
                    known = false;
                    self.sink.retain(&HashSet::new(), "");
                    self.health.fill();
                    self.learned(&mut kind).await;
                    continue;
                }
                Err(interruption) => interruption,
            };
            self.interrupted(&interruption);
            pause(&mut backoff).await;
        }
    }

    /// Waits until the server may know the kind. Meanwhile the store is empty as it should be.
    async fn learned(&self, kind: &mut CustomKind) {
        let mut learned = std::pin::pin!(kind.learned());
        loop {
            self.health.sign_of_life(Instant::now());
            tokio::select! {
                () = &mut learned => return,
                () = sleep(UNKNOWN_KIND_PERIOD) => {}
            }
        }
    }

    /// Brings the store to the collection as it is now. Returns its version.
    async fn list(&mut self) -> Result<String, Interruption> {
        let mut seen = HashSet::new();
        let (client, source) = (self.client.clone(), self.source.clone());
        let version = source
            .list(&client, |objects| {
                self.health.sign_of_life(Instant::now());
                for object in objects {
                    seen.insert(object.key.clone());
                    self.put(object);
                }
            })
            .await?;
        self.sink.retain(&seen, &version);
        self.complained.retain(|key, _| seen.contains(key));
        self.health.fill();
        debug!(
            what = self.source.what,
            objects = seen.len(),
            version,
            "listed"
        );
        Ok(version)
    }

    /// Follows the collection from `version` on, reconnecting, until only a new list helps.
    async fn watch(&mut self, mut version: String, backoff: &mut Pauses) -> Interruption {
        loop {
            let began = Instant::now();
            match self.watch_once(&mut version).await {
                // The server ends each watch when its time is over. One that ends at once is in trouble.
                Ok(()) if began.elapsed() >= Duration::from_secs(1) => backoff.reset(),
                Ok(()) => {
                    self.health.lost();
                    pause(backoff).await;
                }
                Err(interruption)
                    if interruption.is_gone()
                        || interruption.is_unknown_kind()
                        || matches!(interruption, Interruption::NoVersion) =>
                {
                    return interruption;
                }
                Err(interruption) => {
                    self.interrupted(&interruption);
                    pause(backoff).await;
                }
            }
        }
    }

    /// One watch, until it ends. `version` follows.
    async fn watch_once(&mut self, version: &mut String) -> Result<(), Interruption> {
        let request = self.source.watch(version, WATCH_SECONDS)?;
        let client = self.client.clone();
        let events = within(
            WATCH_OPEN_WITHIN,
            client.request_events::<Object<S::Body>>(request),
        )
        .await?;
        let mut events = std::pin::pin!(events);
        self.health.sign_of_life(Instant::now());
        while let Some(event) = within(SILENCE, events.try_next()).await? {
            self.health.sign_of_life(Instant::now());
            let at = match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    let at = object.version.clone();
                    self.put(object);
                    at
                }
                WatchEvent::Deleted(object) => {
                    self.sink.remove(&object.key);
                    self.complained.remove(&object.key);
                    object.version
                }
                WatchEvent::Bookmark(bookmark) => bookmark.metadata.resource_version,
                WatchEvent::Error(status) => return Err(Interruption::Status(status)),
            };
            if at.is_empty() {
                return Err(Interruption::NoVersion);
            }
            *version = at;
        }
        Ok(())
    }

    fn put(&mut self, object: Object<S::Body>) {
        let Object { key, version, body } = object;
        let complaints = match body {
            Ok(body) => self.sink.put(&key, &version, body),
            Err(reason) => {
                self.sink.remove(&key);
                vec![reason]
            }
        };
        if complaints.is_empty() {
            self.complained.remove(&key);
            return;
        }
        let news = self.complained.get(&key) != Some(&version);
        if news {
            let what = self.source.what;
            let complaints = complaints.join("; ");
            warn!(what, object = %key, version, complaints, "malformed, set aside");
            self.malformed.fetch_add(1, Ordering::Relaxed);
            self.complained.insert(key, version);
        }
    }

    fn interrupted(&self, interruption: &Interruption) {
        self.health.lost();
        let what = self.source.what;
        if interruption.is_gone() {
            debug!(what, "the version is too old, listing anew");
        } else {
            warn!(what, interruption = %causes(interruption), "watch interrupted");
        }
    }
}

/// Brings the store to the collection as it is now, beside the mirror that keeps it. Complaints are the mirror's.
pub(super) async fn refresh<S: Sink>(
    client: &kube::Client,
    source: &Source,
    sink: &S,
) -> Result<(), Interruption> {
    let mut seen = HashSet::new();
    let version = source
        .list(client, |objects| {
            for Object { key, version, body } in objects {
                match body {
                    Ok(body) => drop(sink.put(&key, &version, body)),
                    Err(_) => sink.remove(&key),
                }
                seen.insert(key);
            }
        })
        .await?;
    sink.retain(&seen, &version);
    Ok(())
}

async fn pause(backoff: &mut Pauses) {
    sleep(backoff.pause()).await;
}

#[cfg(test)]
mod tests;
