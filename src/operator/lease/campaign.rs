//! What a candidate for the Lease does next: a function of what it has seen and of a clock that is passed in. No I/O.
//!
//! Expiry is measured on our own clock, from when the record was last seen to change: the times in the record are the
//! holder's, and two machines need not agree on the hour. Leadership is given up one renew deadline after the last
//! success was *asked for*, which is before others, who wait a whole lease duration, may take it.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use crate::settings::LeaderElection;

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing is known: read the Lease.
    Read,
    /// There is no Lease: create it with us as its holder.
    Create,
    /// Nobody holds it, its holder has gone silent, or it is ours from before: write ourselves into it.
    Take,
    /// Say that we are still there.
    Renew,
    /// We no longer lead: another holds it, or no renewal has succeeded in time.
    Resign,
    /// Nothing until then, unless something is observed before.
    Wait(Instant),
}

/// What is known of the Lease.
#[derive(Debug)]
enum Known {
    Nothing,
    Absent,
    Present { lease: Box<Lease>, changed: Instant },
}

/// One candidate's view of the election.
#[derive(Debug)]
pub(super) struct Campaign {
    identity: String,
    durations: LeaderElection,
    known: Known,
    /// While we lead: when the last successful write was asked for.
    renewed: Option<Instant>,
    /// When the last attempt that failed was made.
    failed: Option<Instant>,
}

impl Campaign {
    pub(super) fn new(identity: String, durations: LeaderElection) -> Self {
        Self {
            identity,
            durations,
            known: Known::Nothing,
            renewed: None,
            failed: None,
        }
    }

    /// What one call to the API server gets: two fit into the renew deadline.
    pub(super) fn call_limit(&self) -> Duration {
        self.durations.renew_deadline / 2
    }

    /// The time between two attempts.
    pub(super) fn retry_period(&self) -> Duration {
        self.durations.retry_period
    }

    pub(super) fn leading(&self) -> bool {
        self.renewed.is_some()
    }

    /// Who holds the Lease, as last seen.
    pub(super) fn holder(&self) -> Option<&str> {
        match &self.known {
            Known::Present { lease, .. } => holder(lease),
            Known::Nothing | Known::Absent => None,
        }
    }

    /// The Lease as last seen, with the resourceVersion under which it is to be written.
    pub(super) fn lease(&self) -> Option<&Lease> {
        match &self.known {
            Known::Present { lease, .. } => Some(lease),
            Known::Nothing | Known::Absent => None,
        }
    }

