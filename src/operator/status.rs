//! The conditions of the config: `Ready`, and `Degraded` for what works but wants attention.
//!
//! Reason and message are short and the same as long as the cause is: no rendered objects, no counters, no times.

use jiff::{Timestamp, Unit};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::Error;
use crate::{
    api::{API_VERSION, Condition, DEFAULT_CONFIG_NAME, SriovOperatorConfig},
    apply::FIELD_MANAGER,
};

/// The longest message: a list of faults is cut there, never in the middle of a character.
const LONGEST_MESSAGE: usize = 2048;
/// Type of the condition that says whether everything is as the config wants.
pub(crate) const READY: &str = "Ready";
/// Type of the condition that says whether something works but wants attention.
pub(super) const DEGRADED: &str = "Degraded";

/// What a reconcile ended in, as far as the status tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Everything is as wanted.
    Ready,
    /// The configuration cannot work on this platform.
    Unsupported(String),
    /// Something failed and is tried again.
    Failed(String),
}

/// The conditions for an outcome and its warnings, with transition times kept from those before.
pub(super) fn conditions(
    before: &[Condition],
    outcome: &Outcome,
    warnings: &[String],
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    let (status, reason, message) = match outcome {
        Outcome::Ready => (
            "True",
            "OperatorConfigReady",
            "Every enabled component is rolled out as configured.".to_owned(),
        ),
        Outcome::Unsupported(message) => ("False", "UnsupportedConfiguration", message.clone()),
        Outcome::Failed(message) => ("False", "OperatorConfigSyncFailed", message.clone()),
    };
    let ready = condition(before, READY, status, reason, message, generation, now);
    let degraded = if warnings.is_empty() {
        condition(
            before,
            DEGRADED,
            "False",
            "AsExpected",
            String::new(),
            generation,
            now,
        )
    } else {
        condition(
            before,
            DEGRADED,
            "True",
            "Warnings",
            warnings.join("; "),
            generation,
            now,
        )
    };
    vec![ready, degraded]
}

/// One condition, with the transition time kept from the one before when its status is the same.
pub(crate) fn condition(
    before: &[Condition],
    type_: &str,
    status: &str,
    reason: &str,
    message: String,
    generation: Option<i64>,
    now: Timestamp,
) -> Condition {
    let since = before
        .iter()
        .find(|condition| condition.type_ == type_ && condition.status == status)
        .map(|condition| condition.last_transition_time.clone());
    // Whole seconds, as metav1.Time has them.
    let now = || now.round(Unit::Second).unwrap_or(now).to_string();
    Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: cut(message),
        last_transition_time: since.unwrap_or_else(now),
        observed_generation: generation,
    }
}

fn cut(mut message: String) -> String {
    if message.len() > LONGEST_MESSAGE {
        let end = (0..=LONGEST_MESSAGE)
            .rev()
            .find(|end| message.is_char_boundary(*end))
            .unwrap_or_default();
        message.truncate(end);
        message.push('…');
    }
    message
}

/// Those of the new conditions that differ from the stored ones in anything.
pub(super) fn changed<'a>(before: &[Condition], after: &'a [Condition]) -> Vec<&'a Condition> {
    after
        .iter()
        .filter(|condition| !before.contains(condition))
        .collect()
}

/// What was written last: the watch may show it later than the next pass comes.
#[derive(Clone, Debug, Default)]
pub(super) struct Written {
    uid: Option<String>,
    version: u128,
    conditions: Vec<Condition>,
}

impl Written {
    /// What was written to this object, with what the server answered.
    fn new(config: &SriovOperatorConfig, conditions: &[Condition], version: u128) -> Self {
        Self {
            uid: config.metadata.uid.clone(),
            version,
            conditions: conditions.to_vec(),
        }
    }

    /// The conditions that the object has, as far as is known.
    pub(super) fn known<'a>(&'a self, config: &'a SriovOperatorConfig) -> &'a [Condition] {
        if self.uid == config.metadata.uid && self.version > version(config) {
            return &self.conditions;
        }
        config
            .status
            .as_ref()
            .map(|status| status.conditions.as_slice())
            .unwrap_or_default()
    }
}

fn version(config: &SriovOperatorConfig) -> u128 {
    let version = config.metadata.resource_version.as_deref();
    version.unwrap_or_default().parse().unwrap_or_default()
}

/// Writes the conditions through the status subresource of the very object that was read. `None` when that is gone.
pub(super) async fn write(
    api: &Api<SriovOperatorConfig>,
    config: &SriovOperatorConfig,
    conditions: &[Condition],
) -> Result<Option<Written>, Error> {
    let body = json!({
        "apiVersion": API_VERSION,
        "kind": "SriovOperatorConfig",
        "metadata": {"name": DEFAULT_CONFIG_NAME, "uid": config.metadata.uid},
        "status": {"conditions": conditions},
    });
    match api
        .patch_status(
            DEFAULT_CONFIG_NAME,
            &PatchParams::apply(FIELD_MANAGER).force(),
            &Patch::Apply(body),
        )
        .await
    {
        Ok(stored) => Ok(Some(Written::new(config, conditions, version(&stored)))),
        // Gone, or another object of that name by now: the watch shows it.
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(None),
        Err(error) => Err(Error::Config(error.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_transition_time_moves_only_with_the_status() {
        let first = conditions(&[], &Outcome::Failed("a".into()), &[], Some(1), at(10));
        let second = conditions(&first, &Outcome::Failed("b".into()), &[], Some(2), at(20));
        assert_eq!(
            second[0].last_transition_time,
            first[0].last_transition_time
        );
        assert_eq!(
            (second[0].message.as_str(), second[0].observed_generation),
            ("b", Some(2))
        );
        let third = conditions(&second, &Outcome::Ready, &[], Some(2), at(30));
        assert_eq!(third[0].last_transition_time, at(30).to_string());
    }

    #[test]
    fn nothing_changed_is_nothing_to_write() {
        let first = conditions(&[], &Outcome::Ready, &["w".into()], Some(1), at(10));
        assert!(
            changed(
                &first,
                &conditions(&first, &Outcome::Ready, &["w".into()], Some(1), at(20))
            )
            .is_empty()
        );
        assert_eq!(
            changed(
                &first,
                &conditions(&first, &Outcome::Ready, &[], Some(1), at(20))
            )
            .len(),
            1
        );
    }

    #[test]
    fn what_was_written_counts_until_the_watch_shows_it() {
        let config = |version: &str, message: &str| -> SriovOperatorConfig {
            let shown = conditions(&[], &Outcome::Failed(message.into()), &[], None, at(1));
            serde_json::from_value(json!({
                "metadata": {"uid": "u", "resourceVersion": version}, "spec": {}, "status": {"conditions": shown},
            }))
            .unwrap()
        };
        let before = config("4", "old");
        let new = conditions(&[], &Outcome::Ready, &[], None, at(2));
        let written = Written::new(&before, &new, 5);
        assert_eq!(written.known(&before), new);
        assert_eq!(written.known(&config("6", "by hand"))[0].message, "by hand");
        let mut another = config("4", "another");
        another.metadata.uid = Some("v".into());
        assert_eq!(written.known(&another)[0].message, "another");
    }

    #[test]
    fn long_messages_are_cut_between_characters() {
        let cut = cut("é".repeat(2000));
        assert!(cut.len() <= LONGEST_MESSAGE + 3 && cut.ends_with('…'));
    }
}
