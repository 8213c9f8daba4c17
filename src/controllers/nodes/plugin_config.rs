//! Reads and writes the `ConfigMap` `device-plugin-config`. Keys are written one by one by merge patches, so that nobody
//! else's are touched; the object is large in a large cluster, so that it is not written often, and nodes that wait
//! meanwhile share a patch.
//!
//! A plugin that has to be restarted for a new configuration is noted in an annotation by the same patch, and the note
//! goes when that is done: no restart is lost when this process ends in between.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, api::Patch, core::Request};
use parking_lot::Mutex;
use serde_json::json;
use tokio::{
    sync::oneshot,
    time::{Instant, sleep_until},
};
use tracing::{debug, info};

use super::{
    plugin_map::{Change, Edit, PluginMap, RESTARTS, differing},
    writer::{Failure, owner_reference},
};
use crate::{
    apply::{MANAGED_BY, MANAGED_BY_LABEL, by_us, made_by_us},
    controllers::calls::{Error, call, that_very, undecodable},
    render::DEVICE_PLUGIN_CONFIG,
    stores::{Objects, is_at_least},
};

/// Name of the `ConfigMap`.
pub(super) const NAME: &str = DEVICE_PLUGIN_CONFIG.name;
/// The most nodes of one patch, which bounds the annotation.
const MOST_EDITS: usize = 500;
/// From the end of a write to the next.
const PAUSE: Duration = Duration::from_millis(500);

/// What the last write made, until the store shows it.
#[derive(Clone, Default)]
pub(super) struct Written(Arc<Mutex<Latest>>);

#[derive(Default)]
struct Latest {
    map: Option<Arc<PluginMap>>,
    /// The uid of the object that went last: an answer about it may still be on its way.
    gone: Box<str>,
}

impl Written {
    /// The object is gone: what was written of it is no longer so. Another one may have been made since.
    pub(super) fn is_gone(&self, gone: &PluginMap) {
        let mut latest = self.0.lock();
        latest.gone.clone_from(&gone.metadata.uid);
        latest.map = latest
            .map
            .take()
            .filter(|map| map.metadata.uid != gone.metadata.uid);
    }

    fn set(&self, map: Option<PluginMap>) {
        let mut latest = self.0.lock();
        latest.map = map
            .filter(|map| map.metadata.uid != latest.gone)
            .map(Arc::new);
    }

    /// What the store shows, or what was written if that is later.
    fn or(&self, stored: Option<Arc<PluginMap>>) -> Option<Arc<PluginMap>> {
        let mut latest = self.0.lock();
        let Some(later) = latest.map.as_ref() else {
            return stored;
        };
        let shown = stored.as_ref().is_some_and(|stored| {
            is_at_least(
                &stored.metadata.resource_version,
                &later.metadata.resource_version,
            )
        });
        if shown {
            latest.map = None;
            return stored;
        }
        Some(Arc::clone(later))
    }
}

type Waiting = (Edit, oneshot::Sender<Result<(), Failure>>);
/// In messages.
const OBJECT: &str = "ConfigMap device-plugin-config";

/// Reads and writes the `ConfigMap`.
pub(super) struct PluginConfig {
    api: Api<ConfigMap>,
    store: Arc<Objects<PluginMap>>,
    namespace: String,
    written: Written,
    waiting: Mutex<Vec<Waiting>>,
    /// When the last write ended.
    turn: tokio::sync::Mutex<Option<Instant>>,
}

