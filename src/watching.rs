//! How watches are kept up: the pauses after an interruption, and what is done about a kind that the server does not know.
//!
//! After an outage everybody is back within seconds, and nobody hammers meanwhile. A kind that is missing costs nothing:
//! its definition is watched by name until it comes. What the objects mean is no business of this module.

use std::{fmt::Debug, pin::pin, time::Duration};

use futures::{Stream, StreamExt, TryStreamExt, future, stream::BoxStream};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, Resource,
    api::PartialObjectMeta,
    core::Status,
    runtime::{
        WatchStreamExt,
        utils::Backoff,
        watcher::{self, DefaultBackoff, Event, watcher},
    },
};
use serde::de::DeserializeOwned;
use tokio::time::sleep;
use tracing::debug;

/// How long the server keeps one watch open, in seconds. Short, since it bounds how long a connection that has silently
/// died goes unnoticed.
pub const WATCH_SECONDS: u32 = 60;
/// The longest pause between two attempts, before jitter.
const LONGEST_PAUSE: Duration = Duration::from_secs(4);
/// How soon a kind is asked for again whose definition has changed: it is served a moment after it is established.
const LEARNING_PAUSE: Duration = Duration::from_millis(500);
/// How often in a row that is done.
const LEARNING_TRIES: u32 = 20;
/// How often a kind is asked for again whose definition says nothing: it may come from another API server.
const UNKNOWN_KIND_PAUSE: Duration = Duration::from_secs(300);
/// The same while its definition may not be read: for want of a right, or because the server is not yet up.
const REFUSED_PAUSE: Duration = Duration::from_secs(60);

/// The pauses between attempts: from under a second to a few, so that the end of an outage of minutes is noticed soon.
#[derive(Default)]
pub struct Pauses(DefaultBackoff);

impl Pauses {
    /// The next one.
    pub fn pause(&mut self) -> Duration {
        self.0.next().map_or(LONGEST_PAUSE, capped)
    }
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(self.pause())
    }
}

impl Backoff for Pauses {
    fn reset(&mut self) {
        self.0.reset();
    }
}

/// Caps a pause so that what is above the cap still differs between watches, and between replicas.
fn capped(pause: Duration) -> Duration {
    match pause.checked_sub(LONGEST_PAUSE) {
        Some(above) => LONGEST_PAUSE + above / 16,
        None => pause,
    }
}

/// Watches what is selected until dropped. An error is followed by a pause and another attempt.
pub fn watch<K>(
    api: Api<K>,
    selected: watcher::Config,
) -> impl Stream<Item = watcher::Result<Event<K>>> + Send + use<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    watcher(api, selected.timeout(WATCH_SECONDS)).backoff(Pauses::default())
}

/// The object of that name each time it changes, `None` when it is not there; until dropped, as [`watch`].
pub fn watch_object<K>(
    api: Api<K>,
    name: &str,
) -> impl Stream<Item = watcher::Result<Option<K>>> + Send + use<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let selected = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut listed = false;
    watch(api, selected).try_filter_map(move |event| {
        let shown = match event {
            Event::Init => {
                listed = false;
                None
            }
            Event::InitApply(object) => {
                listed = true;
                Some(Some(object))
            }
            Event::InitDone if listed => None,
            Event::InitDone | Event::Delete(_) => Some(None),
            Event::Apply(object) => Some(Some(object)),
        };
        future::ready(Ok(shown))
    })
}

/// What the server answered instead of a list or a watch.
pub fn refusal(error: &watcher::Error) -> Option<&Status> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => Some(status),
        _ => None,
    }
}

/// Whether the server does not know the kind that was asked for. A missing object, or Namespace, is a `Status` with
/// reason `NotFound`; a missing kind is a 404 in plain text.
pub fn is_unknown_kind(status: &Status) -> bool {
    status.code == 404 && status.reason != "NotFound"
}

/// A custom resource's kind, which the server may not know.
pub struct CustomKind {
    client: Client,
    /// The name of its definition.
    definition: String,
    news: Option<BoxStream<'static, ()>>,
    tries: u32,
}

impl CustomKind {
    /// The kind of that group and plural. Nothing is asked before [`CustomKind::learned`].
    pub fn new(client: Client, group: &str, plural: &str) -> Self {
        Self {
            client,
            definition: format!("{plural}.{group}"),
            news: None,
            tries: 0,
        }
    }

    /// Waits until it is worth asking for the kind again: its definition was made or changed, or minutes have passed.
    pub async fn learned(&mut self) {
        if self.tries > 0 {
            self.tries -= 1;
            return sleep(LEARNING_PAUSE).await;
        }
        let news = self
            .news
            .get_or_insert_with(|| changes(self.client.clone(), &self.definition));
        let shown = tokio::select! {
            shown = news.next() => Some(shown),
            () = sleep(UNKNOWN_KIND_PAUSE) => None,
        };
        match shown {
            Some(Some(())) => self.tries = LEARNING_TRIES,
            // It may not be read here.
            Some(None) => {
                self.news = None;
                sleep(REFUSED_PAUSE).await;
            }
            None => {}
        }
    }

    /// The server knows it: nothing is watched any longer.
    pub fn is_known(&mut self) {
        self.news = None;
        self.tries = 0;
    }
}

/// Each time the definition is there and new, or changes. Ends when it may not be read.
fn changes(client: Client, definition: &str) -> BoxStream<'static, ()> {
    let api: Api<PartialObjectMeta<CustomResourceDefinition>> = Api::all(client);
    let name = definition.to_owned();
    watch_object(api, definition)
        .take_while(move |shown| {
            let refused = shown
                .as_ref()
                .err()
                .and_then(refusal)
                .is_some_and(Status::is_forbidden);
            if refused {
                debug!(definition = name, "its definition may not be read");
            }
            future::ready(!refused)
        })
        .filter_map(|shown| future::ready(shown.ok().flatten().map(drop)))
        .boxed()
}

/// A stream's events until the kind turns out to be unknown to the server; errors of other sorts go to `take` as well.
pub async fn each_while_known<T>(
    events: impl Stream<Item = watcher::Result<T>>,
    mut take: impl FnMut(watcher::Result<T>),
) {
    let mut events = pin!(events);
    while let Some(event) = events.next().await {
        if event
            .as_ref()
            .err()
            .and_then(refusal)
            .is_some_and(is_unknown_kind)
        {
            return;
        }
        take(event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_any_outage_the_next_attempt_is_seconds_away() {
        for _ in 0..20 {
            let mut pauses = Pauses::default();
            let first = pauses.next().unwrap();
            assert!(first < Duration::from_secs(2), "{first:?}");
            let longest = pauses.take(20).max().unwrap();
            assert!(longest < Duration::from_secs(8), "{longest:?}");
            assert!(longest > Duration::from_secs(3), "{longest:?}");
        }
    }

    #[test]
    fn pauses_above_the_cap_still_differ() {
        assert_eq!(capped(Duration::from_secs(3)), Duration::from_secs(3));
        assert!(capped(Duration::from_secs(30)) < capped(Duration::from_secs(60)));
    }

    #[test]
    fn a_missing_kind_is_told_from_a_missing_object() {
        let status = |code, reason: &str| Status {
            code,
            reason: reason.into(),
            ..Status::default()
        };
        assert!(is_unknown_kind(&status(404, "Failed to parse error data")));
        assert!(!is_unknown_kind(&status(404, "NotFound")));
        assert!(!is_unknown_kind(&status(403, "Forbidden")));
    }
}
