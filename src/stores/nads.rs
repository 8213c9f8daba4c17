//! Network attachment definitions: metadata only, from a watch; and those that the watch has not shown yet, read live.
//!
//! A burst of pods that name one NAD makes one read: readers of the same key share it, and what it found is
//! remembered until the watch must have shown it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use kube::api::GetParams;
use kube::core::Request;
use parking_lot::{Mutex, RwLock};
use tokio::time::{Instant, timeout};

use super::object::{Key, Object};
use super::reflect::Sink;
use crate::brief::LONGEST_NAME;
use crate::inject::label::LONGEST_LABEL;
use crate::inject::{Nad, NadKey, Nads};
use crate::lines::said;

/// What one live read may take. Below the deadline of a review.
const READ_WITHIN: Duration = Duration::from_secs(3);
/// How long what was read is remembered.
const REMEMBERED_FOR: Duration = Duration::from_secs(1);
/// From this many remembered reads on, those whose time is over are looked for.
const MANY: usize = 256;

/// The path of all NADs.
pub(super) const ALL: &str = "/apis/k8s.cni.cncf.io/v1/network-attachment-definitions";

/// A live read failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReadError {
    /// The API server refused it, or could not be reached.
    #[error("failed to read network attachment definition {key}: {reason}")]
    Failed {
        /// Which one.
        key: NadKey,
        /// The API server's words.
        reason: String,
    },
    /// The API server did not answer.
    #[error("failed to read network attachment definition {key}: no answer within {READ_WITHIN:?}")]
    Unanswered {
        /// Which one.
        key: NadKey,
    },
}

type Read = Shared<BoxFuture<'static, Result<Option<Nad>, ReadError>>>;

/// The NADs of the cluster.
pub(super) struct NadStore {
    client: kube::Client,
    resource_keys: Arc<[String]>,
    index: RwLock<Nads>,
    reads: Mutex<HashMap<NadKey, (Instant, Read)>>,
}

impl NadStore {
    /// `resource_keys` are the annotations that name resources.
    pub(super) fn new(client: kube::Client, resource_keys: &[String]) -> Self {
        Self {
            client,
            resource_keys: resource_keys.into(),
            index: RwLock::default(),
            reads: Mutex::default(),
        }
    }

    /// Looks at the NADs that the watch has shown.
    pub(super) fn look<R>(&self, look: impl FnOnce(&Nads) -> R) -> R {
        look(&self.index.read())
    }

    /// Reads one NAD from the API server. None when it does not exist.
    pub(super) async fn read(&self, key: &NadKey) -> Result<Option<Nad>, ReadError> {
        let is_legal = is_path_segment(&key.namespace, LONGEST_LABEL)
            && is_path_segment(&key.name, LONGEST_NAME);
        if !is_legal {
            return Ok(None); // no object has such a name
        }
        let read = self.shared_read(key);
        let found = read.clone().await;
        if found.is_err() {
            // The next one tries anew, unless somebody has already.
            let mut reads = self.reads.lock();
            if reads.get(key).is_some_and(|(_, known)| known.ptr_eq(&read)) {
                reads.remove(key);
            }
        }
        found
    }

    fn shared_read(&self, key: &NadKey) -> Read {
        let now = Instant::now();
        let mut reads = self.reads.lock();
        if let Some((began, read)) = reads.get(key)
            && !is_over(*began, read, now)
        {
            return read.clone();
        }
        if reads.len() >= MANY {
            reads.retain(|_, (began, read)| !is_over(*began, read, now));
        }
        let read = live(
            self.client.clone(),
            Arc::clone(&self.resource_keys),
            key.clone(),
        )
        .boxed()
        .shared();
        reads.insert(key.clone(), (now, read.clone()));
        read
    }
}

/// Whether a read is answered and no longer to be remembered, or abandoned.
fn is_over(began: Instant, read: &Read, now: Instant) -> bool {
    let age = now.duration_since(began);
    age >= READ_WITHIN || (age >= REMEMBERED_FOR && read.peek().is_some())
}

async fn live(
    client: kube::Client,
    resource_keys: Arc<[String]>,
    key: NadKey,
) -> Result<Option<Nad>, ReadError> {
    let path = format!(
        "/apis/k8s.cni.cncf.io/v1/namespaces/{}/network-attachment-definitions",
        key.namespace
    );
    let request = match Request::new(path).get_metadata(&key.name, &GetParams::default()) {
        Ok(request) => request,
        Err(error) => {
            let reason = error.to_string();
            return Err(ReadError::Failed { key, reason });
        }
    };
    let answer = timeout(READ_WITHIN, client.request::<Object<Metadata>>(request)).await;
    match answer {
        Ok(Ok(Object { body: Ok(body), .. })) => Ok(Some(body.nad(&resource_keys))),
        Ok(Ok(Object {
            body: Err(reason), ..
        })) => Err(ReadError::Failed { key, reason }),
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => Ok(None),
        Ok(Err(error)) => Err(ReadError::Failed {
            key,
            reason: said(&error),
        }),
        Err(_) => Err(ReadError::Unanswered { key }),
    }
}

/// Whether a text is one harmless segment of a path, of at most `longest` bytes: what names of objects are made of.
fn is_path_segment(text: &str, longest: usize) -> bool {
    let of_names = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.')
    };
    (1..=longest).contains(&text.len()) && text.bytes().all(of_names) && !text.starts_with('.')
}