impl PluginConfig {
    /// `written` is to be told when the store loses the object.
    pub(super) fn new(
        client: &Client,
        namespace: &str,
        store: Arc<Objects<PluginMap>>,
        written: Written,
    ) -> Self {
        Self {
            api: Api::namespaced(client.clone(), namespace),
            store,
            namespace: namespace.to_owned(),
            written,
            waiting: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// The configuration of a node.
    pub(super) fn get(&self, node: &str) -> Option<String> {
        self.current()?.get(node).map(str::to_owned)
    }

    /// The nodes that have one, and those whose plugin is to be restarted.
    pub(super) fn nodes(&self) -> Vec<Box<str>> {
        differing(self.current().as_ref(), None)
    }

    /// Whether the node's plugin is yet to be restarted.
    pub(super) fn is_restart_due(&self, node: &str) -> bool {
        self.current()
            .is_some_and(|map| map.restarts().contains(node))
    }

    /// Makes a change, together with those that others want meanwhile. `owner` is the uid of the config.
    pub(super) async fn edit(&self, edit: Edit, owner: &str) -> Result<(), Failure> {
        let (sender, receiver) = oneshot::channel();
        self.waiting.lock().push((edit, sender));
        {
            let mut last = self.turn.lock().await;
            self.write(owner, &mut last).await;
        }
        // Whoever had a turn has taken the edit, and answered.
        receiver
            .await
            .unwrap_or_else(|_| Err(Error::Outdated(OBJECT.into()).into()))
    }

    /// Removes it, if there is one and a config owns it.
    pub(super) async fn remove(&self) -> Result<(), Failure> {
        let Some(map) = self.current() else {
            return Ok(());
        };
        let owners = &map.metadata.owner_references;
        if !owners
            .iter()
            .any(|owner| owner["kind"] == "SriovOperatorConfig")
        {
            return Ok(());
        }
        info!(object = NAME, "removing the ConfigMap: there is no config");
        let params = that_very(&map.metadata.uid);
        match call("remove", OBJECT, self.api.delete(NAME, &params)).await {
            Err(error) if error.is_outdated() => Ok(()),
            other => Ok(other.map(drop)?),
        }
    }

    /// Writes what waits.
    async fn write(&self, owner: &str, last: &mut Option<Instant>) {
        while !self.waiting.lock().is_empty() {
            if let Some(last) = *last {
                sleep_until(last + PAUSE).await;
            }
            let batch: Vec<Waiting> = {
                let mut waiting = self.waiting.lock();
                let count = waiting.len().min(MOST_EDITS);
                waiting.drain(..count).collect()
            };
            self.write_batch(batch, owner).await;
            *last = Some(Instant::now());
        }
    }

    async fn write_batch(&self, batch: Vec<Waiting>, owner: &str) {
        let current = self.current();
        let (edits, answers): (Vec<Edit>, Vec<_>) = batch.into_iter().unzip();
        let change = Change::of(current.as_deref(), &edits);
        let outcome = if change.is_empty() {
            Ok(())
        } else {
            self.send(current.as_deref(), &change, owner).await
        };
        if outcome.as_ref().is_err_and(Error::is_outdated) {
            // It is another object than was thought; only the store can tell.
            self.written.set(None);
        }
        let error = outcome.err();
        for (edit, answer) in edits.into_iter().zip(answers) {
            let result = match &error {
                Some(error) => Err(error.clone().into()),
                None if change.left_out.contains(&edit.node) => Err(Failure::Full(edit.node)),
                None => Ok(()),
            };
            // One that does not wait any more has no use for the answer.
            let _ = answer.send(result);
        }
    }

    async fn send(
        &self,
        current: Option<&PluginMap>,
        change: &Change,
        owner: &str,
    ) -> Result<(), Error> {
        debug!(
            nodes = change.data.len(),
            "writing the device plugins' configuration"
        );
        let reference = owner_reference(owner);
        let annotations = json!({ RESTARTS: change.restarts });
        let written: PluginMap = if let Some(map) = current {
            let mut metadata = json!({ "uid": map.metadata.uid, "annotations": annotations });
            if map.metadata.owner_references.as_slice() != [reference.clone()] {
                metadata["ownerReferences"] = json!([reference]);
            }
            let patch = json!({ "metadata": metadata, "data": change.data });
            let (params, patch) = (by_us(), Patch::Merge(&patch));
            // What comes back is decoded once, into what is held: it is large in a large cluster.
            let written = async {
                let request = Request::new(self.api.resource_url()).patch(NAME, &params, &patch);
                let request = request.map_err(kube::Error::BuildRequest)?;
                let client = self.api.clone().into_client();
                client.request::<PluginMap>(request).await
            };
            call("write", OBJECT, written).await?
        } else {
            let object = json!({
                "metadata": {
                    "name": NAME,
                    "labels": { MANAGED_BY_LABEL: MANAGED_BY },
                    "ownerReferences": [reference],
                },
                "data": change.data,
            });
            let object: ConfigMap =
                serde_json::from_value(object).map_err(|error| undecodable(OBJECT, error))?;
            let made = call("make", OBJECT, self.api.create(&made_by_us(), &object)).await?;
            serde_json::to_value(made)
                .and_then(serde_json::from_value)
                .map_err(|error| undecodable(OBJECT, error))?
        };
        self.written.set(Some(written));
        Ok(())
    }

    /// The `ConfigMap` as the store shows it, or as the last write left it if that is later.
    fn current(&self) -> Option<Arc<PluginMap>> {
        self.written.or(self.store.get(&self.namespace, NAME))
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::atomic::{AtomicU64, Ordering},
    };

    use futures::future::join_all;
    use http::{Request as Asked, Response};
    use kube::client::Body;
    use tokio::time::sleep;
    use tower::service_fn;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_follows_soon_after_a_write_shares_the_next() {
        let writes: Arc<AtomicU64> = Arc::default();
        let api = service_fn({
            let writes = Arc::clone(&writes);
            move |_: Asked<Body>| {
                let version = writes.fetch_add(1, Ordering::Relaxed).to_string();
                let map = json!({"metadata": {"uid": "u", "resourceVersion": version}});
                let answer = Response::new(Body::from(map.to_string().into_bytes()));
                async { Ok::<_, Infallible>(answer) }
            }
        });
        let client = Client::new(api, "ns");
        let (store, _) = Objects::mirror_one(&client, NAME, "/path".into(), |_| {});
        let config = PluginConfig::new(&client, "ns", store, Written::default());
        let edit = async |node: &str, after: u64| {
            sleep(Duration::from_millis(after)).await;
            let text = || "{}".to_owned();
            config
                .edit(Edit::put(node, text(), text(), false), "o")
                .await
        };
        let (began, count) = (Instant::now(), || writes.load(Ordering::Relaxed));
        edit("a", 0).await.unwrap();
        assert!(began.elapsed() < PAUSE, "the first waits for nothing");
        let soon = [("b", 0), ("c", 100), ("d", 300)];
        for outcome in join_all(soon.map(|(node, after)| edit(node, after))).await {
            outcome.unwrap();
        }
        assert!(began.elapsed() >= PAUSE);
        assert_eq!(count(), 2);
        edit("e", 2_000).await.unwrap();
        assert_eq!(count(), 3);
        assert!(began.elapsed() < PAUSE + Duration::from_millis(2_300));
    }

    #[test]
    fn what_was_written_counts_until_the_store_shows_it_or_it_is_gone() {
        let of = |uid: &str, version: &str| -> PluginMap {
            serde_json::from_value(json!({"metadata": {"uid": uid, "resourceVersion": version}}))
                .unwrap()
        };
        let seen =
            |map: Option<Arc<PluginMap>>| map.map(|m| m.metadata.resource_version.to_string());
        let stored = |version: &str| Some(Arc::new(of("u", version)));
        let written = Written::default();
        assert_eq!(seen(written.or(stored("1"))), Some("1".into()));
        written.set(Some(of("u", "5")));
        assert_eq!(seen(written.or(stored("4"))), Some("5".into()));
        assert_eq!(seen(written.or(None)), Some("5".into()), "it is being made");
        written.is_gone(&of("an earlier one", "3"));
        assert_eq!(seen(written.or(None)), Some("5".into()));
        written.is_gone(&of("u", "6"));
        assert_eq!(seen(written.or(None)), None);
        written.set(Some(of("u", "6")));
        assert_eq!(seen(written.or(None)), None, "the answer came late");
        written.set(Some(of("v", "5")));
        assert_eq!(seen(written.or(stored("5"))), Some("5".into()));
        assert_eq!(seen(written.or(None)), None, "the store has shown it");
    }
}
