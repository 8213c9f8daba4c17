//! Minutes of rotation in compressed time, with everything late that can be late: live bundles are written one after
//! the other, observed later still, replicas load Secrets when they get to it, and the leader dies between any two
//! writes. At every instant each replica's pair must be accepted by the live bundle of its configuration.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::certs::lifetimes::after;
use crate::certs::pair::PairContents;
use crate::certs::serving::slot::{Slot, Trust};
use crate::certs::testing::{endpoints, now};
use state::SecretData;

const CA: u64 = 60;
const LEAF: u64 = 20;
const SETTLE: u64 = 2;

/// How long, in steps, anything may be late.
const LATEST: usize = 6;

/// How long, in steps, a configuration may be out of reach: several times the settle time.
const STUCK: usize = 50;

/// What happens in one step. Whatever has not happened for [`LATEST`] steps happens.
#[derive(Clone, Debug)]
struct Step {
    millis: u64,
    /// A look of the leader, which dies after so many writes.
    look: Option<usize>,
    observe: [bool; 3],
    load: [bool; 4],
    damage: Vec<Damage>,
    /// A configuration that cannot be written for [`STUCK`] steps from now on.
    stuck: Option<usize>,
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
    stuck: [usize; 3],
    changes: usize,
    /// The second replica sees its Secrets and no configurations, as one that only serves admission.
    second_is_blind: bool,
}

impl World {
    fn new(second_is_blind: bool) -> Self {
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
            stuck: [0; 3],
            changes: 0,
            second_is_blind,
        }
    }

    fn step(&mut self, step: &Step) {
        self.now = after(self.now, Duration::from_millis(step.millis));
        self.stuck = self.stuck.map(|steps| steps.saturating_sub(1));
        if let Some(index) = step.stuck {
            self.stuck[index] = STUCK;
        }
        for damage in &step.damage {
            self.damage(*damage);
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
            if index < 2 || !self.second_is_blind {
                slot.set_live(live);
            }
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
        for (index, called) in CALLS.into_iter().enumerate() {
            // A configuration is registered once this replica, the first, serves what its bundle verifies.
            let ready = self.slots[called]
                .current()
                .is_some_and(|pair| pair.trusted_by(&plan.bundle, self.now).is_ok());
            let wanted = Some(plan.bundle.clone());
            let changed = self.live[index] != wanted;
            if self.stuck[index] > 0 {
                continue;
            }
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

/// Steps from a seed, so that a failing case is told by one number.
struct Steps {
    seed: u64,
    /// Every so many steps somebody damages one thing or two; 0 is never.
    damage_every: u64,
    taken: u64,
}

impl Steps {
    fn below(&mut self, bound: u64) -> u64 {
        self.seed = self.seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.seed;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn one_of<T: Copy, const N: usize>(&mut self, choices: [T; N]) -> T {
        choices[usize::try_from(self.below(N as u64)).unwrap()]
    }

    fn next(&mut self) -> Step {
        self.taken += 1;
        let damages = if self.taken.checked_rem(self.damage_every) == Some(0) {
            1 + self.below(2)
        } else {
            0
        };
        let damage = (0..damages)
            .map(|_| {
                self.one_of([
                    Damage::AuthorityDeleted,
                    Damage::AuthorityKeyGarbled,
                    Damage::NextGarbled,
                    Damage::PairDeleted(0),
                    Damage::PairDeleted(1),
                    Damage::PairGarbled(0),
                    Damage::BundleEmptied(0),
                    Damage::BundleEmptied(2),
                ])
            })
            .collect();
        let dies_after = self.one_of([0, 1, 2, 3, 4, 5, usize::MAX, usize::MAX, usize::MAX]);
        Step {
            millis: 50 + self.below(200),
            look: (self.below(2) == 0).then_some(dies_after),
            observe: std::array::from_fn(|_| self.below(2) == 0),
            load: std::array::from_fn(|_| self.below(2) == 0),
            damage,
            // A CA that is lost while a configuration is out of reach for long is beyond what anybody could do.
            stuck: (self.damage_every == 0 && self.below(150) == 0).then(|| self.one_of([0, 1, 2])),
        }
    }
}

fn run(seed: u64, damage_every: u64, steps: usize) -> World {
    // With nothing damaged, phases alone have to do; what is lost by hand needs replicas that look at the live bundle.
    let mut world = World::new(damage_every == 0);
    let mut source = Steps {
        seed,
        damage_every,
        taken: 0,
    };
    for _ in 0..steps {
        let step = source.next();
        world.step(&step);
        world.assert_every_call_is_answered();
    }
    world
}

proptest! {
    // The one number that a case consists of does not get simpler by being smaller.
    #![proptest_config(ProptestConfig { cases: 2, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn no_call_fails_while_the_ca_changes_several_times(seed: u64) {
        let world = run(seed, 0, 800);
        prop_assert!(world.changes >= 2, "the CA changed {} times", world.changes);
        let bundle = State::decode(&world.authority).state.bundle();
        prop_assert!(bundle.certificates().len() <= 3, "{bundle:?}");
    }

    #[test]
    fn no_call_fails_while_secrets_and_bundles_are_damaged_by_hand(seed: u64) {
        run(seed, 53, 500);
    }
}
