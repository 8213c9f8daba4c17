//! The routes as a caller sees them, without a socket: what the tests share.

mod answers;
mod limits;
mod properties;
mod stored;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, Bytes},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use futures::{FutureExt, StreamExt, future::BoxFuture};
use http::Request as HttpRequest;
use http_body_util::BodyExt;

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
            "fault" => Err(Undecided::Fault("the patch cannot be written".into())),
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
        router: router(&handlers, limits, stop.clone(), &metrics),
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
