//! The routes as a caller sees them, without a socket.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, Bytes},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use futures::{FutureExt, StreamExt, future::BoxFuture};
use http::Request as HttpRequest;
use http_body_util::BodyExt;
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::*;
use crate::{server::metrics::Metrics, settings::FailurePolicy};

const PATHS: [&str; 3] = [
    "/mutating-custom-resource",
    "/validating-custom-resource",
    "/mutate",
];

/// Does what the request's name says.
struct Obedient {
    policy: FailurePolicy,
}

impl Obedient {
    async fn obey(&self, request: &Request<'_>) -> Verdict {
        match &*request.name {
            "patch" => Ok(Decision::allow_with(
                Some(br#"[{"op":"add","path":"/metadata/labels","value":{}}]"#.to_vec()),
                vec!["odd".into()],
            )),
            "deny" => Ok(Decision::deny(Denial::forbidden("not now"))),
            "panic" => panic!("as told"),
            "hang" => std::future::pending().await,
            "unavailable" => Err(Undecided::Unavailable("nodes are not listed yet".into())),
            "fault" => Err(Undecided::Fault("the patch does not fit".into())),
            _ => Ok(Decision::allow()),
        }
    }
}

impl CustomResources for Obedient {
    fn set_defaults<'a>(&'a self, request: &'a Request<'a>) -> BoxFuture<'a, Verdict> {
        self.obey(request).boxed()
    }

    fn validate<'a>(&'a self, request: &'a Request<'a>) -> BoxFuture<'a, Verdict> {
        self.obey(request).boxed()
    }
}

impl Pods for Obedient {
    fn inject<'a>(&'a self, request: &'a Request<'a>) -> BoxFuture<'a, Verdict> {
        self.obey(request).boxed()
    }

    fn failure_policy(&self) -> FailurePolicy {
        self.policy
    }
}

/// A router with its surroundings.
struct Webhooks {
    router: Router,
    stop: CancellationToken,
    metrics: Arc<Metrics>,
}

fn webhooks(limits: Limits, policy: FailurePolicy) -> Webhooks {
    let obedient = Arc::new(Obedient { policy });
    let handlers = Handlers {
        custom_resources: Some(obedient.clone()),
        pods: Some(obedient),
    };
    let stop = CancellationToken::new();
    let metrics = Arc::new(Metrics::new());
    Webhooks {
        router: router(&handlers, limits, stop.clone(), Arc::clone(&metrics)),
        stop,
        metrics,
    }
}

fn usual() -> Webhooks {
    webhooks(Limits::default(), FailurePolicy::Fail)
}

fn review(request: &Value) -> Value {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
}

/// A review about an object with this name.
fn about(name: &str) -> Value {
    review(&json!({
        "uid": "u-1", "operation": "CREATE", "name": name, "namespace": "ns",
        "kind": {"group": "", "version": "v1", "kind": "Pod"}, "object": {"metadata": {"name": name}},
    }))
}

/// An answer: code, headers and body.
struct Answer {
    code: u16,
    headers: http::HeaderMap,
    body: Value,
}

impl Answer {
    /// The review that every answered request gets, whatever is in it.
    fn response(&self) -> &Value {
        assert_eq!(self.code, 200, "{}", self.body);
        assert_eq!(self.body["apiVersion"], "admission.k8s.io/v1");
        assert_eq!(self.body["kind"], "AdmissionReview");
        assert_eq!(self.headers["content-type"], "application/json");
        &self.body["response"]
    }

    /// The sentence of an HTTP error, which is in a `Status` or nobody sees it.
    fn refusal(&self, code: u16) -> &str {
        assert_eq!(self.code, code, "{}", self.body);
        assert_eq!(self.headers["content-type"], "application/json");
        assert_eq!(self.body["kind"], "Status");
        assert_eq!(self.body["apiVersion"], "v1");
        assert_eq!(self.body["status"], "Failure");
        assert_eq!(self.body["code"], code);
        assert!(!self.body["reason"].as_str().unwrap().is_empty());
        self.body["message"].as_str().unwrap()
    }

    fn retries_after(&self) -> Option<&str> {
        self.headers.get("retry-after").map(|v| v.to_str().unwrap())
    }
}

impl Webhooks {
    async fn send(&self, request: HttpRequest<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Answer {
            code: parts.status.as_u16(),
            headers: parts.headers,
            body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        }
    }

    async fn post(&self, path: &str, body: impl Into<Body>) -> Answer {
        self.send(
            HttpRequest::post(path)
                .header("content-type", "application/json")
                .body(body.into())
                .unwrap(),
        )
        .await
    }

    async fn ask(&self, path: &str, review: &Value) -> Answer {
        self.post(path, review.to_string()).await
    }
}

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
            Arc::default(),
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
async fn a_review_above_the_limit_is_denied_with_size_and_limit() {
    let limits = Limits {
        review_bytes: 20_000,
        ..Limits::default()
    };
    let webhooks = webhooks(limits, FailurePolicy::Fail);
    let body = review(&json!({"uid": "u-1", "zobject": "x".repeat(30_000)})).to_string();
    let size = body.len().to_string();
    let announced = webhooks.post("/mutate", body.clone()).await;
    let pieces: Vec<_> = body
        .as_bytes()
        .chunks(1000)
        .map(|piece| Ok::<_, std::io::Error>(Bytes::copy_from_slice(piece)))
        .collect();
    let counted = webhooks
        .post("/mutate", Body::from_stream(futures::stream::iter(pieces)))
        .await;
    for answer in [announced, counted] {
        let response = answer.response();
        assert_eq!(response["uid"], "u-1");
        assert_eq!(response["allowed"], false);
        assert_eq!(response["status"]["code"], 413);
        let message = response["status"]["message"].as_str().unwrap();
        assert!(
            message.contains(&size) && message.contains("20000"),
            "{message}"
        );
    }
    // A uid behind the object is not looked for.
    let hidden = format!(
        r#"{{"request":{{"object":"{}","uid":"u-1"}}}}"#,
        "x".repeat(30_000)
    );
    let answer = webhooks.post("/mutate", hidden).await;
    assert!(answer.refusal(413).contains("20000"));
}

