//! What was applied and what the watches show. Pure: no client, no clock but one passed in.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use serde_json::Value;

use super::{
    Kind, ObjectRef,
    ownership::{Whose, our_fields},
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
    /// Somebody else's, as it was when it was looked at.
    Theirs(Whose),
}

/// What an apply left.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Remembered {
    desired: Value,
    shown: Shown,
}

/// An object as it was at one version.
#[derive(Clone, Debug, PartialEq)]
struct Shown {
    uid: String,
    version: u128,
    /// Our entry in `managedFields`; `None` when we have none, or the object is gone.
    fields: Option<Value>,
    gone: bool,
}

impl Shown {
    fn of(live: &Value) -> Self {
        Self {
            uid: text(live, "/metadata/uid"),
            version: version(live),
            fields: our_fields(live).cloned(),
            gone: false,
        }
    }

    /// Whether it is a later look at the object that shows it as something else.
    fn contradicts(&self, earlier: &Self) -> bool {
        self.version > earlier.version && (self.uid != earlier.uid || self.fields != earlier.fields)
    }
}

/// The memory of the applier.
#[derive(Debug, Default)]
pub(super) struct Tracker {
    states: BTreeMap<ObjectRef, State>,
    repairs: Repairs<ObjectRef>,
    /// The latest that a watch showed of each object, which may be ahead of the answer to an apply.
    shown: BTreeMap<ObjectRef, Shown>,
    /// Kinds that the server lacked.
    unknown_kinds: BTreeSet<&'static Kind>,
}

impl Tracker {
    pub(super) fn state(&self, object: &ObjectRef) -> State {
        self.states.get(object).cloned().unwrap_or(State::Unknown)
    }

    /// Whether nothing needs to be done for that rendering of an object.
    pub(super) fn is_current(&self, object: &ObjectRef, desired: &Value) -> bool {
        matches!(self.states.get(object), Some(State::Applied(remembered)) if remembered.desired == *desired)
    }

    /// Remembers what an apply returned. Whether it holds: a watch may have shown by now that somebody was at it again.
    pub(super) fn applied(&mut self, object: &ObjectRef, desired: Value, live: &Value) -> bool {
        let applied = Shown::of(live);
        let overtaken = self
            .shown
            .get(object)
            .is_some_and(|shown| shown.contradicts(&applied));
        let state = if overtaken {
            State::Drifted
        } else {
            State::Applied(Remembered {
                desired,
                shown: applied,
            })
        };
        self.states.insert(object.clone(), state);
        !overtaken
    }

    /// Remembers that an object is not there.
    pub(super) fn absent(&mut self, object: &ObjectRef) {
        self.states.insert(object.clone(), State::Absent);
    }

    /// Remembers whose an object is that is not ours.
    pub(super) fn theirs(&mut self, object: &ObjectRef, whose: Whose) {
        self.states.insert(object.clone(), State::Theirs(whose));
    }

    /// What is remembered of somebody else's object no longer counts.
    pub(super) fn reconsider(&mut self, object: &ObjectRef) {
        if matches!(self.states.get(object), Some(State::Theirs(_))) {
            self.states.remove(object);
        }
    }

    /// Forgets what was applied, so that everything is looked at again.
    pub(super) fn forget_applied(&mut self) {
        self.states.clear();
    }

    /// Takes in that what is there at `version` is not what was applied.
    pub(super) fn doubt(&mut self, object: &ObjectRef, version: &str) {
        let newer = matches!(self.states.get(object), Some(State::Applied(remembered))
            if version.parse::<u128>().is_ok_and(|version| version > remembered.shown.version));
        if newer {
            self.states.insert(object.clone(), State::Drifted);
        }
    }

    /// Forgets everything: another process may have written meanwhile, and the watches begin anew.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Whether the server was found not to know a kind.
    pub(super) fn lacks(&self, kind: &Kind) -> bool {
        self.unknown_kinds.contains(kind)
    }

