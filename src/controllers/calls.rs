//! What the calls of controllers have in common: a time limit, what came of one, and the answer cut down for a store.

use std::{future::Future, time::Duration};

use kube::api::{DynamicObject, PatchParams};

use crate::apply::FIELD_MANAGER;

/// How long one call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(20);

/// Why a call did not do what it was to do.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// What was read is not what is there: the watch will show it.
    #[error("{0} has changed meanwhile")]
    Outdated(String),
    /// There is no such object, or no such kind.
    #[error("{0} is not there")]
    Gone(String),
    /// The API server refused: nothing was written.
    #[error("failed to {verb} {object}: {message}")]
    Refused {
        /// What was tried.
        verb: &'static str,
        /// On what.
        object: String,
        /// What the server said, one line.
        message: String,
    },
    /// It is not known what came of it.
    #[error("failed to {verb} {object}: {message}")]
    Unclear {
        /// What was tried.
        verb: &'static str,
        /// On what.
        object: String,
        /// What happened, one line.
        message: String,
    },
}

/// An object as the server answered it, cut down for the store.
pub(super) struct Answer<T> {
    pub(super) version: String,
    pub(super) body: T,
}

/// How we write.
pub(super) fn by_us() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.into()),
        ..PatchParams::default()
    }
}

/// Makes a call.
pub(super) async fn call<T>(
    verb: &'static str,
    object: &str,
    future: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Error> {
    match tokio::time::timeout(CALL_TIMEOUT, future).await {
        Ok(result) => result.map_err(|error| judge(verb, object, error)),
        Err(_) => Err(Error::Unclear {
            verb,
            object: object.to_owned(),
            message: format!("no answer within {} s", CALL_TIMEOUT.as_secs()),
        }),
    }
}

/// Cuts an answer down.
pub(super) fn answer<T: serde::de::DeserializeOwned>(
    object: DynamicObject,
) -> Result<Answer<T>, Error> {
    let version = object.metadata.resource_version.clone().unwrap_or_default();
    let name = object.metadata.name.clone().unwrap_or_default();
    let body = serde_json::to_value(object).and_then(serde_json::from_value);
    let body = body.map_err(|error| judge("decode", &name, kube::Error::SerdeError(error)))?;
    Ok(Answer { version, body })
}

fn judge(verb: &'static str, object: &str, error: kube::Error) -> Error {
    let object = object.to_owned();
    let status = match error {
        kube::Error::Api(status) => status,
        other => {
            let message = one_line(&other.to_string());
            return Error::Unclear {
                verb,
                object,
                message,
            };
        }
    };
    let guarded = status.is_invalid() && status.message.contains("the server rejected our request");
    let message = one_line(&said(&status));
    match status.code {
        404 => Error::Gone(object),
        409 => Error::Outdated(object),
        422 if guarded => Error::Outdated(object),
        500.. => Error::Unclear {
            verb,
            object,
            message,
        },
        _ => Error::Refused {
            verb,
            object,
            message,
        },
    }
}

/// What the server said, with its causes: those of a refused eviction name the disruption budget.
fn said(status: &kube::core::Status) -> String {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let said =
        std::iter::once(status.message.as_str()).chain(causes.map(|cause| cause.message.as_str()));
    let said: Vec<&str> = said.filter(|text| !text.is_empty()).collect();
    said.join(" ")
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