#[tokio::test]
async fn a_review_of_seven_mebibytes_is_read() {
    let mut body = about("x");
    body["request"]["object"]["spec"] = json!("y".repeat(7 * 1024 * 1024 - 1024));
    usual().ask("/mutate", &body).await.response();
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
    assert!(message.contains("the patch does not fit"), "{message}");
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

#[tokio::test(start_paused = true)]
async fn the_answer_comes_before_the_deadline() {
    let begun = tokio::time::Instant::now();
    let answer = usual().ask("/mutate?timeout=2s", &about("hang")).await;
    assert!(answer.refusal(504).contains("deadline"));
    assert_eq!(begun.elapsed().as_millis(), 1800);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let begun = tokio::time::Instant::now();
    let beginning = futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(b"{"))]);
    let body = Body::from_stream(beginning.chain(futures::stream::pending()));
    let answer = usual().post("/mutate?timeout=30s", body).await;
    answer.refusal(408);
    assert_eq!(begun.elapsed(), Limits::default().body_time);
}

#[tokio::test]
async fn a_body_that_breaks_off_is_a_bad_request() {
    let pieces = [
        Ok(Bytes::from_static(b"{")),
        Err(std::io::Error::other("gone")),
    ];
    let body = Body::from_stream(futures::stream::iter(pieces));
    usual().post("/mutate", body).await.refusal(400);
}

#[tokio::test(start_paused = true)]
async fn overload_asks_to_try_again() {
    let limits = Limits {
        reviews: 1,
        ..Limits::default()
    };
    let webhooks = Arc::new(webhooks(limits, FailurePolicy::Fail));
    let busy = tokio::spawn({
        let webhooks = Arc::clone(&webhooks);
        async move { webhooks.ask("/mutate", &about("hang")).await.code }
    });
    tokio::time::sleep(Duration::from_millis(1)).await;
    let answer = webhooks.ask("/mutate", &about("x")).await;
    answer.refusal(429);
    assert_eq!(answer.retries_after(), Some("1"));
    assert_eq!(busy.await.unwrap(), 504);
    webhooks.ask("/mutate", &about("x")).await.response();
}

#[tokio::test]
async fn bodies_together_stay_within_their_memory() {
    let limits = Limits {
        body_bytes: 2048,
        ..Limits::default()
    };
    let webhooks = webhooks(limits, FailurePolicy::Fail);
    webhooks.ask("/mutate", &about("x")).await.response();
    let answer = webhooks.post("/mutate", vec![b' '; 4096]).await;
    answer.refusal(429);
    assert_eq!(answer.retries_after(), Some("1"));
    webhooks.ask("/mutate", &about("x")).await.response();
}

#[tokio::test(start_paused = true)]
async fn shutdown_sends_callers_elsewhere() {
    let webhooks = Arc::new(usual());
    let under_way = tokio::spawn({
        let webhooks = Arc::clone(&webhooks);
        async move { webhooks.ask("/mutate", &about("hang")).await }
    });
    tokio::time::sleep(Duration::from_millis(1)).await;
    webhooks.stop.cancel();
    for answer in [
        under_way.await.unwrap(),
        webhooks.ask("/mutate", &about("x")).await,
    ] {
        assert!(answer.refusal(503).contains("shutting down"));
        assert_eq!(answer.retries_after(), Some("1"));
    }
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

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map("[a-zA-Z]{1,8}", inner, 0..4).prop_map(Value::from_iter),
        ]
    })
}

fn answered(body: Vec<u8>) -> Answer {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
        .block_on(usual().post("/mutate", body))
}

proptest! {
    #[test]
    fn any_bytes_are_answered_in_json(body in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert_eq!(answered(body).refusal(400).is_empty(), false);
    }

    #[test]
    fn whatever_an_envelope_holds_its_uid_is_kept(
        uid in "[ -~]{1,40}",
        fields in prop::collection::hash_map(
            prop_oneof![
                Just("kind".to_owned()), Just("resource".to_owned()), Just("name".to_owned()),
                Just("operation".to_owned()), Just("dryRun".to_owned()), Just("object".to_owned()),
                Just("oldObject".to_owned()), "[a-z]{1,6}".prop_filter("not the uid", |key| key != "uid"),
            ],
            any_json(), 0..6,
        ),
        outer in any_json(),
    ) {
        let mut request = Value::from_iter(fields);
        request["uid"] = uid.clone().into();
        let mut envelope = review(&request);
        envelope["extra"] = outer;
        let answer = answered(envelope.to_string().into_bytes());
        prop_assert_eq!(&answer.response()["uid"], &Value::from(uid));
    }

    #[test]
    fn a_review_cut_anywhere_never_breaks_anything(cut in 0usize..300) {
        let whole = about("x").to_string();
        let piece = whole.as_bytes()[..cut.min(whole.len())].to_vec();
        let code = answered(piece).code;
        prop_assert!(code == 200 || code == 400);
    }
}
