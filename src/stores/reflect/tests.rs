use std::collections::BTreeMap;

use http::StatusCode;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::*;
use crate::stores::fake_api::FakeApi;

const NODES: &str = "/api/v1/nodes";

#[derive(Debug, Clone, serde::Deserialize)]
struct Sized {
    size: u8,
}

/// Remembers what it holds and how few objects it ever held since it was first full.
#[derive(Default)]
struct Shelf {
    held: Mutex<BTreeMap<String, u8>>,
    fewest: Mutex<Option<usize>>,
}

impl Shelf {
    fn note(&self) {
        let held = self.held.lock().len();
        if let Some(fewest) = &mut *self.fewest.lock() {
            *fewest = held.min(*fewest);
        }
    }

    fn held(&self) -> Vec<(String, u8)> {
        let held = self.held.lock();
        held.iter()
            .map(|(name, size)| (name.clone(), *size))
            .collect()
    }
}

impl Sink for Shelf {
    type Body = Sized;

    fn put(&self, key: &Key, _: &str, body: Sized) -> Vec<String> {
        self.held.lock().insert(key.to_string(), body.size);
        self.note();
        Vec::new()
    }

    fn remove(&self, key: &Key) {
        self.held.lock().remove(&key.to_string());
        self.note();
    }

    fn retain(&self, seen: &HashSet<Key>, _: &str) {
        let seen: HashSet<String> = seen.iter().map(Key::to_string).collect();
        self.held.lock().retain(|name, _| seen.contains(name));
        self.note();
    }

    fn len(&self) -> usize {
        self.held.lock().len()
    }
}

struct Mirror {
    api: FakeApi,
    shelf: Arc<Shelf>,
    health: Arc<Health>,
    malformed: Arc<AtomicU64>,
    task: tokio::task::JoinHandle<Infallible>,
}

impl Mirror {
    fn start(api: FakeApi, name: Option<&'static str>) -> Self {
        let mut source = Source::all("nodes", NODES.to_owned());
        if let Some(name) = name {
            source = source.named(name);
        }
        let (shelf, health, malformed) = (Arc::default(), Arc::new(Health::new()), Arc::default());
        let reflector = Reflector::new(
            api.client(),
            source,
            Arc::clone(&shelf),
            Arc::clone(&health),
            Arc::clone(&malformed),
        );
        let task = tokio::spawn(reflector.run());
        Self {
            api,
            shelf,
            health,
            malformed,
            task,
        }
    }

    async fn filled(api: FakeApi) -> Self {
        let mirror = Self::start(api, None);
        mirror.health.wait_filled().await;
        mirror
    }

