//! What is answered to what: reviews, decisions, faults, and requests that are no reviews.

use super::*;

#[tokio::test]
async fn every_webhook_answers_with_the_uid_it_was_asked_with() {
    for path in PATHS {
        let answer = usual().ask(path, &about("anything")).await;
        assert_eq!(answer.response(), &json!({"uid": "u-1", "allowed": true}));
    }
}

#[tokio::test]
async fn a_patch_and_warnings_arrive() {
    let answer = usual().ask("/mutate", &about("patch")).await;
    let response = answer.response();
    assert_eq!(response["patchType"], "JSONPatch");
    assert_eq!(response["warnings"], json!(["odd"]));
    let patch = BASE64_STANDARD
        .decode(response["patch"].as_str().unwrap())
        .unwrap();
    assert!(serde_json::from_slice::<json_patch::Patch>(&patch).is_ok());
}

#[tokio::test]
async fn a_denial_is_an_answer() {
    let answer = usual()
        .ask("/validating-custom-resource", &about("deny"))
        .await;
    assert_eq!(
        answer.response(),
        &json!({
            "uid": "u-1", "allowed": false,
            "status": {"code": 403, "reason": "Forbidden", "message": "not now"},
        })
    );
}

#[tokio::test]
async fn only_post_of_json_to_a_known_path_is_a_question() {
    let webhooks = usual();
    let body = || Body::from(about("x").to_string());
    for method in ["GET", "PUT", "HEAD", "DELETE", "PATCH", "OPTIONS"] {
        let request = HttpRequest::builder().method(method).uri("/mutate");
        let answer = webhooks.send(request.body(body()).unwrap()).await;
        assert_eq!(answer.code, 405, "{method}");
        assert_eq!(answer.headers["allow"], "POST");
        if method != "HEAD" {
            assert!(answer.refusal(405).contains(method));
        }
    }
    for (content_type, accepted) in [
        ("application/json", true),
        ("application/json; charset=utf-8", true),
        ("Application/JSON;charset=UTF-8", true),
        ("application/json ; a=b", true),
        ("application/yaml", false),
        ("application/jsonp", false),
        ("text/plain", false),
        ("", false),
    ] {
        let request = HttpRequest::post("/mutate").header("content-type", content_type);
        let answer = webhooks.send(request.body(body()).unwrap()).await;
        if accepted {
            answer.response();
        } else {
            assert!(answer.refusal(415).contains("application/json"));
        }
    }
    let answer = webhooks
        .send(HttpRequest::post("/mutate").body(body()).unwrap())
        .await;
    answer.refusal(415);
    let request = HttpRequest::post("/mutate")
        .header("content-type", "application/json")
        .header("content-encoding", "gzip");
    let answer = webhooks.send(request.body(body()).unwrap()).await;
    assert!(answer.refusal(415).contains("gzip"));
    let answer = webhooks.ask("/mutated", &about("x")).await;
    assert!(answer.refusal(404).contains("/mutate"));
}

#[tokio::test]
async fn a_webhook_without_a_handler_is_not_there() {
    let handlers = Handlers {
        pods: Some(Arc::new(Obedient {
            policy: FailurePolicy::Fail,
        })),
        ..Handlers::default()
    };
    let webhooks = Webhooks {
        router: router(
            &handlers,
            Limits::default(),
            CancellationToken::new(),
            &Metrics::default(),
        ),
        ..usual()
    };
    webhooks.ask("/mutate", &about("x")).await.response();
    let answer = webhooks.ask("/mutating-custom-resource", &about("x")).await;
    answer.refusal(404);
}

