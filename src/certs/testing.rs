//! What the tests of this module share: a fixed moment, names, and certificates made for it.

use std::sync::LazyLock;
use std::time::Duration;

use jiff::Timestamp;

use super::authority::{Authority, IssuedPair};
use super::lifetimes::after;
use super::names::{Endpoint, ServiceName};

pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// When every certificate of these tests is out of date.
pub(crate) static LATER: LazyLock<Timestamp> = LazyLock::new(|| after(now(), 1000 * HOUR));

/// The moment at which the tests start.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

/// `seconds` after [`now`].
pub(crate) fn at(seconds: f64) -> Timestamp {
    after(now(), Duration::from_secs_f64(seconds))
}

/// A CA that lasts for 100 hours.
pub(crate) fn authority() -> Authority {
    Authority::make(now(), 100 * HOUR).unwrap()
}

/// A pair for [`operator_service`] that lasts for 30 hours.
pub(crate) fn leaf(authority: &Authority) -> IssuedPair {
    authority
        .issue(&operator_service(), now(), 30 * HOUR)
        .unwrap()
}

pub(crate) fn operator_service() -> ServiceName {
    ServiceName::new("operator-webhook-service", "sriov")
}

pub(crate) fn injector_service() -> ServiceName {
    ServiceName::new("network-resources-injector-service", "sriov")
}

pub(crate) fn endpoints() -> Vec<Endpoint> {
    vec![
        Endpoint::new(operator_service(), "operator-webhook-cert"),
        Endpoint::new(injector_service(), "network-resources-injector-cert"),
    ]
}