    /// Remembers that the server does not know a kind.
    pub(super) fn unknown(&mut self, kind: &'static Kind) {
        self.unknown_kinds.insert(kind);
    }

    /// A watch has listed a kind: the server knows it. Whether that is news.
    pub(super) fn known(&mut self, kind: &Kind) -> bool {
        self.unknown_kinds.remove(kind)
    }

    /// Takes in metadata that a watch showed. Whether it needs a reconcile.
    pub(super) fn seen(&mut self, object: &ObjectRef, live: &Value) -> bool {
        self.show(object, Shown::of(live))
    }

    /// Takes in a deletion that a watch showed; a selector that no longer matches looks the same. `live` is the object as
    /// it was last. Whether it needs a reconcile.
    pub(super) fn deleted(&mut self, object: &ObjectRef, live: &Value) -> bool {
        let gone = Shown {
            fields: None,
            gone: true,
            ..Shown::of(live)
        };
        self.show(object, gone)
    }

    fn show(&mut self, object: &ObjectRef, shown: Shown) -> bool {
        let next = match self.states.get(object) {
            Some(State::Applied(remembered)) if shown.contradicts(&remembered.shown) => {
                Some(State::Drifted)
            }
            Some(State::Absent | State::Theirs(_)) if !shown.gone => Some(State::Unknown),
            _ => None,
        };
        self.shown.insert(object.clone(), shown);
        let wakes = next.is_some();
        if let Some(next) = next {
            self.states.insert(object.clone(), next);
        }
        wakes
    }

    /// What was applied before a list begins, of what belongs to it: what of that the list does not hold is gone.
    pub(super) fn before_list(
        &self,
        belongs: impl Fn(&ObjectRef) -> bool,
    ) -> BTreeMap<ObjectRef, Remembered> {
        self.states
            .iter()
            .filter(|(object, _)| belongs(object))
            .filter_map(|(object, state)| match state {
                State::Applied(remembered) => Some((object.clone(), remembered.clone())),
                _ => None,
            })
            .collect()
    }

    /// Takes in the end of a list, with what was applied before it and not listed. Whether it needs a reconcile.
    pub(super) fn not_listed(&mut self, missing: BTreeMap<ObjectRef, Remembered>) -> bool {
        let mut wakes = false;
        for (object, before) in missing {
            // What was applied since may have come after the list.
            if self.states.get(&object) == Some(&State::Applied(before)) {
                self.states.insert(object, State::Drifted);
                wakes = true;
            }
        }
        wakes
    }

    /// Whether an object may be repaired now: at once, or not before that pause is over.
    pub(super) fn may_repair(&self, object: &ObjectRef, now: Instant) -> Result<(), Contested> {
        self.repairs.may_repair(object, now)
    }

    /// Counts a repair that was made, with who made it necessary, where that is known.
    pub(super) fn repaired(&mut self, object: &ObjectRef, manager: Option<String>, now: Instant) {
        self.repairs.repaired(object, manager, now);
    }
}

