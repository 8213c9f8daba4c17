//! Who writes: leader election over one Lease.
//!
//! Owns the calls, their time limits and the watch; [`campaign`] decides. Leadership is given up at the renew deadline
//! whether or not the API server answers, a release by another is taken at once, and ours is released on exit.
//! Knows nothing of what a leader does: it publishes [`Leadership`], and the operator follows.

use std::future::Future;

use futures::{Stream, StreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, ObjectMeta, PostParams};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

mod campaign;

use crate::lines::causes;
use crate::settings::LeaderElection;
use crate::watching::watch_object;
use campaign::{Campaign, Step};

/// The Lease's name, in our namespace.
pub const LEASE_NAME: &str = "sriov-operator";

/// Whether this replica writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leadership {
    /// Another does, or nobody does yet.
    Following,
    /// This one does.
    Leading,
}

/// Takes part in the election for as long as it runs.
pub struct Elector {
    contest: Option<Contest>,
    leadership: watch::Sender<Leadership>,
}

impl Elector {
    /// Takes part as `identity`, which must be unique among the replicas (the pod's name and something random).
    #[must_use]
    pub fn new(
        client: kube::Client,
        namespace: &str,
        identity: String,
        durations: LeaderElection,
    ) -> Self {
        Self {
            contest: Some(Contest {
                api: Api::namespaced(client, namespace),
                campaign: Campaign::new(identity, durations),
                trouble: false,
            }),
            leadership: watch::Sender::new(Leadership::Following),
        }
    }

    /// Leads without asking anybody: `--leader-elect=false`.
    #[must_use]
    pub fn uncontested() -> Self {
        Self {
            contest: None,
            leadership: watch::Sender::new(Leadership::Following),
        }
    }

    /// Follows who leads. Starts as [`Leadership::Following`].
    #[must_use]
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.subscribe()
    }

    /// Runs until `shutdown`, then releases the Lease if it is ours. Failures of the API server end neither.
    pub async fn run(self, shutdown: CancellationToken) {
        match self.contest {
            None => {
                self.leadership.send_replace(Leadership::Leading);
                shutdown.cancelled().await;
                self.leadership.send_replace(Leadership::Following);
            }
            Some(contest) => contest.run(&self.leadership, shutdown).await,
        }
    }
}

struct Contest {
    api: Api<Lease>,
    campaign: Campaign,
    /// The last attempt failed. Only the first failure in a row is a warning.
    trouble: bool,
}

impl Contest {
    async fn run(mut self, leadership: &watch::Sender<Leadership>, shutdown: CancellationToken) {
        let mut events = std::pin::pin!(events(self.api.clone()));
        loop {
            match self.campaign.next(Instant::now().into_std()) {
                Step::Wait(until) => tokio::select! {
                    () = shutdown.cancelled() => break,
                    Some(seen) = events.next() => self.observe(seen),
                    () = sleep_until(Instant::from_std(until)) => {}
                },
                // No event interrupts a call: the one that a write causes may come before its answer.
                step => tokio::select! {
                    () = shutdown.cancelled() => break,
                    () = self.take(step) => {}
                },
            }
            self.publish(leadership);
        }
        leadership.send_replace(Leadership::Following);
        if self.campaign.leading() {
            self.release().await;
        }
    }

    /// Makes one step.
    async fn take(&mut self, step: Step) {
        match step {
            Step::Wait(_) => {}
            Step::Resign => {
                warn!(holder = self.campaign.holder(), "leadership lost");
                self.campaign.step_down();
            }
            Step::Read => {
                let asked = Instant::now();
                if let Err(error) = self.read().await {
                    self.failed(asked, &error);
                }
            }
            Step::Create | Step::Take | Step::Renew => self.write(step).await,
        }
    }

    async fn write(&mut self, step: Step) {
        let asked = Instant::now();
        match self.claim(step).await {
            Ok(lease) => {
                if !self.campaign.leading() {
                    info!("this replica leads");
                }
                self.trouble = false;
                self.campaign.won(lease, asked.into_std());
            }
            // Somebody else has written: who holds it now is to be seen first. (A Lease that is not found when it
            // is created means that the namespace is not there: a failure like others.)
            Err(Error::Call(kube::Error::Api(status)))
                if status.is_conflict()
                    || status.is_already_exists()
                    || (status.is_not_found() && step != Step::Create) =>
            {
                debug!(%status, "the Lease has changed meanwhile");
                match self.read().await {
                    // Written by somebody else, yet still ours: again at once, for the deadline does not wait.
                    Ok(()) if self.campaign.leading() => {}
                    Ok(()) => self.campaign.failed(asked.into_std()),
                    Err(error) => self.failed(asked, &error),
                }
            }
            Err(error) => self.failed(asked, &error),
        }
    }

