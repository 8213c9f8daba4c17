//! The `ConfigMap` `device-plugin-config`: one key a node. Keys are written one by one by merge patches, so that nobody
//! else's are touched; nodes that wait at the same time share a patch, since the object is large in a large cluster.
//!
//! A plugin that has to be restarted for a new configuration is noted in an annotation by the same patch, and the note
//! goes when that is done: no restart is lost when this process ends in between.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PostParams, Preconditions},
    core::Request,
};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tracing::{debug, info};

use super::writer::{Failure, call, owner_reference, patched};
use crate::{
    apply::{FIELD_MANAGER, MANAGED_BY, MANAGED_BY_LABEL},
    render::DEVICE_PLUGIN_CONFIG,
    stores::{Objects, is_at_least},
};

/// Name of the `ConfigMap`.
pub(super) const NAME: &str = DEVICE_PLUGIN_CONFIG.name;
/// The nodes whose device plugin is yet to be restarted, joined by commas.
const RESTARTS: &str = "sriovnetwork.openshift.io/device-plugin-restarts";
/// The API server's limit is 1 MiB for all values.
const MOST_BYTES: usize = 1_000_000;
/// From here on nothing is spelled out that means nothing.
const TERSE_FROM: usize = 700_000;
/// The most nodes of one patch, which bounds the annotation.
const MOST_EDITS: usize = 500;

/// The `ConfigMap` as it is held.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PluginMap {
    metadata: Metadata,
    data: Option<BTreeMap<Box<str>, Box<str>>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    uid: Box<str>,
    resource_version: Box<str>,
    annotations: BTreeMap<Box<str>, Box<str>>,
    owner_references: Vec<Value>,
}

impl PluginMap {
    fn data(&self) -> impl Iterator<Item = (&str, &str)> {
        self.data
            .iter()
            .flatten()
            .map(|(key, value)| (key.as_ref(), value.as_ref()))
    }

    fn get(&self, node: &str) -> Option<&str> {
        self.data.as_ref()?.get(node).map(AsRef::as_ref)
    }

    fn restarts(&self) -> BTreeSet<&str> {
        let list = self.metadata.annotations.get(RESTARTS);
        list.into_iter()
            .flat_map(|list| list.split(','))
            .filter(|node| !node.is_empty())
            .collect()
    }
}

/// The nodes of which a key, or the note about a restart, differs between two versions.
pub(super) fn differing(
    before: Option<&Arc<PluginMap>>,
    after: Option<&Arc<PluginMap>>,
) -> Vec<Box<str>> {
    type Of<'a> = BTreeMap<&'a str, (Option<&'a str>, bool)>;
    fn of(map: Option<&Arc<PluginMap>>) -> Of<'_> {
        let mut nodes = Of::new();
        if let Some(map) = map {
            for (node, text) in map.data() {
                nodes.entry(node).or_default().0 = Some(text);
            }
            for node in map.restarts() {
                nodes.entry(node).or_default().1 = true;
            }
        }
        nodes
    }
    let (before, after) = (of(before), of(after));
    let names: BTreeSet<&str> = before.keys().chain(after.keys()).copied().collect();
    names
        .into_iter()
        .filter(|node| before.get(node) != after.get(node))
        .map(Box::from)
        .collect()
}

/// A change of one node's key.
#[derive(Clone, Debug)]
pub(super) struct Edit {
    node: Box<str>,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    Put {
        full: String,
        terse: String,
        restart: bool,
    },
    Remove,
    Restarted,
}

impl Edit {
    /// The node's configuration, spelled in two ways; and whether its plugin has to be restarted for it.
    pub(super) fn put(node: &str, full: String, terse: String, restart: bool) -> Self {
        let what = What::Put {
            full,
            terse,
            restart,
        };
        Self {
            node: node.into(),
            what,
        }
    }

    /// The node has none.
    pub(super) fn remove(node: &str) -> Self {
        Self {
            node: node.into(),
            what: What::Remove,
        }
    }

