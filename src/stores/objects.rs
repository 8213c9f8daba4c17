//! A collection of any kind for the controllers: each object cut down to what its controller uses, and word of every
//! change with what was there before. Not for admission, whose stores have indexes of their own.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
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
/// How long an object that the watch has shown to be gone is not brought back by the answer to a write: longer than a
/// write may take.
const GONE_FOR: Duration = Duration::from_secs(60);

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
    order: Mutex<Order>,
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
        Self::mirror_of(client, Source::all(what, path), on_change)
    }

    /// Only the object called `name` of the collection at `path`.
    pub fn mirror_one(
        client: &kube::Client,
        name: &'static str,
        path: String,
        on_change: impl Fn(&Change<'_, T>) + Send + Sync + 'static,
    ) -> (Arc<Self>, Mirror) {
        Self::mirror_of(client, Source::all(name, path).named(name), on_change)
    }

    /// The same of what a source selects.
    pub fn mirror_of(
        client: &kube::Client,
        source: Source,
        on_change: impl Fn(&Change<'_, T>) + Send + Sync + 'static,
    ) -> (Arc<Self>, Mirror) {
        let objects = Arc::new(Self {
            held: RwLock::default(),
            order: Mutex::default(),
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
    /// When the watch has told already, also of what came after, that counts.
    pub fn absorb(&self, key: &Key, version: &str, body: T) {
        if self.order.lock().is_news(key, version, Instant::now()) {
            self.insert(key, body);
        }
    }

    fn insert(&self, key: &Key, body: T) {
        let body = Arc::new(body);
        let before = self.held.write().insert(key.clone(), Arc::clone(&body));
        self.tell(key, before.as_ref(), Some(&body));
    }

    fn tell(&self, key: &Key, before: Option<&Arc<T>>, after: Option<&Arc<T>>) {
        (self.on_change)(&Change { key, before, after });
    }
}

/// Which of two sources is ahead for an object: the watch, or the answers to own writes.
#[derive(Default)]
struct Order {
    /// Version of each object that is held, and until when an answered one outranks what the watch shows.
    held: HashMap<Key, (Box<str>, Option<Instant>)>,
    /// When the watch has shown that an object is gone.
    gone: HashMap<Key, Instant>,
    /// The same, in the order of time.
    gone_oldest_first: VecDeque<(Instant, Key)>,
}

impl Order {
    /// Takes in the answer to a write. Whether it is ahead of the watch.
    fn is_news(&mut self, key: &Key, version: &str, now: Instant) -> bool {
        let news = match self.held.get(key) {
            Some((held, _)) => !at_least(held, version),
            None => self
                .gone
                .get(key)
                .is_none_or(|gone| *gone + GONE_FOR <= now),
        };
        if news {
            let until = Some(now + ABSORBED_FOR);
            self.held.insert(key.clone(), (version.into(), until));
        }
        news
    }

    /// Takes in what the watch shows. Whether no own write is ahead of it.
    fn is_shown(&mut self, key: &Key, version: &str, now: Instant) -> bool {
        let outdated = self.held.get(key).is_some_and(|(held, until)| {
            until.is_some_and(|until| now < until) && **held != *version && at_least(held, version)
        });
        if !outdated {
            self.held.insert(key.clone(), (version.into(), None));
        }
        !outdated
    }

    fn is_gone(&mut self, key: &Key, now: Instant) {
        self.held.remove(key);
        while let Some((gone, key)) = self.gone_oldest_first.front()
            && *gone + GONE_FOR <= now
        {
            // One that went again meanwhile stands further back as well.
            if self.gone.get(key) == Some(gone) {
                self.gone.remove(key);
            }
            self.gone_oldest_first.pop_front();
        }
        self.gone.insert(key.clone(), now);
        self.gone_oldest_first.push_back((now, key.clone()));
    }
}

impl<T: DeserializeOwned + Clone + Send + Sync + 'static> Sink for Objects<T> {
    type Body = T;

    fn put(&self, key: &Key, version: &str, body: T) -> Vec<String> {
        if self.order.lock().is_shown(key, version, Instant::now()) {
            self.insert(key, body);
        }
        Vec::new()
    }

    fn remove(&self, key: &Key) {
        self.order.lock().is_gone(key, Instant::now());
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

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_comes_after_what_the_watch_shows_changes_nothing() {
        let api = FakeApi::default();
        let (objects, _) = Objects::<Thing>::mirror(&api.client(), "things", PATH.into(), |_| {});
        let key = Key::new("", "a");
        let size = || objects.get("", "a").map(|thing| thing.size);
        // Another object of that name is there already.
        objects.put(&key, "7", Thing { size: 1 });
        objects.remove(&key);
        objects.put(&key, "9", Thing { size: 2 });
        objects.absorb(&key, "8", Thing { size: 3 });
        assert_eq!(size(), Some(2));
        // It is gone: the answer is no proof that it is there.
        objects.remove(&key);
        objects.absorb(&key, "10", Thing { size: 4 });
        assert_eq!(size(), None);
        // One that was never there, or long ago, is new.
        tokio::time::advance(GONE_FOR).await;
        objects.absorb(&key, "11", Thing { size: 5 });
        assert_eq!(size(), Some(5));
        objects.remove(&Key::new("", "b"));
        assert_eq!(
            objects.order.lock().gone.len(),
            1,
            "what is long gone is forgotten"
        );
    }
}
