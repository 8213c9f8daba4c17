//! The recorded cases: what a cluster in a known state answers to one request, and what the controllers make of their
//! inputs. Cases that are not expected to pass yet are listed, each with the capability it waits for; they are run
//! too, and one that passes makes the list wrong.

mod admission;
mod compare;
mod controllers;

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::support::manifests;

/// A case and, unless it came out right, what was wrong.
struct Outcome {
    id: String,
    fault: Option<String>,
}

/// A recorded file.
fn data(name: &str) -> Result<Value> {
    let file = manifests::root().join("tests/data/conformance").join(name);
    let content = std::fs::read_to_string(&file)
        .with_context(|| format!("failed to read {}", file.display()))?;
    serde_json::from_str(&content).with_context(|| format!("{} is no JSON", file.display()))
}

/// The ids that are not right yet, each with what it waits for.
fn not_yet() -> Result<BTreeMap<String, String>> {
    Ok(serde_json::from_value(data("not-yet.json")?)?)
}

/// Fails with all faults at once.
fn judge(outcomes: &[Outcome]) -> Result<()> {
    let listed = not_yet()?;
    let mut faults = Vec::new();
    let mut waiting = 0;
    for Outcome { id, fault } in outcomes {
        match (fault, listed.get(id)) {
            (None, None) => {}
            (Some(_), Some(_)) => waiting += 1,
            (Some(fault), None) => faults.push(format!("{id}: {fault}")),
            (None, Some(subject)) => faults.push(format!(
                "{id}: is right, but still listed in not-yet.json as part of \"{subject}\""
            )),
        }
    }
    println!(
        "{} cases: {} right, {waiting} not yet, {} wrong",
        outcomes.len(),
        outcomes.len() - waiting - faults.len(),
        faults.len()
    );
    if faults.is_empty() {
        return Ok(());
    }
    bail!(
        "{} of {} cases are wrong:\n{}",
        faults.len(),
        outcomes.len(),
        faults.join("\n")
    )
}
