//! Each phase, each date, each kind of damage, one at a time.

use std::time::Duration;

use super::*;
use crate::certs::authority::Authority;
use crate::certs::lifetimes::before;
use crate::certs::names::Endpoint;
use crate::certs::pair::{PairContents, PairError};
use crate::certs::testing::{at, endpoints, now, operator_service};
use leaves::Reason;
use state::SecretData;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn lifetimes() -> Lifetimes {
    Lifetimes::new(seconds(60), seconds(20), seconds(2)).unwrap()
}

/// The Secrets of a cluster; carrying out a plan is writing them.
#[derive(Clone, Default)]
struct Secrets {
    authority: SecretData,
    serving: [Option<PairContents>; 2],
}

impl Secrets {
    fn plan(&self, now: Timestamp, observed: &[Bundle]) -> Plan {
        let stored = State::decode(&self.authority);
        let leaves: Vec<LeafView> = endpoints()
            .iter()
            .zip(&self.serving)
            .map(|(Endpoint { service, .. }, contents)| {
                LeafView::new(service.clone(), contents.as_ref())
            })
            .collect();
        plan(Situation {
            now,
            lifetimes: lifetimes(),
            stored: &stored,
            leaves: &leaves,
            observed,
        })
        .unwrap()
    }

    fn carry_out(&mut self, now: Timestamp, observed: &[Bundle]) -> Plan {
        let plan = self.plan(now, observed);
        self.authority = plan.state.encode();
        for (index, step) in plan.leaves.iter().enumerate() {
            if *step == LeafStep::Keep {
                continue;
            }
            if let LeafStep::Issue(_) = step {
                let current = plan.state.current.as_ref().unwrap();
                let service = &endpoints()[index].service;
                let issued = current.issue(service, now, seconds(20)).unwrap();
                self.serving[index] = Some(PairContents {
                    tls_crt: issued.certificate().to_pem().into_bytes(),
                    tls_key: issued.key().clone(),
                    ca_crt: Vec::new(),
                });
            }
            if let Some(contents) = &mut self.serving[index] {
                contents.ca_crt = plan.bundle.to_pem().into_bytes();
            }
        }
        let again = self.plan(now, observed);
        assert_eq!(
            again.state, plan.state,
            "the same question has the same answer"
        );
        assert!(again.leaves.iter().all(|step| *step == LeafStep::Keep));
        plan
    }

    /// An installation that was made at the start of the tests.
    fn installed() -> (Self, [Bundle; 2]) {
        let mut secrets = Self::default();
        let bundle = secrets.carry_out(now(), &[]).bundle;
        (secrets, [bundle.clone(), bundle])
    }

    fn expiry(&self, index: usize) -> Timestamp {
        let contents = self.serving[index].as_ref();
        let view = LeafView::new(endpoints()[index].service.clone(), contents);
        let pair = view.pair(now()).unwrap();
        pair.leaf().validity().not_after
    }
}

#[test]
fn the_first_ca_issues_at_once() {
    let mut secrets = Secrets::default();
    let plan = secrets.carry_out(now(), &[]);
    assert_eq!(plan.phase(), Phase::Stable);
    let missing = LeafStep::Issue(Reason::Unusable(PairError::NoSecret));
    assert_eq!(plan.leaves, [missing.clone(), missing]);
    assert_eq!(plan.bundle.certificates().len(), 1);
    assert_eq!(secrets.expiry(0), at(20.0));
}

#[test]
fn a_leaf_is_renewed_in_its_last_third_and_not_before() {
    let (secrets, live) = Secrets::installed();
    let keeps = secrets.plan(at(13.3), &live);
    assert_eq!(keeps.leaves, [LeafStep::Keep, LeafStep::Keep]);
    assert_eq!(keeps.check_at, before(at(20.0), seconds(20) / 3));
    let due = secrets.plan(at(13.4), &live);
    assert_eq!(due.leaves[0], LeafStep::Issue(Reason::Due));
}

/// From the last third of the CA to the end of what it issued, step by step.
#[test]
fn the_ca_is_replaced_in_phases() {
    let (mut secrets, live) = Secrets::installed();
    let one = live[0].clone();
    secrets.carry_out(at(14.0), &live);
    secrets.carry_out(at(33.0), &live);
    assert_eq!(secrets.plan(at(39.9), &live).phase(), Phase::Stable);

    let made = secrets.carry_out(at(40.0), &live);
    assert_eq!(made.phase(), Phase::Publishing);
    assert_eq!(made.bundle.certificates().len(), 2);
    assert_eq!(made.bundle.certificates()[0], one.certificates()[0]);

    // One configuration lags behind: nothing happens, for as long as it does.
    let half = [made.bundle.clone(), one];
    assert_eq!(
        secrets.carry_out(at(41.0), &half).phase(),
        Phase::Publishing
    );

    let live = [made.bundle.clone(), made.bundle.clone()];
    let settling = secrets.carry_out(at(41.5), &live);
    assert_eq!(settling.phase(), Phase::Settling);
    assert_eq!(settling.check_at, at(43.5));
    assert_eq!(secrets.carry_out(at(43.4), &live).phase(), Phase::Settling);

    let taken = secrets.carry_out(at(43.5), &live);
    assert_eq!(taken.phase(), Phase::Retiring);
    assert_eq!(taken.leaves[0], LeafStep::Issue(Reason::NewAuthority));
    assert_eq!(
        taken.bundle.certificates().len(),
        2,
        "the old one is still in use"
    );

    // A slow replica may serve a certificate that was issued just before, until the old CA itself ends.
    assert_eq!(secrets.plan(at(59.9), &live).phase(), Phase::Retiring);
    let dropped = secrets.carry_out(at(60.0), &live);
    assert_eq!(dropped.phase(), Phase::Stable);
    assert_eq!(
        dropped.bundle.certificates(),
        &made.bundle.certificates()[1..]
    );
}

