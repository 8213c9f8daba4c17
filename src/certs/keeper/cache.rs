//! Secrets as their watch shows them, so that a look at rest asks the API server nothing.
//!
//! What is cached may be behind: every write that follows from it is guarded by the version that was read, and a
//! refused one empties the entry, so that the next attempt reads live. Versions decide which of two answers is newer,
//! since the event of a write may come after the answer to a later one.

use std::collections::BTreeMap;

use futures::stream::{StreamExt, select_all};
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::watcher::{self, Event};
use parking_lot::Mutex;
use serde_json::Value;
use tracing::warn;

use super::store::{KubeSecrets, SecretStore, StoreError};
use crate::lines::causes;
use crate::watching::watch;

/// A store that remembers what it read, wrote and was shown.
pub struct CachedSecrets<S = KubeSecrets> {
    store: S,
    known: Mutex<BTreeMap<String, Known>>,
}

/// What is known of one Secret.
#[derive(Default)]
struct Known {
    /// The newest version that was seen; nothing older is taken in.
    version: u64,
    content: Content,
}

#[derive(Clone, Default)]
enum Content {
    /// It has to be read.
    #[default]
    Unread,
    /// There is none.
    Missing,
    /// It is that.
    Present(Box<Secret>),
}

impl From<Option<Secret>> for Content {
    fn from(secret: Option<Secret>) -> Self {
        secret.map_or(Self::Missing, |secret| Self::Present(Box::new(secret)))
    }
}

impl<S> CachedSecrets<S> {
    /// Remembers nothing yet.
    pub fn new(store: S) -> Self {
        Self {
            store,
            known: Mutex::default(),
        }
    }

    /// Forgets everything, as one who begins to lead does: what the watch would have shown was not followed.
    pub fn forget(&self) {
        self.known.lock().clear();
    }

    /// Takes in what an event shows. Whether it is news.
    pub(super) fn show(&self, name: &str, event: Event<Secret>, listed: &mut bool) -> bool {
        match event {
            Event::Init => {
                *listed = false;
                false
            }
            Event::InitApply(secret) => {
                *listed = true;
                self.remember(name, version(&secret), Some(secret))
            }
            Event::Apply(secret) => self.remember(name, version(&secret), Some(secret)),
            Event::Delete(secret) => self.remember(name, version(&secret), None),
            // It was not listed. Since when it is gone is not said, so the next look finds out.
            Event::InitDone => !*listed && self.doubt(name),
        }
    }

    fn remember(&self, name: &str, version: u64, secret: Option<Secret>) -> bool {
        let mut known = self.known.lock();
        let known = known.entry(name.to_owned()).or_default();
        let newer = version > known.version;
        // An answer to a read is the newest there is, although the version may be known.
        if newer || (matches!(known.content, Content::Unread) && version == known.version) {
            known.version = version;
            known.content = secret.into();
        }
        newer
    }

    /// The next look reads live. Whether something was believed before.
    fn doubt(&self, name: &str) -> bool {
        let mut known = self.known.lock();
        known
            .get_mut(name)
            .map(|known| std::mem::take(&mut known.content))
            .is_some_and(|content| matches!(content, Content::Present(_)))
    }

    fn settle(
        &self,
        name: &str,
        written: Result<Secret, StoreError>,
    ) -> Result<Secret, StoreError> {
        match &written {
            Ok(secret) => {
                self.remember(name, version(secret), Some(secret.clone()));
            }
            // It may have come through all the same.
            Err(_) => {
                self.doubt(name);
            }
        }
        written
    }
}

impl CachedSecrets {
    /// Watches these Secrets until dropped, and calls `changed` for each change that is not an own write already known.
    pub async fn follow(&self, names: &[String], changed: impl Fn()) {
        let mut events = select_all(names.iter().map(|name| {
            let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
            let name = name.clone();
            watch(self.store.api(), config)
                .map(move |event| (name.clone(), event))
                .boxed()
        }));
        let mut listed: BTreeMap<String, bool> = BTreeMap::new();
        while let Some((name, event)) = events.next().await {
            match event {
                Ok(event) => {
                    if self.show(&name, event, listed.entry(name.clone()).or_default()) {
                        changed();
                    }
                }
                Err(error) => {
                    warn!(secret = name, error = %causes(&error), "watch interrupted, it is tried again");
                }
            }
        }
    }
}

impl<S: SecretStore> SecretStore for CachedSecrets<S> {
    fn namespace(&self) -> &str {
        self.store.namespace()
    }

    async fn read(&self, name: &str) -> Result<Option<Secret>, StoreError> {
        let known = self.known.lock().get(name).map(|one| one.content.clone());
        match known {
            Some(Content::Present(secret)) => return Ok(Some(*secret)),
            Some(Content::Missing) => return Ok(None),
            Some(Content::Unread) | None => {}
        }
        let secret = self.store.read(name).await?;
        if let Some(found) = &secret {
            self.remember(name, version(found), secret.clone());
        } else {
            let mut known = self.known.lock();
            known.entry(name.to_owned()).or_default().content = Content::Missing;
        }
        Ok(secret)
    }

