//! `/healthz` and `/readyz` from named checks. It must not know what is checked.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{RawQuery, State},
    response::{IntoResponse, Response},
    routing::get,
};
use futures::{
    FutureExt,
    future::{BoxFuture, join_all},
};
use http::StatusCode;

/// Longest time that one check may take: a kubelet waits a second for the whole answer.
const PATIENCE: Duration = Duration::from_millis(900);

/// What a check finds: `Err` says what is missing, as a short sentence without secrets, since anybody can read it.
pub type Finding = Result<(), String>;

type Check = Box<dyn Fn() -> BoxFuture<'static, Finding> + Send + Sync>;

/// Named checks, all of which must hold.
#[derive(Default)]
pub struct Checks(Vec<(&'static str, Check)>);

impl Checks {
    /// None, which holds.
    pub fn new() -> Self {
        Self::default()
    }

    /// With one more.
    #[must_use]
    pub fn with<F, R>(mut self, name: &'static str, check: F) -> Self
    where
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = Finding> + Send + 'static,
    {
        self.0.push((name, Box::new(move || check().boxed())));
        self
    }

    /// Runs all of them, side by side, each for 0.9 seconds at most.
    pub async fn run(&self) -> Report {
        let findings = self.0.iter().map(async |(name, check)| {
            let finding = tokio::time::timeout(PATIENCE, check())
                .await
                .unwrap_or_else(|_| Err("no answer in time".to_owned()));
            (*name, finding)
        });
        Report(join_all(findings).await)
    }
}

/// What the checks found, in their order.
#[derive(Debug)]
pub struct Report(Vec<(&'static str, Finding)>);

impl Report {
    /// Whether every check holds.
    pub fn holds(&self) -> bool {
        self.0.iter().all(|(_, finding)| finding.is_ok())
    }

    /// Each check and its finding.
    pub fn findings(&self) -> impl Iterator<Item = (&'static str, &Finding)> {
        self.0.iter().map(|(name, finding)| (*name, finding))
    }

    /// The answer as Kubernetes' own components write it: `ok`, or a line a check.
    fn respond(&self, endpoint: &str, verbose: bool) -> Response {
        if self.holds() && !verbose {
            return "ok".into_response();
        }
        let mut text = String::new();
        for (name, finding) in self.findings() {
            // Writing to a string does not fail.
            let _ = match finding {
                Ok(()) => writeln!(text, "[+]{name} ok"),
                Err(reason) => writeln!(text, "[-]{name} failed: {reason}"),
            };
        }
        let (code, end) = if self.holds() {
            (StatusCode::OK, "passed")
        } else {
            (StatusCode::SERVICE_UNAVAILABLE, "failed")
        };
        let _ = writeln!(text, "{endpoint} check {end}");
        (code, text).into_response()
    }
}

/// `/healthz` from `live` and `/readyz` from `ready`: 200 when all checks hold, else 503, a line for each with `?verbose`
/// and whenever one fails.
pub fn router(live: Arc<Checks>, ready: Arc<Checks>) -> Router {
    Router::new()
        .route(
            "/healthz",
            get(|state, query| answer("healthz", state, query)).with_state(live),
        )
        .route(
            "/readyz",
            get(|state, query| answer("readyz", state, query)).with_state(ready),
        )
}

async fn answer(
    endpoint: &'static str,
    State(checks): State<Arc<Checks>>,
    RawQuery(query): RawQuery,
) -> Response {
    let verbose = query.is_some_and(|query| {
        query
            .split('&')
            .any(|pair| pair == "verbose" || pair.starts_with("verbose="))
    });
    checks.run().await.respond(endpoint, verbose)
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::*;

    fn checks(second: Finding) -> Arc<Checks> {
        Arc::new(
            Checks::new()
                .with("listener", || async { Ok(()) })
                .with("stores", move || std::future::ready(second.clone())),
        )
    }

    async fn ask(ready: Arc<Checks>, path: &str) -> (u16, String) {
        let request = http::Request::get(path).body(Body::empty()).unwrap();
        let response = router(Arc::new(Checks::new()), ready)
            .oneshot(request)
            .await
            .unwrap();
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn ready_when_every_check_holds() {
        assert_eq!(ask(checks(Ok(())), "/readyz").await, (200, "ok".into()));
        assert_eq!(
            ask(checks(Ok(())), "/readyz?verbose").await,
            (
                200,
                "[+]listener ok\n[+]stores ok\nreadyz check passed\n".into()
            )
        );
    }

    #[tokio::test]
    async fn not_ready_says_why_even_when_nobody_asked() {
        let failing = || checks(Err("nodes are not listed yet".into()));
        let told =
            "[+]listener ok\n[-]stores failed: nodes are not listed yet\nreadyz check failed\n";
        assert_eq!(ask(failing(), "/readyz").await, (503, told.into()));
        assert_eq!(ask(failing(), "/healthz").await, (200, "ok".into()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_check_that_hangs_fails() {
        let hanging = Arc::new(Checks::new().with("tls", std::future::pending));
        let (code, text) = ask(hanging, "/readyz").await;
        assert_eq!(code, 503);
        assert!(text.contains("[-]tls failed: no answer in time"), "{text}");
    }
}