    async fn claim(&self, step: Step) -> Result<Lease, Error> {
        let wall = Timestamp::now();
        let mut lease = match (step, self.campaign.lease()) {
            (Step::Take | Step::Renew, Some(lease)) => lease.clone(),
            _ => Lease {
                metadata: ObjectMeta {
                    name: Some(LEASE_NAME.to_owned()),
                    ..ObjectMeta::default()
                },
                spec: None,
            },
        };
        lease.spec = Some(self.campaign.claim(wall));
        let fresh = lease.metadata.resource_version.is_none();
        let params = PostParams::default();
        if fresh {
            self.bounded(self.api.create(&params, &lease)).await
        } else {
            self.bounded(self.api.replace(LEASE_NAME, &params, &lease))
                .await
        }
    }

    async fn read(&mut self) -> Result<(), Error> {
        let lease = self.bounded(self.api.get_opt(LEASE_NAME)).await?;
        self.observe(lease);
        Ok(())
    }

    fn observe(&mut self, lease: Option<Lease>) {
        let before = self.campaign.holder().map(str::to_owned);
        self.campaign.observe(lease, Instant::now().into_std());
        let holder = self.campaign.holder();
        if holder != before.as_deref() && !self.campaign.leading() {
            info!(holder = holder.unwrap_or("nobody"), "holder of the Lease");
        }
    }

    /// One call, with its time limit: that of a call, and while we lead no longer than to the renew deadline.
    async fn bounded<T>(
        &self,
        call: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, Error> {
        let limit = Instant::now() + self.campaign.call_limit();
        let limit = match self.campaign.deadline() {
            Some(deadline) => limit.min(Instant::from_std(deadline)),
            None => limit,
        };
        Ok(timeout_at(limit, call)
            .await
            .map_err(|_| Error::Unanswered)??)
    }

    fn failed(&mut self, asked: Instant, error: &Error) {
        if self.trouble {
            debug!(error = %causes(error), "the Lease is still out of reach");
        } else {
            warn!(error = %causes(error), leading = self.campaign.leading(), "failed to read or write the Lease");
        }
        self.trouble = true;
        self.campaign.failed(asked.into_std());
    }

    fn publish(&self, leadership: &watch::Sender<Leadership>) {
        let now = if self.campaign.leading() {
            Leadership::Leading
        } else {
            Leadership::Following
        };
        leadership.send_if_modified(|was| std::mem::replace(was, now) != now);
    }

    /// Empties the Lease, so that another need not wait for its expiry. Best effort, bounded.
    async fn release(&mut self) {
        let limit = Instant::now() + self.campaign.retry_period();
        match timeout_at(limit, self.give_up()).await {
            Ok(Ok(())) => info!("Lease released"),
            Ok(Err(error)) => {
                warn!(error = %causes(&error), "failed to release the Lease, it will expire");
            }
            Err(_) => warn!("failed to release the Lease in time, it will expire"),
        }
    }

    async fn give_up(&mut self) -> Result<(), Error> {
        loop {
            let Some(spec) = self.campaign.release(Timestamp::now()) else {
                return Ok(());
            };
            let Some(mut lease) = self.campaign.lease().cloned() else {
                return Ok(());
            };
            lease.spec = Some(spec);
            let params = PostParams::default();
            match self.api.replace(LEASE_NAME, &params, &lease).await {
                // A renewal that was in flight has come through: the version is another.
                Err(kube::Error::Api(status)) if status.is_conflict() => {
                    let seen = self.api.get_opt(LEASE_NAME).await?;
                    self.campaign.observe(seen, Instant::now().into_std());
                }
                other => return other.map(drop).map_err(Error::from),
            }
        }
    }
}

/// The Lease whenever it changes, None when it is gone. Troubles of the watch are silent: without it a release is
/// noticed at expiry.
fn events(api: Api<Lease>) -> impl Stream<Item = Option<Lease>> + Send {
    watch_object(api, LEASE_NAME).filter_map(|event| async {
        event
            .inspect_err(
                |error| debug!(error = %causes(error), "the watch of the Lease is interrupted"),
            )
            .ok()
    })
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Call(#[from] kube::Error),
    #[error("the API server did not answer in time")]
    Unanswered,
}

#[cfg(test)]
mod tests;
