//! Rotation of the self-signed CA and its certificates: what to do next, decided from what is there.
//!
//! ```text
//! Stable ── last third of the CA ──> Publishing ── every live caBundle carries both ──> Settling
//!   ^                               (successor made,                              (settle time)
//!   |                                in the bundle)                                      |
//!   └── last certificate of the old CA expired ── Retiring <── the successor takes over ─┘
//!                                       (certificates issued anew, old CA still in the bundle)
//! ```
//!
//! [`plan`] is a function of the time, the Secrets and the live bundles, and everything it must remember is in the CA
//! Secret: a process that is killed at any point, or another replica, goes on where the last one stopped. The order that
//! keeps every call answered: the CA Secret is written first, then the serving Secrets, then the bundle is published.
//! Because a CA takes over only when every live bundle has carried it for the settle time, what is issued from it is
//! trusted already; because the old one stays until its last certificate has expired, so is what a slow replica serves.
//!
//! Nothing here talks to the API server.

pub mod leaves;
pub mod state;

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

use super::authority::{AUTHORITY_NAME, Authority, AuthorityError};
use super::bundle::Bundle;
use super::certificate::Certificate;
use super::lifetimes::{LONGEST_REST, Lifetimes, after, span};
use leaves::{LeafState, LeafStep, LeafView};
use state::{Retired, State, Stored, Successor};

/// Everything that decides what to do next.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// The wall clock.
    pub now: Timestamp,
    /// How long things last.
    pub lifetimes: Lifetimes,
    /// The CA Secret, read.
    pub stored: &'a Stored,
    /// The serving Secrets, one an endpoint.
    pub leaves: &'a [LeafView],
    /// The `caBundle` of every webhook configuration that is registered, those of unreadable bytes being empty.
    pub observed: &'a [Bundle],
}

/// What to do next.
#[derive(Debug)]
pub struct Plan {
    /// What the CA Secret should hold.
    pub state: State,
    /// What to do about each serving Secret, in the order of [`Situation::leaves`].
    pub leaves: Vec<LeafStep>,
    /// The bundle for `ca.crt` and every `caBundle`.
    pub bundle: Bundle,
    /// What happened to the CA, for Events.
    pub changes: Vec<Change>,
    /// When to look again at the latest.
    pub check_at: Timestamp,
}

/// Where rotation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// One CA.
    Stable,
    /// A successor is made and not yet in every live bundle.
    Publishing,
    /// A successor is in every live bundle, for less than the settle time.
    Settling,
    /// An old CA is kept for the certificates it issued.
    Retiring,
}

/// A step of the CA's life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A new CA was made: the first, or a successor.
    Made {
        /// When it expires.
        expires: Timestamp,
    },
    /// A CA began to issue.
    TookOver {
        /// When it expires.
        expires: Timestamp,
    },
    /// A CA left the bundle.
    Dropped {
        /// When it expired or expires.
        expires: Timestamp,
    },
    /// Something in the Secret could not be read and was replaced.
    Repaired {
        /// What it was, without anything of a key.
        what: String,
    },
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Made { expires } => write!(f, "a CA valid until {expires} was made"),
            Self::TookOver { expires } => {
                write!(f, "the CA valid until {expires} issues from now on")
            }
            Self::Dropped { expires } => {
                write!(f, "the CA valid until {expires} is trusted no longer")
            }
            Self::Repaired { what } => write!(f, "repaired: {what}"),
        }
    }
}

impl Phase {
    /// Its name, for logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stable => "stable",
            Self::Publishing => "publishing",
            Self::Settling => "settling",
            Self::Retiring => "retiring",
        }
    }
}

impl Plan {
    /// Where rotation stands once the plan is carried out.
    pub fn phase(&self) -> Phase {
        match &self.state {
            State {
                next: Some(next), ..
            } if next.published.is_some() => Phase::Settling,
            State { next: Some(_), .. } => Phase::Publishing,
            State { retired, .. } if !retired.is_empty() => Phase::Retiring,
            State { .. } => Phase::Stable,
        }
    }
}

/// Decides what to do next. Doing it and asking again at once gives the same state and no further step.
///
/// # Errors
/// When a new CA cannot be made.
pub fn plan(situation: Situation<'_>) -> Result<Plan, AuthorityError> {
    let stored = situation.stored;
    let mut planner = Planner {
        situation,
        state: stored.state.clone(),
        changes: stored
            .damage
            .iter()
            .map(|what| Change::Repaired { what: what.clone() })
            .collect(),
    };
    planner.set_aside_what_is_out_of_date();
    planner.keep_what_is_trusted();
    planner.make_successor_when_due()?;
    planner.let_successor_take_over();
    planner.drop_what_nothing_needs();
    Ok(planner.finish())
}