    /// The node's plugin has been restarted.
    pub(super) fn restarted(node: &str) -> Self {
        Self {
            node: node.into(),
            what: What::Restarted,
        }
    }
}

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

/// Reads and writes the `ConfigMap`.
pub(super) struct PluginConfig {
    api: Api<ConfigMap>,
    store: Arc<Objects<PluginMap>>,
    namespace: String,
    written: Written,
    waiting: Mutex<Vec<Waiting>>,
    turn: tokio::sync::Mutex<()>,
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
            let _turn = self.turn.lock().await;
            self.write(owner).await;
        }
        // Whoever had a turn has taken the edit, and answered.
        receiver
            .await
            .unwrap_or(Err(Failure::Silent("write the ConfigMap")))
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
        let params = DeleteParams::default().preconditions(Preconditions {
            uid: Some(map.metadata.uid.to_string()),
            resource_version: None,
        });
        match call("remove the ConfigMap", self.api.delete(NAME, &params)).await {
            Err(failure) if failure.is_outdated() => Ok(()),
            other => other.map(drop),
        }
    }

    /// Writes what waits.
    async fn write(&self, owner: &str) {
        loop {
            let batch: Vec<Waiting> = {
                let mut waiting = self.waiting.lock();
                let count = waiting.len().min(MOST_EDITS);
                waiting.drain(..count).collect()
            };
            if batch.is_empty() {
                return;
            }
            self.write_batch(batch, owner).await;
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
        if outcome.as_ref().is_err_and(Failure::is_outdated) {
            // It is another object than was thought; only the store can tell.
            self.written.set(None);
        }
        let failure = outcome.err().map(Arc::new);
        for (edit, answer) in edits.into_iter().zip(answers) {
            let result = match &failure {
                Some(failure) => Err(Failure::Shared(Arc::clone(failure))),
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
    ) -> Result<(), Failure> {
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
            let (params, patch) = (patched(), Patch::Merge(&patch));
            // What comes back is decoded once, into what is held: it is large in a large cluster.
            let request = Request::new(self.api.resource_url())
                .patch(NAME, &params, &patch)
                .map_err(|e| Failure::Call("write the ConfigMap", kube::Error::BuildRequest(e)))?;
            let client = self.api.clone().into_client();
            call("write the ConfigMap", client.request::<PluginMap>(request)).await?
        } else {
            let object = json!({
                "metadata": {
                    "name": NAME,
                    "labels": { MANAGED_BY_LABEL: MANAGED_BY },
                    "ownerReferences": [reference],
                },
                "data": change.data,
            });
            let object: ConfigMap = serde_json::from_value(object)
                .map_err(|e| Failure::Call("make the ConfigMap", kube::Error::SerdeError(e)))?;
            let params = PostParams {
                field_manager: Some(FIELD_MANAGER.into()),
                ..PostParams::default()
            };
            let made = call("make the ConfigMap", self.api.create(&params, &object)).await?;
            serde_json::to_value(made)
                .and_then(serde_json::from_value)
                .map_err(|e| Failure::Call("make the ConfigMap", kube::Error::SerdeError(e)))?
        };
        self.written.set(Some(written));
        Ok(())
    }

    /// The `ConfigMap` as the store shows it, or as the last write left it if that is later.
    fn current(&self) -> Option<Arc<PluginMap>> {
        self.written.or(self.store.get(&self.namespace, NAME))
    }
}

/// What one patch changes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Change {
    /// Keys to set, or to remove.
    data: BTreeMap<Box<str>, Option<String>>,
    /// The annotation afterwards.
    restarts: Option<String>,
    /// Whether the annotation differs.
    renotes: bool,
    /// Nodes for which there is no room.
    left_out: BTreeSet<Box<str>>,
}

