//! Reviews as they are sent, and as they never should be.

use serde_json::json;

use super::*;

fn review(request: &serde_json::Value) -> String {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
        .to_string()
}

#[test]
fn a_whole_review_decodes_without_copies() {
    let body = review(&json!({
        "uid": "u-1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
        "name": "p", "namespace": "ns", "operation": "UPDATE",
        "userInfo": {"username": "u"}, "dryRun": true,
        "object": {"spec": {"z": 1, "a": 2.0}}, "oldObject": {"spec": {}},
        "options": {"kind": "CreateOptions"},
    }));
    let request = decode(body.as_bytes()).unwrap();
    assert!(matches!(request.uid, Cow::Borrowed("u-1")));
    assert_eq!(request.kind.kind, "Pod");
    assert_eq!(request.resource.resource, "pods");
    assert_eq!((&*request.name, &*request.namespace), ("p", "ns"));
    assert_eq!(request.operation, Operation::Update);
    assert!(request.dry_run);
    let Some(Object::Parts {
        metadata: None,
        spec: Some(spec),
    }) = request.object
    else {
        panic!("{:?}", request.object);
    };
    assert!(
        body.as_bytes()
            .as_ptr_range()
            .contains(&spec.as_bytes().as_ptr()),
        "its parts are the body's own bytes"
    );
    let old = request.old_object.unwrap().text();
    assert_eq!(old, r#"{"metadata":null,"spec":{}}"#);
}

#[test]
fn what_is_no_object_is_odd_and_costs_no_uid() {
    for object in ["5", "-5", "0.5", "true", "\"x\"", "[1, {}]"] {
        let body = format!(
            r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview",
            "request":{{"uid":"u-1","operation":"CREATE","object":{object}}}}}"#
        );
        let request = decode(body.as_bytes()).unwrap();
        assert!(matches!(request.object, Some(Object::Odd)), "{object}");
    }
}

#[test]
fn null_and_absent_are_the_same() {
    let body = review(&json!({
        "uid": "u-1", "operation": "DELETE", "name": null, "namespace": null, "dryRun": null,
        "object": null, "oldObject": {},
    }));
    let request = decode(body.as_bytes()).unwrap();
    assert_eq!(request.name, "");
    assert!(!request.dry_run);
    assert!(request.object.is_none());
    assert!(request.old_object.is_some());
}

#[test]
fn what_is_given_twice_is_refused_whatever_it_is() {
    for twice in [
        r#""object":{"metadata":{"name":"p"},"metadata":null}"#,
        r#""object":{"spec":{},"spec":null}"#,
        r#""object":{"spec":null,"spec":{}}"#,
        r#""object":{},"object":null"#,
        r#""object":null,"object":{}"#,
        r#""oldObject":{"spec":{},"\u0073pec":null}"#,
        r#""name":"a","name":null"#,
    ] {
        let body = format!(
            r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview",
            "request":{{"uid":"u-1","operation":"CREATE",{twice}}}}}"#
        );
        match decode(body.as_bytes()) {
            Err(Failure::Answerable { message, .. }) => {
                assert!(message.contains("duplicate field"), "{message}");
            }
            other => panic!("{twice}: {other:?}"),
        }
    }
}

#[test]
fn a_kind_that_is_null_is_refused_at_once_and_step_by_step() {
    for odd in ["", r#","\u006eame":"p""#] {
        for field in ["kind", "resource"] {
            let body = format!(
                r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview",
                "request":{{"uid":"u-1","operation":"CREATE","{field}":null{odd}}}}}"#
            );
            let failure = decode(body.as_bytes()).unwrap_err();
            assert!(matches!(failure, Failure::Answerable { .. }), "{body}");
        }
    }
}

#[test]
fn what_is_wrong_is_told_briefly_however_long_it_is() {
    let long = "n".repeat(100_000);
    let body = review(&json!({"uid": "u-1", "operation": long}));
    let Err(Failure::Answerable { message, .. }) = decode(body.as_bytes()) else {
        panic!("accepted");
    };
    assert!(
        message.contains("unknown variant `nnn") && message.len() < 400,
        "{message}"
    );
}

#[test]
fn a_uid_is_answered_up_to_a_length() {
    for (length, is_answered) in [(uid::LONGEST, true), (uid::LONGEST + 1, false)] {
        for operation in ["CREATE", "PATCH"] {
            let body = review(&json!({"uid": "u".repeat(length), "operation": operation}));
            let refused = matches!(decode(body.as_bytes()), Err(Failure::Refused(_)));
            assert_eq!(refused, !is_answered, "{operation} {length}");
        }
    }
}

#[test]
fn an_object_of_any_shape_costs_nothing_but_itself() {
    for object in [json!(7), json!("text"), json!([]), json!({"spec": 5})] {
        let body = review(&json!({"uid": "u-1", "operation": "CREATE", "object": object}));
        assert_eq!(decode(body.as_bytes()).unwrap().uid, "u-1");
    }
}

#[test]
fn a_bad_request_keeps_its_uid() {
    for request in [
        json!({"uid": "u-1"}),
        json!({"uid": "u-1", "operation": "PATCH"}),
        json!({"uid": "u-1", "operation": 5}),
        json!({"uid": "u-1", "operation": "CREATE", "kind": "Pod"}),
        json!({"uid": "u-1", "operation": "CREATE", "name": {"a": 1}}),
        json!({"uid": "u-1", "operation": "CREATE", "dryRun": "yes"}),
    ] {
        let body = review(&request);
        match decode(body.as_bytes()) {
            Err(Failure::Answerable { uid, message }) => {
                assert_eq!(uid, "u-1");
                assert!(message.starts_with("the review's request does not decode"));
            }
            other => panic!("{request}: {other:?}"),
        }
    }
}

#[test]
fn what_has_no_uid_or_is_no_review_is_refused() {
    let v1 = r#""apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview""#;
    for (body, expected) in [
        (String::new(), "does not decode"),
        ("7".to_owned(), "does not decode"),
        (format!("{{{v1}}}"), "has no request"),
        (format!(r#"{{{v1},"request":null}}"#), "has no request"),
        (format!(r#"{{{v1},"request":{{"operation":"CREATE"}}}}"#), "has no uid"),
        (format!(r#"{{{v1},"request":{{"uid":"","operation":"CREATE"}}}}"#), "has no uid"),
        (
            r#"{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{"uid":"u"}}"#.to_owned(),
            "v1beta1",
        ),
        (r#"{"apiVersion":"v1","kind":"Pod"}"#.to_owned(), "\"Pod\""),
    ] {
        match decode(body.as_bytes()) {
            Err(Failure::Refused(refusal)) => {
                assert!(refusal.to_string().contains(expected), "{body}: {refusal}");
            }
            other => panic!("{body}: {other:?}"),
        }
    }
}
