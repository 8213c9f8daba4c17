//! The routes, and what happens between a request and its answer: method and media type, body, decoding, the deadline,
//! overload, shutdown and panics. One log line and the metrics for each. It must not open a socket.

use std::{any::Any, borrow::Cow, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
    routing::any,
};
use futures::FutureExt;
use http::{
    HeaderMap, HeaderValue, Method,
    header::{CONTENT_ENCODING, CONTENT_TYPE},
    request::Parts,
};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, debug, debug_span, error, info, warn};

use super::{
    answer,
    body::{self, Budget, Read},
    deadline,
    decision::{Decision, Denial, Undecided},
    handlers::{Handler, Handlers},
    refusal::{Refusal, shown},
    review::{self, Failure, Request},
    uid,
};
use crate::{
    brief::{LONGEST_NAME, brief},
    server::metrics::{Metrics, WebhookMetrics},
    settings::FailurePolicy,
};

/// Bytes of the reason of a denial in the log. The answer has all of it.
const LONGEST_REASON: usize = 4096;

/// How much a process takes on.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest review in bytes.
    pub review_bytes: usize,
    /// Bytes that the bodies of all requests may take together.
    pub body_bytes: usize,
    /// How long a body may take to arrive.
    pub body_time: Duration,
    /// Reviews judged at the same time.
    pub reviews: usize,
}

impl Default for Limits {
    /// 7 MiB: two objects of the 3 MiB that etcd and the API server can hold, and the rest of a review. 256 MiB for all
    /// bodies and ten seconds for one; 1000 reviews at once, far above what one API server sends (its own limit is 600
    /// requests in flight, reads included).
    fn default() -> Self {
        Self {
            review_bytes: 7 * 1024 * 1024,
            body_bytes: 256 * 1024 * 1024,
            body_time: Duration::from_secs(10),
            reviews: 1000,
        }
    }
}

/// What all routes share.
struct Shared {
    limits: Limits,
    budget: Budget,
    reviews: Semaphore,
    stop: CancellationToken,
}

/// One route.
#[derive(Clone)]
struct Route {
    handler: Handler,
    shared: Arc<Shared>,
    metrics: Arc<WebhookMetrics>,
}

/// The admission routes for the handlers that are there. When `stop` is cancelled, what has no verdict yet, and what comes
/// later, is answered with 503.
pub fn router(
    handlers: &Handlers,
    limits: Limits,
    stop: CancellationToken,
    metrics: &Metrics,
) -> Router {
    let shared = Arc::new(Shared {
        budget: Budget::new(limits.body_bytes),
        reviews: Semaphore::new(limits.reviews.min(Semaphore::MAX_PERMITS)),
        limits,
        stop,
    });
    let mut router = Router::new();
    let mut paths = Vec::new();
    for handler in handlers.served() {
        let path = handler.webhook().path();
        let route = Route {
            handler,
            shared: Arc::clone(&shared),
            metrics: Arc::new(metrics.admission.of(path)),
        };
        router = router.route(path, any(serve).with_state(route));
        paths.push(path);
    }
    let paths = paths.join(", ");
    router.fallback(move || std::future::ready(Refusal::Path(paths.clone())))
}

async fn serve(State(route): State<Route>, request: http::Request<Body>) -> Response {
    let webhook = route.path();
    let started = Instant::now();
    let _in_flight = route.metrics.enter();
    let response = match route.answer(request, started).await {
        Ok(bytes) => {
            let mut response = Response::new(Body::from(bytes));
            response
                .headers_mut()
                .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            response
        }
        Err(refusal) => {
            if refusal.code().is_server_error() || refusal == Refusal::Overloaded {
                warn!(
                    webhook,
                    code = refusal.code().as_u16(),
                    "not answered: {refusal}"
                );
            } else {
                debug!(
                    webhook,
                    code = refusal.code().as_u16(),
                    "not answered: {refusal}"
                );
            }
            refusal.into_response()
        }
    };
    route
        .metrics
        .answered(response.status().as_u16(), started.elapsed());
    response
}

impl Route {
    /// The bytes of the answering review.
    async fn answer(
        &self,
        request: http::Request<Body>,
        started: Instant,
    ) -> Result<Vec<u8>, Refusal> {
        let (parts, body) = request.into_parts();
        acceptable(&parts)?;
        if self.shared.stop.is_cancelled() {
            return Err(Refusal::Stopping);
        }
        let deadline = started + deadline::allowance(parts.uri.query());
        let limits = self.shared.limits;
        let in_time = deadline.min(started + limits.body_time);
        let body = body::read(body, limits.review_bytes, &self.shared.budget, in_time).await?;
        let (bytes, _share) = match body {
            Read::Whole { bytes, share } => (bytes, share),
            Read::TooLarge { head, size } => return self.too_large(&head, size),
        };
        match review::decode(&bytes) {
            Ok(request) => {
                let decision = self.judge(&request, deadline).await?;
                self.record(&request, &decision, started);
                encode(&request.uid, &decision)
            }
            Err(Failure::Answerable { uid, message }) => {
                self.deny(&uid, Denial::bad_request(message))
            }
            Err(Failure::Refused(refusal)) => Err(refusal),
        }
    }

