//! Node states as the controllers need them: what we wrote into one, small enough to be kept for thousands of nodes. Specs
//! themselves are not kept; they are compared by a number that stands for their meaning.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use parking_lot::RwLock;
use serde::Deserialize;

use super::object::at_least;
use crate::api::{DEFAULT_CONFIG_NAME, SriovNetworkNodeStateSpec};
use crate::nodes::meaning;

/// Until when the state of a vanished node is kept, in RFC 3339.
pub const KEEP_UNTIL: &str = "sriovnetwork.openshift.io/keep-state-until";

/// What is ours in a node state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateHead {
    /// Its uid.
    pub uid: Box<str>,
    /// Its resourceVersion.
    pub version: Box<str>,
    /// What its spec means; see [`meaning::of_spec`].
    pub spec: u64,
    /// Whether its spec lists an interface.
    pub configures: bool,
    /// The RDMA mode of its spec.
    pub rdma_mode: Option<Box<str>>,
    /// The uid of the config, when that is its only owner, and as it should be.
    pub owner: Option<Box<str>>,
    /// The annotation [`KEEP_UNTIL`].
    pub keep_until: Option<Box<str>>,
}

impl StateHead {
    /// Whether it says the same, whatever its version.
    fn says_what(&self, other: &Self) -> bool {
        let mut other = other.clone();
        other.version.clone_from(&self.version);
        *self == other
    }
}

/// What is decoded of a node state beside its status.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct HeadBody {
    uid: Box<str>,
    creation_timestamp: Option<Timestamp>,
    owner_references: Vec<OwnerReference>,
    annotations: HashMap<Box<str>, Box<str>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OwnerReference {
    kind: Box<str>,
    name: Box<str>,
    uid: Box<str>,
    controller: bool,
    block_owner_deletion: bool,
}

impl HeadBody {
    /// Whether it was made longer ago than that.
    pub(super) fn is_older_than(&self, age: SignedDuration) -> bool {
        self.creation_timestamp
            .is_some_and(|made| Timestamp::now().duration_since(made) >= age)
    }

    pub(super) fn head(mut self, version: &str, spec: &SriovNetworkNodeStateSpec) -> StateHead {
        let owner = match self.owner_references.as_slice() {
            [only]
                if &*only.kind == "SriovOperatorConfig"
                    && &*only.name == DEFAULT_CONFIG_NAME
                    && only.controller
                    && only.block_owner_deletion =>
            {
                Some(only.uid.clone())
            }
            _ => None,
        };
        StateHead {
            uid: self.uid,
            version: version.into(),
            spec: meaning::of_spec(spec),
            configures: spec.interfaces.as_ref().is_some_and(|i| !i.is_empty()),
            rdma_mode: spec
                .system
                .as_ref()
                .and_then(|system| system.rdma_mode.as_deref())
                .filter(|mode| !mode.is_empty())
                .map(Box::from),
            owner,
            keep_until: self.annotations.remove(KEEP_UNTIL),
        }
    }
}

/// The heads of all node states, by name.
#[derive(Debug, Default)]
pub(super) struct Heads(RwLock<HashMap<Box<str>, Arc<StateHead>>>);

impl Heads {
    pub(super) fn get(&self, name: &str) -> Option<Arc<StateHead>> {
        self.0.read().get(name).cloned()
    }

    pub(super) fn names(&self) -> Vec<Box<str>> {
        self.0.read().keys().cloned().collect()
    }

    /// Takes in a head, unless a later version of that object is known; says whether it says something new.
    pub(super) fn put(&self, name: &str, head: StateHead) -> bool {
        let mut heads = self.0.write();
        let known = heads.get(name).filter(|known| known.uid == head.uid);
        if known.is_some_and(|known| !at_least(&head.version, &known.version)) {
            return false;
        }
        let news = known.is_none_or(|known| !known.says_what(&head));
        heads.insert(name.into(), Arc::new(head));
        news
    }

    pub(super) fn remove(&self, name: &str) {
        self.0.write().remove(name);
    }

    pub(super) fn retain(&self, keep: impl Fn(&str) -> bool) {
        self.0.write().retain(|name, _| keep(name));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn head(metadata: Value, version: &str) -> StateHead {
        let body: HeadBody = serde_json::from_value(metadata).unwrap();
        body.head(version, &SriovNetworkNodeStateSpec::default())
    }

    #[test]
    fn what_is_ours_is_read() {
        let owner = |controller: bool| json!({"kind": "SriovOperatorConfig", "name": "default", "uid": "c", "controller": controller, "blockOwnerDeletion": true});
        let annotations = json!({KEEP_UNTIL: "2026-01-01T00:00:00Z", "other": "x"});
        let ours = head(
            json!({"uid": "u", "ownerReferences": [owner(true)], "annotations": annotations}),
            "1",
        );
        assert_eq!(ours.owner.as_deref(), Some("c"));
        assert_eq!(ours.keep_until.as_deref(), Some("2026-01-01T00:00:00Z"));
        assert!(!ours.configures);
        for owners in [
            json!([]),
            json!([owner(false)]),
            json!([owner(true), owner(true)]),
        ] {
            assert_eq!(head(json!({"ownerReferences": owners}), "1").owner, None);
        }
    }

    #[test]
    fn only_what_says_something_new_is_news() {
        let heads = Heads::default();
        let with = |note: &str, version: &str| {
            head(
                json!({"uid": "u", "annotations": {KEEP_UNTIL: note}}),
                version,
            )
        };
        assert!(heads.put("n", with("a", "5")));
        assert!(!heads.put("n", with("a", "6")));
        assert!(heads.put("n", with("b", "7")));
        assert!(!heads.put("n", with("a", "6")), "that was before");
        assert_eq!(heads.get("n").unwrap().keep_until.as_deref(), Some("b"));
        assert!(heads.put("n", head(json!({"uid": "another"}), "3")));
    }
}
