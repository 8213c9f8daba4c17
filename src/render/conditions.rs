//! The CEL match conditions of the webhooks.
//!
//! An error in a condition refuses the request, so each is total: it has a value on CREATE, on UPDATE and on DELETE,
//! where `object` is null, though no rule asks on DELETE. `&&` and `||` settle with one decided side
//! even when the other fails.

use serde::Serialize;

/// One condition; a request that does not meet it never reaches the webhook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MatchCondition {
    /// Unique within the webhook, and stable.
    pub name: &'static str,
    /// CEL.
    pub expression: String,
}

/// The conditions of the custom resources' webhooks: about the object, never about who asks.
///
/// Deletions, finalizers, labels and status never depend on the webhook, so a dead backend wedges nobody.
pub(super) fn custom_resources() -> Vec<MatchCondition> {
    vec![
        MatchCondition {
            name: "not-under-deletion",
            expression: "request.operation != 'DELETE' && !has(object.metadata.deletionTimestamp)"
                .to_owned(),
        },
        MatchCondition {
            name: "spec-changed",
            expression:
                "request.operation != 'UPDATE' || has(object.spec) != has(oldObject.spec) || \
                         (has(object.spec) && object.spec != oldObject.spec)"
                    .to_owned(),
        },
    ]
}