    /// A verdict, or what takes its place when there is none in time.
    async fn judge(&self, request: &Request<'_>, deadline: Instant) -> Result<Decision, Refusal> {
        let Ok(_permit) = self.shared.reviews.try_acquire() else {
            return Err(Refusal::Overloaded);
        };
        // What is logged on the way at that level carries the request's id. Strings are quoted: no name breaks out of its
        // line. Not at the level of every day, where nothing is logged on the way and a span costs as much as a verdict.
        let span = debug_span!(
            "review",
            uid = &*request.uid,
            webhook = self.path(),
            operation = request.operation.as_str(),
        );
        let verdict = self.handler.judge(request).instrument(span);
        let verdict = AssertUnwindSafe(verdict).catch_unwind();
        tokio::select! {
            biased;
            verdict = verdict => match verdict {
                Ok(Ok(decision)) => Ok(decision),
                Ok(Err(Undecided::Unavailable(why))) => Err(Refusal::Unavailable(why)),
                Ok(Err(Undecided::Fault(why))) => {
                    error!(uid = &*request.uid, webhook = self.path(), why, "a fault of our own");
                    Ok(self.fault(request, "handler", &format!("internal error of sriov-operator: {why}")))
                }
                Err(panic) => {
                    let why = panic_message(panic.as_ref());
                    error!(uid = &*request.uid, webhook = self.path(), why, "panic while a request was judged");
                    Ok(self.fault(request, "panic", "internal error of sriov-operator, whose log has it"))
                }
            },
            () = self.shared.stop.cancelled() => Err(Refusal::Stopping),
            () = sleep_until(deadline) => Err(Refusal::Deadline),
        }
    }

    /// What a fault of our own comes to: what the API server would do about a call that failed, but told in a sentence.
    fn fault(&self, request: &Request<'_>, fault: &'static str, told: &str) -> Decision {
        self.metrics.faulted(fault);
        let told = format!("{told} (request {})", shown(&request.uid));
        match self.handler.failure_policy() {
            FailurePolicy::Fail => Decision::deny(Denial::internal(told)),
            FailurePolicy::Ignore => {
                Decision::allow_with(None, vec![format!("let through unchanged: {told}")])
            }
        }
    }

    fn path(&self) -> &'static str {
        self.handler.webhook().path()
    }

    fn too_large(&self, head: &[u8], size: u64) -> Result<Vec<u8>, Refusal> {
        let refusal = Refusal::TooLarge {
            size,
            limit: self.shared.limits.review_bytes,
        };
        match uid::find(head) {
            Some(uid) => self.deny(&uid, Denial::too_large(refusal.to_string())),
            None => Err(refusal),
        }
    }

    /// Denies what did not get as far as a handler.
    fn deny(&self, uid: &str, denial: Denial) -> Result<Vec<u8>, Refusal> {
        let webhook = self.path();
        info!(
            uid,
            webhook,
            code = denial.code,
            reason = denial.message,
            "denied"
        );
        self.metrics.decided("unknown", "denied");
        encode(uid, &Decision::deny(denial))
    }

    /// One line in the log and one count for each decision.
    fn record(&self, request: &Request<'_>, decision: &Decision, started: Instant) {
        let webhook = self.path();
        let operation = request.operation.as_str();
        let outcome = match decision {
            Decision::Allow { patch: None, .. } => "allowed",
            Decision::Allow { .. } => "patched",
            Decision::Deny { .. } => "denied",
        };
        self.metrics.decided(operation, outcome);
        let duration_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        // Recorded as strings, which the log quotes: no name breaks out of its line, and none fills the log.
        let uid = &*request.uid;
        let kind = &*brief(&request.kind.kind, LONGEST_NAME);
        let namespace = &*brief(&request.namespace, LONGEST_NAME);
        let name = &*brief(&request.name, LONGEST_NAME);
        let dry_run = request.dry_run;
        if let Decision::Deny { denial, .. } = decision {
            info!(
                uid,
                webhook,
                operation,
                kind,
                namespace,
                name,
                dry_run,
                duration_us,
                code = denial.code,
                reason = &*brief(&denial.message, LONGEST_REASON),
                "denied"
            );
        } else {
            debug!(
                uid,
                webhook, operation, kind, namespace, name, dry_run, duration_us, "{outcome}"
            );
        }
    }
}

fn encode(uid: &str, decision: &Decision) -> Result<Vec<u8>, Refusal> {
    answer::encode(uid, decision)
        .map_err(|error| Refusal::Internal(format!("the answer cannot be written: {error}")))
}

/// What a panic said.
fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

/// Method and headers are those of an admission review.
fn acceptable(parts: &Parts) -> Result<(), Refusal> {
    if parts.method != Method::POST {
        return Err(Refusal::Method(parts.method.clone()));
    }
    let media_type = header(&parts.headers, CONTENT_TYPE);
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    if !essence.eq_ignore_ascii_case("application/json") {
        return Err(Refusal::ContentType(shown(&media_type)));
    }
    let encoding = header(&parts.headers, CONTENT_ENCODING);
    if !encoding.is_empty() && !encoding.eq_ignore_ascii_case("identity") {
        return Err(Refusal::ContentEncoding(shown(&encoding)));
    }
    Ok(())
}

fn header(headers: &HeaderMap, name: http::HeaderName) -> Cow<'_, str> {
    headers.get(name).map_or(Cow::Borrowed(""), |value| {
        String::from_utf8_lossy(value.as_bytes())
    })
}
