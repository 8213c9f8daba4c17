//! How long certificates last, and the arithmetic of when they are renewed.
//!
//! All of it is wall-clock time that is passed in; nothing here reads a clock.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// How far `notBefore` lies before the moment of issuing, so that a clock that is a little behind accepts the
/// certificate at once. It does not count towards the lifetime.
pub const BACKDATE: Duration = Duration::from_secs(300);

/// The longest time between two looks at the certificates, however long they last.
pub const LONGEST_REST: Duration = Duration::from_secs(60);

const SHORTEST: Duration = Duration::from_secs(3);
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// The durations that govern the self-signed mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    authority: Duration,
    certificate: Duration,
    settle: Duration,
}

/// A duration, or a pair of them, that rotation could not work with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LifetimesError {
    /// Too short or too long for a certificate.
    #[error(
        "{flag}: invalid value {value:?}: it must be between {SHORTEST:?} and 100 years (876000h)"
    )]
    OutOfRange {
        /// The flag that is at fault.
        flag: &'static str,
        /// What it was set to.
        value: Duration,
    },
    /// A certificate that would outlive its CA.
    #[error(
        "--certificate-lifetime: invalid value {certificate:?}: it must not exceed --ca-lifetime, which is {authority:?}"
    )]
    OutlivesAuthority {
        /// `--certificate-lifetime`.
        certificate: Duration,
        /// `--ca-lifetime`.
        authority: Duration,
    },
    /// A successor that would not be in use before its predecessor expires.
    #[error(
        "--rotation-settle-time: invalid value {settle:?}: it must be less than a third of --ca-lifetime, which is {authority:?}"
    )]
    SettlesTooLate {
        /// `--rotation-settle-time`.
        settle: Duration,
        /// `--ca-lifetime`.
        authority: Duration,
    },
}

impl Lifetimes {
    /// Checks the three durations against one another.
    ///
    /// # Errors
    /// Names the flag at fault, its value and what is legal.
    pub fn new(
        authority: Duration,
        certificate: Duration,
        settle: Duration,
    ) -> Result<Self, LifetimesError> {
        for (flag, value) in [
            ("--ca-lifetime", authority),
            ("--certificate-lifetime", certificate),
        ] {
            if !(SHORTEST..=LONGEST).contains(&value) {
                return Err(LifetimesError::OutOfRange { flag, value });
            }
        }
        if certificate > authority {
            return Err(LifetimesError::OutlivesAuthority {
                certificate,
                authority,
            });
        }
        if settle >= authority / 3 {
            return Err(LifetimesError::SettlesTooLate { settle, authority });
        }
        Ok(Self {
            authority,
            certificate,
            settle,
        })
    }

    /// How long a CA lasts.
    pub fn authority(&self) -> Duration {
        self.authority
    }

    /// How long a serving certificate lasts, unless its CA ends earlier.
    pub fn certificate(&self) -> Duration {
        self.certificate
    }

    /// How long a successor is in every live bundle before anything is issued by it.
    pub fn settle(&self) -> Duration {
        self.settle
    }
}

/// The interval in which a certificate is valid, both ends included, as every verifier reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// `notBefore`.
    pub not_before: Timestamp,
    /// `notAfter`.
    pub not_after: Timestamp,
}

impl Validity {
    /// Whether `now` lies in the interval.
    pub fn contains(&self, now: Timestamp) -> bool {
        self.not_before <= now && now <= self.not_after
    }

    /// The first moment of the last third of the lifetime: from here on it is renewed.
    pub fn renew_at(&self) -> Timestamp {
        before(self.not_after, self.lifetime() / 3)
    }

    /// The first moment of the last sixth: from here on renewal waits for nothing.
    pub fn urgent_at(&self) -> Timestamp {
        before(self.not_after, self.lifetime() / 6)
    }

    /// From the moment of issuing to the end. Certificates of others may be shorter than our back-dating; of those
    /// the whole interval counts.
    fn lifetime(&self) -> Duration {
        let whole = span(self.not_before, self.not_after);
        match whole.checked_sub(BACKDATE) {
            Some(rest) if !rest.is_zero() => rest,
            _ => whole,
        }
    }
}

/// `at + by`, or the end of time.
pub fn after(at: Timestamp, by: Duration) -> Timestamp {
    at.saturating_add(signed(by)).unwrap_or(Timestamp::MAX)
}

/// `at - by`, or the beginning of time.
pub fn before(at: Timestamp, by: Duration) -> Timestamp {
    at.saturating_sub(signed(by)).unwrap_or(Timestamp::MIN)
}

/// The time from `from` to `to`, zero when `to` is the earlier one.
pub fn span(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or(Duration::ZERO)
}

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn issued(second: i64, lifetime: i64) -> Validity {
        Validity {
            not_before: before(at(second), BACKDATE),
            not_after: at(second + lifetime),
        }
    }

    #[test]
    fn the_last_third_counts_from_issuing_and_not_from_the_backdated_start() {
        let validity = issued(1_000_000, 60);
        assert_eq!(validity.renew_at(), at(1_000_040));
        assert_eq!(validity.urgent_at(), at(1_000_050));
    }

    #[test]
    fn a_certificate_shorter_than_the_backdating_is_measured_as_a_whole() {
        let validity = Validity {
            not_before: at(0),
            not_after: at(90),
        };
        assert_eq!(validity.renew_at(), at(60));
    }

    #[test]
    fn both_ends_belong_to_the_validity_and_nothing_beyond() {
        let validity = issued(1_000, 10);
        assert!(validity.contains(at(700)));
        assert!(validity.contains(at(1_010)));
        assert!(!validity.contains(at(699)));
        assert!(!validity.contains(after(at(1_010), Duration::from_millis(1))));
    }

    #[test]
    fn time_ends_instead_of_overflowing() {
        assert_eq!(after(Timestamp::MAX, LONGEST), Timestamp::MAX);
        assert_eq!(before(Timestamp::MIN, LONGEST), Timestamp::MIN);
        assert_eq!(after(at(0), Duration::MAX), Timestamp::MAX);
        assert_eq!(span(at(5), at(3)), Duration::ZERO);
    }

    #[test]
    fn lifetimes_fit_one_another() {
        let seconds = Duration::from_secs;
        assert!(Lifetimes::new(seconds(60), seconds(20), seconds(2)).is_ok());
        for (ca, leaf, settle, flag) in [
            (2, 2, 0, "--ca-lifetime"),
            (u64::MAX, 20, 2, "--ca-lifetime"),
            (60, 0, 2, "--certificate-lifetime"),
            (60, 61, 2, "--certificate-lifetime"),
            (60, 20, 20, "--rotation-settle-time"),
        ] {
            let fault = Lifetimes::new(seconds(ca), seconds(leaf), seconds(settle)).unwrap_err();
            let text = fault.to_string();
            assert!(text.starts_with(flag), "{text}");
            assert!(text.contains("it must"), "{text}");
        }
    }
}
