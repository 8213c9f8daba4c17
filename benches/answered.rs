//! A whole review as a pure path: the admission routes over a world in memory, without a socket.

use std::sync::Arc;

use anyhow::Result;
use axum::{Router, body::Body};
use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};
use sriov_operator::{
    admission::{
        self, Decision, Denial, Handlers, Limits, Object, Pods, Request, Undecided, Verdict,
    },
    inject::{self, Nads, Outcome, PodReview, Switches},
    server::metrics::Metrics,
    settings::FailurePolicy,
};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// The injector.
pub(crate) struct Injector {
    pub(crate) nads: Nads,
    pub(crate) switches: Switches,
}

impl Pods for Injector {
    fn inject<'a>(&'a self, request: &'a Request<'a>) -> BoxFuture<'a, Verdict> {
        std::future::ready(self.decide(request)).boxed()
    }

    fn failure_policy(&self) -> FailurePolicy {
        FailurePolicy::Fail
    }
}

impl Injector {
    fn decide(&self, request: &Request<'_>) -> Verdict {
        let Some(Object::Parts { metadata, spec }) = request.object else {
            return Err(Undecided::Fault("no pod".to_owned()));
        };
        let pod = PodReview::of(&request.namespace, metadata, spec)
            .map_err(|error| Undecided::Fault(error.to_string()))?;
        let options = inject::Options::default();
        match inject::decide(&pod, &self.nads, &self.switches, &options) {
            Outcome::Unchanged { warnings } => Ok(Decision::allow_with(None, warnings)),
            Outcome::Patched { patch, warnings } => Ok(Decision::allow_with(Some(patch), warnings)),
            other => Ok(Decision::deny(Denial::bad_request(format!("{other:?}")))),
        }
    }
}

/// The answer to one review over and over; it has to contain `expected`.
pub(crate) fn answer(
    injector: Injector,
    review: Vec<u8>,
    expected: &'static str,
) -> Result<Box<dyn Fn()>> {
    let handlers = Handlers {
        custom_resources: None,
        pods: Some(Arc::new(injector)),
    };
    let metrics = Metrics::new();
    let router = admission::router(
        &handlers,
        Limits::default(),
        CancellationToken::new(),
        &metrics,
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let review = Bytes::from(review);
    let ask = async move |router: Router, review: Bytes| {
        let request = http::Request::post("/mutate?timeout=10s")
            .header("content-type", "application/json")
            .body(Body::from(review))?;
        let response = router.oneshot(request).await?;
        let answer = axum::body::to_bytes(response.into_body(), usize::MAX).await?;
        Ok::<_, anyhow::Error>(answer)
    };
    Ok(Box::new(move || {
        let answer = runtime.block_on(ask(router.clone(), review.clone()));
        let as_expected = answer.is_ok_and(|answer| {
            answer
                .windows(expected.len())
                .any(|part| part == expected.as_bytes())
        });
        assert!(as_expected, "the answer is not what it should be");
    }))
}