#[test]
fn the_wait_starts_anew_when_a_configuration_loses_the_successor() {
    let (mut secrets, live) = Secrets::installed();
    let one = live[0].clone();
    let two = secrets.carry_out(at(40.0), &live).bundle;
    let both = [two.clone(), two.clone()];
    secrets.carry_out(at(41.0), &both);
    let lost = secrets.carry_out(at(42.0), &[two, one]);
    assert_eq!(lost.phase(), Phase::Publishing);
    secrets.carry_out(at(42.5), &both);
    assert_eq!(secrets.carry_out(at(44.4), &both).phase(), Phase::Settling);
    assert_eq!(secrets.carry_out(at(44.5), &both).phase(), Phase::Retiring);
}

#[test]
fn a_leaf_waits_for_the_new_ca_until_its_last_sixth() {
    let (mut secrets, live) = Secrets::installed();
    secrets.carry_out(at(14.0), &live);
    secrets.carry_out(at(28.0), &live);
    assert_eq!(secrets.expiry(0), at(48.0));
    let made = secrets.carry_out(at(42.0), &live);
    assert_eq!(
        made.leaves[0],
        LeafStep::Rebundle,
        "due since 41.3, but the CA goes first"
    );
    let waits = secrets.plan(at(44.0), &live);
    assert_eq!(waits.leaves[0], LeafStep::Keep);
    let urgent = secrets.carry_out(at(45.0), &live);
    assert_eq!(urgent.leaves[0], LeafStep::Issue(Reason::Due));
    assert_eq!(secrets.expiry(0), at(60.0), "never longer than its CA");
    let capped = secrets.plan(at(59.0), &live);
    assert_eq!(
        capped.leaves[0],
        LeafStep::Keep,
        "another one would end no later"
    );
}

#[test]
fn an_expired_ca_is_replaced_at_once() {
    let (mut secrets, live) = Secrets::installed();
    let plan = secrets.carry_out(at(1000.0), &live);
    assert_eq!(plan.phase(), Phase::Retiring);
    assert!(matches!(
        plan.leaves[0],
        LeafStep::Issue(Reason::Unusable(_))
    ));
    let current = plan.state.current.unwrap();
    assert!(current.certificate().validity().contains(at(1000.0)));
}

/// If it is our clock alone that is wrong, the API server and the other replicas go on with what they have.
#[test]
fn a_clock_that_jumps_ahead_and_back_leaves_the_old_ca_trusted() {
    let (mut secrets, live) = Secrets::installed();
    let old = live[0].certificates()[0].clone();
    let ahead = secrets.carry_out(at(1_000_000.0), &live);
    assert!(ahead.bundle.contains(&old));
    let live = [ahead.bundle.clone(), ahead.bundle];
    let back = secrets.carry_out(at(5.0), &live);
    assert!(back.bundle.contains(&old));
    let current = back.state.current.unwrap();
    assert!(current.certificate().validity().contains(at(5.0)));
    assert_eq!(secrets.expiry(0), at(25.0));
}

#[test]
fn a_clock_that_is_set_back_does_not_make_the_wait_longer() {
    let (mut secrets, live) = Secrets::installed();
    let two = secrets.carry_out(at(40.0), &live).bundle;
    let both = [two.clone(), two];
    secrets.carry_out(at(50.0), &both);
    secrets.carry_out(at(41.0), &both);
    assert_eq!(secrets.carry_out(at(43.0), &both).phase(), Phase::Retiring);
}

#[test]
fn a_lost_ca_stays_trusted_while_its_successor_is_made_known() {
    type Damage = fn(&mut SecretData);
    let damages: [Damage; 4] = [
        SecretData::clear,
        |data| data.values_mut().for_each(Vec::clear),
        |data| drop(data.insert("ca.key".into(), b"garbage".to_vec())),
        |data| drop(data.insert("ca.crt".into(), b"garbage".to_vec())),
    ];
    for damage in damages {
        let (mut secrets, live) = Secrets::installed();
        let old = live[0].certificates()[0].clone();
        damage(&mut secrets.authority);
        let repaired = secrets.carry_out(at(1.0), &live);
        assert_eq!(repaired.phase(), Phase::Publishing);
        assert!(repaired.bundle.contains(&old));
        assert_eq!(repaired.leaves, [LeafStep::Rebundle, LeafStep::Rebundle]);
        let both = [repaired.bundle.clone(), repaired.bundle];
        secrets.carry_out(at(1.5), &both);
        let done = secrets.carry_out(at(3.5), &both);
        assert_eq!(done.leaves[0], LeafStep::Issue(Reason::NewAuthority));
        assert!(
            done.bundle.contains(&old),
            "slow replicas still serve its certificates"
        );
    }
}

