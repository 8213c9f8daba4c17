//! What can go wrong when an object is written, each naming the object.

use kube::core::Status;

use super::ObjectRef;
use crate::lines::said;
use crate::watching::is_unknown_kind;

/// Why an object could not be applied or removed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A rendered object of a kind that is not applied: a fault of a template.
    #[error("{kind} {name:?} cannot be applied: not a kind that the operator manages")]
    Unsupported {
        /// apiVersion and kind.
        kind: String,
        /// Name, possibly empty.
        name: String,
    },
    /// The server does not know the kind, such as `ServiceMonitor` without the Prometheus operator.
    #[error("{0}: the API server does not know this kind")]
    UnknownKind(ObjectRef),
    /// An object of that name exists and nothing proves that it is ours.
    #[error("{0} exists and is not managed by this operator: delete or rename it")]
    Foreign(ObjectRef),
    /// A cluster-wide object belongs to an installation in another namespace.
    #[error(
        "{object} belongs to the operator in namespace {namespace}: a cluster has one installation, so remove that one, or what it left, first"
    )]
    OtherInstallation {
        /// The object.
        object: ObjectRef,
        /// The other installation's namespace.
        namespace: String,
    },
    /// The server cannot read what was rendered: a fault of a template, which no repetition mends.
    #[error("{object} is rendered wrongly: {message}")]
    Malformed {
        /// The object.
        object: ObjectRef,
        /// What the server said, one line.
        message: String,
    },
    /// Another manager keeps changing the object; repairs are spaced out.
    #[error("{object} is changed again and again by {manager}")]
    Contested {
        /// The object.
        object: ObjectRef,
        /// The other field manager.
        manager: String,
        /// When it is repaired again.
        retry_in: std::time::Duration,
    },
    /// The API server refused or could not be reached.
    #[error("failed to {verb} {object}: {message}")]
    Api {
        /// What was tried.
        verb: &'static str,
        /// The object.
        object: ObjectRef,
        /// What the server said, one line.
        message: String,
        /// The error itself.
        #[source]
        source: Box<kube::Error>,
    },
    /// The API server did not answer in time.
    #[error("failed to {verb} {object}: no answer within {seconds} s")]
    Timeout {
        /// What was tried.
        verb: &'static str,
        /// The object.
        object: ObjectRef,
        /// How long the answer was waited for.
        seconds: u64,
    },
}

/// How the server's answer begins, as an internal error of its own, when an applied object does not fit its schema.
const UNTYPED: &str = "failed to create typed patch object";

impl Error {
    /// Whether a role lacks what was tried.
    pub fn is_forbidden(&self) -> bool {
        self.refusal().is_some_and(Status::is_forbidden)
    }

    pub(super) fn is_not_found(&self) -> bool {
        self.refusal().is_some_and(Status::is_not_found)
    }

    pub(super) fn is_already_exists(&self) -> bool {
        self.refusal().is_some_and(Status::is_already_exists)
    }

    /// Whether a field that cannot be changed differs.
    pub(super) fn is_immutable(&self) -> bool {
        self.refusal().is_some_and(|status| {
            status.is_invalid()
                && (status.message.contains("immutable")
                    || status.message.contains("cannot change roleRef"))
        })
    }

    /// What the server answered instead.
    fn refusal(&self) -> Option<&Status> {
        match self {
            Self::Api { source, .. } => match source.as_ref() {
                kube::Error::Api(status) => Some(status),
                _ => None,
            },
            _ => None,
        }
    }

    pub(super) fn api(verb: &'static str, object: &ObjectRef, source: kube::Error) -> Self {
        let message = match &source {
            kube::Error::Api(status) if is_unknown_kind(status) => {
                return Self::UnknownKind(object.clone());
            }
            other => said(other),
        };
        if message.starts_with(UNTYPED) {
            let object = object.clone();
            return Self::Malformed { object, message };
        }
        Self::Api {
            verb,
            object: object.clone(),
            message,
            source: Box::new(source),
        }
    }
}
