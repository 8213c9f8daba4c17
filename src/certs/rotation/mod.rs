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
mod planner;
pub mod state;

use std::fmt;

use jiff::Timestamp;

use super::bundle::Bundle;
use super::lifetimes::Lifetimes;
use leaves::{LeafStep, LeafView};
use state::{State, Stored};

pub use planner::plan;

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

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
