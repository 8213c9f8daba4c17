//! What the admission routes count.

use std::time::Duration;

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use super::{Durations, durations};

labels!(ByWebhook {
    webhook: &'static str
});
labels!(ByCode {
    webhook: &'static str,
    code: u16
});
labels!(ByOutcome {
    webhook: &'static str,
    operation: &'static str,
    outcome: &'static str
});

labels!(ByFault {
    webhook: &'static str,
    fault: &'static str
});

/// Requests of the webhooks, by path, and what came of them.
#[derive(Clone)]
pub struct AdmissionMetrics {
    in_flight: Family<ByWebhook, Gauge>,
    requests: Family<ByCode, Counter>,
    latency: Durations<ByWebhook>,
    decisions: Family<ByOutcome, Counter>,
    faults: Family<ByFault, Counter>,
}

impl AdmissionMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            in_flight: Family::default(),
            requests: Family::default(),
            latency: durations(),
            decisions: Family::default(),
            faults: Family::default(),
        };
        registry.register(
            "controller_runtime_webhook_requests_in_flight",
            "Admission requests under way",
            metrics.in_flight.clone(),
        );
        registry.register(
            "controller_runtime_webhook_requests",
            "Admission requests by HTTP status code",
            metrics.requests.clone(),
        );
        registry.register(
            "controller_runtime_webhook_latency_seconds",
            "Time from the head of an admission request to its answer",
            metrics.latency.clone(),
        );
        registry.register(
            "sriov_operator_admission_decisions",
            "Decisions about objects, by operation and outcome",
            metrics.decisions.clone(),
        );
        registry.register(
            "sriov_operator_admission_faults",
            "Requests that were not judged because of a bug of ours",
            metrics.faults.clone(),
        );
        metrics
    }

    /// Those of one webhook, by its path.
    pub fn of(&self, webhook: &'static str) -> WebhookMetrics {
        let by_webhook = ByWebhook { webhook };
        let usual = ByCode { webhook, code: 200 };
        WebhookMetrics {
            webhook,
            in_flight: self.in_flight.get_or_create_owned(&by_webhook),
            latency: self.latency.get_or_create_owned(&by_webhook),
            usual: self.requests.get_or_create_owned(&usual),
            all: self.clone(),
        }
    }
}

/// Requests of one webhook, and what came of them. What counts for each is at hand: a look into a family takes as long as
/// a good part of a verdict.
pub struct WebhookMetrics {
    webhook: &'static str,
    in_flight: Gauge,
    latency: Histogram,
    /// Answered with the HTTP status 200.
    usual: Counter,
    all: AdmissionMetrics,
}

impl WebhookMetrics {
    /// A request is under way until the guard is dropped.
    pub fn enter(&self) -> impl Drop + use<'_> {
        self.in_flight.inc();
        InFlight(&self.in_flight)
    }

    /// A request was answered with the HTTP status `code`, after `latency`.
    pub fn answered(&self, code: u16, latency: Duration) {
        let webhook = self.webhook;
        match code {
            200 => self.usual.inc(),
            code => self
                .all
                .requests
                .get_or_create(&ByCode { webhook, code })
                .inc(),
        };
        self.latency.observe(latency.as_secs_f64());
    }

    /// A review was decided. `operation` is `CREATE` and so on, or `unknown` where the review did not say; `outcome` is
    /// `allowed`, `patched` or `denied`.
    pub fn decided(&self, operation: &'static str, outcome: &'static str) {
        let labels = ByOutcome {
            webhook: self.webhook,
            operation,
            outcome,
        };
        self.all.decisions.get_or_create(&labels).inc();
    }

    /// A handler owned up to a fault (`handler`), or panicked (`panic`).
    pub fn faulted(&self, fault: &'static str) {
        let webhook = self.webhook;
        self.all
            .faults
            .get_or_create(&ByFault { webhook, fault })
            .inc();
    }
}

struct InFlight<'a>(&'a Gauge);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}
