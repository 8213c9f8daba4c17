//! What is told of a clean-up as it goes.

use std::fmt;

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// An object was removed; in a dry run, it would be.
    Removed(String),
    /// A finalizer was removed; in a dry run, it would be.
    Released {
        /// The object.
        what: String,
        /// The finalizer.
        finalizer: &'static str,
    },
    /// Something is waited for, and why.
    Waiting(String),
    /// Something was not looked at, and why. It keeps nothing back.
    Skipped(String),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Removed(what) => write!(f, "remove {what}"),
            Self::Released { what, finalizer } => {
                write!(f, "remove finalizer {finalizer} of {what}")
            }
            Self::Waiting(what) => write!(f, "waiting for {what}"),
            Self::Skipped(what) => write!(f, "skipped: {what}"),
        }
    }
}
