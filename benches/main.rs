//! `make bench`: how fast, how large, how frugal, each figure beside its floor or its limit, measured in the same run.
//!
//! ```text
//! report  <- figures, as text and as JSON (BENCH_JSON=file), plots into BENCH_PLOTS
//! pure    <- the pure paths: time, and instructions where valgrind is installed
//! product <- the real binary behind a real API server: what /proc and the audit log say of it
//! fleet   <- a large cluster that follows its policies
//! floor   <- the same listener with a handler that reads the body and answers a constant
//! load    <- keep-alive TLS connections that post one body over and over
//! world   <- generated nodes, node states, policies, networks and reviews
//! ```
//!
//! `cargo bench --bench bench -- fleet` runs that part alone. `BENCH_NODES` is the size of the largest cluster (5000). Everything is bounded in count and time.

#[allow(
    dead_code,
    reason = "the bench uses what it needs of the tests' harness"
)]
#[path = "../tests/support/mod.rs"]
mod support;

mod fleet;
mod floor;
mod load;
mod plot;
mod product;
mod pure;
mod report;
mod served;
mod sizes;
mod world;

use std::process::ExitCode;

use anyhow::{Context, Result};

use report::Report;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["floor", directory] => floor::serve(directory.as_ref()).map(|()| true),
        ["pure", name, count] => count
            .parse()
            .context("a count")
            .and_then(|count| pure::run(name, count))
            .map(|()| true),
        ["fleet", ..] => bench(true),
        _ => bench(false),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Measures everything, or only how a large cluster follows its policies. Returns whether every bar is met.
fn bench(only_fleet: bool) -> Result<bool> {
    let mut report = Report::default();
    let nodes = match std::env::var("BENCH_NODES") {
        Ok(text) => text.parse().context("BENCH_NODES is no number")?,
        Err(_) => 5_000,
    };
    if !only_fleet {
        report.section("The pure paths");
        pure::measure(&mut report)?;
    }
    // Children end with the thread that started them: one thread starts all.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(async {
        if !only_fleet {
            sizes::measure(&mut report, nodes).await?;
        }
        fleet::measure(&mut report, nodes).await
    });
    report.finish()?;
    outcome?;
    Ok(report.is_met())
}
