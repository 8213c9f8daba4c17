//! How a webhook configuration can be registered at the moment: with which `caBundle`, and whether it would be answered.
//!
//! A function of what the certificates' part of a pass found, of the pair that is served, and of the live
//! configuration. Nothing here talks to the API server.

use jiff::Timestamp;

use crate::{
    certs::{bundle::Bundle, names::Endpoint, pair::ServingPair, published::Registered},
    render::Registration,
    settings::FailurePolicy,
};

/// Who fills in the bundles of a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Bundles {
    /// We do, with this one.
    Ours(Bundle),
    /// Somebody else does.
    Others,
    /// We do, and cannot tell at the moment which one it has to be.
    Unknown,
}

/// How one configuration can be registered now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Standing {
    /// What to register it with.
    pub(super) registration: Registration,
    /// Whether a first registration would be answered with a pair that verifies.
    pub(super) verified: bool,
    /// Whether the pair that is served verifies against the bundle: the one to register, or the live one where somebody
    /// else fills it in.
    pub(super) answered: bool,
}

impl Standing {
    /// Whether the live configuration carries other bytes than those that we register it with.
    pub(super) fn differs_from(&self, live: &Registered) -> bool {
        let wanted = self.registration.ca_bundle.as_deref().map(str::as_bytes);
        wanted.is_some_and(|wanted| live.ca_bundle.as_deref() != Some(wanted))
    }
}

/// What decides about one configuration.
#[derive(Clone, Copy)]
pub(super) struct Situation<'a> {
    pub(super) endpoint: &'a Endpoint,
    /// The pair in use; `None` as well before the Secret was looked up.
    pub(super) pair: Option<&'a ServingPair>,
    /// Whether the Secret was looked up.
    pub(super) looked_up: bool,
    /// The configuration, if it is registered.
    pub(super) live: Option<&'a Registered>,
    pub(super) now: Timestamp,
}