fn text(live: &Value, pointer: &str) -> String {
    live.pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// Resource versions are numbers that grow with every write to the cluster; 0 when one is not, so that it is never taken
/// for newer.
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

    fn ours(version: &str) -> Value {
        live(version, "u", &json!({"f:a": {}}))
    }

    fn applied() -> Tracker {
        let mut tracker = Tracker::default();
        assert!(tracker.applied(&service(), json!({"a": 1}), &ours("10")));
        tracker
    }

    #[test]
    fn what_we_applied_needs_nothing_until_our_fields_change() {
        let mut tracker = applied();
        assert!(tracker.is_current(&service(), &json!({"a": 1})));
        assert!(!tracker.is_current(&service(), &json!({"a": 2})));
        assert!(!tracker.seen(&service(), &ours("11")));
        assert!(tracker.seen(&service(), &live("12", "u", &json!({}))));
        assert!(!tracker.is_current(&service(), &json!({"a": 1})));
    }

    #[test]
    fn events_from_before_our_apply_are_no_drift() {
        let mut tracker = applied();
        assert!(!tracker.seen(&service(), &live("9", "u", &json!({}))));
        assert!(!tracker.deleted(&service(), &live("8", "older", &json!({}))));
        assert_eq!(
            tracker.before_list(|_| true).keys().collect::<Vec<_>>(),
            [&service()]
        );
    }

    #[test]
    fn an_event_that_comes_before_the_answer_to_our_apply_is_not_lost() {
        let mut tracker = applied();
        tracker.seen(&service(), &live("12", "u", &json!({})));
        assert!(!tracker.applied(&service(), json!({"a": 2}), &ours("11")));
        assert_eq!(tracker.state(&service()), State::Drifted);
        assert!(tracker.applied(&service(), json!({"a": 2}), &ours("13")));
        tracker.deleted(&service(), &ours("15"));
        assert!(!tracker.applied(&service(), json!({"a": 3}), &ours("14")));
    }

    #[test]
    fn an_object_made_again_by_somebody_is_drift() {
        let mut tracker = applied();
        assert!(tracker.seen(&service(), &live("12", "u2", &json!({"f:a": {}}))));
    }

    #[test]
    fn what_was_removed_and_appears_again_is_looked_at() {
        let mut tracker = applied();
        tracker.absent(&service());
        assert!(!tracker.deleted(&service(), &ours("11")));
        assert!(tracker.seen(&service(), &ours("12")));
        assert_eq!(tracker.state(&service()), State::Unknown);
    }

    #[test]
    fn what_is_somebody_elses_is_looked_at_again_when_asked_to_or_when_it_carries_our_label() {
        let mut tracker = Tracker::default();
        tracker.theirs(&service(), Whose::Foreign);
        assert_eq!(tracker.state(&service()), State::Theirs(Whose::Foreign));
        assert!(tracker.seen(&service(), &ours("11")));
        assert_eq!(tracker.state(&service()), State::Unknown);
        tracker.theirs(&service(), Whose::Foreign);
        tracker.reconsider(&service());
        assert_eq!(tracker.state(&service()), State::Unknown);
        let mut tracker = applied();
        tracker.reconsider(&service());
        assert!(tracker.is_current(&service(), &json!({"a": 1})));
    }

    #[test]
    fn deletions_count_for_the_object_that_was_applied() {
        let mut tracker = applied();
        assert!(tracker.deleted(&service(), &ours("12")));
        assert_eq!(tracker.state(&service()), State::Drifted);
    }

    #[test]
    fn what_a_list_does_not_show_is_gone_unless_it_was_applied_meanwhile() {
        let mut tracker = applied();
        assert!(tracker.before_list(|_| false).is_empty());
        let before = tracker.before_list(|_| true);
        assert!(tracker.not_listed(before));

        let before = applied().before_list(|_| true);
        assert!(tracker.applied(&service(), json!({"a": 1}), &ours("14")));
        assert!(!tracker.not_listed(before));
    }

    #[test]
    fn a_kind_that_the_server_learns_is_news_once() {
        let kind = Kind::find("monitoring.coreos.com/v1", "ServiceMonitor").unwrap();
        let mut tracker = Tracker::default();
        assert!(!tracker.known(kind));
        tracker.unknown(kind);
        assert!(tracker.lacks(kind));
        assert!(tracker.known(kind));
        assert!(!tracker.lacks(kind) && !tracker.known(kind));
    }

    #[test]
    fn what_is_known_to_differ_is_drift_unless_it_is_from_before_our_apply() {
        let mut tracker = applied();
        tracker.doubt(&service(), "10");
        assert!(tracker.is_current(&service(), &json!({"a": 1})));
        tracker.doubt(&service(), "11");
        assert_eq!(tracker.state(&service()), State::Drifted);
    }
}