    /// When leadership ends unless a renewal succeeds before.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.renewed
            .map(|asked| asked + self.durations.renew_deadline)
    }

    /// The Lease was read or an event of its watch came in.
    pub(super) fn observe(&mut self, seen: Option<Lease>, now: Instant) {
        let Some(seen) = seen else {
            self.known = Known::Absent;
            return;
        };
        let changed = match &self.known {
            // An event may arrive after the answer to a later write of ours.
            Known::Present { lease, .. } if older(&seen, lease) => return,
            Known::Present { lease, changed } if lease.spec == seen.spec => *changed,
            _ => now,
        };
        self.known = Known::Present {
            lease: Box::new(seen),
            changed,
        };
    }

    /// A write that makes or keeps us the holder, asked for at `asked`, has been answered with `lease`.
    pub(super) fn won(&mut self, lease: Lease, asked: Instant) {
        self.known = Known::Present {
            lease: Box::new(lease),
            changed: asked,
        };
        self.renewed = Some(asked);
        self.failed = None;
    }

    /// An attempt made at `asked` has failed: the next one waits for a retry period.
    pub(super) fn failed(&mut self, asked: Instant) {
        self.failed = Some(asked);
    }

    /// We no longer lead.
    pub(super) fn step_down(&mut self) {
        self.renewed = None;
    }

    pub(super) fn next(&self, now: Instant) -> Step {
        let step = match self.renewed {
            Some(renewed) => self.as_leader(renewed, now),
            None => self.as_follower(now),
        };
        match (step, self.failed) {
            (Step::Resign | Step::Wait(_), _) | (_, None) => step,
            (_, Some(failed)) => {
                let again = failed + self.durations.retry_period;
                let until = self
                    .deadline()
                    .map_or(again, |deadline| again.min(deadline));
                if now < until { Step::Wait(until) } else { step }
            }
        }
    }

    fn as_leader(&self, renewed: Instant, now: Instant) -> Step {
        let deadline = renewed + self.durations.renew_deadline;
        let due = renewed + self.durations.retry_period;
        match &self.known {
            _ if now >= deadline => Step::Resign,
            Known::Present { lease, .. } if !self.is_ours(lease) => Step::Resign,
            Known::Absent => Step::Create,
            _ if now < due => Step::Wait(due),
            Known::Nothing | Known::Present { .. } => Step::Renew,
        }
    }

    fn as_follower(&self, now: Instant) -> Step {
        match &self.known {
            Known::Nothing => Step::Read,
            Known::Absent => Step::Create,
            Known::Present { lease, changed } => {
                let expires = *changed + self.lasts(lease);
                let free = holder(lease).is_none() || self.is_ours(lease);
                if free || now >= expires {
                    Step::Take
                } else {
                    Step::Wait(expires)
                }
            }
        }
    }

    /// How long the holder may be silent: what it says itself, since it may run with other settings than ours.
    fn lasts(&self, lease: &Lease) -> Duration {
        lease
            .spec
            .as_ref()
            .and_then(|spec| spec.lease_duration_seconds)
            .and_then(|seconds| u64::try_from(seconds).ok())
            .map_or(self.durations.lease_duration, Duration::from_secs)
    }

    fn is_ours(&self, lease: &Lease) -> bool {
        holder(lease) == Some(&self.identity)
    }

    /// The record that makes or keeps us the holder at `wall`, the time that others read.
    pub(super) fn claim(&self, wall: Timestamp) -> LeaseSpec {
        let before = self.lease().and_then(|lease| lease.spec.clone());
        let ours = self.holder() == Some(&self.identity);
        let before_transitions = before.as_ref().and_then(|spec| spec.lease_transitions);
        let acquired = before.as_ref().and_then(|spec| spec.acquire_time.clone());
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: whole_seconds(self.durations.lease_duration),
            acquire_time: acquired.filter(|_| ours).or(Some(MicroTime(wall))),
            renew_time: Some(MicroTime(wall)),
            lease_transitions: match (&before, ours) {
                (None, _) => Some(0),
                (Some(_), true) => before_transitions,
                (Some(_), false) => Some(before_transitions.unwrap_or(0).saturating_add(1)),
            },
            ..before.unwrap_or_default()
        }
    }

    /// The record that gives the Lease up at `wall`. None when it is not ours to give.
    pub(super) fn release(&self, wall: Timestamp) -> Option<LeaseSpec> {
        let lease = self.lease().filter(|lease| self.is_ours(lease))?;
        Some(LeaseSpec {
            holder_identity: Some(String::new()),
            renew_time: Some(MicroTime(wall)),
            ..lease.spec.clone().unwrap_or_default()
        })
    }
}

/// What a record can say: whole seconds, rather too many than too few.
fn whole_seconds(duration: Duration) -> Option<i32> {
    let rest = u64::from(duration.subsec_nanos() > 0);
    i32::try_from(duration.as_secs().saturating_add(rest)).ok()
}

fn holder(lease: &Lease) -> Option<&str> {
    lease
        .spec
        .as_ref()
        .and_then(|spec| spec.holder_identity.as_deref())
        .filter(|holder| !holder.is_empty())
}

/// Whether `seen` is an earlier version of the Lease than `known`. Versions that are no numbers do not compare.
fn older(seen: &Lease, known: &Lease) -> bool {
    let version = |lease: &Lease| {
        lease
            .metadata
            .resource_version
            .as_ref()
            .and_then(|version| version.parse::<u64>().ok())
    };
    let same = seen.metadata.uid == known.metadata.uid;
    same && version(seen)
        .zip(version(known))
        .is_some_and(|(seen, known)| seen < known)
}

#[cfg(test)]
mod tests;