/// The metadata of a NAD, for as long as it takes to pick what counts.
#[derive(Debug, Clone, serde::Deserialize)]
pub(super) struct Metadata {
    metadata: Annotated,
}

#[derive(Debug, Clone, serde::Deserialize)]
struct Annotated {
    annotations: Option<BTreeMap<String, String>>,
}

impl Metadata {
    fn nad(&self, resource_keys: &[String]) -> Nad {
        Nad::new(resource_keys, |key| {
            let annotations = self.metadata.annotations.as_ref()?;
            annotations.get(key).map(String::as_str)
        })
    }
}

impl Sink for NadStore {
    type Body = Metadata;

    fn put(&self, key: &Key, _: &str, body: Metadata) -> Vec<String> {
        let nad = body.nad(&self.resource_keys);
        self.index.write().insert(&key.namespace, &key.name, nad);
        Vec::new()
    }

    fn remove(&self, key: &Key) {
        self.index.write().remove(&key.namespace, &key.name);
    }

    fn retain(&self, seen: &HashSet<Key>, _: &str) {
        self.index.write().retain(|namespace, name| {
            seen.contains(&Key {
                namespace: namespace.into(),
                name: name.into(),
            })
        });
    }

    fn len(&self) -> usize {
        self.index.read().len()
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use serde_json::json;
    use tokio::time::sleep;

    use super::*;
    use crate::stores::fake_api::FakeApi;

    const RESOURCE: &str = "k8s.v1.cni.cncf.io/resourceName";

    fn store(api: &FakeApi) -> Arc<NadStore> {
        Arc::new(NadStore::new(api.client(), &[RESOURCE.to_owned()]))
    }

    fn key(namespace: &str, name: &str) -> NadKey {
        NadKey {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    fn api() -> FakeApi {
        let api = FakeApi::default();
        api.put(
            ALL,
            json!({
                "metadata": { "namespace": "ns", "name": "net", "annotations": { RESOURCE: "a/b" } },
                "spec": { "config": "{}" },
            }),
        );
        api
    }

    fn reads(api: &FakeApi) -> usize {
        api.requests("/namespaces/").len()
    }

    #[tokio::test(start_paused = true)]
    async fn a_live_read_finds_what_exists() {
        let api = api();
        let store = store(&api);
        let nad = store.read(&key("ns", "net")).await.unwrap().unwrap();
        assert_eq!(nad.resources().collect::<Vec<_>>(), ["a/b"]);
        assert!(store.read(&key("ns", "other")).await.unwrap().is_none());
        assert!(store.read(&key("other", "net")).await.unwrap().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_makes_one_read_and_a_later_one_reads_anew() {
        let api = api();
        let store = store(&api);
        for name in ["net", "missing"] {
            let before = reads(&api);
            let key = key("ns", name);
            let burst = (0..500).map(|_| store.read(&key));
            for found in futures::future::join_all(burst).await {
                assert_eq!(found.unwrap().is_some(), name == "net");
            }
            assert_eq!(reads(&api) - before, 1);
            sleep(REMEMBERED_FOR).await;
            store.read(&key).await.unwrap();
            assert_eq!(reads(&api) - before, 2);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_told_and_not_remembered() {
        let api = api();
        let store = store(&api);
        api.fail("GET", Some(StatusCode::FORBIDDEN));
        let error = store.read(&key("ns", "net")).await.unwrap_err();
        assert!(error.to_string().contains("ns/net"), "{error}");
        api.fail("GET", None);
        assert!(store.read(&key("ns", "net")).await.unwrap().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_server_costs_a_bounded_time() {
        let api = api();
        let store = store(&api);
        api.set_silent(true);
        let began = Instant::now();
        let error = store.read(&key("ns", "net")).await.unwrap_err();
        assert!(matches!(error, ReadError::Unanswered { .. }), "{error}");
        assert_eq!(began.elapsed(), READ_WITHIN);
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_that_its_reader_gave_up_does_not_block_the_next() {
        let api = api();
        let store = store(&api);
        api.set_silent(true);
        let key = key("ns", "net");
        let given_up = timeout(Duration::from_secs(1), store.read(&key));
        assert!(given_up.await.is_err());
        api.set_silent(false);
        sleep(READ_WITHIN).await;
        assert!(store.read(&key).await.unwrap().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_that_is_none_reaches_no_url() {
        let api = api();
        let store = store(&api);
        for (namespace, name) in [
            ("ns", "../../x"),
            ("ns", ".."),
            ("ns", "a/b"),
            ("ns", "a%2fb"),
            ("ns", "a?b"),
            ("", "net"),
            ("ns", ""),
            ("..", "net"),
            (&"n".repeat(64), "net"),
            ("ns", &"n".repeat(254)),
        ] {
            assert!(store.read(&key(namespace, name)).await.unwrap().is_none());
        }
        assert_eq!(api.requests("").len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_memory_of_reads_is_bounded() {
        let api = api();
        let store = store(&api);
        for index in 0..MANY * 4 {
            store.read(&key("ns", &format!("n{index}"))).await.unwrap();
            sleep(Duration::from_millis(10)).await;
        }
        assert!(store.reads.lock().len() <= MANY + 1);
    }
}
