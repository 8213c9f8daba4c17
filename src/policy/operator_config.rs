//! Rules of `SriovOperatorConfig`: only one object counts, drains are not cut off, and what it hands to the config
//! daemon's pods must be legal there.

use serde_json::Value;

use super::{
    Rules, Verdict, View,
    decode::Review,
    fault::{Fault, Places, entry_path, quoted},
    labels,
};
use crate::api::{DEFAULT_CONFIG_NAME, SriovOperatorConfigSpec};

/// Variables of the config daemon that the operator sets itself.
const RESERVED_VARIABLES: [&str; 5] = [
    "NODE_NAME",
    "NAMESPACE",
    "CLUSTER_TYPE",
    "DEV_MODE",
    "USE_EXTERNAL_DRAINER",
];

pub(super) fn validate(review: &Review<'_>, view: View<'_>, rules: &Rules, verdict: &mut Verdict) {
    only_one_counts(review, rules, verdict);
    let Some(spec) = review.decode::<SriovOperatorConfigSpec>(&[], verdict) else {
        return;
    };
    if spec.disable_drain == Some(true) {
        verdict.warn("spec.disableDrain: nodes are configured without being drained; workloads that use virtual functions may be disrupted");
        not_during_a_drain(review, view, verdict);
    }
    let node_selector = spec.config_daemon_node_selector.iter().flatten();
    labels::check("spec.configDaemonNodeSelector", node_selector, verdict);
    for name in spec
        .config_daemon_env_vars
        .iter()
        .flat_map(|vars| vars.keys())
    {
        check_variable(name, verdict);
    }
    for gate in spec.feature_gates.iter().flat_map(|gates| gates.keys()) {
        if !rules.known_gates.contains(&gate.as_str()) {
            verdict.warn(format!(
                "spec.featureGates: {} is unknown and has no effect; known are {}",
                quoted(gate),
                rules.known_gates.join(", ")
            ));
        }
    }
}

fn only_one_counts(review: &Review<'_>, rules: &Rules, verdict: &mut Verdict) {
    let detail = || {
        format!(
            "only the SriovOperatorConfig {DEFAULT_CONFIG_NAME:?} in namespace {:?} counts",
            rules.namespace
        )
    };
    if review.name != DEFAULT_CONFIG_NAME {
        verdict.fault(Fault::invalid("metadata.name", review.name, detail()));
    }
    if review.namespace != rules.namespace {
        verdict.fault(Fault::invalid(
            "metadata.namespace",
            review.namespace,
            detail(),
        ));
    }
}

/// A node whose drain is under way would stay cordoned for ever if drains were switched off now. A config that is new,
/// or has them off already, changes nothing for it.
fn not_during_a_drain(review: &Review<'_>, view: View<'_>, verdict: &mut Verdict) {
    let Some(old) = review.old_spec else {
        return;
    };
    if old.get("disableDrain").and_then(Value::as_bool) == Some(true) {
        return;
    }
    let mut busy = view.cluster.in_progress();
    let detail = match busy.len() {
        0 => return,
        1 => format!("node {} is", busy.next().unwrap_or_default()),
        _ => format!("nodes {} are", busy.collect::<Places>().joined(", ")),
    };
    verdict.fault_of_the_moment(Fault::forbidden(
        "spec.disableDrain",
        format!("cannot be switched on now: {detail} being configured (syncStatus InProgress); try again when that is done"),
    ));
}

fn check_variable(name: &str, verdict: &mut Verdict) {
    let path = || entry_path("spec.configDaemonEnvVars", name);
    let printable = |b: u8| (b' '..=b'~').contains(&b) && b != b'=';
    if name.is_empty() || !name.bytes().all(printable) {
        verdict.fault(Fault::invalid(
            path(),
            name,
            "the name of an environment variable must not be empty and consists of printable ASCII characters without '='",
        ));
    } else if RESERVED_VARIABLES.contains(&name) {
        verdict.fault(Fault::forbidden(
            path(),
            "the operator sets this variable itself",
        ));
    } else if !is_classic_variable(name) {
        verdict.warn(format!(
            "spec.configDaemonEnvVars: only newer API servers accept the name {}; others refuse the config daemon",
            quoted(name)
        ));
    }
}

/// What every supported API server accepts as the name of an environment variable.
fn is_classic_variable(name: &str) -> bool {
    let legal = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
    name.bytes().all(legal)
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name != "."
        && !name.starts_with("..")
}
