//! The decisions of rotation, in the order in which they are taken.

use std::time::Duration;

use jiff::Timestamp;

use super::leaves::{LeafState, LeafView};
use super::state::{Retired, State, Successor};
use super::{Change, Plan, Situation};
use crate::certs::authority::{AUTHORITY_NAME, Authority, AuthorityError};
use crate::certs::bundle::Bundle;
use crate::certs::certificate::Certificate;
use crate::certs::lifetimes::{LONGEST_REST, after, span};

/// How soon to look again while live bundles lag behind. Their watch wakes the operator earlier; this is for the case
/// that it does not.
const WAITING: Duration = Duration::from_secs(2);

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
            state,
            leaves,
            bundle,
            changes,
            check_at,
        }
    }

    /// Whether haste could break a call: there is a CA that can issue, or every endpoint has a valid pair for a while
    /// yet. Otherwise some webhook has nothing to be served with, or soon will not, and waiting helps nobody.
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
        let lasts = |leaf: &LeafView| {
            leaf.check(&trusted, now)
                .is_ok_and(|pair| now < pair.leaf().validity().urgent_at())
        };
        !leaves.is_empty() && leaves.iter().all(lasts)
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
