//! A collection of any kind for the controllers: each object cut down to what its controller uses, and word of every
//! change with what was there before. Not for admission, whose stores have indexes of their own.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::mirror::{Mirror, mirror};
use super::object::{Key, at_least};
use super::reflect::Sink;
use super::source::Source;

/// How long what a write answered outranks the watch. The watch shows it within milliseconds.
const ABSORBED_FOR: Duration = Duration::from_secs(5);

/// What happened to one object. Neither `before` nor `after` is there when a malformed one stays malformed.
pub struct Change<'a, T> {
    /// Which object.
    pub key: &'a Key,
    /// As it was, unless it is new.
    pub before: Option<&'a Arc<T>>,
    /// As it is, unless it is gone or can no longer be decoded.
    pub after: Option<&'a Arc<T>>,
}

type OnChange<T> = Box<dyn Fn(&Change<'_, T>) + Send + Sync>;

/// The objects of one collection. `T` is what is decoded of each: fields that it does not name are dropped at once, so
/// it decides what the collection costs in memory.
pub struct Objects<T> {
    held: RwLock<BTreeMap<Key, Arc<T>>>,
    /// Versions that own writes answered and that the watch has not shown yet.
    absorbed: Mutex<HashMap<Key, (String, Instant)>>,
    on_change: OnChange<T>,
}

impl<T: DeserializeOwned + Clone + Send + Sync + 'static> Objects<T> {
    /// The collection at `path`, called `what` in logs, and the task that keeps it. `on_change` is called after each
    /// change, when the new state can be read here already.
    pub fn mirror(
        client: &kube::Client,
        what: &'static str,
        path: String,
        on_change: impl Fn(&Change<'_, T>) + Send + Sync + 'static,
    ) -> (Arc<Self>, Mirror) {
        let source = Source {
            what,
            path,
            fields: None,
            metadata_only: false,
        };
        Self::mirror_of(client, source, on_change)
    }

    /// The same of what a source selects.
    pub fn mirror_of(
        client: &kube::Client,
        source: Source,
        on_change: impl Fn(&Change<'_, T>) + Send + Sync + 'static,
    ) -> (Arc<Self>, Mirror) {
        let objects = Arc::new(Self {
            held: RwLock::default(),
            absorbed: Mutex::default(),
            on_change: Box::new(on_change),
        });
        let (_, mirror) = mirror(client, source, &objects);
        (objects, mirror)
    }

    /// One object.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<T>> {
        self.held.read().get(&Key::new(namespace, name)).cloned()
    }

    /// Looks at all objects, in the order of namespaces and names. Holds the lock meanwhile.
    pub fn look<R>(&self, look: impl FnOnce(&BTreeMap<Key, Arc<T>>) -> R) -> R {
        look(&self.held.read())
    }

    /// Takes in what the server answered to a write, so that the next reconcile sees it even before the watch tells.
    pub fn absorb(&self, key: &Key, version: &str, body: T) {
        let until = Instant::now() + ABSORBED_FOR;
        self.absorbed
            .lock()
            .insert(key.clone(), (version.to_owned(), until));
        self.insert(key, body);
    }

    fn insert(&self, key: &Key, body: T) {
        let body = Arc::new(body);
        let before = self.held.write().insert(key.clone(), Arc::clone(&body));
        self.tell(key, before.as_ref(), Some(&body));
    }

    /// Whether the watch shows what was there before an own write.
    fn is_outdated(&self, key: &Key, version: &str) -> bool {
        let mut absorbed = self.absorbed.lock();
        let outdated = absorbed.get(key).is_some_and(|(known, until)| {
            known != version && at_least(known, version) && Instant::now() < *until
        });
        if !outdated {
            absorbed.remove(key);
        }
        outdated
    }

    fn tell(&self, key: &Key, before: Option<&Arc<T>>, after: Option<&Arc<T>>) {
        (self.on_change)(&Change { key, before, after });
    }
}

impl<T: DeserializeOwned + Clone + Send + Sync + 'static> Sink for Objects<T> {
    type Body = T;

    fn put(&self, key: &Key, version: &str, body: T) -> Vec<String> {
        if !self.is_outdated(key, version) {
            self.insert(key, body);
        }
        Vec::new()
    }

    fn remove(&self, key: &Key) {
        self.absorbed.lock().remove(key);
        let before = self.held.write().remove(key);
        self.tell(key, before.as_ref(), None);
    }

    fn retain(&self, seen: &HashSet<Key>, _: &str) {
        let gone: Vec<Key> = self.look(|held| {
            held.keys()
                .filter(|key| !seen.contains(key))
                .cloned()
                .collect()
        });
        for key in gone {
            self.remove(&key);
        }
    }

    fn len(&self) -> usize {
        self.held.read().len()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use parking_lot::Mutex;
    use serde_json::json;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::stores::fake_api::FakeApi;

    const PATH: &str = "/api/v1/things";

    type BeforeAndAfter = (Option<u8>, Option<u8>);

    #[derive(Debug, Clone, serde::Deserialize)]
    struct Thing {
        size: u8,
    }

    #[tokio::test]
    async fn changes_are_told_with_before_and_after_once_they_can_be_read() {
        let api = FakeApi::default();
        let thing = |size: u8| json!({"metadata": {"name": "a"}, "size": size});
        api.put(PATH, thing(1));
        let seen: Arc<Mutex<Vec<BeforeAndAfter>>> = Arc::default();
        let (objects, mirror) = Objects::<Thing>::mirror(&api.client(), "things", PATH.into(), {
            let seen = Arc::clone(&seen);
            move |change| {
                let size = |thing: Option<&Arc<Thing>>| thing.map(|thing| thing.size);
                seen.lock().push((size(change.before), size(change.after)));
            }
        });
        let filled = mirror.filled();
        let task = tokio::spawn(mirror.run(CancellationToken::new()));
        filled.await;
        assert_eq!(objects.get("", "a").unwrap().size, 1);
        api.put(PATH, thing(2));
        api.delete(PATH, "a");
        let expected = vec![(None, Some(1)), (Some(1), Some(2)), (Some(2), None)];
        tokio::time::timeout(Duration::from_secs(5), async {
            while *seen.lock() != expected {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await
        .unwrap();
        assert!(objects.get("", "a").is_none());
        task.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_write_answered_is_not_undone_by_what_the_watch_shows_late() {
        let api = FakeApi::default();
        let (objects, _) = Objects::<Thing>::mirror(&api.client(), "things", PATH.into(), |_| {});
        let key = Key::new("", "a");
        let size = || objects.get("", "a").map(|thing| thing.size);
        objects.put(&key, "7", Thing { size: 1 });
        objects.absorb(&key, "9", Thing { size: 2 });
        objects.put(&key, "8", Thing { size: 3 });
        assert_eq!(size(), Some(2));
        objects.put(&key, "9", Thing { size: 2 });
        objects.put(&key, "10", Thing { size: 4 });
        assert_eq!(size(), Some(4));

        // A server that was put back to an older state counts from there.
        objects.absorb(&key, "11", Thing { size: 5 });
        tokio::time::advance(ABSORBED_FOR).await;
        objects.put(&key, "3", Thing { size: 6 });
        assert_eq!(size(), Some(6));
    }
}
