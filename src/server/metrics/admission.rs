//! What the admission routes count.

use std::time::Duration;

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
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

    /// A request is under way until the guard is dropped.
    pub fn enter(&self, webhook: &'static str) -> impl Drop + Send + Sync + use<> {
        let gauge = self.in_flight.get_or_create_owned(&ByWebhook { webhook });
        gauge.inc();
        InFlight(gauge)
    }

    /// A request was answered with the HTTP status `code`, after `latency`.
    pub fn answered(&self, webhook: &'static str, code: u16, latency: Duration) {
        self.requests.get_or_create(&ByCode { webhook, code }).inc();
        self.latency
            .get_or_create(&ByWebhook { webhook })
            .observe(latency.as_secs_f64());
    }

    /// A review was decided. `operation` is `CREATE` and so on, or `unknown` where the review did not say; `outcome` is
    /// `allowed`, `patched` or `denied`.
    pub fn decided(&self, webhook: &'static str, operation: &'static str, outcome: &'static str) {
        let labels = ByOutcome {
            webhook,
            operation,
            outcome,
        };
        self.decisions.get_or_create(&labels).inc();
    }

    /// A handler owned up to a fault (`handler`), or panicked (`panic`).
    pub fn faulted(&self, webhook: &'static str, fault: &'static str) {
        self.faults.get_or_create(&ByFault { webhook, fault }).inc();
    }
}

struct InFlight(Gauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}
