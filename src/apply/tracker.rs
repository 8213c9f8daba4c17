//! What was applied and what the watches show. Pure: no client, no clock but one passed in.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use serde_json::Value;

use super::{
    ObjectRef,
    ownership::{last_other_manager, our_fields},
    repairs::{Contested, Repairs},
};

/// What is known of an object.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum State {
    /// Not looked at since this process leads.
    Unknown,
    /// Not there.
    Absent,
    /// As we applied it.
    Applied(Remembered),
    /// Changed or deleted since we applied it.
    Drifted,
}

/// What an apply left.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Remembered {
    pub(super) desired: Value,
    pub(super) uid: String,
    fields: Value,
    version: u128,
}

/// Something that watches saw and that needs a reconcile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Drift {
    /// An object that was applied has changed; who did it, when known.
    Changed(ObjectRef, Option<String>),
    /// An object that was applied has gone.
    Deleted(ObjectRef),
    /// An object with our label has appeared that we did not apply.
    Appeared(ObjectRef),
}

impl Drift {
    /// The object it is about.
    pub fn object(&self) -> &ObjectRef {
        match self {
            Self::Changed(object, _) | Self::Deleted(object) | Self::Appeared(object) => object,
        }
    }
}

/// The memory of the applier.
#[derive(Debug, Default)]
pub(super) struct Tracker {
    states: BTreeMap<ObjectRef, State>,
    repairs: Repairs<ObjectRef>,
}

impl Tracker {
    pub(super) fn state(&self, object: &ObjectRef) -> State {
        self.states.get(object).cloned().unwrap_or(State::Unknown)
    }

    /// Whether nothing needs to be done for that rendering of an object.
    pub(super) fn is_current(&self, object: &ObjectRef, desired: &Value) -> bool {
        matches!(self.states.get(object), Some(State::Applied(remembered)) if remembered.desired == *desired)
    }

    /// Remembers what an apply returned.
    pub(super) fn applied(&mut self, object: &ObjectRef, desired: Value, live: &Value) {
        let remembered = Remembered {
            desired,
            uid: text(live, "/metadata/uid"),
            fields: our_fields(live).cloned().unwrap_or_default(),
            version: version(live),
        };
        self.states
            .insert(object.clone(), State::Applied(remembered));
    }

    /// Remembers that an object is not there.
    pub(super) fn absent(&mut self, object: &ObjectRef) {
        self.states.insert(object.clone(), State::Absent);
    }

    /// Forgets everything: another process may have written meanwhile.
    pub(super) fn forget(&mut self) {
        self.states.clear();
        self.repairs = Repairs::default();
    }

    /// Takes in metadata that a watch showed.
    pub(super) fn seen(&mut self, object: &ObjectRef, live: &Value) -> Option<Drift> {
        match self.states.get(object) {
            Some(State::Applied(remembered)) => {
                if version(live) <= remembered.version
                    && text(live, "/metadata/uid") == remembered.uid
                {
                    return None;
                }
                if text(live, "/metadata/uid") == remembered.uid
                    && our_fields(live) == Some(&remembered.fields)
                {
                    return None;
                }
                self.states.insert(object.clone(), State::Drifted);
                Some(Drift::Changed(object.clone(), last_other_manager(live)))
            }
            Some(State::Absent) => {
                self.states.insert(object.clone(), State::Unknown);
                Some(Drift::Appeared(object.clone()))
            }
            Some(State::Unknown | State::Drifted) | None => None,
        }
    }

    /// Takes in that what is there at `version` is not what was applied.
    pub(super) fn doubt(&mut self, object: &ObjectRef, version: &str) {
        let newer = matches!(self.states.get(object), Some(State::Applied(remembered))
            if version.parse::<u128>().is_ok_and(|version| version > remembered.version));
        if newer {
            self.states.insert(object.clone(), State::Drifted);
        }
    }

    /// Takes in a deletion that a watch showed. `uid` is that of the deleted object.
    pub(super) fn deleted(&mut self, object: &ObjectRef, uid: &str) -> Option<Drift> {
        match self.states.get(object) {
            Some(State::Applied(remembered)) if remembered.uid == uid => {}
            _ => return None,
        }
        // A label selector that no longer matches looks like a deletion: the next apply looks for itself.
        self.states.insert(object.clone(), State::Drifted);
        Some(Drift::Deleted(object.clone()))
    }