impl Change {
    fn of(current: Option<&PluginMap>, edits: &[Edit]) -> Self {
        let mut change = Self::default();
        let before = current.map(PluginMap::restarts).unwrap_or_default();
        let mut restarts: BTreeSet<&str> = before.clone();
        let stored = |node: &str| current.and_then(|map| map.get(node));
        let mut size: usize = current
            .iter()
            .flat_map(|map| map.data())
            .map(|(key, value)| key.len() + value.len())
            .sum();
        for edit in edits {
            let node = &*edit.node;
            let was = stored(node).map_or(0, |value| node.len() + value.len());
            match &edit.what {
                What::Restarted => {
                    restarts.remove(node);
                }
                What::Remove => {
                    restarts.remove(node);
                    if stored(node).is_some() {
                        size = size.saturating_sub(was);
                        change.data.insert(node.into(), None);
                    }
                }
                What::Put {
                    full,
                    terse,
                    restart,
                } => {
                    let text = if size > TERSE_FROM { terse } else { full };
                    let then = size.saturating_sub(was) + node.len() + text.len();
                    if then > MOST_BYTES && then > size {
                        change.left_out.insert(node.into());
                        continue;
                    }
                    size = then;
                    change.data.insert(node.into(), Some(text.clone()));
                    if *restart {
                        restarts.insert(node);
                    }
                }
            }
        }
        change.renotes = restarts != before;
        let list = restarts.into_iter().collect::<Vec<_>>().join(",");
        change.restarts = (!list.is_empty()).then_some(list);
        change
    }

    fn is_empty(&self) -> bool {
        self.data.is_empty() && !self.renotes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(data: &[(&str, &str)], restarts: &str) -> PluginMap {
        let data: BTreeMap<&str, &str> = data.iter().copied().collect();
        serde_json::from_value(json!({
            "metadata": {"uid": "u", "resourceVersion": "1", "annotations": {RESTARTS: restarts}},
            "data": data,
        }))
        .unwrap()
    }

    fn put(node: &str, text: &str, restart: bool) -> Edit {
        Edit::put(node, text.into(), "t".into(), restart)
    }

    #[test]
    fn edits_share_a_patch() {
        let current = map(&[("a", "1"), ("b", "1")], "b");
        let change = Change::of(
            Some(&current),
            &[
                put("a", "2", true),
                Edit::remove("b"),
                Edit::remove("c"),
                put("d", "1", false),
            ],
        );
        assert_eq!(json!(change.data), json!({"a": "2", "b": null, "d": "1"}));
        assert_eq!(change.restarts.as_deref(), Some("a"));
        let done = Change::of(Some(&map(&[], "a,b")), &[Edit::restarted("a")]);
        assert_eq!(done.restarts.as_deref(), Some("b"));
        assert!(!done.is_empty());
        assert!(Change::of(Some(&map(&[], "b")), &[Edit::restarted("a")]).is_empty());
        assert!(Change::of(None, &[Edit::remove("a")]).is_empty());
    }

    #[test]
    fn a_large_map_is_terse_and_a_full_one_leaves_out_what_does_not_fit() {
        let half = "x".repeat(TERSE_FROM);
        let change = Change::of(Some(&map(&[("a", &half)], "")), &[put("b", "full", false)]);
        assert_eq!(json!(change.data), json!({"b": "t"}));
        let full = "x".repeat(MOST_BYTES);
        let current = map(&[("a", &full)], "");
        let edits = [put("b", "full", true), put("a", "less", false)];
        let change = Change::of(Some(&current), &edits);
        assert_eq!(json!(change.left_out), json!(["b"]));
        assert_eq!(json!(change.data), json!({"a": "t"}));
        assert_eq!(change.restarts, None);
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

    #[test]
    fn the_nodes_that_differ_are_told() {
        let map = |data: &[(&str, &str)], restarts: &str| Some(Arc::new(map(data, restarts)));
        let before = map(&[("a", "1"), ("b", "1"), ("c", "1")], "c");
        let after = map(&[("a", "1"), ("b", "2"), ("d", "1")], "");
        let told = differing(before.as_ref(), after.as_ref());
        assert_eq!(told, ["b", "c", "d"].map(Box::from));
        assert_eq!(differing(before.as_ref(), None).len(), 3);
        assert!(differing(before.as_ref(), before.as_ref()).is_empty());
    }
}
