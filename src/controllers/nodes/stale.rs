//! Nodes on which the config daemon does not run, or no longer, or which are gone: the label and the device plugin's
//! configuration go at once, the state after a time, since a node may come back.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{NodePolicies, Outcome, plugin_map::Edit, writer::Failure};
use crate::stores::StateHead;

/// What is done about a stale state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// It is removed.
    Remove,
    /// It is kept from now on until then.
    Mark(Timestamp),
    /// It stays for that time.
    Wait(Duration),
}

fn step(keep_until: Option<&str>, now: Timestamp, stale_after: Duration) -> Step {
    if stale_after.is_zero() {
        return Step::Remove;
    }
    let Some(until) = keep_until.and_then(|text| text.parse::<Timestamp>().ok()) else {
        let delay = SignedDuration::try_from(stale_after).unwrap_or(SignedDuration::MAX);
        return Step::Mark(now.saturating_add(delay).unwrap_or(now));
    };
    match Duration::try_from(until.duration_since(now)) {
        Ok(left) if !left.is_zero() => Step::Wait(left),
        _ => Step::Remove,
    }
}

impl NodePolicies {
    /// Takes away what a node had while the config daemon ran on it.
    pub(super) async fn leave(
        &self,
        name: &str,
        labelled: bool,
        head: Option<&StateHead>,
    ) -> Result<Outcome, Failure> {
        self.drift.forget(&name.into());
        if labelled {
            self.writer.label(name, None).await?;
        }
        if self.plugin.get(name).is_some()
            && let Some(owner) = self.config().and_then(|config| config.metadata.uid.clone())
        {
            self.plugin.edit(Edit::remove(name), &owner).await?;
        }
        let Some(head) = head else {
            return Ok(Outcome::Done);
        };
        match step(
            head.keep_until.as_deref(),
            Timestamp::now(),
            self.stale_after,
        ) {
            Step::Remove => self.writer.remove_state(name, head).await?,
            Step::Wait(left) => return Ok(Outcome::Again(left)),
            Step::Mark(until) => {
                self.writer.keep_state_until(name, head, until).await?;
                return Ok(Outcome::Again(self.stale_after));
            }
        }
        Ok(Outcome::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_state_is_kept_for_its_time() {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let half_an_hour = Duration::from_secs(1800);
        let marked = Step::Mark("2026-01-01T12:30:00Z".parse().unwrap());
        for (keep_until, after, expected) in [
            (None, half_an_hour, marked),
            (Some("soon"), half_an_hour, marked),
            (Some(""), half_an_hour, marked),
            (
                Some("2026-01-01T12:00:05Z"),
                half_an_hour,
                Step::Wait(Duration::from_secs(5)),
            ),
            (
                Some("2026-01-01T14:00:05+02:00"),
                half_an_hour,
                Step::Wait(Duration::from_secs(5)),
            ),
            (Some("2026-01-01T12:00:00Z"), half_an_hour, Step::Remove),
            (Some("2025-12-31T12:00:00Z"), half_an_hour, Step::Remove),
            (None, Duration::ZERO, Step::Remove),
            (Some("2027-01-01T12:00:00Z"), Duration::ZERO, Step::Remove),
        ] {
            assert_eq!(step(keep_until, now, after), expected, "{keep_until:?}");
        }
    }
}
