//! Minutes of rotation in compressed time, with everything late that can be late: live bundles are written one after
//! the other, observed later still, replicas load Secrets when they get to it, and the leader dies between any two
//! writes. At every instant each replica's pair must be accepted by the live bundle of its configuration.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::certs::pair::PairContents;
use crate::certs::serving::slot::{Slot, Trust};
use crate::certs::testing::{endpoints, now};
use state::SecretData;

const CA: u64 = 60;
const LEAF: u64 = 20;
const SETTLE: u64 = 2;

/// How long, in steps, anything may be late.
const LATEST: usize = 6;

/// What happens in one step. Whatever has not happened for [`LATEST`] steps happens.
#[derive(Clone, Debug)]
struct Step {
    millis: u64,
    /// A look of the leader, which dies after so many writes.
    look: Option<usize>,
    observe: [bool; 3],
    load: [bool; 4],
    damage: Option<Damage>,
}

#[derive(Clone, Copy, Debug)]
enum Damage {
    AuthorityDeleted,
    AuthorityKeyGarbled,
    NextGarbled,
    PairDeleted(usize),
    PairGarbled(usize),
    BundleEmptied(usize),
}

/// Three configurations; the first two call the first Service.
const CALLS: [usize; 3] = [0, 0, 1];

struct World {
    now: Timestamp,
    authority: SecretData,
    serving: [Option<PairContents>; 2],
    /// `None` until registered.
    live: [Option<Bundle>; 3],
    observed: [Option<Bundle>; 3],
    /// Bundles that a hand emptied and nobody has repaired yet.
    broken: [bool; 3],
    /// Two replicas, two endpoints each.
    slots: Vec<Slot>,
    idle: [usize; 8],
    changes: usize,
}

impl World {
    fn new() -> Self {
        let slots = [endpoints(), endpoints()].concat();
        Self {
            now: now(),
            authority: SecretData::new(),
            serving: [None, None],
            live: [None, None, None],
            observed: [None, None, None],
            broken: [false; 3],
            slots: slots
                .into_iter()
                .map(|endpoint| Slot::new(endpoint, Trust::Beside))
                .collect(),
            idle: [0; 8],
            changes: 0,
        }
    }

    fn step(&mut self, step: &Step) {
        self.now = after(self.now, Duration::from_millis(step.millis));
        if let Some(damage) = step.damage {
            self.damage(damage);
        }
        for (index, observe) in step.observe.into_iter().enumerate() {
            if self.happens(index, observe) {
                self.observed[index].clone_from(&self.live[index]);
            }
        }
        for (index, load) in step.load.into_iter().enumerate() {
            if self.happens(3 + index, load) {
                let slot = &mut self.slots[index];
                slot.set_secret(self.serving[index % 2].clone());
            }
        }
        if self.happens(7, step.look.is_some()) {
            self.look(step.look.unwrap_or(usize::MAX));
        }
        for (index, slot) in self.slots.iter_mut().enumerate() {
            // Only what each configuration that calls the Service carries is verified by all of them.
            let live = CALLS
                .iter()
                .zip(&self.live)
                .filter(|(called, _)| **called == index % 2)
                .filter_map(|(_, live)| live.clone())
                .reduce(|one, other| one.intersection(&other));
            slot.set_live(live);
            slot.reconsider(self.now);
        }
    }

    fn happens(&mut self, clock: usize, wanted: bool) -> bool {
        self.idle[clock] += 1;
        let happens = wanted || self.idle[clock] > LATEST;
        if happens {
            self.idle[clock] = 0;
        }
        happens
    }

