//! What the replicas wrote, as the API server's audit log has it: no write that changes nothing, but for the first pass of
//! one who begins to lead; none more often than there was a reason; and at rest none at all, but for rotation.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::support::audit::Call;

/// Reasons to write, counted.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Reasons {
    /// Changes of the configuration.
    pub(crate) toggles: usize,
    /// Times that a replica began to lead, or may have.
    pub(crate) leaderships: usize,
    /// Changes of policies, node states and so on.
    pub(crate) changes: usize,
    /// How long it all took, in seconds.
    pub(crate) seconds: usize,
}

/// What an object is written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Purpose {
    /// What is rolled out from the configuration.
    RollOut,
    /// The webhooks' configurations: rolled out, and their bundles rotate.
    Registration,
    /// The certificates.
    Rotation,
    /// The configuration's status and finalizer.
    Status,
    /// Node states, policies and what follows from them.
    Nodes,
    /// Events.
    News,
}

impl Purpose {
    fn of(uri: &str) -> Self {
        if uri.contains("/events") {
            Self::News
        } else if uri.contains("/secrets") {
            Self::Rotation
        } else if uri.contains("webhookconfigurations") {
            Self::Registration
        } else if uri.contains("/sriovoperatorconfigs") {
            Self::Status
        } else if uri.contains("/sriovnetwork")
            || uri.contains("/nodes")
            || uri.contains("device-plugin-config")
        {
            Self::Nodes
        } else {
            Self::RollOut
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::RollOut => "roll-out",
            Self::Registration => "registration",
            Self::Rotation => "rotation",
            Self::Status => "status",
            Self::Nodes => "nodes",
            Self::News => "events",
        }
    }

    /// How often one object may change for the sake of this.
    fn limit(self, reasons: Reasons) -> usize {
        let Reasons {
            toggles,
            leaderships,
            changes,
            seconds,
        } = reasons;
        // A CA lasts for a minute at least, and is replaced in three steps; a certificate is issued every half minute.
        let rotation = seconds / 6 + 10;
        match self {
            // Switching a component off and on is a deletion and a creation.
            Self::RollOut => toggles + leaderships,
            Self::Registration => toggles + leaderships + rotation,
            Self::Rotation => 2 * rotation + leaderships,
            // Progressing, Ready, and what is told of certificates.
            Self::Status => 4 * toggles + 4 * leaderships + 2 * rotation,
            Self::Nodes => toggles + leaderships + changes,
            // Each once, and patched when it is repeated.
            Self::News => rotation + 2 * toggles + 2 * leaderships,
        }
    }

    /// Whether it is written although nothing changes.
    fn has_a_clock(self) -> bool {
        matches!(self, Self::Rotation | Self::Registration | Self::News)
    }
}

/// What came of looking at them.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Writes by purpose.
    pub(crate) counts: BTreeMap<&'static str, usize>,
    /// Writes that changed nothing.
    pub(crate) idle: usize,
    /// What is wrong.
    pub(crate) faults: Vec<String>,
}

impl Findings {
    pub(crate) fn as_json(&self) -> Value {
        json!({ "writes": self.counts, "writes_that_changed_nothing": self.idle })
    }
}

/// Looks at all calls; those from `rest` on were made at rest.
pub(crate) fn examine(calls: &[Call], rest: usize, reasons: Reasons) -> Findings {
    let mut findings = Findings::default();
    findings.faults.extend(never_allowed(calls));
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut changing: BTreeMap<String, usize> = BTreeMap::new();
    let mut idle: BTreeMap<String, usize> = BTreeMap::new();
    for (number, call) in calls.iter().enumerate() {
        if !call.is_write() {
            continue;
        }
        let purpose = Purpose::of(&call.uri);
        *findings.counts.entry(purpose.name()).or_default() += 1;
        if number >= rest && !purpose.has_a_clock() {
            let line = format!("written at rest: {} {}", call.verb, call.uri);
            findings.faults.push(line);
        }
        if !(200..300).contains(&call.code) {
            continue;
        }
        let object = object(&call.uri);
        let seen = versions.entry(object).or_default();
        if call.version.is_empty() || seen.insert(&call.version) {
            *changing.entry(object.to_owned()).or_default() += 1;
        } else {
            findings.idle += 1;
            *idle.entry(object.to_owned()).or_default() += 1;
        }
    }
    for (object, count) in idle {
        if count > reasons.leaderships {
            let line = format!("{object} was written {count} times without a change");
            findings.faults.push(line);
        }
    }
    for (object, count) in changing {
        let limit = Purpose::of(&object).limit(reasons);
        if count > limit {
            let line = format!("{object} was changed {count} times, with {limit} reasons");
            findings.faults.push(line);
        }
    }
    findings
}

/// What the roles lack. An API server that comes up refuses for a moment what it allows otherwise.
fn never_allowed(calls: &[Call]) -> Vec<String> {
    let asked = |call: &Call| format!("{} {}", call.verb, object(&call.uri));
    let allowed: BTreeSet<String> = calls
        .iter()
        .filter(|call| !call.is_forbidden())
        .map(asked)
        .collect();
    let refused: BTreeSet<String> = calls
        .iter()
        .filter(|call| call.is_forbidden())
        .map(asked)
        .collect();
    refused
        .difference(&allowed)
        .map(|asked| format!("not allowed: {asked}"))
        .collect()
}

/// What is written, without how.
fn object(uri: &str) -> &str {
    uri.split('?').next().unwrap_or(uri)
}
