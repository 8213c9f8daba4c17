//! A mirror as the rest of the process sees it: a task to run, and how it fares.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::health::Health;
use super::reflect::{Reflector, Sink};
use super::source::Source;

/// A long task that keeps one store like the cluster.
pub struct Mirror {
    what: &'static str,
    health: Arc<Health>,
    run: BoxFuture<'static, Infallible>,
}

impl Mirror {
    /// The task's name.
    #[must_use]
    pub fn name(&self) -> String {
        format!("watch of {}", self.what)
    }

    /// Returns once the first list has ended; a kind that the server does not know is an empty list.
    pub fn filled(&self) -> impl Future<Output = ()> + Send + use<> {
        let health = Arc::clone(&self.health);
        async move { health.wait_filled().await }
    }

    /// Runs until `shutdown`.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Infallible> {
        tokio::select! {
            () = shutdown.cancelled() => Ok(()),
            never = self.run => match never {},
        }
    }
}

/// How one store fares.
#[derive(Debug, Clone)]
pub struct Status {
    /// The plural of the kind, or the object's name.
    pub what: &'static str,
    /// The first list has ended.
    pub filled: bool,
    /// Filled, and the API server has given a sign of life lately.
    pub fresh: bool,
    /// Since the last sign of life. None before the first.
    pub silence: Option<Duration>,
    /// How many objects it holds.
    pub objects: usize,
    /// How many versions of objects were set aside, wholly or in part, since the start.
    pub malformed: u64,
}

/// Why a store cannot be judged by, fit for `/readyz`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotReady {
    /// Its first list has not ended.
    NotListed(&'static str),
    /// The API server has been silent for this long.
    Stale(&'static str, Duration),
}

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotListed(what) => write!(f, "{what}: not listed yet"),
            Self::Stale(what, silence) => {
                let seconds = silence.as_secs();
                write!(
                    f,
                    "{what}: nothing heard from the API server for {seconds}s"
                )
            }
        }
    }
}

impl std::error::Error for NotReady {}

/// Keeps an eye on one store.
pub(super) struct Watched {
    what: &'static str,
    health: Arc<Health>,
    malformed: Arc<AtomicU64>,
    store: Arc<dyn Size>,
}

/// Of a store of any kind.
trait Size: Send + Sync {
    fn objects(&self) -> usize;
}

impl<S: Sink> Size for S {
    fn objects(&self) -> usize {
        self.len()
    }
}

/// Prepares the mirror of `source` in `sink`.
pub(super) fn mirror<S: Sink>(
    client: &kube::Client,
    source: Source,
    sink: &Arc<S>,
) -> (Watched, Mirror) {
    let what = source.what;
    let (health, malformed) = (Arc::new(Health::new()), Arc::default());
    let watched = Watched {
        what,
        health: Arc::clone(&health),
        malformed: Arc::clone(&malformed),
        store: Arc::<S>::clone(sink),
    };
    let reflector = Reflector::new(client.clone(), source, Arc::clone(sink), health, malformed);
    let mirror = Mirror {
        what,
        health: Arc::clone(&watched.health),
        run: reflector.run().boxed(),
    };
    (watched, mirror)
}

impl Watched {
    pub(super) fn health(&self) -> &Health {
        &self.health
    }

    pub(super) fn status(&self, now: Instant) -> Status {
        Status {
            what: self.what,
            filled: self.health.filled(),
            fresh: self.health.fresh(now),
            silence: self.health.silence(now),
            objects: self.store.objects(),
            malformed: self.malformed.load(Ordering::Relaxed),
        }
    }

    /// Whether the first list has ended.
    pub(super) fn filled(&self) -> Result<(), NotReady> {
        let filled = self.health.filled();
        filled.then_some(()).ok_or(NotReady::NotListed(self.what))
    }

    /// Whether it can be judged by.
    pub(super) fn ready(&self, now: Instant) -> Result<(), NotReady> {
        self.filled()?;
        if self.health.fresh(now) {
            return Ok(());
        }
        let silence = self.health.silence(now).unwrap_or_default();
        Err(NotReady::Stale(self.what, silence))
    }
}
