//! What is answered as an HTTP error, because there is no review to answer with or no verdict to give. Every such answer has a
//! `metav1.Status` in JSON as its body: the API server drops anything else and shows the user nothing but a number.

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use http::{
    HeaderValue, Method, StatusCode,
    header::{ALLOW, CONTENT_TYPE, RETRY_AFTER},
};
use serde::Serialize;

use super::uid;

/// Why a request gets no review back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("no webhook is served at this path; there are {0}")]
    Path(String),
    #[error("method {0} is not supported here: an admission review is sent with POST")]
    Method(Method),
    #[error("Content-Type {0} is not supported: an admission review is sent as application/json")]
    ContentType(String),
    #[error("Content-Encoding {0} is not supported: an admission review is sent as it is")]
    ContentEncoding(String),
    #[error("the review has {size} bytes, and no more than {limit} are read")]
    TooLarge { size: u64, limit: usize },
    #[error("{0}")]
    Undecodable(String),
    #[error("AdmissionReview of version {0} is not supported: admission.k8s.io/v1 is")]
    Version(String),
    #[error("kind {0} is not supported: AdmissionReview of admission.k8s.io/v1 is")]
    Kind(String),
    #[error("the review has no request")]
    NoRequest,
    #[error("the review's request has no uid")]
    NoUid,
    #[error("the uid of the review's request has {0} bytes, and none of more than {max} is answered", max = uid::LONGEST)]
    LongUid(usize),
    #[error("the body broke off")]
    Broken,
    #[error("the body did not arrive in time")]
    SlowBody,
    #[error("too many reviews are under way; try again in a second")]
    Overloaded,
    #[error("{0}")]
    Unavailable(String),
    #[error("the server is shutting down; another replica answers")]
    Stopping,
    #[error("internal error: {0}")]
    Internal(String),
    #[error("no verdict within the deadline of the request")]
    Deadline,
}

impl Refusal {
    /// The HTTP status code.
    pub(super) const fn code(&self) -> StatusCode {
        match self {
            Self::Path(_) => StatusCode::NOT_FOUND,
            Self::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::ContentType(_) | Self::ContentEncoding(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Undecodable(_)
            | Self::Version(_)
            | Self::Kind(_)
            | Self::NoRequest
            | Self::NoUid
            | Self::LongUid(_)
            | Self::Broken => StatusCode::BAD_REQUEST,
            Self::SlowBody => StatusCode::REQUEST_TIMEOUT,
            Self::Overloaded => StatusCode::TOO_MANY_REQUESTS,
            Self::Unavailable(_) | Self::Stopping => StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Deadline => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    /// `metav1.StatusReason`.
    const fn reason(&self) -> &'static str {
        match self {
            Self::Path(_) => "NotFound",
            Self::Method(_) => "MethodNotAllowed",
            Self::ContentType(_) | Self::ContentEncoding(_) => "UnsupportedMediaType",
            Self::TooLarge { .. } => "RequestEntityTooLarge",
            Self::Undecodable(_)
            | Self::Version(_)
            | Self::Kind(_)
            | Self::NoRequest
            | Self::NoUid
            | Self::LongUid(_)
            | Self::Broken => "BadRequest",
            Self::SlowBody | Self::Deadline => "Timeout",
            Self::Internal(_) => "InternalError",
            Self::Overloaded => "TooManyRequests",
            Self::Unavailable(_) | Self::Stopping => "ServiceUnavailable",
        }
    }

    /// Whether to ask again in a second. The API server does, on 429 and 503 with `Retry-After`, until its deadline.
    const fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::Overloaded | Self::Unavailable(_) | Self::Stopping
        )
    }
}

/// A stranger's word, fit for a message: quoted, and short.
pub(super) fn shown(word: &str) -> String {
    let short: String = word.chars().take(64).collect();
    format!("{short:?}")
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Status<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: Metadata,
    #[serde(rename = "status")]
    outcome: &'static str,
    message: &'a str,
    reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<RetryDetails>,
    code: u16,
}

#[derive(Serialize)]
struct Metadata {}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RetryDetails {
    retry_after_seconds: u32,
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let message = self.to_string();
        let body = serde_json::to_vec(&Status {
            api_version: "v1",
            kind: "Status",
            metadata: Metadata {},
            outcome: "Failure",
            message: &message,
            reason: self.reason(),
            details: self.is_passing().then_some(RetryDetails {
                retry_after_seconds: 1,
            }),
            code: self.code().as_u16(),
        })
        // Only a type that cannot be written as JSON fails, and this one can.
        .unwrap_or_default();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = self.code();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if self.is_passing() {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if matches!(self, Self::Method(_)) {
            headers.insert(ALLOW, HeaderValue::from_static("POST"));
        }
        response
    }
}