impl Situation<'_> {
    pub(super) fn standing(&self, bundles: &Bundles) -> Standing {
        match bundles {
            Bundles::Ours(wanted) => Standing {
                verified: self.believes(wanted),
                answered: self.believes(wanted),
                registration: Registration {
                    ca_bundle: Some(self.with_what_is_served(wanted).to_pem()),
                    failure_policy: None,
                },
            },
            Bundles::Others => Standing {
                // Nothing verifies it yet, and until something does it is ignored.
                verified: true,
                answered: self.live_bundle().is_some_and(|live| self.believes(&live)),
                registration: self.left_to_others(),
            },
            Bundles::Unknown => Standing {
                verified: false,
                answered: false,
                registration: Registration {
                    ca_bundle: self.live_bundle().map(|live| live.to_pem()),
                    failure_policy: None,
                },
            },
        }
    }

    /// Whether the API server would accept the pair that is served.
    pub(super) fn believes(&self, bundle: &Bundle) -> bool {
        let name = self.endpoint.service.called_as();
        self.pair.is_some_and(|pair| {
            pair.in_date(self.now).is_ok()
                && pair.covers(&name).is_ok()
                && pair.trusted_by(bundle, self.now).is_ok()
        })
    }

    /// After a change of mode the pair of the issuer before is served until the new one's is there: what verifies it
    /// stays in the bundle for as long.
    fn with_what_is_served(&self, wanted: &Bundle) -> Bundle {
        let mut bundle = wanted.clone();
        if let Some(live) = self.live_bundle().filter(|_| !self.believes(wanted)) {
            let needed = live.certificates().iter().filter(|one| {
                let alone: Bundle = [(*one).clone()].into_iter().collect();
                !self.looked_up || self.believes(&alone)
            });
            bundle.extend(needed.cloned());
        }
        bundle
    }

    fn left_to_others(&self) -> Registration {
        let ignored = Registration {
            ca_bundle: None,
            failure_policy: Some(FailurePolicy::Ignore),
        };
        let (Some(live), Some(bundle)) = (self.live, self.live_bundle()) else {
            return ignored;
        };
        if live.is_ours {
            // From the mode before. To give it up now would leave none until the other one comes.
            return Registration {
                ca_bundle: Some(bundle.to_pem()),
                failure_policy: None,
            };
        }
        // One that has its proper policy keeps it: a process that has just started knows of no pair yet.
        if self.believes(&bundle) || !live.ignores_failures {
            return Registration::default();
        }
        ignored
    }

    fn live_bundle(&self) -> Option<Bundle> {
        let bundle = Bundle::from_live(self.live?.ca_bundle.as_deref()?);
        Some(bundle).filter(|bundle| !bundle.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::certs::{
        authority::Authority,
        names::{Endpoint, ServiceName},
    };

    struct World {
        endpoint: Endpoint,
        now: Timestamp,
        old: Authority,
        new: Authority,
    }

    impl World {
        fn new() -> Self {
            let now = Timestamp::from_second(1_800_000_000).unwrap();
            let authority = || Authority::make(now, Duration::from_secs(3600)).unwrap();
            let service = ServiceName::new("operator-webhook-service", "sriov");
            Self {
                endpoint: Endpoint::new(service, "operator-webhook-cert"),
                now,
                old: authority(),
                new: authority(),
            }
        }

        fn pair(&self, of: &Authority) -> ServingPair {
            let lifetime = Duration::from_secs(600);
            let issued = of.issue(&self.endpoint.service, self.now, lifetime);
            let issued = issued.unwrap();
            let crt = issued.certificate().to_pem();
            ServingPair::load(crt.as_bytes(), issued.key()).unwrap()
        }

        fn stands(
            &self,
            bundles: &Bundles,
            pair: Option<&ServingPair>,
            live: Option<&Registered>,
        ) -> Standing {
            let situation = Situation {
                endpoint: &self.endpoint,
                pair,
                looked_up: pair.is_some(),
                live,
                now: self.now,
            };
            situation.standing(bundles)
        }
    }

    fn bundle<'a>(of: impl IntoIterator<Item = &'a Authority>) -> Bundle {
        of.into_iter()
            .map(|one| one.certificate().clone())
            .collect()
    }

    fn live(bundle: Option<&Bundle>, is_ours: bool, ignores_failures: bool) -> Registered {
        Registered {
            ca_bundle: bundle.map(|bundle| bundle.to_pem().into_bytes()),
            is_ours,
            version: "1".into(),
            ignores_failures,
            asks_service_ca: false,
        }
    }

    fn registration(bundle: Option<&Bundle>, ignored: bool) -> Registration {
        Registration {
            ca_bundle: bundle.map(Bundle::to_pem),
            failure_policy: ignored.then_some(FailurePolicy::Ignore),
        }
    }

    #[test]
    fn ours_is_registered_when_the_pair_that_is_served_verifies() {
        let world = World::new();
        let (mine, others) = (world.pair(&world.new), world.pair(&world.old));
        let wanted = bundle([&world.new]);
        let ours = Bundles::Ours(wanted.clone());
        for (pair, verified) in [(Some(&mine), true), (Some(&others), false), (None, false)] {
            let standing = world.stands(&ours, pair, None);
            assert_eq!(standing.verified, verified);
            assert_eq!(standing.registration, registration(Some(&wanted), false));
        }
    }

    #[test]
    fn what_verifies_the_pair_that_is_served_stays_until_the_new_issuer_has_brought_its_own() {
        let world = World::new();
        let stranger = Authority::make(world.now, Duration::from_secs(60)).unwrap();
        let before = live(Some(&bundle([&world.old, &stranger])), true, false);
        let ours = Bundles::Ours(bundle([&world.new]));
        let standing = world.stands(&ours, Some(&world.pair(&world.old)), Some(&before));
        let both = bundle([&world.new, &world.old]);
        assert_eq!(standing.registration, registration(Some(&both), false));
        assert!(standing.differs_from(&before));
        let standing = world.stands(&ours, None, Some(&before));
        let all = bundle([&world.new, &world.old, &stranger]);
        assert_eq!(
            standing.registration,
            registration(Some(&all), false),
            "before the Secret is looked up nothing is given up"
        );
        let between = live(Some(&both), true, false);
        let standing = world.stands(&ours, Some(&world.pair(&world.new)), Some(&between));
        assert_eq!(
            standing.registration,
            registration(Some(&bundle([&world.new])), false)
        );
    }

    #[test]
    fn what_others_fill_in_is_ignored_until_it_verifies_the_pair() {
        let world = World::new();
        let pair = world.pair(&world.new);
        let (right, wrong) = (bundle([&world.new]), bundle([&world.old]));
        for (registered, ignored) in [
            (None, true),
            (Some(live(None, false, true)), true),
            (Some(live(Some(&wrong), false, true)), true),
            (Some(live(Some(&right), false, true)), false),
            (Some(live(Some(&right), false, false)), false),
            // Emptied by hand.
            (Some(live(None, false, false)), true),
            // The next pair's bundle is there before the pair: it stays as it is.
            (Some(live(Some(&wrong), false, false)), false),
        ] {
            let standing = world.stands(&Bundles::Others, Some(&pair), registered.as_ref());
            assert!(standing.verified);
            assert_eq!(standing.registration, registration(None, ignored));
        }
        let registered = live(Some(&right), false, false);
        let standing = world.stands(&Bundles::Others, None, Some(&registered));
        assert_eq!(
            standing.registration,
            registration(None, false),
            "a restart touches nothing"
        );
    }

    #[test]
    fn the_bundle_of_the_mode_before_is_kept_until_others_have_filled_in_theirs() {
        let world = World::new();
        let before = bundle([&world.old]);
        let pair = world.pair(&world.old);
        let registered = live(Some(&before), true, false);
        let standing = world.stands(&Bundles::Others, Some(&pair), Some(&registered));
        assert_eq!(standing.registration, registration(Some(&before), false));
        assert!(!standing.differs_from(&registered));
        let theirs = live(Some(&bundle([&world.new])), false, false);
        let standing = world.stands(&Bundles::Others, Some(&pair), Some(&theirs));
        assert_eq!(standing.registration, registration(None, false));
    }

    #[test]
    fn while_the_bundle_is_not_known_nothing_changes_and_nothing_is_registered() {
        let world = World::new();
        let there = bundle([&world.old]);
        let registered = live(Some(&there), true, false);
        let standing = world.stands(&Bundles::Unknown, None, Some(&registered));
        assert_eq!(standing.registration, registration(Some(&there), false));
        assert!(!standing.verified);
        assert!(!world.stands(&Bundles::Unknown, None, None).verified);
    }
}
