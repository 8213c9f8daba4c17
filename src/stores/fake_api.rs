//! A small API server in this process, for tests: collections of JSON objects with lists in pages, watches,
//! optimistic writes, and faults on request. It does nothing that a real one would not.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures::channel::mpsc;
use futures::{FutureExt as _, StreamExt as _};
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// Handle to the server. Clones are the same server.
#[derive(Clone, Default)]
pub(crate) struct FakeApi(Arc<Mutex<World>>);

#[derive(Default)]
struct World {
    version: u64,
    /// Path of the collection, path of the object below it.
    objects: BTreeMap<(String, String), Value>,
    history: Vec<(u64, String, &'static str, Value)>,
    watchers: Vec<Watcher>,
    /// Watches from an earlier version are gone.
    compacted: u64,
    unknown: Vec<String>,
    failing: HashMap<&'static str, StatusCode>,
    silent: bool,
    requests: Vec<String>,
}

struct Watcher {
    collection: String,
    name: Option<String>,
    metadata_only: bool,
    events: mpsc::UnboundedSender<Bytes>,
}

impl FakeApi {
    pub(crate) fn client(&self) -> kube::Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await?.to_bytes();
                let answer = api.answer(&parts, &body);
                match answer {
                    Some(answer) => Ok::<_, kube::Error>(answer),
                    None => std::future::pending().await,
                }
            }
            .boxed()
        });
        kube::Client::new(service, "default")
    }

    /// Stores an object under `collection` as somebody's write would, and tells the watches.
    pub(crate) fn put(&self, collection: &str, object: Value) -> u64 {
        self.0.lock().put(collection, object)
    }

    pub(crate) fn delete(&self, collection: &str, name: &str) {
        self.0.lock().delete(collection, name);
    }

    pub(crate) fn get(&self, collection: &str, name: &str) -> Option<Value> {
        let key = (collection.to_owned(), name.to_owned());
        self.0.lock().objects.get(&key).cloned()
    }

    /// Changes the world without telling the watches, ends them, and forgets what they would need to resume.
    pub(crate) fn compact(&self, change: impl FnOnce(&Self)) {
        let watchers = std::mem::take(&mut self.0.lock().watchers);
        change(self);
        let mut world = self.0.lock();
        world.compacted = world.version;
        drop(world);
        drop(watchers);
    }

    /// Ends all watches as a restarted server would.
    pub(crate) fn end_watches(&self) {
        self.0.lock().watchers.clear();
    }

    /// The kinds whose path contains `part` are unknown, or known again.
    pub(crate) fn set_unknown(&self, part: &str, unknown: bool) {
        let mut world = self.0.lock();
        world.unknown.retain(|known| known != part);
        if unknown {
            world.unknown.push(part.to_owned());
        }
    }

    /// Requests whose method and path contain `part` fail with `status`, until it is None.
    pub(crate) fn fail(&self, part: &'static str, status: Option<StatusCode>) {
        let mut world = self.0.lock();
        match status {
            Some(status) => world.failing.insert(part, status),
            None => world.failing.remove(part),
        };
    }

    /// Requests are never answered, and watches never say anything more, until it is false.
    pub(crate) fn set_silent(&self, silent: bool) {
        self.0.lock().silent = silent;
    }

    /// Method and path of each request whose text contains `part`.
    pub(crate) fn requests(&self, part: &str) -> Vec<String> {
        let world = self.0.lock();
        let matching = world.requests.iter().filter(|line| line.contains(part));
        matching.cloned().collect()
    }

    fn answer(&self, request: &http::request::Parts, body: &[u8]) -> Option<Answer> {
        let mut world = self.0.lock();
        let line = format!("{} {}", request.method, request.uri);
        world.requests.push(line.clone());
        if world.silent {
            return None;
        }
        if world.unknown.iter().any(|part| line.contains(part)) {
            let text = Bytes::from_static(b"404 page not found\n");
            return Some(respond(
                StatusCode::NOT_FOUND,
                Full::new(text).boxed_unsync(),
            ));
        }
        let failing = world.failing.iter().find(|(part, _)| line.contains(**part));
        if let Some((_, status)) = failing {
            return Some(refuse(*status, "Fault"));
        }
        let path = request.uri.path();
        let query: HashMap<String, String> = request
            .uri
            .query()
            .unwrap_or_default()
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .map(|(key, value)| (key.to_owned(), value.replace("%3D", "=")))
            .collect();
        let accept = request.headers.get(http::header::ACCEPT);
        let metadata_only =
            accept.is_some_and(|accept| accept.as_bytes().starts_with(b"application/json;as="));
        let collection = query.contains_key("limit") || query.contains_key("watch");
        Some(match (&request.method, collection) {
            (&Method::GET, true) if query.contains_key("watch") => {
                world.watch(path, &query, metadata_only)
            }
            (&Method::GET, true) => world.list(path, &query, metadata_only),
            (&Method::GET, false) => world.read(path, metadata_only),
            (&Method::POST, _) => world.create(path, body),
            (&Method::PUT, _) => world.replace(path, body),
            _ => refuse(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed"),
        })
    }
}

impl World {
    fn put(&mut self, collection: &str, mut object: Value) -> u64 {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let key = if namespace.is_empty() || collection.contains("/namespaces/") {
            name.to_owned()
        } else {
            format!("{namespace}/{name}")
        };
        let key = (collection.to_owned(), key);
        let kind = if self.objects.insert(key, object.clone()).is_some() {
            "MODIFIED"
        } else {
            "ADDED"
        };
        self.tell(collection, kind, object);
        self.version
    }

    fn delete(&mut self, collection: &str, name: &str) {
        let key = (collection.to_owned(), name.to_owned());
        let Some(mut object) = self.objects.remove(&key) else {
            return;
        };
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.tell(collection, "DELETED", object);
    }

