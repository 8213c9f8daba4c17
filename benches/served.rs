//! One endpoint of the product beside the floor: rounds of both in turn, so that what else the machine does hits both.

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::{
    extent::Extent,
    floor::Floor,
    load::Target,
    product::cpu,
    report::{Bar, Report},
};

/// Connections that post at the same time.
const CONNECTIONS: usize = 8;

/// An endpoint and what it has to come to.
pub(crate) struct Endpoint<'a> {
    /// Of the figures.
    pub(crate) name: &'a str,
    pub(crate) target: Target,
    pub(crate) path: &'static str,
    pub(crate) body: Vec<u8>,
    /// What the answer has to contain.
    pub(crate) answer: &'static str,
    /// Least share of the floor's throughput.
    pub(crate) throughput: Bar,
    /// Most of the floor's processor time.
    pub(crate) cpu: Bar,
}

/// What one request costs, by the median of the rounds.
pub(crate) struct Cost {
    per_second: f64,
    /// The median of its time, in microseconds.
    pub(crate) p50: f64,
    p99: f64,
    /// Processor time of the server, in microseconds.
    pub(crate) cpu: f64,
}

/// Measures an endpoint and the floor under it.
pub(crate) async fn compare(
    report: &mut Report,
    endpoint: &Endpoint<'_>,
    floor: &Floor,
    product: u32,
    extent: Extent,
) -> Result<Cost> {
    let Endpoint {
        name, path, body, ..
    } = endpoint;
    let answer = floor.answers_like(&endpoint.target, path, body).await?;
    ensure!(
        answer.contains(endpoint.answer),
        "{name}: it answers {answer}"
    );
    let mut floors = Vec::new();
    let mut products = Vec::new();
    for _ in 0..extent.rounds {
        floors.push(round(&floor.target, floor.process.id(), path, body, extent.round).await?);
        products.push(round(&endpoint.target, product, path, body, extent.round).await?);
    }
    let (floor, product) = (median(&floors), median(&products));
    for (whose, cost) in [("the floor", &floor), ("the product", &product)] {
        report.tell(format!("{name}: {whose}"), cost.per_second, "req/s");
        report.tell(format!("{name}: {whose}, median"), cost.p50, "us");
        report.tell(format!("{name}: {whose}, 99 of 100"), cost.p99, "us");
        report.tell(format!("{name}: {whose}, processor"), cost.cpu, "us/req");
    }
    report.figure(
        format!("{name}: throughput to the floor's"),
        product.per_second / floor.per_second,
        "times",
        endpoint.throughput,
    );
    report.figure(
        format!("{name}: processor time to the floor's"),
        product.cpu / floor.cpu,
        "times",
        endpoint.cpu,
    );
    Ok(product)
}

async fn round(
    target: &Target,
    process: u32,
    path: &str,
    body: &[u8],
    time: Duration,
) -> Result<Cost> {
    let before = cpu(process)?;
    let outcome = target.drive(path, body, CONNECTIONS, time).await?;
    Ok(Cost {
        per_second: outcome.per_second(),
        p50: outcome.quantile(0.5),
        p99: outcome.quantile(0.99),
        cpu: (cpu(process)? - before) / outcome.answered(),
    })
}

fn median(rounds: &[Cost]) -> Cost {
    let middle = |of: fn(&Cost) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    Cost {
        per_second: middle(|cost| cost.per_second),
        p50: middle(|cost| cost.p50),
        p99: middle(|cost| cost.p99),
        cpu: middle(|cost| cost.cpu),
    }
}