struct Planner<'a> {
    situation: Situation<'a>,
    state: State,
    changes: Vec<Change>,
}

impl Planner<'_> {
    /// A CA that is not in date cannot issue. It stays in the bundle for a while all the same: if it is our clock that
    /// is wrong, other replicas still serve its certificates, and the API server still accepts them.
    fn set_aside_what_is_out_of_date(&mut self) {
        let now = self.situation.now;
        if let Some(current) = self
            .state
            .current
            .take_if(|current| !current.certificate().validity().contains(now))
        {
            let until = after(now, self.situation.lifetimes.certificate());
            self.retire(current.certificate().clone(), until);
        }
        self.state
            .next
            .take_if(|next| !next.authority.certificate().validity().contains(now));
    }

    /// After damage: whatever live bundles and serving certificates still rely on goes into the bundle again.
    fn keep_what_is_trusted(&mut self) {
        let Situation {
            now,
            lifetimes,
            stored,
            leaves,
            observed,
        } = self.situation;
        let in_use = after(now, lifetimes.certificate());
        for orphan in &stored.orphans {
            self.keep(orphan, in_use);
        }
        let live = observed.iter().flat_map(Bundle::certificates);
        let signers: Vec<&Certificate> = live.filter(|one| one.may_sign()).collect();
        for leaf in leaves.iter().filter_map(|leaf| leaf.pair(now)) {
            let known = self.state.bundle();
            let is_known = |one: &Certificate| leaf.leaf().is_signed_by(one);
            if known.certificates().iter().any(is_known) {
                continue;
            }
            if let Some(signer) = signers.iter().find(|signer| is_known(signer)) {
                self.keep(signer, leaf.leaf().validity().not_after);
            }
        }
        if self.state.current.is_none() {
            // Another issuer's CA (after a change of mode) is only needed until our own certificates are served.
            let hand_over = after(now, lifetimes.settle() * 4);
            for signer in signers {
                let ours = signer.common_name() == AUTHORITY_NAME;
                self.keep(signer, if ours { in_use } else { hand_over });
            }
        }
    }

    fn make_successor_when_due(&mut self) -> Result<(), AuthorityError> {
        let now = self.situation.now;
        let due = self
            .state
            .current
            .as_ref()
            .is_none_or(|current| now >= current.certificate().validity().renew_at());
        if due && self.state.next.is_none() {
            let authority = Authority::make(now, self.situation.lifetimes.authority())?;
            self.changes.push(Change::Made {
                expires: authority.certificate().validity().not_after,
            });
            self.state.next = Some(Successor {
                authority,
                published: None,
            });
        }
        Ok(())
    }

    fn let_successor_take_over(&mut self) {
        let now = self.situation.now;
        let Some(next) = &self.state.next else {
            return;
        };
        let ready = if self.something_to_protect() {
            let published = self
                .carried_everywhere(next.authority.certificate())
                // A clock that was set back must not make the wait longer.
                .then(|| next.published.unwrap_or(now).min(now));
            if let Some(next) = &mut self.state.next {
                next.published = published;
            }
            published.is_some_and(|since| span(since, now) >= self.situation.lifetimes.settle())
        } else {
            true
        };
        if let Some(next) = self.state.next.take_if(|_| ready) {
            self.changes.push(Change::TookOver {
                expires: next.authority.certificate().validity().not_after,
            });
            if let Some(old) = self.state.current.replace(next.authority) {
                let until = self.last_leaf_of(old.certificate());
                self.retire(old.certificate().clone(), until);
            }
        }
    }

    fn drop_what_nothing_needs(&mut self) {
        let Situation { now, lifetimes, .. } = self.situation;
        let mut kept: Vec<Retired> = Vec::new();
        for mut retired in std::mem::take(&mut self.state.retired) {
            let expires = retired.certificate.validity().not_after;
            // Nothing that is written into the Secret by hand keeps a CA trusted for longer than this.
            retired.until = retired
                .until
                .min(expires.max(after(now, lifetimes.certificate())));
            let repeated = self.state.knows(&retired.certificate)
                || kept
                    .iter()
                    .any(|one| one.certificate == retired.certificate);
            if retired.until <= now {
                self.changes.push(Change::Dropped { expires });
            } else if !repeated {
                kept.push(retired);
            }
        }
        self.state.retired = kept;
    }

    fn finish(self) -> Plan {
        let Self {
            situation,
            state,
            changes,
        } = self;
        let bundle = state.bundle();
        let context = LeafState {
            now: situation.now,
            lifetimes: situation.lifetimes,
            rotating: state.next.is_some(),
            current: state.current.as_ref().map(Authority::certificate),
            carried: state
                .current
                .as_ref()
                .is_none_or(|current| carried(situation.observed, current.certificate())),
            bundle: &bundle,
        };
        let leaves = situation
            .leaves
            .iter()
            .map(|leaf| context.next_step(leaf))
            .collect();
        let check_at = check_at(&situation, &state);
        Plan {
            leaves,
            check_at,
            state,
            bundle,
            changes,
        }
    }

    /// Whether haste could break a call: there is a CA that can issue, or every endpoint has a valid pair. Otherwise
    /// some webhook has nothing to be served with, and waiting helps nobody.
    fn something_to_protect(&self) -> bool {
        let Situation { now, leaves, .. } = self.situation;
        if self.state.current.is_some() {
            return true;
        }
        let trusted: Bundle = self
            .state
            .retired
            .iter()
            .map(|retired| retired.certificate.clone())
            .collect();
        !leaves.is_empty() && leaves.iter().all(|leaf| leaf.check(&trusted, now).is_ok())
    }

    fn carried_everywhere(&self, next: &Certificate) -> bool {
        let observed = self.situation.observed;
        let current = self.state.current.as_ref().map(Authority::certificate);
        carried(observed, next) && current.is_none_or(|current| carried(observed, current))
    }

    /// When the last certificate that `authority` issued has expired at the latest: those in the Secrets, and those
    /// that were issued before them, which some replica may still serve.
    fn last_leaf_of(&self, authority: &Certificate) -> Timestamp {
        let Situation {
            now,
            lifetimes,
            leaves,
            ..
        } = self.situation;
        leaves
            .iter()
            .filter_map(|leaf| leaf.pair(now))
            .filter(|pair| pair.leaf().is_signed_by(authority))
            .map(|pair| pair.leaf().validity().not_after)
            .fold(after(now, lifetimes.certificate()), Timestamp::max)
            .min(authority.validity().not_after)
    }

    fn keep(&mut self, certificate: &Certificate, until: Timestamp) {
        let validity = certificate.validity();
        if validity.contains(self.situation.now) && !self.state.knows(certificate) {
            self.retire(certificate.clone(), until.min(validity.not_after));
        }
    }

    fn retire(&mut self, certificate: Certificate, until: Timestamp) {
        self.state.retired.push(Retired { certificate, until });
    }
}

