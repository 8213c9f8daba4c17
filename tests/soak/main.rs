//! `make soak`: two replicas under everything at once, for a bounded time (`SOAK_SECONDS`, 600). Certificates rotate,
//! pods and policies are asked about at a steady rate, the configuration is toggled, networks, node states, policies and
//! `ConfigMaps` change, the API server is restarted twice, a replica is killed every half minute.
//!
//! ```text
//! plan    -> when what is killed
//! stage   -> cluster, replicas, forwarder; toggles of the configuration
//! churn   -> what else changes  --> history  what was true when
//! calls   -> questions at a steady rate      |
//!            answers --> model, in each state that may have been in force --> tally
//! vitals  -> memory, files, tasks, connections
//! writes  -> the audit log: no write without a cause
//! report  -> text, JSON (SOAK_JSON=file), and whether anything is wrong
//! ```
//!
//! `SOAK_SEED` is where chance starts from (1).

#[allow(
    dead_code,
    reason = "the soak uses what it needs of the tests' harness"
)]
#[path = "../support/mod.rs"]
mod support;

mod calls;
mod chance;
mod churn;
mod history;
mod model;
mod plan;
mod report;
mod run;
mod stage;
mod tally;
mod vitals;
mod writes;

use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};

/// Replicas end with the thread that started them, which is this one.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> ExitCode {
    let outcome = async {
        let seconds = number("SOAK_SECONDS", 600)?;
        let seed = number("SOAK_SEED", 1)?;
        tokio::select! {
            passed = run::run(seconds, seed) => passed,
            _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
        }
    };
    match outcome.await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("soak: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn number(variable: &str, default: u64) -> Result<u64> {
    match std::env::var(variable) {
        Ok(text) if !text.is_empty() => text
            .parse()
            .with_context(|| format!("{variable}: invalid value {text:?}: it must be a number")),
        _ => Ok(default),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
