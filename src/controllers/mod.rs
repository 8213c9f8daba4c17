//! The controllers beside the reconciler of the config, all of one form.
//!
//! ```text
//! watches -> stores -> keys -> Queue -> reconcile(key): view of the stores -> pure plan -> apply, delete, status
//! ```
//!
//! A controller names what its watches feed ([`Controller::Key`]) and what is done about one key. [`run`] owns the rest:
//! it runs only while this replica leads, starts every leadership with fresh stores and no memory, waits until all of
//! them are filled, handles one key at a time and different ones side by side, and spaces out failures. A reconcile can
//! be cut short at any point: the next leader starts from what is in the cluster. So what costs something, such as
//! whether an object is as wanted, is answered by the stores, and a pass with nothing to do makes no call.

mod calls;
pub mod drain;
mod drift;
pub mod networks;
pub mod nodes;
mod openshift;
pub mod pools;
mod queue;

use std::{
    fmt::Debug,
    hash::Hash,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{
    StreamExt,
    future::{self, Either},
    stream::FuturesUnordered,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

pub use calls::Error;
pub use queue::Queue;

use crate::{operator::lease::Leadership, server::metrics::Metrics, stores::Mirror};

/// What a reconcile of one key ended in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing until a watch tells of something.
    Done,
    /// As wanted so far; again after that time even if no watch tells of anything.
    Again(Duration),
    /// Something failed that may work later: again after a pause that grows with each failure in a row.
    Retry,
}

/// One controller, for one leadership.
pub trait Controller: Send + Sync + 'static {
    /// What a pass is made about: one object, one node.
    type Key: Clone + Debug + Eq + Hash + Ord + Send + Sync + 'static;

    /// The name in logs and in the label `controller` of metrics.
    const NAME: &'static str;

    /// How many keys are worked on side by side.
    const WORKERS: usize;

    /// Brings what belongs to `key` to what it should be. Never called twice at a time for one key, and not before all
    /// stores are filled.
    ///
    /// # Errors
    /// A call that failed: the pass is made again.
    fn reconcile(&self, key: &Self::Key) -> impl Future<Output = Result<Outcome, Error>> + Send;
}

/// Runs a controller while this replica leads, until `shutdown`.
///
/// `start` is called at the beginning of each leadership: it makes the controller with its stores, whose changes add
/// keys to the queue, and returns the tasks that keep these stores.
pub async fn run<C: Controller>(
    start: impl Fn(&Queue<C::Key>) -> (C, Vec<Mirror>),
    mut leadership: watch::Receiver<Leadership>,
    metrics: Arc<Metrics>,
    shutdown: CancellationToken,
) {
    loop {
        let leading = leadership.wait_for(|leadership| *leadership == Leadership::Leading);
        match future::select(Box::pin(shutdown.cancelled()), Box::pin(leading)).await {
            Either::Right((Ok(_), _)) => {}
            Either::Left(_) | Either::Right((Err(_), _)) => return,
        }
        let queue = Queue::default();
        let (controller, mirrors) = start(&queue);
        let mut lost = leadership.clone();
        let lost = lost.wait_for(|leadership| *leadership != Leadership::Leading);
        tokio::select! {
            () = lead(&controller, mirrors, &queue, &metrics) => return,
            () = shutdown.cancelled() => return,
            _ = lost => info!(controller = C::NAME, "this replica leads no longer"),
        }
    }
}

/// Keeps the stores and works on the queue for as long as it is polled.
async fn lead<C: Controller>(
    controller: &C,
    mirrors: Vec<Mirror>,
    queue: &Queue<C::Key>,
    metrics: &Metrics,
) {
    let filled = future::join_all(mirrors.iter().map(Mirror::filled).collect::<Vec<_>>());
    let never = CancellationToken::new();
    let mirrors = future::join_all(mirrors.into_iter().map(|mirror| mirror.run(never.clone())));
    let work = async {
        filled.await;
        info!(controller = C::NAME, "this replica leads: reconciling");
        let mut running = FuturesUnordered::new();
        loop {
            tokio::select! {
                key = queue.next(), if running.len() < C::WORKERS => {
                    running.push(one(controller, key, queue, metrics));
                }
                Some(()) = running.next() => {}
            }
        }
    };
    // The stores are kept while a reconcile waits for an answer, so that it sees what its own writes brought.
    tokio::select! {
        _ = mirrors => {}
        () = work => {}
    }
}

async fn one<C: Controller>(controller: &C, key: C::Key, queue: &Queue<C::Key>, metrics: &Metrics) {
    let started = Instant::now();
    let outcome = match controller.reconcile(&key).await {
        Ok(outcome) => outcome,
        Err(error) if error.is_outdated() => {
            debug!(controller = C::NAME, ?key, %error, "to be looked at again");
            Outcome::Retry
        }
        Err(error) => {
            warn!(controller = C::NAME, ?key, %error, "failed to reconcile");
            Outcome::Retry
        }
    };
    let result = match outcome {
        Outcome::Done => "success",
        Outcome::Again(_) => "requeue_after",
        Outcome::Retry => "error",
    };
    let took = started.elapsed();
    metrics.operator.reconciled(C::NAME, result, took);
    debug!(controller = C::NAME, ?key, result, ?took, "reconciled");
    queue.done(key, outcome);
}
