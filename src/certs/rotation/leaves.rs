//! What to do about one serving Secret.

use jiff::Timestamp;

use crate::certs::bundle::Bundle;
use crate::certs::certificate::Certificate;
use crate::certs::lifetimes::{Lifetimes, after};
use crate::certs::names::ServiceName;
use crate::certs::pair::{PairContents, PairError, ServingPair};

/// A serving Secret as it is, read once.
#[derive(Clone, Debug)]
pub struct LeafView {
    service: ServiceName,
    loaded: Result<ServingPair, PairError>,
    ca_crt: Vec<u8>,
}

/// What to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeafStep {
    /// Nothing.
    Keep,
    /// The pair stays; `ca.crt` beside it is not the bundle.
    Rebundle,
    /// Issue a new pair from the current CA.
    Issue(Reason),
}

/// Why a pair is issued.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// There is no usable one.
    #[error("{0}")]
    Unusable(PairError),
    /// It is in the last third of its lifetime.
    #[error("the certificate is in the last third of its lifetime")]
    Due,
    /// Its CA has a successor.
    #[error("its CA was replaced")]
    NewAuthority,
}

/// What all serving Secrets have in common at one moment.
pub(super) struct LeafState<'a> {
    pub(super) now: Timestamp,
    pub(super) lifetimes: Lifetimes,
    /// Whether a successor is about to take over.
    pub(super) rotating: bool,
    pub(super) current: Option<&'a Certificate>,
    /// Whether every live bundle carries the current CA.
    pub(super) carried: bool,
    pub(super) bundle: &'a Bundle,
}

impl LeafView {
    /// The Secret for `service`, with its contents if it exists.
    pub fn new(service: ServiceName, contents: Option<&PairContents>) -> Self {
        let loaded = contents
            .ok_or(PairError::NoSecret)
            .and_then(|contents| ServingPair::load(&contents.tls_crt, &contents.tls_key));
        Self {
            service,
            loaded,
            ca_crt: contents
                .map(|contents| contents.ca_crt.clone())
                .unwrap_or_default(),
        }
    }

    /// The pair, when it is whole, in date and covers every name of the Service.
    pub fn pair(&self, now: Timestamp) -> Option<&ServingPair> {
        self.usable(now).ok()
    }

    /// The pair, when `bundle` verifies it too.
    pub(super) fn check(&self, bundle: &Bundle, now: Timestamp) -> Result<&ServingPair, PairError> {
        let pair = self.usable(now)?;
        pair.trusted_by(bundle, now)?;
        Ok(pair)
    }

    fn usable(&self, now: Timestamp) -> Result<&ServingPair, PairError> {
        let pair = self.loaded.as_ref().map_err(Clone::clone)?;
        for name in self.service.dns_names() {
            pair.covers(&name)?;
        }
        pair.in_date(now)?;
        Ok(pair)
    }
}

impl LeafState<'_> {
    pub(super) fn next_step(&self, leaf: &LeafView) -> LeafStep {
        let Some(current) = self.current else {
            // Only while a new CA is made known and every endpoint has a valid pair.
            return self.keep(leaf);
        };
        match leaf.check(self.bundle, self.now) {
            Err(error) => LeafStep::Issue(Reason::Unusable(error)),
            // What is valid is given up only for what every live bundle verifies.
            Ok(pair) if !pair.leaf().is_signed_by(current) => {
                if self.carried {
                    LeafStep::Issue(Reason::NewAuthority)
                } else {
                    self.keep(leaf)
                }
            }
            Ok(pair) if self.is_due(pair.leaf(), current) => LeafStep::Issue(Reason::Due),
            Ok(_) => self.keep(leaf),
        }
    }

    fn keep(&self, leaf: &LeafView) -> LeafStep {
        if leaf.ca_crt == self.bundle.to_pem().as_bytes() {
            LeafStep::Keep
        } else {
            LeafStep::Rebundle
        }
    }

    /// The CA goes first: while a successor is under way a certificate waits for it, until its last sixth. And a
    /// certificate is not replaced by one that would end no later.
    fn is_due(&self, leaf: &Certificate, current: &Certificate) -> bool {
        let validity = leaf.validity();
        let due_at = if self.rotating {
            validity.urgent_at()
        } else {
            validity.renew_at()
        };
        let would_end = after(self.now, self.lifetimes.certificate())
            .min(current.validity().not_after)
            .as_second();
        self.now >= due_at && would_end > validity.not_after.as_second()
    }
}
