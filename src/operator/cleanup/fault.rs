//! What could not be done, and what is still there.

use std::fmt;

use super::CALL_TIMEOUT;
use crate::{apply, lines::said};

/// Something that could not be done.
pub(super) struct Fault {
    /// What, and why, on one line.
    text: String,
    /// A right is missing, so that trying again changes nothing.
    pub(super) is_forbidden: bool,
}

impl Fault {
    /// A call about an object that failed.
    pub(super) fn of(what: impl fmt::Display, error: &CallError) -> Self {
        Self {
            text: format!("{what}: {error}"),
            is_forbidden: error.is_forbidden(),
        }
    }
}

impl From<apply::Error> for Fault {
    fn from(error: apply::Error) -> Self {
        Self {
            text: error.to_string(),
            is_forbidden: error.is_forbidden(),
        }
    }
}

impl From<Left> for Fault {
    fn from(left: Left) -> Self {
        Self {
            text: left.to_string(),
            is_forbidden: false,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Something that is still there, and why.
pub(super) struct Left {
    pub(super) what: String,
    pub(super) why: String,
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

/// Why a call failed, on one line.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    #[error("{}", said(.0))]
    Api(#[from] kube::Error),
    #[error("no answer within {} s", CALL_TIMEOUT.as_secs())]
    Timeout,
}

impl CallError {
    /// Whether the object is gone, or of a kind that the server does not know.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Self::Api(kube::Error::Api(status)) if status.code == 404)
    }

    /// Whether a right is missing.
    pub(super) fn is_forbidden(&self) -> bool {
        matches!(self, Self::Api(kube::Error::Api(status)) if status.is_forbidden())
    }
}
