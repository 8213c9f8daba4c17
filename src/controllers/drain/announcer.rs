//! What Events tell about drains: each thing when it begins, and again from time to time while it lasts; and what of it
//! holds drains up at the moment.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use k8s_openapi::api::core::v1::ObjectReference;
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::info;

use super::{Key, objects::State};
use crate::{
    api::API_VERSION,
    controllers::Queue,
    operator::{Events, Reason},
};

/// After that time, what still holds is told again. Events are kept for an hour.
const AGAIN: Duration = Duration::from_secs(600);

/// Tells, and remembers what it told.
pub(super) struct Announcer {
    events: Events,
    namespace: String,
    queue: Queue<Key>,
    told: Mutex<HashMap<Box<str>, (Reason, String, Instant)>>,
    blocked: Mutex<BTreeMap<Box<str>, String>>,
}

impl Announcer {
    pub(super) fn new(events: &Events, namespace: &str, queue: &Queue<Key>) -> Self {
        Self {
            events: events.clone(),
            namespace: namespace.to_owned(),
            queue: queue.clone(),
            told: Mutex::default(),
            blocked: Mutex::default(),
        }
    }

    /// Tells something about a node.
    pub(super) fn tell(&self, node: &str, state: &State, reason: Reason, text: &str) {
        self.set_blocked(node, (reason == Reason::DrainBlocked).then_some(text));
        let now = Instant::now();
        let told = (reason, text.to_owned(), now);
        {
            let mut all = self.told.lock();
            let known = all.get(node).is_some_and(|(before, last, at)| {
                *before == reason && last == text && now.duration_since(*at) < AGAIN
            });
            if known {
                return;
            }
            all.insert(node.into(), told);
        }
        info!(node, reason = ?reason, text, "drain");
        let about = ObjectReference {
            api_version: Some(API_VERSION.into()),
            kind: Some("SriovNetworkNodeState".into()),
            name: Some(node.into()),
            namespace: Some(self.namespace.clone()),
            uid: Some(state.metadata.uid.to_string()),
            ..ObjectReference::default()
        };
        self.events.publish(&about, reason, text);
    }

    /// The node is another story from now on.
    pub(super) fn forget(&self, node: &str) {
        self.go_on(node);
        self.told.lock().remove(node);
    }

    /// Nothing holds the node up, or no longer.
    pub(super) fn go_on(&self, node: &str) {
        self.set_blocked(node, None);
    }

    /// What holds nodes up, by node.
    pub(super) fn blocked(&self) -> BTreeMap<Box<str>, String> {
        self.blocked.lock().clone()
    }

    fn set_blocked(&self, node: &str, why: Option<&str>) {
        let mut blocked = self.blocked.lock();
        if blocked.get(node).map(String::as_str) == why {
            return;
        }
        match why {
            Some(why) => blocked.insert(node.into(), why.to_owned()),
            None => blocked.remove(node),
        };
        self.queue.add_after(Key::Report, super::TOGETHER);
    }
}
