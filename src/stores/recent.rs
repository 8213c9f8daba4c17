//! Policies that this replica admitted a moment ago: they count until the watch shows them, so that two policies that
//! are applied one right after the other are judged against each other.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use crate::policy::ParsedPolicy;

/// How long an admitted policy counts without having been seen. It may never be stored: somebody else may refuse it.
const COUNTS_FOR: Duration = Duration::from_secs(2);

/// What was just admitted. Holding the guard of [`Self::lock`] from before a verdict until after its record makes two
/// verdicts in flight see each other.
#[derive(Debug, Default)]
pub(super) struct Recent(Mutex<Admitted>);

/// The policies of [`Recent`], one of a name.
#[derive(Debug, Default)]
pub(super) struct Admitted {
    since: Vec<Instant>,
    policies: Vec<Arc<ParsedPolicy>>,
}

impl Recent {
    pub(super) fn lock(&self) -> MutexGuard<'_, Admitted> {
        self.0.lock()
    }

    /// The watch shows `policy`: if it is what was admitted, the store has it from here on. An earlier version of
    /// that policy changes nothing.
    pub(super) fn shown(&self, policy: &ParsedPolicy) {
        self.lock()
            .retain(|admitted, _| admitted.name() != policy.name() || *admitted != *policy);
    }
}

impl Admitted {
    /// Those that count at `now`.
    pub(super) fn at(&mut self, now: Instant) -> &[Arc<ParsedPolicy>] {
        self.retain(|_, since| now.duration_since(since) < COUNTS_FOR);
        &self.policies
    }

    /// `policy` was admitted at `now`, in place of an earlier version.
    pub(super) fn record(&mut self, policy: Arc<ParsedPolicy>, now: Instant) {
        self.retain(|earlier, _| earlier.name() != policy.name());
        self.policies.push(policy);
        self.since.push(now);
    }

    fn retain(&mut self, keep: impl Fn(&ParsedPolicy, Instant) -> bool) {
        let kept: Vec<bool> = self
            .policies
            .iter()
            .zip(&self.since)
            .map(|(policy, since)| keep(policy, *since))
            .collect();
        if kept.iter().all(|kept| *kept) {
            return;
        }
        let mut keeps = kept.iter();
        self.policies
            .retain(|_| keeps.next().copied().unwrap_or(false));
        let mut keeps = kept.iter();
        self.since
            .retain(|_| keeps.next().copied().unwrap_or(false));
    }
}