    fn tell(&mut self, collection: &str, kind: &'static str, object: Value) {
        if !self.silent {
            self.watchers
                .retain(|watcher| watcher.tell(collection, kind, &object));
        }
        self.history
            .push((self.version, collection.to_owned(), kind, object));
    }

    fn list(&self, path: &str, query: &HashMap<String, String>, metadata_only: bool) -> Answer {
        let limit = query.get("limit").and_then(|text| text.parse().ok());
        let limit: usize = limit.unwrap_or(usize::MAX);
        let start: usize = query
            .get("continue")
            .and_then(|text| text.parse().ok())
            .unwrap_or(0);
        let name = named(query);
        let all: Vec<&Value> = self
            .objects
            .iter()
            .filter(|((collection, _), object)| collection == path && is(object, name))
            .map(|(_, object)| object)
            .collect();
        let end = all.len().min(start.saturating_add(limit));
        let page = all.get(start..end).unwrap_or_default();
        let items: Vec<Value> = page
            .iter()
            .map(|object| reduce(object, metadata_only))
            .collect();
        let mut metadata = json!({ "resourceVersion": self.version.to_string() });
        if end < all.len() {
            metadata["continue"] = json!(end.to_string());
        }
        let list =
            json!({ "kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items });
        respond_json(StatusCode::OK, &list)
    }

    fn watch(
        &mut self,
        path: &str,
        query: &HashMap<String, String>,
        metadata_only: bool,
    ) -> Answer {
        let from = query.get("resourceVersion");
        let from: u64 = from.and_then(|text| text.parse().ok()).unwrap_or(0);
        let (events, receiver) = mpsc::unbounded();
        if from < self.compacted {
            let status =
                json!({ "kind": "Status", "code": 410, "reason": "Expired", "message": "too old" });
            events.unbounded_send(line("ERROR", &status)).ok();
        } else {
            let watcher = Watcher {
                collection: path.to_owned(),
                name: named(query).map(str::to_owned),
                metadata_only,
                events,
            };
            for (version, collection, kind, object) in &self.history {
                if *version > from {
                    watcher.tell(collection, kind, object);
                }
            }
            self.watchers.push(watcher);
        }
        let frames = receiver.map(|bytes| Ok(Frame::data(bytes)));
        respond(StatusCode::OK, StreamBody::new(frames).boxed_unsync())
    }

    fn read(&self, path: &str, metadata_only: bool) -> Answer {
        let found = self
            .objects
            .iter()
            .find(|((collection, name), _)| at(collection, name) == path);
        match found {
            Some((_, object)) => respond_json(StatusCode::OK, &reduce(object, metadata_only)),
            None => refuse(StatusCode::NOT_FOUND, "NotFound"),
        }
    }

    fn create(&mut self, path: &str, body: &[u8]) -> Answer {
        let object: Value = serde_json::from_slice(body).unwrap();
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let key = (path.to_owned(), name);
        if self.objects.contains_key(&key) {
            return refuse(StatusCode::CONFLICT, "AlreadyExists");
        }
        self.put(path, object);
        respond_json(StatusCode::CREATED, &self.objects[&key])
    }

    fn replace(&mut self, path: &str, body: &[u8]) -> Answer {
        let object: Value = serde_json::from_slice(body).unwrap();
        let (collection, name) = path.rsplit_once('/').unwrap();
        let key = (collection.to_owned(), name.to_owned());
        let Some(stored) = self.objects.get(&key) else {
            return refuse(StatusCode::NOT_FOUND, "NotFound");
        };
        if stored["metadata"]["resourceVersion"] != object["metadata"]["resourceVersion"] {
            return refuse(StatusCode::CONFLICT, "Conflict");
        }
        self.put(collection, object);
        respond_json(StatusCode::OK, &self.objects[&key])
    }
}

impl Watcher {
    /// False when nobody listens any more.
    fn tell(&self, collection: &str, kind: &str, object: &Value) -> bool {
        let concerned = collection == self.collection && is(object, self.name.as_deref());
        !concerned
            || self
                .events
                .unbounded_send(line(kind, &reduce(object, self.metadata_only)))
                .is_ok()
    }
}

/// The path of one object of a collection, which for a cluster-wide list of namespaced objects is not below it.
fn at(collection: &str, name: &str) -> String {
    match (name.split_once('/'), collection.rsplit_once('/')) {
        (Some((namespace, name)), Some((group, plural))) => {
            format!("{group}/namespaces/{namespace}/{plural}/{name}")
        }
        _ => format!("{collection}/{name}"),
    }
}

fn named(query: &HashMap<String, String>) -> Option<&str> {
    query.get("fieldSelector")?.strip_prefix("metadata.name=")
}

fn is(object: &Value, name: Option<&str>) -> bool {
    name.is_none_or(|name| object["metadata"]["name"] == name)
}

fn reduce(object: &Value, metadata_only: bool) -> Value {
    if metadata_only {
        json!({
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": object["metadata"],
        })
    } else {
        object.clone()
    }
}

/// One event as the server writes it: the type comes first.
fn line(kind: &str, object: &Value) -> Bytes {
    Bytes::from(format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n"))
}

fn refuse(status: StatusCode, reason: &str) -> Answer {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": status.as_u16(), "reason": reason, "message": reason,
    });
    respond_json(status, &body)
}

fn respond_json(status: StatusCode, body: &Value) -> Answer {
    respond(
        status,
        Full::new(Bytes::from(body.to_string())).boxed_unsync(),
    )
}

fn respond(status: StatusCode, body: UnsyncBoxBody<Bytes, Infallible>) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer
}
