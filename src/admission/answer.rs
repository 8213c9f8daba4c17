//! Writes a [`Decision`] as an `AdmissionReview` v1. It must not decide anything; it only sees to it that what is written is
//! what the API server accepts: the uid always, a patch in base64 and only when something changes, and never a `null`.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::Serialize;

use super::decision::{Decision, Denial, Details};

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
    patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    warnings: &'a [String],
}

#[derive(Serialize)]
struct Status<'a> {
    code: u16,
    reason: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<&'a Details>,
}

/// How a review ends: the response is its last field.
const END: &str = "}}";

/// The bytes of the answer to the request `uid`.
pub(super) fn encode(uid: &str, decision: &Decision) -> Result<Vec<u8>, serde_json::Error> {
    let (response, patch) = match decision {
        Decision::Allow { patch, warnings } => {
            let response = Response {
                uid,
                allowed: true,
                status: None,
                patch_type: patch.is_some().then_some("JSONPatch"),
                warnings,
            };
            (response, patch.as_deref())
        }
        Decision::Deny { denial, warnings } => {
            let response = Response {
                uid,
                allowed: false,
                status: Some(status(denial)),
                patch_type: None,
                warnings,
            };
            (response, None)
        }
    };
    let mut text = serde_json::to_vec(&Review {
        api_version: "admission.k8s.io/v1",
        kind: "AdmissionReview",
        response,
    })?;
    if let Some(patch) = patch {
        // The last field of the response, past a serializer that would look for what to escape: base64 has nothing.
        text.truncate(text.len().saturating_sub(END.len()));
        let mut text = String::from_utf8(text).map_err(serde::ser::Error::custom)?;
        text.reserve(patch.len() / 3 * 4 + 32);
        text.push_str(r#","patch":""#);
        BASE64_STANDARD.encode_string(patch, &mut text);
        text.push('"');
        text.push_str(END);
        return Ok(text.into_bytes());
    }
    Ok(text)
}

fn status(denial: &Denial) -> Status<'_> {
    Status {
        code: denial.code,
        reason: &denial.reason,
        message: &denial.message,
        details: denial.details.as_ref(),
    }
}

#[cfg(test)]
mod tests {
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
        let patch = br#"[{"op":"add","path":"/spec/priority","value":99}]"#.to_vec();
        let answer = encoded(&Decision::allow_with(Some(patch.clone()), Vec::new()));
        assert_eq!(answer["response"]["patchType"], "JSONPatch");
        let bytes = BASE64_STANDARD
            .decode(answer["response"]["patch"].as_str().unwrap())
            .unwrap();
        assert_eq!(bytes, patch);
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
}
