//! The long tasks of the process, and the order in which they stop.
//!
//! Owns every long task: the first that ends although nobody asked it to ends the process, loudly, so that no part
//! of it dies unseen. Owns the stop as well: not ready; another replica may write at once; a delay in which the API server
//! learns that this one leaves; then stage after stage. Knows nothing of what the tasks do.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

/// The error of a task.
pub type TaskError = Box<dyn std::error::Error + Send + Sync>;

/// When a task is told to stop. A stage is told once the tasks of the one before it have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Writes to the cluster while the Lease is held: the operator. Stops at once.
    Writing,
    /// Holds the Lease. Stops as soon as nothing writes, so that another replica need not wait for the rest.
    Electing,
    /// Answers calls: the listeners for admission. Stops after the delay.
    Serving,
    /// Everything that the others lean on: stores, probes, metrics.
    Supporting,
}

impl Stage {
    const ORDER: [Self; 4] = [
        Self::Writing,
        Self::Electing,
        Self::Serving,
        Self::Supporting,
    ];
}

/// How long a stop may take.
#[derive(Debug, Clone, Copy)]
pub struct Stop {
    /// From "not ready" to the end of serving, so that endpoints are withdrawn before the listener closes.
    pub delay: Duration,
    /// What the tasks of one stage get to end by themselves.
    pub drain: Duration,
}

/// What a stop gives each stage when a task has failed: enough to release the Lease, and no delay.
const STOP_AFTER_FAILURE: Stop = Stop {
    delay: Duration::ZERO,
    drain: Duration::from_secs(2),
};

/// Why the process ends with an error.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A task returned an error.
    #[error("{task} failed: {source}")]
    Failed {
        /// The task's name.
        task: String,
        /// What it returned.
        source: TaskError,
    },
    /// A task panicked.
    #[error("{task} panicked: {message}")]
    Panicked {
        /// The task's name.
        task: String,
        /// What it said.
        message: String,
    },
    /// A task returned while the process was to go on.
    #[error("{task} ended although nothing asked it to")]
    Ended {
        /// The task's name.
        task: String,
    },
    /// Some tasks did not end in the time that they had.
    #[error("{tasks} did not stop within {within:?}")]
    Stuck {
        /// Their names, comma separated.
        tasks: String,
        /// What they had.
        within: Duration,
    },
    /// A second signal arrived during the stop.
    #[error("stopped at once by a second signal")]
    Forced,
}

/// Owns the long tasks.
#[derive(Debug)]
pub struct Supervisor {
    tasks: JoinSet<Result<(), TaskError>>,
    names: HashMap<Id, (String, Stage)>,
    leaving: CancellationToken,
    stages: [CancellationToken; 4],
}

impl Default for Supervisor {
    fn default() -> Self {
        Self::new()
    }
}

impl Supervisor {
    /// A supervisor without tasks.
    #[must_use]
    pub fn new() -> Self {
        Self {
            tasks: JoinSet::new(),
            names: HashMap::new(),
            leaving: CancellationToken::new(),
            stages: std::array::from_fn(|_| CancellationToken::new()),
        }
    }

    /// Cancelled as soon as the process is to stop: from then on it is not ready, while it still serves.
    #[must_use]
    pub fn leaving(&self) -> CancellationToken {
        self.leaving.clone()
    }

    /// Cancelled when the tasks of `stage` are to end.
    #[must_use]
    pub fn stopping(&self, stage: Stage) -> CancellationToken {
        let [writing, electing, serving, supporting] = &self.stages;
        match stage {
            Stage::Writing => writing,
            Stage::Electing => electing,
            Stage::Serving => serving,
            Stage::Supporting => supporting,
        }
        .clone()
    }

    /// Starts a task that runs until [`Self::stopping`] of its stage is cancelled. To end before is a failure, with or
    /// without an error.
    pub fn spawn<F, E>(&mut self, name: impl Into<String>, stage: Stage, task: F)
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<TaskError>,
    {
        let handle = self
            .tasks
            .spawn(async move { task.await.map_err(Into::into) });
        self.names.insert(handle.id(), (name.into(), stage));
    }

    /// Runs until a signal or a failure, then stops the stages in their order and returns.
    ///
    /// A second signal returns at once with [`Failure::Forced`]; tasks that are still running are aborted.
    pub async fn run(
        mut self,
        mut signals: mpsc::Receiver<StopSignal>,
        stop: Stop,
    ) -> Result<(), Failure> {
        let outcome = tokio::select! {
            signal = next_signal(&mut signals) => {
                info!(%signal, delay = ?stop.delay, "stopping");
                Ok(())
            }
            failure = self.first_end() => Err(failure),
        };
        self.leaving.cancel();
        let patience = match &outcome {
            Ok(()) => stop,
            Err(failure) => {
                error!(%failure, "a task that must run has ended, stopping");
                STOP_AFTER_FAILURE
            }
        };
        let stopped = tokio::select! {
            biased;
            _ = next_signal(&mut signals) => {
                error!("second signal, ending at once");
                Err(Failure::Forced)
            }
            stopped = self.stop(patience) => stopped,
        };
        outcome.and(stopped)
    }

