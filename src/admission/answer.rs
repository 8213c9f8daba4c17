//! Writes a [`Decision`] as an `AdmissionReview` v1. It must not decide anything; it only sees to it that what is written is
//! what the API server accepts: the uid always, a patch only when something changes, warnings that it will not drop.

use std::borrow::Cow;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::Serialize;

use super::decision::{Decision, Denial, Details};

/// Warnings beyond this many become a count: the API server drops all of a long list.
const MOST_WARNINGS: usize = 10;
/// Longest warning in characters: the API server cuts or drops longer ones.
const LONGEST_WARNING: usize = 256;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Review<'a> {
    api_version: &'static str,
    kind: &'static str,
    response: Response<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Cow<'a, str>>,
}

#[derive(Serialize)]
struct Status<'a> {
    code: u16,
    reason: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<&'a Details>,
}

/// The bytes of the answer to the request `uid`.
pub(super) fn encode(uid: &str, decision: &Decision) -> Result<Vec<u8>, serde_json::Error> {
    let response = match decision {
        Decision::Allow { patch, warnings } => {
            let patch = if patch.0.is_empty() {
                None
            } else {
                Some(BASE64_STANDARD.encode(serde_json::to_vec(patch)?))
            };
            Response {
                uid,
                allowed: true,
                status: None,
                patch_type: patch.is_some().then_some("JSONPatch"),
                patch,
                warnings: presentable(warnings),
            }
        }
        Decision::Deny { denial, warnings } => Response {
            uid,
            allowed: false,
            status: Some(status(denial)),
            patch: None,
            patch_type: None,
            warnings: presentable(warnings),
        },
    };
    serde_json::to_vec(&Review {
        api_version: "admission.k8s.io/v1",
        kind: "AdmissionReview",
        response,
    })
}

fn status(denial: &Denial) -> Status<'_> {
    Status {
        code: denial.code,
        reason: &denial.reason,
        message: &denial.message,
        details: denial.details.as_ref(),
    }
}

/// Warnings as the API server passes them on: at most ten and a count of the rest, each one line of at most 256 characters.
fn presentable(warnings: &[String]) -> Vec<Cow<'_, str>> {
    let mut shown: Vec<_> = warnings
        .iter()
        .take(MOST_WARNINGS)
        .map(|warning| one_line(warning))
        .collect();
    if let Some(rest @ 1..) = warnings.len().checked_sub(MOST_WARNINGS) {
        shown.push(Cow::Owned(format!("and {rest} more warnings")));
    }
    shown
}

fn one_line(warning: &str) -> Cow<'_, str> {
    if warning.len() <= LONGEST_WARNING && !warning.chars().any(char::is_control) {
        return Cow::Borrowed(warning);
    }
    let clean = warning.replace(char::is_control, " ");
    if clean.chars().count() <= LONGEST_WARNING {
        return Cow::Owned(clean);
    }
    let cut = clean.chars().take(LONGEST_WARNING - 1);
    Cow::Owned(cut.chain(['\u{2026}']).collect())
}

#[cfg(test)]
mod tests {
    use json_patch::Patch;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::admission::decision::Cause;

    fn encoded(decision: &Decision) -> Value {
        serde_json::from_slice(&encode("u-1", decision).unwrap()).unwrap()
    }

    #[test]
    fn allowed_without_change_is_as_short_as_can_be() {
        assert_eq!(
            encoded(&Decision::allow()),
            json!({
                "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                "response": {"uid": "u-1", "allowed": true},
            })
        );
    }

    #[test]
    fn a_patch_is_base64_of_a_json_patch() {
        let operations = json!([{"op": "add", "path": "/spec/priority", "value": 99}]);
        let patch: Patch = serde_json::from_value(operations.clone()).unwrap();
        let answer = encoded(&Decision::allow_with(patch, Vec::new()));
        assert_eq!(answer["response"]["patchType"], "JSONPatch");
        let bytes = BASE64_STANDARD
            .decode(answer["response"]["patch"].as_str().unwrap())
            .unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), operations);
    }

    #[test]
    fn a_denial_carries_all_that_kubectl_and_controllers_show() {
        let denial = Denial::invalid(
            "spec.numVfs: Invalid value: 65: at most 64",
            Details {
                group: "sriovnetwork.openshift.io".into(),
                kind: "SriovNetworkNodePolicy".into(),
                name: "p".into(),
                causes: vec![Cause {
                    reason: "FieldValueInvalid".into(),
                    message: "Invalid value: 65: at most 64".into(),
                    field: "spec.numVfs".into(),
                }],
            },
        );
        let answer = encoded(&Decision::deny_with(denial, vec!["odd".into()]));
        assert_eq!(
            answer["response"],
            json!({
                "uid": "u-1", "allowed": false, "warnings": ["odd"],
                "status": {
                    "code": 422, "reason": "Invalid",
                    "message": "spec.numVfs: Invalid value: 65: at most 64",
                    "details": {
                        "group": "sriovnetwork.openshift.io", "kind": "SriovNetworkNodePolicy", "name": "p",
                        "causes": [{
                            "reason": "FieldValueInvalid", "field": "spec.numVfs",
                            "message": "Invalid value: 65: at most 64",
                        }],
                    },
                },
            })
        );
    }

    #[test]
    fn ten_warnings_and_a_count() {
        let warnings: Vec<_> = (0..13).map(|n| format!("warning {n}")).collect();
        let shown = presentable(&warnings);
        assert_eq!(shown.len(), 11);
        assert_eq!(shown[10], "and 3 more warnings");
        assert_eq!(presentable(&warnings[..10]).len(), 10);
    }

    proptest! {
        #[test]
        fn every_warning_is_one_short_line(warning in "(?s).{0,400}") {
            let warnings = [warning];
            let shown = presentable(&warnings);
            prop_assert!(shown[0].chars().count() <= LONGEST_WARNING);
            prop_assert!(!shown[0].chars().any(char::is_control));
        }
    }
}