#[test]
fn with_the_ca_and_a_pair_lost_nothing_is_waited_for() {
    let (mut secrets, live) = Secrets::installed();
    let old = live[0].certificates()[0].clone();
    secrets.authority.clear();
    secrets.serving[0] = None;
    let repaired = secrets.carry_out(at(1.0), &live);
    assert!(matches!(
        repaired.leaves[0],
        LeafStep::Issue(Reason::Unusable(_))
    ));
    assert_eq!(
        repaired.leaves[1],
        LeafStep::Rebundle,
        "what is valid waits for the live bundle"
    );
    assert!(repaired.bundle.contains(&old));
}

#[test]
fn a_ca_secret_that_was_put_back_to_an_older_state_keeps_what_is_served_trusted() {
    let (mut secrets, live) = Secrets::installed();
    let backup = secrets.authority.clone();
    let two = secrets.carry_out(at(40.0), &live).bundle;
    let both = [two.clone(), two.clone()];
    secrets.carry_out(at(40.1), &both);
    secrets.carry_out(at(42.2), &both);
    secrets.authority = backup;
    let second: Bundle = [two.certificates()[1].clone()].into_iter().collect();
    let restored = secrets.carry_out(at(43.0), &[second.clone(), second]);
    assert!(restored.bundle.contains(&two.certificates()[1]));
    assert!(
        restored
            .leaves
            .iter()
            .all(|step| !matches!(step, LeafStep::Issue(_)))
    );
}

#[test]
fn a_leaf_of_another_ca_that_nobody_trusts_is_replaced_and_its_ca_is_not_taken_in() {
    let (mut secrets, live) = Secrets::installed();
    let stranger = Authority::make(now(), seconds(3600)).unwrap();
    let issued = stranger
        .issue(&operator_service(), now(), seconds(20))
        .unwrap();
    secrets.serving[0] = Some(PairContents {
        tls_crt: issued.certificate().to_pem().into_bytes(),
        tls_key: issued.key().clone(),
        ca_crt: stranger.certificate().to_pem().into_bytes(),
    });
    let plan = secrets.carry_out(at(1.0), &live);
    assert!(matches!(
        plan.leaves[0],
        LeafStep::Issue(Reason::Unusable(_))
    ));
    assert!(!plan.bundle.contains(stranger.certificate()));
}

#[test]
fn after_another_issuer_its_ca_is_kept_only_until_ours_is_served() {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let foreign = params.self_signed(&key).unwrap().pem();
    let live = Bundle::from_live(foreign.as_bytes());
    let mut secrets = Secrets::default();
    let first = secrets.carry_out(now(), &[live.clone(), live.clone()]);
    assert_eq!(first.bundle.certificates().len(), 2);
    assert!(first.bundle.contains(&live.certificates()[0]));
    let both = [first.bundle.clone(), first.bundle];
    let later = secrets.carry_out(at(8.0), &both);
    assert_eq!(later.bundle.certificates().len(), 1);
}

#[test]
fn nothing_written_by_hand_keeps_a_ca_trusted_for_ever() {
    let (mut secrets, live) = Secrets::installed();
    let two = secrets.carry_out(at(40.0), &live).bundle;
    let both = [two.clone(), two];
    secrets.carry_out(at(40.1), &both);
    secrets.carry_out(at(42.2), &both);
    let mut state = State::decode(&secrets.authority).state;
    for retired in &mut state.retired {
        retired.until = Timestamp::MAX;
    }
    secrets.authority = state.encode();
    secrets.carry_out(at(43.0), &both);
    assert_eq!(
        State::decode(&secrets.authority).state.retired[0].until,
        at(63.0)
    );
}

#[test]
fn no_registered_configuration_means_nobody_to_wait_for_but_the_settle_time() {
    let (mut secrets, _) = Secrets::installed();
    assert_eq!(secrets.carry_out(at(40.0), &[]).phase(), Phase::Settling);
    assert_eq!(secrets.carry_out(at(42.0), &[]).phase(), Phase::Retiring);
}

#[test]
fn the_next_look_is_never_more_than_a_minute_away() {
    let year = seconds(365 * 24 * 3600);
    let plan = plan(Situation {
        now: now(),
        lifetimes: Lifetimes::new(year, year, seconds(60)).unwrap(),
        stored: &Stored::default(),
        leaves: &[],
        observed: &[],
    })
    .unwrap();
    assert_eq!(plan.check_at, at(60.0));
}
