//! The condition `Draining` of the config: whether nodes are being drained, and what holds them up. No I/O.
//!
//! It is written under a field manager of its own, beside the conditions of the reconciler. While there was never a drain
//! there is none.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::{
    api::{Condition, SriovOperatorConfig},
    operator::status,
};

/// Type of the condition.
pub(super) const DRAINING: &str = "Draining";
/// How many nodes the message names.
const NAMED: usize = 5;

/// What is to be told, if that is something new. `busy` is whether a node is being drained or is drained, `blocked` what
/// keeps nodes from being drained, by node.
pub(super) fn condition(
    config: &SriovOperatorConfig,
    busy: bool,
    blocked: &BTreeMap<Box<str>, String>,
    now: Timestamp,
) -> Option<Condition> {
    let (status, reason, message) = if !blocked.is_empty() {
        ("True", "DrainBlocked", held_up(blocked))
    } else if busy {
        let message = "Nodes are drained for their config daemons.".to_owned();
        ("True", "DrainsInProgress", message)
    } else {
        ("False", "NoDrains", String::new())
    };
    let before = config.status.as_ref();
    let before = before.map_or([].as_slice(), |status| status.conditions.as_slice());
    let generation = config.metadata.generation;
    let after = status::condition(before, DRAINING, status, reason, message, generation, now);
    let was_told = before.iter().any(|condition| condition.type_ == DRAINING);
    let is_news = if was_told {
        !before.contains(&after)
    } else {
        status == "True"
    };
    is_news.then_some(after)
}

fn held_up(blocked: &BTreeMap<Box<str>, String>) -> String {
    let named = blocked.iter().take(NAMED);
    let mut reasons: Vec<String> = named.map(|(node, why)| format!("{node}: {why}")).collect();
    if blocked.len() > NAMED {
        reasons.push("and more nodes".to_owned());
    }
    reasons.join("; ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config(conditions: &[Condition]) -> SriovOperatorConfig {
        serde_json::from_value(json!({
            "metadata": {"name": "default", "generation": 3}, "spec": {}, "status": {"conditions": conditions},
        }))
        .unwrap()
    }

    #[test]
    fn only_news_is_told() {
        let now = Timestamp::from_second(10).unwrap();
        let none = BTreeMap::new();
        assert_eq!(condition(&config(&[]), false, &none, now), None);
        let begun = condition(&config(&[]), true, &none, now).unwrap();
        assert_eq!(
            (begun.status.as_str(), begun.reason.as_str()),
            ("True", "DrainsInProgress")
        );
        let stored = config(&[begun]);
        let later = Timestamp::from_second(20).unwrap();
        assert_eq!(condition(&stored, true, &none, later), None);
        let blocked: BTreeMap<Box<str>, String> = (0..7)
            .map(|node| (format!("n-{node}").into(), "a pod stays".to_owned()))
            .collect();
        let held = condition(&stored, true, &blocked, later).unwrap();
        assert!(
            held.message.starts_with("n-0: a pod stays; n-1: "),
            "{}",
            held.message
        );
        assert!(
            held.message.ends_with("n-4: a pod stays; and more nodes"),
            "{}",
            held.message
        );
        assert_eq!(held.last_transition_time, now.to_string(), "it goes on");
        let over = condition(&stored, false, &none, later).unwrap();
        assert_eq!(
            (over.status.as_str(), over.last_transition_time),
            ("False", later.to_string())
        );
    }
}
