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

/// The expression for the pods that need the injector: those with networks, with a default network, or
/// with a label of the injections in force.
pub fn injector_condition<'a>(injection_labels: impl IntoIterator<Item = &'a str>) -> String {
    let annotations = [
        "k8s.v1.cni.cncf.io/networks",
        "v1.multus-cni.io/default-network",
    ]
    .map(|key| format!("{} in object.metadata.annotations", string(key)))
    .join(" || ");
    let labels: Vec<String> = injection_labels
        .into_iter()
        .map(|key| format!("{} in object.metadata.labels", string(key)))
        .collect();
    let mut needs = format!("has(object.metadata.annotations) && ({annotations})");
    if !labels.is_empty() {
        needs = format!(
            "({needs}) || (has(object.metadata.labels) && ({}))",
            labels.join(" || ")
        );
    }
    format!("request.operation == 'CREATE' && ({needs})")
}

/// A CEL string literal of any text.
fn string(text: &str) -> String {
    let characters = text.chars().map(|character| match character {
        '"' | '\\' => format!("\\{character}"),
        ' '..='~' => character.to_string(),
        other => format!("\\U{:08x}", u32::from(other)),
    });
    format!("\"{}\"", characters.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_injections_annotations_decide() {
        assert_eq!(
            injector_condition([]),
            "request.operation == 'CREATE' && (has(object.metadata.annotations) && \
             (\"k8s.v1.cni.cncf.io/networks\" in object.metadata.annotations || \
             \"v1.multus-cni.io/default-network\" in object.metadata.annotations))"
        );
    }

    #[test]
    fn labels_of_injections_count_too() {
        let condition = injector_condition(["a.io/x", "b"]);
        assert!(condition.ends_with(
            "|| (has(object.metadata.labels) && (\"a.io/x\" in object.metadata.labels || \
             \"b\" in object.metadata.labels)))"
        ));
    }

    #[test]
    fn any_text_is_a_literal() {
        assert_eq!(
            string("a\"b\\c\n\u{e9}"),
            r#""a\"b\\c\U0000000a\U000000e9""#
        );
    }
}
