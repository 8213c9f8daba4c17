//! What was true when. Each fact of the cluster that verdicts depend on has a list of versions with the times between
//! which each came into force, so that an answer can be held against every state that it may rightly have been given by,
//! and against no other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::lock;

/// How old a state an answer may be given by: a store follows its watch, and this machine is busy.
const LAG: Duration = Duration::from_secs(3);
/// How long it may take until a webhook that is switched on or off is called or not: the leader may just have been
/// killed, and the API server as well.
const SWITCHING: Duration = Duration::from_secs(25);
/// How long versions are kept that are no longer in force.
const KEPT: Duration = Duration::from_secs(180);

/// Something that verdicts depend on and that changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fact {
    /// A network attachment definition, or none.
    Network(usize),
    /// A node state.
    State(usize),
    /// A policy on a node that others can be in conflict with, or none.
    Held(usize),
    /// The ConfigMap of supported NICs.
    NicIds,
    /// The text in the injector's ConfigMap.
    Switches,
    /// Whether policies get defaults.
    Defaulting,
    /// Whether policies are judged. Registered and removed by itself, a moment before or after the other.
    Validation,
    /// Whether pods are injected into.
    Injector,
}

/// The values of the facts that a question depends on.
pub(crate) type State = BTreeMap<Fact, Value>;

/// One value of a fact.
struct Version {
    /// When it was asked for.
    asked: Instant,
    /// When it was in force at the latest.
    in_force: Instant,
    value: Value,
}

/// A state that may have been in force, and how old it was for whoever answered by it.
pub(crate) struct Candidate {
    pub(crate) state: State,
    pub(crate) age: Age,
}

/// How far an answer may be behind.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Age {
    /// Of what the stores hold.
    pub(crate) stores: Duration,
    /// Of what is registered.
    pub(crate) registered: Duration,
}

impl Age {
    /// The older of both, each by itself.
    pub(crate) fn max_of(self, other: Self) -> Self {
        Self {
            stores: self.stores.max(other.stores),
            registered: self.registered.max(other.registered),
        }
    }
}

/// All facts.
#[derive(Default)]
pub(crate) struct History(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    facts: BTreeMap<Fact, Vec<Version>>,
    /// Facts of which it is not known at the moment what they are.
    changing: BTreeSet<Fact>,
    /// Until when watches may still be on their way back, and since when they may have been away.
    interrupted: Option<(Instant, Instant)>,
}

impl History {
    /// From here on until [`Self::changed`], the fact may be anything between what it was and what it will be.
    pub(crate) fn changing(&self, fact: Fact) {
        lock(&self.0).changing.insert(fact);
    }

    /// The fact is this: asked for at `asked`, in force by now.
    pub(crate) fn changed(&self, fact: Fact, asked: Instant, value: Value) {
        let now = Instant::now();
        let mut inner = lock(&self.0);
        inner.changing.remove(&fact);
        let versions = inner.facts.entry(fact).or_default();
        versions.push(Version {
            asked,
            in_force: now,
            value,
        });
        let expired = versions
            .windows(2)
            .take_while(|pair| pair[1].in_force + KEPT < now)
            .count();
        versions.drain(..expired);
    }

    /// What the fact is, as last known.
    pub(crate) fn latest(&self, fact: Fact) -> Value {
        let inner = lock(&self.0);
        let versions = inner.facts.get(&fact);
        versions
            .and_then(|versions| versions.last())
            .map(|version| version.value.clone())
            .unwrap_or_default()
    }

    /// Watches were cut at `since`, and may take until `until` to be back.
    pub(crate) fn interrupted(&self, since: Instant, until: Instant) {
        lock(&self.0).interrupted = Some((since, until));
    }

    /// Whether watches may be on their way back at that moment.
    pub(crate) fn is_interrupted(&self, at: Instant) -> bool {
        let interrupted = lock(&self.0).interrupted;
        interrupted.is_some_and(|(_, until)| at < until)
    }

    /// Waits until all of these facts are known.
    pub(crate) async fn settled(&self, facts: &[Fact]) {
        while facts
            .iter()
            .any(|fact| lock(&self.0).changing.contains(fact))
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Every state of these facts that an answer to a question asked at `from` and answered at `to` may have been
    /// given by, the newest first.
    pub(crate) fn candidates(&self, facts: &[Fact], from: Instant, to: Instant) -> Vec<Candidate> {
        let inner = lock(&self.0);
        let mut candidates = vec![Candidate {
            state: State::new(),
            age: Age::default(),
        }];
        for fact in facts {
            let possible = inner.possible(*fact, from, to);
            candidates = candidates
                .iter()
                .flat_map(|candidate| {
                    possible.iter().map(|(value, age)| {
                        let mut state = candidate.state.clone();
                        state.insert(*fact, (*value).clone());
                        let age = candidate.age.max_of(*age);
                        Candidate { state, age }
                    })
                })
                .collect();
        }
        candidates.sort_by_key(|candidate| candidate.age);
        candidates
    }
}

impl Inner {
    fn possible(&self, fact: Fact, from: Instant, to: Instant) -> Vec<(&Value, Age)> {
        let is_switch = matches!(fact, Fact::Defaulting | Fact::Validation | Fact::Injector);
        let lag = if is_switch { SWITCHING } else { LAG };
        let mut oldest = from.checked_sub(lag).unwrap_or(from);
        if let Some((since, until)) = self.interrupted
            && from < until
        {
            oldest = oldest.min(since);
        }
        let versions = self.facts.get(&fact).map(Vec::as_slice).unwrap_or_default();
        let successors = versions.iter().skip(1).map(Some).chain([None]);
        versions
            .iter()
            .zip(successors)
            .filter(|(version, _)| version.asked <= to)
            .filter_map(|(version, successor)| {
                let over = successor.map_or(to, |successor| successor.in_force);
                let behind = from.saturating_duration_since(over);
                let age = if is_switch {
                    Age {
                        registered: behind,
                        ..Age::default()
                    }
                } else {
                    Age {
                        stores: behind,
                        ..Age::default()
                    }
                };
                (over >= oldest).then_some((&version.value, age))
            })
            .collect()
    }
}