    /// Takes in the end of a list: what was applied, belongs to the watch and was not listed is gone.
    pub(super) fn listed(
        &mut self,
        seen: &BTreeSet<ObjectRef>,
        belongs: impl Fn(&ObjectRef) -> bool,
    ) -> Vec<Drift> {
        let gone: Vec<ObjectRef> = self
            .states
            .iter()
            .filter(|(object, state)| {
                matches!(state, State::Applied(_)) && belongs(object) && !seen.contains(object)
            })
            .map(|(object, _)| object.clone())
            .collect();
        for object in &gone {
            self.states.insert(object.clone(), State::Drifted);
        }
        gone.into_iter().map(Drift::Deleted).collect()
    }

    /// Counts a repair and says when it may be made: at once, or not before that instant.
    pub(super) fn repair(
        &mut self,
        object: &ObjectRef,
        manager: Option<String>,
        now: Instant,
    ) -> Result<(), Contested> {
        self.repairs.count(object, manager, now)
    }
}

fn text(live: &Value, pointer: &str) -> String {
    live.pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// Resource versions of one object are numbers that grow; 0 when one is not, so that it is never taken for newer.
fn version(live: &Value) -> u128 {
    text(live, "/metadata/resourceVersion")
        .parse()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service() -> ObjectRef {
        ObjectRef::of(&json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}))
            .unwrap()
    }

    fn live(version: &str, uid: &str, fields: &Value) -> Value {
        json!({"metadata": {"uid": uid, "resourceVersion": version, "managedFields": [
            {"manager": "kubectl", "operation": "Update", "time": "t", "fieldsV1": {"f:q": {}}},
            {"manager": "sriov-operator", "operation": "Apply", "fieldsV1": fields}]}})
    }

    fn applied() -> Tracker {
        let mut tracker = Tracker::default();
        tracker.applied(
            &service(),
            json!({"a": 1}),
            &live("10", "u", &json!({"f:a": {}})),
        );
        tracker
    }

    #[test]
    fn what_we_applied_needs_nothing_until_our_fields_change() {
        let mut tracker = applied();
        assert!(tracker.is_current(&service(), &json!({"a": 1})));
        assert!(!tracker.is_current(&service(), &json!({"a": 2})));
        assert_eq!(
            tracker.seen(&service(), &live("11", "u", &json!({"f:a": {}}))),
            None
        );
        assert_eq!(
            tracker.seen(&service(), &live("12", "u", &json!({}))),
            Some(Drift::Changed(service(), Some("kubectl".into())))
        );
        assert!(!tracker.is_current(&service(), &json!({"a": 1})));
    }

    #[test]
    fn an_event_from_before_our_apply_is_no_drift() {
        let mut tracker = applied();
        assert_eq!(tracker.seen(&service(), &live("9", "u", &json!({}))), None);
    }

    #[test]
    fn what_is_known_to_differ_is_drift_unless_it_is_from_before_our_apply() {
        let mut tracker = applied();
        tracker.doubt(&service(), "10");
        assert!(tracker.is_current(&service(), &json!({"a": 1})));
        tracker.doubt(&service(), "11");
        assert_eq!(tracker.state(&service()), State::Drifted);
    }

    #[test]
    fn an_object_made_again_by_somebody_is_drift() {
        let mut tracker = applied();
        assert!(
            tracker
                .seen(&service(), &live("12", "u2", &json!({"f:a": {}})))
                .is_some()
        );
    }

    #[test]
    fn deletions_count_for_the_object_that_was_applied() {
        let mut tracker = applied();
        assert_eq!(tracker.deleted(&service(), "older"), None);
        assert_eq!(
            tracker.deleted(&service(), "u"),
            Some(Drift::Deleted(service()))
        );
        assert_eq!(tracker.state(&service()), State::Drifted);
    }

    #[test]
    fn what_a_list_does_not_show_is_gone() {
        let mut tracker = applied();
        assert!(
            tracker
                .listed(&BTreeSet::from([service()]), |_| true)
                .is_empty()
        );
        assert!(tracker.listed(&BTreeSet::new(), |_| false).is_empty());
        assert_eq!(
            tracker.listed(&BTreeSet::new(), |_| true),
            vec![Drift::Deleted(service())]
        );
    }
}
