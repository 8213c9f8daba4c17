//! What the calls of controllers have in common: a time limit, what came of one, and the answer cut down for a store.

use std::{future::Future, time::Duration};

use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, Preconditions},
    discovery::Scope,
};
use tower::{limit::ConcurrencyLimit, service_fn};

use crate::lines::{causes, one_line};

/// How long one call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(20);

/// What keeps an API server busy that needs milliseconds for a write.
const AT_A_TIME: usize = 16;

/// The same client for a controller that may have hundreds of calls to make at a time. Each call under way takes a connection
/// of its own, here and at the API server, so that only some are. Watches are no matter of it: they must not wait for calls.
pub(super) fn bounded(client: &Client) -> Client {
    let inner = client.clone();
    let service = service_fn(move |request| {
        let client = inner.clone();
        async move { client.send(request).await }
    });
    let bounded = ConcurrencyLimit::new(service, AT_A_TIME);
    Client::new(bounded, client.default_namespace())
}

/// Why a call did not do what it was to do.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// What was read is not what is there, or what is needed for it goes: the watch will show it.
    #[error("{0} has changed meanwhile")]
    Outdated(String),
    /// There is no such object.
    #[error("{0} is not there")]
    Gone(String),
    /// There is no such kind, so nothing is known of the object.
    #[error("the API server does not know the kind of {0}")]
    NoKind(String),
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

impl Error {
    /// Whether the world is another than was seen: the watch will show it, and another pass finds its way.
    pub(super) fn is_outdated(&self) -> bool {
        matches!(self, Self::Outdated(_) | Self::Gone(_))
    }
}

/// What is gone already is as wanted.
pub(super) fn unless_gone<T>(result: Result<T, Error>) -> Result<(), Error> {
    match result {
        Ok(_) | Err(Error::Gone(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// An object as the server answered it, cut down for the store.
pub(super) struct Answer<T> {
    pub(super) version: String,
    pub(super) body: T,
}

/// Only the very object that was seen is deleted.
pub(super) fn that_very(uid: &str) -> DeleteParams {
    DeleteParams::default().preconditions(Preconditions {
        uid: Some(uid.to_owned()),
        resource_version: None,
    })
}

/// The cluster-scoped objects of a kind of others.
pub(super) fn cluster_scoped(
    client: &Client,
    group: &str,
    kind: &str,
    plural: &str,
) -> Api<DynamicObject> {
    Api::dynamic(
        client.clone(),
        &resource(group, kind, plural),
        &Scope::Cluster,
    )
}

/// The objects of a kind of others in one namespace.
pub(super) fn namespaced(
    client: &Client,
    group: &str,
    kind: &str,
    plural: &str,
    namespace: &str,
) -> Api<DynamicObject> {
    let resource = resource(group, kind, plural);
    Api::dynamic(client.clone(), &resource, &Scope::Namespaced).constrain(namespace)
}

/// Version 1 of a kind; the group of the core is empty.
fn resource(group: &str, kind: &str, plural: &str) -> ApiResource {
    let api_version = if group.is_empty() {
        "v1".to_owned()
    } else {
        format!("{group}/v1")
    };
    ApiResource {
        group: group.into(),
        version: "v1".into(),
        api_version,
        kind: kind.into(),
        plural: plural.into(),
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
    let body = body.map_err(|error| undecodable(&name, error))?;
    Ok(Answer { version, body })
}

/// What was read or is to be written is no such object.
pub(super) fn undecodable(object: &str, error: serde_json::Error) -> Error {
    judge("decode", object, kube::Error::SerdeError(error))
}

fn judge(verb: &'static str, object: &str, error: kube::Error) -> Error {
    let object = object.to_owned();
    let status = match error {
        kube::Error::Api(status) => status,
        other => {
            let message = causes(&other);
            return Error::Unclear {
                verb,
                object,
                message,
            };
        }
    };
    // A test of a patch that does not hold, and a namespace that is on its way out.
    let guarded = status.is_invalid() && status.message.contains("the server rejected our request");
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let ends = causes
        .into_iter()
        .any(|cause| cause.reason == "NamespaceTerminating");
    let message = one_line(&said(&status));
    match status.code {
        // A missing object is a `Status` with that reason; a missing kind is a 404 in plain text.
        404 if status.reason == "NotFound" => Error::Gone(object),
        404 => Error::NoKind(object),
        409 => Error::Outdated(object),
        _ if guarded || ends => Error::Outdated(object),
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

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
    };

    use futures::future::join_all;
    use http::{Request, Response};
    use kube::client::Body;
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_some_calls_are_under_way_at_a_time_and_all_are_made() {
        let (now, most, all) = <(Arc<AtomicUsize>, Arc<AtomicUsize>, Arc<AtomicUsize>)>::default();
        let api = service_fn({
            let (now, most, all) = (Arc::clone(&now), Arc::clone(&most), Arc::clone(&all));
            move |_: Request<Body>| {
                let (now, most, all) = (Arc::clone(&now), Arc::clone(&most), Arc::clone(&all));
                async move {
                    most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                    sleep(Duration::from_millis(10)).await;
                    now.fetch_sub(1, Ordering::Relaxed);
                    all.fetch_add(1, Ordering::Relaxed);
                    Ok::<_, Infallible>(Response::new(Body::empty()))
                }
            }
        });
        let client = bounded(&Client::new(api, "ns"));
        let ask = || client.send(Request::new(Body::empty()));
        for answer in join_all((0..100).map(|_| ask())).await {
            answer.unwrap();
        }
        assert_eq!(all.load(Ordering::Relaxed), 100);
        assert_eq!(most.load(Ordering::Relaxed), AT_A_TIME);
    }
}