    async fn create(&self, secret: &Secret) -> Result<Secret, StoreError> {
        let written = self.store.create(secret).await;
        self.settle(name_of(secret), written)
    }

    async fn merge(&self, name: &str, patch: &Value) -> Result<Secret, StoreError> {
        let written = self.store.merge(name, patch).await;
        self.settle(name, written)
    }

    async fn apply(&self, secret: &Secret, force: bool) -> Result<Secret, StoreError> {
        let written = self.store.apply(secret, force).await;
        self.settle(name_of(secret), written)
    }

    async fn delete(&self, name: &str, uid: &str) -> Result<(), StoreError> {
        let deleted = self.store.delete(name, uid).await;
        self.doubt(name);
        deleted
    }
}

fn name_of(secret: &Secret) -> &str {
    secret.metadata.name.as_deref().unwrap_or_default()
}

/// Resource versions are numbers that grow with every write to the cluster.
fn version(secret: &Secret) -> u64 {
    let version = secret.metadata.resource_version.as_deref();
    version
        .and_then(|version| version.parse().ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::fake::FakeSecrets;
    use super::*;

    const NAME: &str = "operator-webhook-cert";

    fn cached() -> (FakeSecrets, CachedSecrets<FakeSecrets>) {
        let store = FakeSecrets::new();
        (store.clone(), CachedSecrets::new(store))
    }

    fn note(store: &FakeSecrets, text: &str) -> Secret {
        store.by_hand(NAME, |secret| {
            let annotations = secret.metadata.annotations.get_or_insert_default();
            annotations.insert("note".into(), text.into());
        });
        store.get(NAME).unwrap()
    }

    async fn seen(cache: &CachedSecrets<FakeSecrets>) -> Option<String> {
        let secret = cache.read(NAME).await.unwrap()?;
        secret.metadata.annotations?.remove("note")
    }

    #[tokio::test]
    async fn it_reads_once_and_then_believes_the_watch() {
        let (store, cache) = cached();
        assert_eq!(seen(&cache).await, None);
        let first = note(&store, "first");
        assert_eq!(seen(&cache).await, None, "nobody has shown it yet");
        assert!(cache.show(NAME, Event::Apply(first.clone()), &mut true));
        assert_eq!(seen(&cache).await.as_deref(), Some("first"));
        assert!(
            !cache.show(NAME, Event::Apply(first.clone()), &mut true),
            "no news"
        );
        let second = note(&store, "second");
        cache.show(NAME, Event::Apply(second.clone()), &mut true);
        cache.show(NAME, Event::Apply(first), &mut true);
        assert_eq!(seen(&cache).await.as_deref(), Some("second"), "never back");
        assert_eq!(store.reads(), 1);
        assert!(!cache.show(NAME, Event::Delete(Secret::default()), &mut true));
        let mut deleted = second;
        deleted.metadata.resource_version = Some("99".into());
        assert!(cache.show(NAME, Event::Delete(deleted), &mut true));
        assert_eq!(seen(&cache).await, None);
        assert_eq!(store.reads(), 1);
    }

    #[tokio::test]
    async fn a_list_without_it_is_looked_into() {
        let (store, cache) = cached();
        note(&store, "first");
        seen(&cache).await;
        store.delete_by_hand(NAME);
        let mut listed = true;
        assert!(!cache.show(NAME, Event::Init, &mut listed));
        assert!(cache.show(NAME, Event::InitDone, &mut listed));
        assert_eq!(seen(&cache).await, None);
        assert_eq!(store.reads(), 2);
        assert!(!cache.show(NAME, Event::InitDone, &mut listed), "known");
    }

    #[tokio::test]
    async fn after_a_refused_write_it_reads_live() {
        let (store, cache) = cached();
        let stale = note(&store, "first");
        seen(&cache).await;
        note(&store, "second");
        let error = cache.apply(&stale, true).await.unwrap_err();
        assert!(matches!(error, StoreError::Conflict));
        assert_eq!(seen(&cache).await.as_deref(), Some("second"));
    }

    #[tokio::test]
    async fn its_own_writes_are_known_without_the_watch() {
        let (store, cache) = cached();
        let mut secret = note(&store, "first");
        seen(&cache).await;
        secret.type_ = Some("Opaque".into());
        cache.apply(&secret, true).await.unwrap();
        let written = store.get(NAME).unwrap();
        assert_eq!(cache.read(NAME).await.unwrap(), Some(written.clone()));
        assert!(!cache.show(NAME, Event::Apply(written), &mut true));
        assert_eq!(store.reads(), 1);
        cache.forget();
        seen(&cache).await;
        assert_eq!(store.reads(), 2);
    }
}