fn carried(observed: &[Bundle], certificate: &Certificate) -> bool {
    observed.iter().all(|bundle| bundle.contains(certificate))
}

/// How soon to look again while live bundles lag behind. Their watch wakes the operator earlier; this is for the case
/// that it does not.
const WAITING: Duration = Duration::from_secs(2);

/// The earliest of the moments at which something is due, at most [`LONGEST_REST`] away.
fn check_at(situation: &Situation<'_>, state: &State) -> Timestamp {
    let lags = state
        .bundle()
        .certificates()
        .iter()
        .any(|one| one.validity().contains(situation.now) && !carried(situation.observed, one));
    let settled = state
        .next
        .as_ref()
        .and_then(|next| next.published)
        .map(|since| after(since, situation.lifetimes.settle()));
    let authority = state
        .current
        .as_ref()
        .map(|current| current.certificate().validity().renew_at());
    let retired = state.retired.iter().map(|retired| retired.until);
    let leaves = situation
        .leaves
        .iter()
        .filter_map(|leaf| leaf.pair(situation.now))
        .flat_map(|pair| {
            let validity = pair.leaf().validity();
            [
                validity.renew_at(),
                validity.urgent_at(),
                validity.not_after,
            ]
        });
    let rest = after(situation.now, if lags { WAITING } else { LONGEST_REST });
    retired
        .chain(leaves)
        .chain(settled)
        .chain(authority)
        .filter(|at| *at > situation.now)
        .fold(rest, Timestamp::min)
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
