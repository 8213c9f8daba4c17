//! `make bench`: how fast, how large, how frugal, each figure beside its floor or its limit, measured in the same run.
//!
//! ```text
//! report       <- figures, as text and as JSON (BENCH_JSON=file), plots into BENCH_PLOTS
//! pure         <- the pure paths and what they cost in time
//! answered     <- a whole review as one of them
//! instructions <- what they cost in instructions, beside what they cost before
//! sizes        <- the product behind a real API server, on a cluster that grows
//! changes      <- of that: start, changes of the config, rest
//! endpoints    <- of that: what does not depend on the size
//! leases       <- of that: validations while Leases are written
//! fleet        <- a large cluster that follows its policies
//! fill         <- generated objects into the API server
//! product      <- the real binary: what /proc and the audit log say of it
//! served       <- an endpoint of it beside the floor
//! floor        <- the same listener with a handler that reads the body and answers a constant
//! load         <- keep-alive TLS connections that post one body over and over
//! world        <- generated nodes, node states, policies, networks and reviews
//! ```
//!
//! `BENCH_QUICK=1` leaves out what takes long; `cargo bench --bench bench -- fleet 1000` runs that part alone, of so many
//! nodes, and `-- endpoints` that one. Everything is bounded in count and time.

#[allow(
    dead_code,
    reason = "the bench uses what it needs of the tests' harness"
)]
#[path = "../tests/support/mod.rs"]
mod support;

mod answered;
mod changes;
mod endpoints;
mod extent;
mod fill;
mod fleet;
mod floor;
mod instructions;
mod leases;
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
            .and_then(|count| instructions::run(name, count))
            .map(|()| true),
        ["fleet", ref more @ ..] => bench(&Part::Fleet(
            more.first().and_then(|nodes| nodes.parse().ok()),
        )),
        ["endpoints", ..] => bench(&Part::Endpoints),
        _ => bench(&Part::All),
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

/// What is measured.
enum Part {
    All,
    /// How a cluster of so many nodes follows its policies.
    Fleet(Option<usize>),
    /// The endpoints whose cost does not depend on the cluster.
    Endpoints,
}

/// Measures it. Returns whether every bar is met.
fn bench(part: &Part) -> Result<bool> {
    let mut report = Report::default();
    let quick = std::env::var_os("BENCH_QUICK").is_some_and(|quick| !quick.is_empty());
    let extent = if quick { extent::QUICK } else { extent::WHOLE };
    if matches!(part, Part::All) {
        report.section("The pure paths");
        pure::measure(&mut report)?;
        report.section("Instructions of the pure paths");
        instructions::measure(&mut report)?;
    }
    // Children end with the thread that started them: one thread starts all.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(async {
        match part {
            Part::All => {
                sizes::measure(&mut report, extent).await?;
                fleet::measure(&mut report, extent.fleet).await
            }
            Part::Fleet(nodes) => fleet::measure(&mut report, nodes.unwrap_or(extent.fleet)).await,
            Part::Endpoints => {
                let mut scene = sizes::scene().await?;
                changes::start(&mut scene).await?;
                changes::configure(&mut scene).await?;
                tokio::time::sleep(product::SETTLES).await;
                let floor = floor::Floor::start().await?;
                endpoints::measure(&mut report, &scene, &floor, extent).await
            }
        }
    });
    report.finish()?;
    outcome?;
    Ok(report.is_met())
}
