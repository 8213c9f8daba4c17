//! The `ConfigMap` `device-plugin-config` as it is held, and what a patch changes of it: one key a node, and an annotation
//! that lists the nodes whose plugin is yet to be restarted. No I/O.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::Deserialize;
use serde_json::Value;

/// The nodes whose device plugin is yet to be restarted, joined by commas.
pub(super) const RESTARTS: &str = "sriovnetwork.openshift.io/device-plugin-restarts";
/// The API server's limit is 1 MiB for all values.
const MOST_BYTES: usize = 1_000_000;
/// From here on nothing is spelled out that means nothing.
const TERSE_FROM: usize = 500_000;

/// The `ConfigMap` as it is held.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PluginMap {
    pub(super) metadata: Metadata,
    data: Option<BTreeMap<Box<str>, Box<str>>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Metadata {
    pub(super) uid: Box<str>,
    pub(super) resource_version: Box<str>,
    annotations: BTreeMap<Box<str>, Box<str>>,
    pub(super) owner_references: Vec<Value>,
}

impl PluginMap {
    fn data(&self) -> impl Iterator<Item = (&str, &str)> {
        self.data
            .iter()
            .flatten()
            .map(|(key, value)| (key.as_ref(), value.as_ref()))
    }

    pub(super) fn get(&self, node: &str) -> Option<&str> {
        self.data.as_ref()?.get(node).map(AsRef::as_ref)
    }

    pub(super) fn restarts(&self) -> BTreeSet<&str> {
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
    pub(super) node: Box<str>,
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

/// What one patch changes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    /// Keys to set, or to remove.
    pub(super) data: BTreeMap<Box<str>, Option<String>>,
    /// The annotation afterwards.
    pub(super) restarts: Option<String>,
    /// Whether the annotation differs.
    renotes: bool,
    /// Nodes for which there is no room.
    pub(super) left_out: BTreeSet<Box<str>>,
}

impl Change {
    pub(super) fn of(current: Option<&PluginMap>, edits: &[Edit]) -> Self {
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

    pub(super) fn is_empty(&self) -> bool {
        self.data.is_empty() && !self.renotes
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
    fn two_resources_on_each_of_five_thousand_nodes_have_room() {
        // The lengths of two resources that are chosen by the names of their physical functions.
        let (full, terse) = ("x".repeat(244), "x".repeat(134));
        let what = || What::Put {
            full: full.clone(),
            terse: terse.clone(),
            restart: false,
        };
        let edits: Vec<Edit> = (0..5_000)
            .map(|number| Edit {
                node: format!("node-{number:05}").into(),
                what: what(),
            })
            .collect();
        let change = Change::of(None, &edits);
        assert_eq!(change.data.len(), 5_000);
        assert!(change.left_out.is_empty());
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
