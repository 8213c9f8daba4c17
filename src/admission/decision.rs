//! What a handler decides, as plain values. A denial is a value and not an error: it is about the user's object.
//! How a decision is written to the wire is the business of `answer`.

use std::borrow::Cow;

use serde::Serialize;

/// The verdict about one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The object may be stored, after `patch` is applied to it.
    Allow {
        /// The text of a JSON patch that applies to the object and changes something.
        patch: Option<Vec<u8>>,
        /// What is legal but suspicious: at most ten and a count, each one line of at most 256 characters without control
        /// characters, since the API server drops or cuts others.
        warnings: Vec<String>,
    },
    /// The object is refused.
    Deny {
        /// Why.
        denial: Denial,
        /// What is suspicious beside it.
        warnings: Vec<String>,
    },
}

impl Decision {
    /// Allowed, unchanged, nothing to say.
    pub fn allow() -> Self {
        Self::allow_with(None, Vec::new())
    }

    /// Allowed, with what there is of changes and warnings.
    pub fn allow_with(patch: Option<Vec<u8>>, warnings: Vec<String>) -> Self {
        Self::Allow { patch, warnings }
    }

    /// Refused.
    pub fn deny(denial: Denial) -> Self {
        Self::deny_with(denial, Vec::new())
    }

    /// Refused, with warnings beside the reasons.
    pub fn deny_with(denial: Denial, warnings: Vec<String>) -> Self {
        Self::Deny { denial, warnings }
    }

    /// Whether the object may be stored.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allow { .. })
    }
}

/// Why an object is refused: the parts of `metav1.Status` that reach the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// HTTP status code that the API server passes on, 400 or above (it raises smaller ones).
    pub code: u16,
    /// `metav1.StatusReason`, machine readable, one word.
    pub reason: Cow<'static, str>,
    /// The sentence that controllers and Events show.
    pub message: String,
    /// What kubectl shows when the reason is `Invalid`.
    pub details: Option<Details>,
}

impl Denial {
    /// The object is at fault: code 422, reason `Invalid`. `details` should have one cause for each fault, since kubectl shows
    /// nothing else.
    pub fn invalid(message: impl Into<String>, details: Details) -> Self {
        Self {
            code: 422,
            reason: Cow::Borrowed("Invalid"),
            message: message.into(),
            details: Some(details),
        }
    }

    /// The moment is at fault: code 403, reason `Forbidden`. Not `Invalid`, on which `kubectl apply --force` would delete and
    /// recreate the object.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::plain(403, "Forbidden", message)
    }

    /// The request makes no sense, or its object is no such object: code 400, reason `BadRequest`.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::plain(400, "BadRequest", message)
    }

    /// The review is above the limit: code 413, reason `RequestEntityTooLarge`.
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::plain(413, "RequestEntityTooLarge", message)
    }

    /// We are at fault: code 500, reason `InternalError`.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::plain(500, "InternalError", message)
    }

    fn plain(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason: Cow::Borrowed(reason),
            message: message.into(),
            details: None,
        }
    }
}

/// `metav1.StatusDetails` without what nobody reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Details {
    /// API group of the refused object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Kind of the refused object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Name of the refused object; empty when the API server is still to generate it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// One entry for each fault.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
}

/// `metav1.StatusCause`: one fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// `metav1.CauseType`, such as `FieldValueInvalid`.
    pub reason: Cow<'static, str>,
    /// One line, without the field's name.
    pub message: String,
    /// Path of the field, such as `spec.numVfs`. Never empty.
    pub field: String,
}

/// Why there is no decision. Neither is the fault of the object or of its author.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undecided {
    /// Not at this moment: a store is not filled, or a read that the verdict depends on failed, as the sentence says. The
    /// caller is told to ask again in a second (503 with `Retry-After: 1`), which the API server does until its deadline.
    Unavailable(String),
    /// We are at fault, as the sentence says. The object is refused or let through, as the failure policy has it.
    Fault(String),
}