    /// Waits for the first task to end. Never returns while there is none.
    async fn first_end(&mut self) -> Failure {
        match self.tasks.join_next_with_id().await {
            Some(ended) => self.failure(ended),
            None => std::future::pending().await,
        }
    }

    /// What it means that a task has ended unasked.
    fn failure(&mut self, ended: Result<(Id, Result<(), TaskError>), JoinError>) -> Failure {
        match ended {
            Ok((id, Ok(()))) => Failure::Ended {
                task: self.forget(id),
            },
            Ok((id, Err(source))) => Failure::Failed {
                task: self.forget(id),
                source,
            },
            Err(error) => Failure::Panicked {
                task: self.forget(error.id()),
                message: panic_message(error),
            },
        }
    }

    fn forget(&mut self, id: Id) -> String {
        let known = self.names.remove(&id);
        known.map_or_else(|| "a task".to_owned(), |(name, _)| name)
    }

    /// Each stage in its order, serving after the delay. The first failure is returned, after everything has been
    /// stopped.
    async fn stop(&mut self, stop: Stop) -> Result<(), Failure> {
        let serves_until = Instant::now() + stop.delay;
        let mut outcome = Ok(());
        for stage in Stage::ORDER {
            if stage == Stage::Serving {
                let lingered = self.linger(serves_until).await;
                outcome = outcome.and(lingered);
            }
            self.stopping(stage).cancel();
            let ended = self.drain(stage, stop.drain).await;
            outcome = outcome.and(ended);
        }
        outcome
    }

    /// Lets everything go on until then, or until a task fails.
    async fn linger(&mut self, until: Instant) -> Result<(), Failure> {
        tokio::select! {
            () = sleep_until(until) => Ok(()),
            failure = self.first_end() => {
                error!(%failure, "a task has ended before it was to stop");
                Err(failure)
            }
        }
    }

    /// Waits until no task of `stage` runs. Tasks of later stages are still to run: their end is a failure.
    async fn drain(&mut self, stage: Stage, within: Duration) -> Result<(), Failure> {
        let deadline = Instant::now() + within;
        let mut outcome = Ok(());
        while self.names.values().any(|(_, of)| *of <= stage) {
            let Ok(Some(ended)) = timeout_at(deadline, self.tasks.join_next_with_id()).await else {
                return outcome.and(Err(self.stuck(stage, within)));
            };
            let id = match &ended {
                Ok((id, _)) => *id,
                Err(error) => error.id(),
            };
            let Some((_, of)) = self.names.get(&id) else {
                continue; // given up earlier, it has ended after all
            };
            let asked = *of <= stage && matches!(ended, Ok((_, Ok(()))));
            let failure = self.failure(ended);
            if !asked {
                error!(%failure, "a task failed while the process stops");
                outcome = outcome.and(Err(failure));
            }
        }
        outcome
    }

    /// Gives the tasks of `stage` up, so that the stages after it still stop in order.
    fn stuck(&mut self, stage: Stage, within: Duration) -> Failure {
        let mut tasks: Vec<_> = Vec::new();
        self.names.retain(|_, (name, of)| {
            let keep = *of > stage;
            if !keep {
                tasks.push(std::mem::take(name));
            }
            keep
        });
        tasks.sort_unstable();
        let tasks = tasks.join(", ");
        warn!(tasks, ?within, "did not stop in time, going on without");
        Failure::Stuck { tasks, within }
    }
}

async fn next_signal(signals: &mut mpsc::Receiver<StopSignal>) -> StopSignal {
    match signals.recv().await {
        Some(signal) => signal,
        // Nobody is left who could send one.
        None => std::future::pending().await,
    }
}

fn panic_message(error: JoinError) -> String {
    match error.try_into_panic() {
        Ok(payload) => payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "without a message".to_owned()),
        Err(error) => error.to_string(),
    }
}

/// A signal that asks the process to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopSignal {
    /// `SIGTERM`, as the kubelet sends it.
    Terminate,
    /// `SIGINT`, as a terminal sends it.
    Interrupt,
}

impl fmt::Display for StopSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Terminate => "SIGTERM",
            Self::Interrupt => "SIGINT",
        })
    }
}

/// The signals of this process. From here on they no longer end it by themselves.
pub fn stop_signals() -> io::Result<mpsc::Receiver<StopSignal>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (sender, receiver) = mpsc::channel(2);
    tokio::spawn(async move {
        loop {
            let signal = tokio::select! {
                Some(()) = terminate.recv() => StopSignal::Terminate,
                Some(()) = interrupt.recv() => StopSignal::Interrupt,
                else => return,
            };
            if sender.send(signal).await.is_err() {
                return;
            }
        }
    });
    Ok(receiver)
}

#[cfg(test)]
mod tests;