#[tokio::test]
async fn what_is_no_review_is_a_bad_request() {
    let webhooks = usual();
    for (body, told) in [
        ("", "does not decode"),
        ("{", "does not decode"),
        ("null", "does not decode"),
        (
            r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#,
            "no request",
        ),
        (
            r#"{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{"uid":"u"}}"#,
            "v1beta1",
        ),
        (r#"{"apiVersion":"v1","kind":"Pod","metadata":{}}"#, "Pod"),
    ] {
        let answer = webhooks.post("/mutate", body).await;
        assert!(
            answer.refusal(400).contains(told),
            "{body}: {}",
            answer.body
        );
    }
}

#[tokio::test]
async fn a_request_that_makes_no_sense_is_denied_under_its_uid() {
    let webhooks = usual();
    for body in [
        review(&json!({"uid": "u-9", "operation": "EAT"})).to_string(),
        review(&json!({"uid": "u-9", "operation": "CREATE", "kind": "Pod"})).to_string(),
        // Broken in the middle of the object.
        r#"{"kind":"AdmissionReview","request":{"uid":"u-9","object":{"a":]}}"#.to_owned(),
    ] {
        let answer = webhooks.post("/mutate", body).await;
        let response = answer.response();
        assert_eq!(response["uid"], "u-9");
        assert_eq!(response["allowed"], false);
        assert_eq!(response["status"]["code"], 400);
    }
}

#[tokio::test]
async fn a_panic_is_answered_as_the_failure_policy_says() {
    let webhooks_that_fail = webhooks(Limits::default(), FailurePolicy::Fail);
    for path in PATHS {
        let answer = webhooks_that_fail.ask(path, &about("panic")).await;
        let response = answer.response();
        assert_eq!(response["uid"], "u-1");
        assert_eq!(response["allowed"], false);
        assert_eq!(response["status"]["code"], 500);
        let message = response["status"]["message"].as_str().unwrap();
        assert!(message.contains("u-1") && !message.contains("as told"));
    }
    let text = webhooks_that_fail.metrics.encode().unwrap();
    let counted = r#"sriov_operator_admission_faults_total{webhook="/mutate",fault="panic"} 1"#;
    assert!(text.contains(counted), "{text}");

    let lenient = webhooks(Limits::default(), FailurePolicy::Ignore);
    let answer = lenient.ask("/mutate", &about("panic")).await;
    assert_eq!(answer.response()["allowed"], true);
    assert!(
        answer.response()["warnings"][0]
            .as_str()
            .unwrap()
            .contains("internal error")
    );
    assert!(answer.response().get("patch").is_none());
    // Custom resources are never let through unseen.
    let answer = lenient
        .ask("/validating-custom-resource", &about("panic"))
        .await;
    assert_eq!(answer.response()["allowed"], false);
}

#[tokio::test]
async fn so_is_a_fault_that_a_handler_owns_up_to() {
    let strict = usual();
    let answer = strict.ask("/mutate", &about("fault")).await;
    let response = answer.response();
    assert_eq!(
        (&response["uid"], &response["allowed"]),
        (&json!("u-1"), &json!(false))
    );
    assert_eq!(response["status"]["code"], 500);
    let message = response["status"]["message"].as_str().unwrap();
    assert!(message.contains("the patch cannot be written"), "{message}");
    let text = strict.metrics.encode().unwrap();
    let counted = r#"sriov_operator_admission_faults_total{webhook="/mutate",fault="handler"} 1"#;
    assert!(text.contains(counted), "{text}");

    let lenient = webhooks(Limits::default(), FailurePolicy::Ignore);
    let answer = lenient.ask("/mutate", &about("fault")).await;
    assert_eq!(answer.response()["allowed"], true);
    assert!(answer.response()["warnings"][0].is_string());
}

#[tokio::test]
async fn a_missing_store_asks_to_try_again() {
    let answer = usual().ask("/mutate", &about("unavailable")).await;
    assert_eq!(answer.refusal(503), "nodes are not listed yet");
    assert_eq!(answer.retries_after(), Some("1"));
    assert_eq!(answer.body["details"]["retryAfterSeconds"], 1);
}

#[tokio::test]
async fn requests_and_decisions_are_counted() {
    let webhooks = usual();
    webhooks.ask("/mutate", &about("patch")).await.response();
    webhooks.ask("/mutate", &about("deny")).await.response();
    webhooks.post("/mutate", "{").await.refusal(400);
    let text = webhooks.metrics.encode().unwrap();
    for line in [
        r#"controller_runtime_webhook_requests_total{webhook="/mutate",code="200"} 2"#,
        r#"controller_runtime_webhook_requests_total{webhook="/mutate",code="400"} 1"#,
        r#"controller_runtime_webhook_requests_in_flight{webhook="/mutate"} 0"#,
        r#"sriov_operator_admission_decisions_total{webhook="/mutate",operation="CREATE",outcome="patched"} 1"#,
        r#"sriov_operator_admission_decisions_total{webhook="/mutate",operation="CREATE",outcome="denied"} 1"#,
    ] {
        assert!(
            text.lines().any(|found| found == line),
            "no {line} in\n{text}"
        );
    }
}