    /// What the keeper and the reconciler do, one write after the other.
    fn look(&mut self, mut writes: usize) {
        let stored = State::decode(&self.authority);
        let leaves: Vec<LeafView> = endpoints()
            .into_iter()
            .zip(&self.serving)
            .map(|(endpoint, contents)| LeafView::new(endpoint.service, contents.as_ref()))
            .collect();
        let observed: Vec<Bundle> = self.observed.iter().flatten().cloned().collect();
        let seconds = Duration::from_secs;
        let plan = plan(Situation {
            now: self.now,
            lifetimes: Lifetimes::new(seconds(CA), seconds(LEAF), seconds(SETTLE)).unwrap(),
            stored: &stored,
            leaves: &leaves,
            observed: &observed,
        })
        .unwrap();
        let mut alive = |changed: bool| {
            if !changed {
                return true;
            }
            let alive = writes > 0;
            writes = writes.saturating_sub(1);
            alive
        };
        let wanted = plan.state.encode();
        if !alive(wanted != self.authority) {
            return;
        }
        self.authority = wanted;
        self.changes += plan
            .changes
            .iter()
            .filter(|change| matches!(change, Change::TookOver { .. }))
            .count();
        for (index, step) in plan.leaves.iter().enumerate() {
            if !alive(*step != LeafStep::Keep) {
                return;
            }
            let ca_crt = plan.bundle.to_pem().into_bytes();
            if let (LeafStep::Issue(_), Some(current)) = (step, &plan.state.current) {
                let service = &endpoints()[index].service;
                let issued = current.issue(service, self.now, seconds(LEAF)).unwrap();
                self.serving[index] = Some(PairContents {
                    tls_crt: issued.certificate().to_pem().into_bytes(),
                    tls_key: issued.key().clone(),
                    ca_crt,
                });
            } else if let Some(contents) = &mut self.serving[index] {
                contents.ca_crt = ca_crt;
            }
        }
        for index in 0..3 {
            // A configuration is registered once this replica, the first, serves what its bundle verifies.
            let ready = self.slots[CALLS[index]]
                .current()
                .is_some_and(|pair| pair.trusted_by(&plan.bundle, self.now).is_ok());
            let wanted = Some(plan.bundle.clone());
            let changed = self.live[index] != wanted;
            if (ready || self.live[index].is_some()) && alive(changed) {
                self.live[index] = wanted;
                self.broken[index] = false;
            }
        }
    }

    fn damage(&mut self, damage: Damage) {
        match damage {
            Damage::AuthorityDeleted => self.authority.clear(),
            Damage::AuthorityKeyGarbled => {
                self.authority.insert("ca.key".into(), b"garbage".to_vec());
            }
            Damage::NextGarbled => {
                self.authority
                    .insert("next.crt".into(), b"garbage".to_vec());
            }
            Damage::PairDeleted(index) => self.serving[index] = None,
            Damage::PairGarbled(index) => {
                if let Some(contents) = &mut self.serving[index] {
                    contents.tls_crt.truncate(100);
                }
            }
            Damage::BundleEmptied(index) => {
                if self.live[index].is_some() {
                    self.live[index] = Some(Bundle::default());
                    self.broken[index] = true;
                }
            }
        }
    }

    fn assert_every_call_is_answered(&self) {
        for (index, slot) in self.slots.iter().enumerate() {
            for (configuration, live) in self.live.iter().enumerate() {
                let called = CALLS[configuration] == index % 2;
                let (Some(live), true, false) = (live, called, self.broken[configuration]) else {
                    continue;
                };
                // A replica that has not started yet is not called.
                let Some(pair) = slot.current() else { continue };
                if let Err(error) = pair.verify(live, &slot.endpoint().service, self.now) {
                    panic!(
                        "at {}: configuration {configuration}, replica {}: {error}; bundle {live:?}",
                        self.now,
                        index / 2,
                    );
                }
            }
        }
    }
}

fn step(damage: bool) -> impl Strategy<Value = Step> {
    let damage = if damage {
        prop_oneof![
            30 => Just(None),
            1 => prop_oneof![
                Just(Damage::AuthorityDeleted),
                Just(Damage::AuthorityKeyGarbled),
                Just(Damage::NextGarbled),
                (0usize..2).prop_map(Damage::PairDeleted),
                (0usize..2).prop_map(Damage::PairGarbled),
                (0usize..3).prop_map(Damage::BundleEmptied),
            ]
            .prop_map(Some),
        ]
        .boxed()
    } else {
        Just(None).boxed()
    };
    (
        50u64..250,
        prop_oneof![2 => Just(None), 1 => (0usize..6).prop_map(Some), 1 => Just(Some(usize::MAX))],
        any::<[bool; 3]>(),
        any::<[bool; 4]>(),
        damage,
    )
        .prop_map(|(millis, look, observe, load, damage)| Step {
            millis,
            look,
            observe,
            load,
            damage,
        })
}

fn run(steps: &[Step]) -> World {
    let mut world = World::new();
    for step in steps {
        world.step(step);
        world.assert_every_call_is_answered();
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn no_call_fails_while_the_ca_changes_several_times(
        steps in proptest::collection::vec(step(false), 1300)
    ) {
        let world = run(&steps);
        prop_assert!(world.changes >= 4, "the CA changed {} times", world.changes);
        let bundle = State::decode(&world.authority).state.bundle();
        prop_assert!(bundle.certificates().len() <= 3, "{bundle:?}");
    }

    #[test]
    fn no_call_fails_while_secrets_and_bundles_are_damaged_by_hand(
        steps in proptest::collection::vec(step(true), 600)
    ) {
        run(&steps);
    }
}