    async fn until(&self, what: &[(&str, u8)]) {
        let want: Vec<_> = what
            .iter()
            .map(|(name, size)| ((*name).to_owned(), *size))
            .collect();
        let reached = timeout(Duration::from_secs(600), async {
            while self.shelf.held() != want {
                sleep(Duration::from_millis(10)).await;
            }
        });
        assert!(
            reached.await.is_ok(),
            "{:?} never became {want:?}",
            self.shelf.held()
        );
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn node(name: &str, size: impl Into<Value>) -> Value {
    json!({ "metadata": { "name": name }, "size": size.into() })
}

fn api(nodes: &[(&str, u8)]) -> FakeApi {
    let api = FakeApi::default();
    for (name, size) in nodes {
        api.put(NODES, node(name, *size));
    }
    api
}

#[tokio::test(start_paused = true)]
async fn the_first_list_fills_and_events_follow() {
    let mirror = Mirror::filled(api(&[("a", 1), ("b", 2)])).await;
    mirror.until(&[("a", 1), ("b", 2)]).await;
    mirror.api.put(NODES, node("c", 3));
    mirror.api.put(NODES, node("a", 9));
    mirror.api.delete(NODES, "b");
    mirror.until(&[("a", 9), ("c", 3)]).await;
    sleep(Duration::from_secs(1)).await;
    assert!(mirror.health.live(Instant::now()));
}

#[tokio::test(start_paused = true)]
async fn a_long_list_is_taken_in_pages() {
    let api = FakeApi::default();
    for index in 0..600 {
        api.put(NODES, node(&format!("n{index:03}"), 1));
    }
    let mirror = Mirror::filled(api).await;
    assert_eq!(mirror.shelf.held().len(), 600);
    assert_eq!(mirror.api.requests("limit=100").len(), 6);
}

#[tokio::test(start_paused = true)]
async fn only_the_named_object_is_asked_for() {
    let mirror = Mirror::start(api(&[("a", 1), ("b", 2)]), Some("b"));
    mirror.until(&[("b", 2)]).await;
    mirror.api.put(NODES, node("a", 7));
    mirror.api.put(NODES, node("b", 8));
    mirror.until(&[("b", 8)]).await;
}

#[tokio::test(start_paused = true)]
async fn after_gone_a_new_list_drops_what_is_no_more_and_the_store_is_never_empty() {
    let mirror = Mirror::filled(api(&[("a", 1), ("b", 2), ("c", 3)])).await;
    *mirror.shelf.fewest.lock() = Some(usize::MAX);
    mirror.api.compact(|api| {
        api.delete(NODES, "b");
        api.put(NODES, node("d", 4));
    });
    mirror.until(&[("a", 1), ("c", 3), ("d", 4)]).await;
    assert_eq!(*mirror.shelf.fewest.lock(), Some(3));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_goes_on_where_it_stopped() {
    let mirror = Mirror::filled(api(&[("a", 1)])).await;
    for size in 2..5 {
        sleep(Duration::from_secs(30)).await;
        mirror.api.end_watches();
        mirror.api.put(NODES, node("a", size));
        mirror.until(&[("a", size)]).await;
    }
    assert_eq!(mirror.api.requests("limit=").len(), 1, "no second list");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_kind_is_an_empty_store_until_it_is_known() {
    let api = api(&[("a", 1)]);
    api.set_unknown("/nodes", true);
    let mirror = Mirror::filled(api).await;
    assert_eq!(mirror.shelf.held(), []);
    sleep(Duration::from_secs(300)).await;
    assert!(mirror.health.fresh(Instant::now()));
    mirror.api.set_unknown("/nodes", false);
    mirror.until(&[("a", 1)]).await;
    mirror.api.set_unknown("/nodes", true);
    mirror.api.end_watches();
    mirror.until(&[]).await;
}

#[tokio::test(start_paused = true)]
async fn refusals_back_off_and_fill_nothing() {
    let api = api(&[("a", 1)]);
    api.fail("GET", Some(StatusCode::FORBIDDEN));
    let mirror = Mirror::start(api, None);
    sleep(Duration::from_secs(60)).await;
    assert!(!mirror.health.filled());
    let tries = mirror.api.requests("limit=").len();
    assert!((3..=20).contains(&tries), "{tries} tries in a minute");
    mirror.api.fail("GET", None);
    mirror.until(&[("a", 1)]).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_for_minutes_makes_the_store_stale_and_it_recovers() {
    let mirror = Mirror::filled(api(&[("a", 1), ("b", 2)])).await;
    mirror
        .api
        .fail("GET", Some(StatusCode::INTERNAL_SERVER_ERROR));
    mirror.api.end_watches();
    mirror.api.delete(NODES, "b");
    sleep(Duration::from_secs(300)).await;
    assert!(!mirror.health.fresh(Instant::now()));
    assert_eq!(mirror.shelf.held().len(), 2, "what was known stays known");
    mirror.api.fail("GET", None);
    mirror.until(&[("a", 1)]).await;
    sleep(Duration::from_secs(1)).await;
    assert!(mirror.health.live(Instant::now()));
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_silently_dies_is_noticed() {
    let mirror = Mirror::filled(api(&[("a", 1)])).await;
    mirror.api.set_silent(true);
    mirror.api.put(NODES, node("a", 2));
    sleep(Duration::from_secs(100)).await;
    assert!(!mirror.health.live(Instant::now()));
    mirror.api.set_silent(false);
    mirror.until(&[("a", 2)]).await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_does_not_decode_is_set_aside_once_a_version() {
    let api = api(&[("a", 1), ("b", 2)]);
    api.put(NODES, node("odd", "huge"));
    let mirror = Mirror::filled(api).await;
    mirror.until(&[("a", 1), ("b", 2)]).await;
    mirror.api.compact(|api| {
        api.put("/api/v1/pods", node("elsewhere", 1));
    });
    sleep(Duration::from_secs(30)).await;
    assert_eq!(mirror.api.requests("limit=").len(), 2, "listed twice");
    assert_eq!(mirror.malformed.load(Ordering::Relaxed), 1);
    mirror.api.put(NODES, node("a", "huge"));
    mirror.until(&[("b", 2)]).await;
    assert_eq!(mirror.malformed.load(Ordering::Relaxed), 2);
    mirror.api.put(NODES, node("odd", 3));
    mirror.until(&[("b", 2), ("odd", 3)]).await;
}
