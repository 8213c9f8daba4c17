//! One endpoint's pair: which content of the Secret is used, and which is set aside.
//!
//! Pure: contents, bundles and the time come from outside.

use jiff::Timestamp;

use super::{Reloads, Status};
use crate::certs::bundle::Bundle;
use crate::certs::names::Endpoint;
use crate::certs::pair::{PairContents, PairError, ServingPair};

/// What a pair has to be verified by before it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// `ca.crt` in the same Secret: self-signed.
    Beside,
    /// A bundle from the settings: provided.
    Given(Bundle),
    /// Only what the live configuration carries, as soon as it carries something: cert-manager and service CA.
    Live,
}

/// What looking at a slot came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing new.
    Same,
    /// A new pair is in use.
    Taken,
    /// The Secret's content is refused, for another reason than before or for the first time.
    Refused,
    /// The Secret holds what is in use anyway, and no longer what was refused.
    Recovered,
}

/// An endpoint with the pair in use and what its Secret holds.
#[derive(Debug)]
pub struct Slot {
    endpoint: Endpoint,
    trust: Trust,
    live: Option<Bundle>,
    /// `None` until the Secret was looked up for the first time.
    secret: Option<Offered>,
    current: Option<ServingPair>,
    refused: Option<PairError>,
    reloads: Reloads,
}

/// The Secret's content, parsed once.
#[derive(Debug)]
struct Offered {
    pair: Result<ServingPair, PairError>,
    beside: Bundle,
}

impl Slot {
    /// An empty slot.
    pub fn new(endpoint: Endpoint, trust: Trust) -> Self {
        Self {
            endpoint,
            trust,
            live: None,
            secret: None,
            current: None,
            refused: None,
            reloads: Reloads::default(),
        }
    }

    /// The Service and its Secret.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The pair in use. It may be out of date when nothing better has come.
    pub fn current(&self) -> Option<&ServingPair> {
        self.current.as_ref()
    }

    /// Whether the Secret was looked up.
    pub fn is_filled(&self) -> bool {
        self.secret.is_some()
    }

    /// What is in use and what is refused.
    pub fn status(&self) -> Status {
        Status {
            endpoint: self.endpoint.clone(),
            serves_until: self
                .current
                .as_ref()
                .map(|pair| pair.leaf().validity().not_after),
            refused: self.refused.clone(),
            reloads: self.reloads,
        }
    }

    /// The Secret's content; `None` when it does not exist.
    pub fn set_secret(&mut self, contents: Option<PairContents>) {
        self.secret = Some(match contents {
            None => Offered {
                pair: Err(PairError::NoSecret),
                beside: Bundle::default(),
            },
            Some(contents) => Offered {
                pair: ServingPair::load(&contents.tls_crt, &contents.tls_key),
                beside: Bundle::from_live(&contents.ca_crt),
            },
        });
    }

    /// The bundle of the live configuration; an empty one counts as none.
    pub fn set_live(&mut self, live: Option<Bundle>) {
        self.live = live.filter(|bundle| !bundle.is_empty());
    }

    /// Decides again.
    pub fn reconsider(&mut self, now: Timestamp) -> Outcome {
        let Some(offered) = &self.secret else {
            return Outcome::Same;
        };
        match self.judge(offered, now) {
            Ok(pair) if self.is_current(pair) => {
                if self.refused.take().is_some() {
                    Outcome::Recovered
                } else {
                    Outcome::Same
                }
            }
            Ok(pair) => {
                self.current = Some(pair.clone());
                self.refused = None;
                self.reloads.taken += 1;
                Outcome::Taken
            }
            Err(error) if self.refused.as_ref() == Some(&error) => Outcome::Same,
            Err(error) => {
                self.refused = Some(error);
                self.reloads.refused += 1;
                Outcome::Refused
            }
        }
    }

    fn judge<'a>(
        &self,
        offered: &'a Offered,
        now: Timestamp,
    ) -> Result<&'a ServingPair, PairError> {
        let pair = offered.pair.as_ref().map_err(Clone::clone)?;
        pair.covers(&self.endpoint.service.called_as())?;
        pair.in_date(now)?;
        let believed = match &self.trust {
            Trust::Beside => pair.trusted_by(&offered.beside, now),
            Trust::Given(bundle) => pair.trusted_by(bundle, now),
            Trust::Live => Ok(()),
        };
        let Some(live) = &self.live else {
            return believed.map(|()| pair);
        };
        match (pair.trusted_by(live, now), believed) {
            // What the API server believes is served, also when it is what the mode before has left.
            (Ok(()), _) => Ok(pair),
            (_, Err(error)) => Err(error),
            (Err(error), _) if self.is_current(pair) || self.rather_keeps(live, now) => Err(error),
            (Err(_), _) => Ok(pair),
        }
    }

    /// Whether a pair that the live bundle does not verify yet has to wait. Not when there is nothing better to serve
    /// and the bundle to come is known: then it is this pair that lets the configuration be published.
    fn rather_keeps(&self, live: &Bundle, now: Timestamp) -> bool {
        if self.trust == Trust::Live {
            return true;
        }
        self.current.as_ref().is_some_and(|current| {
            current.in_date(now).is_ok() && current.trusted_by(live, now).is_ok()
        })
    }

    fn is_current(&self, pair: &ServingPair) -> bool {
        self.current
            .as_ref()
            .is_some_and(|current| current.leaf() == pair.leaf())
    }
}
