//! The metrics of a process and the endpoint that shows them. Label values are `&'static str`: they come from closed sets in
//! the code, never from users' objects, so the number of series is bounded. Names of controller-runtime are kept where it has
//! one, for the dashboards that know them.

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use axum::{
    Router,
    extract::State,
    response::{IntoResponse, Response},
    routing::get,
};
use http::{StatusCode, header::CONTENT_TYPE};
use parking_lot::Mutex;
use prometheus_client::{
    encoding::text::encode,
    metrics::{family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

/// A point in time or a span, in seconds and fractions.
type Seconds = Gauge<f64, AtomicU64>;

/// Durations per label, in seconds.
type Durations<L> = Family<L, Histogram, fn() -> Histogram>;

fn durations<L: Clone + std::hash::Hash + Eq>() -> Durations<L> {
    Family::new_with_constructor(|| {
        Histogram::new([
            0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
            30.0,
        ])
    })
}

/// The labels of what is counted per webhook, listener, store and so on: one word from a closed set.
macro_rules! labels {
    ($name:ident { $($field:ident: $type:ty),+ }) => {
        #[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, prometheus_client::encoding::EncodeLabelSet)]
        struct $name { $($field: $type),+ }
    };
}

mod admission;
mod certificates;
mod operator;
mod process;
mod server;
mod stores;

pub use admission::{AdmissionMetrics, WebhookMetrics};
pub use certificates::CertificateMetrics;
pub use operator::OperatorMetrics;
pub use server::ServerMetrics;
pub use stores::StoreMetrics;

use process::ProcessMetrics;
use server::Connections;

/// Looks at a state and sets metrics to what it finds.
type Refresh = Box<dyn Fn(&Metrics) + Send + Sync>;

/// All metrics of a process. Everything is cheap to clone and safe to share.
pub struct Metrics {
    /// Of admission.
    pub admission: AdmissionMetrics,
    /// Of certificates.
    pub certificates: CertificateMetrics,
    /// Of the reconciler.
    pub operator: OperatorMetrics,
    /// Of what admission reads.
    pub stores: StoreMetrics,
    connections: Connections,
    process: ProcessMetrics,
    registry: Registry,
    refresh: Mutex<Vec<Refresh>>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All of them, at zero.
    pub fn new() -> Self {
        let mut registry = Registry::default();
        Self {
            admission: AdmissionMetrics::register(&mut registry),
            certificates: CertificateMetrics::register(&mut registry),
            operator: OperatorMetrics::register(&mut registry),
            stores: StoreMetrics::register(&mut registry),
            connections: Connections::register(&mut registry),
            process: ProcessMetrics::register(&mut registry),
            registry,
            refresh: Mutex::default(),
        }
    }

    /// Metrics in which everything has happened once, so that each shows its labels: for the documentation.
    pub fn sample() -> Self {
        let metrics = Self::new();
        let admission = metrics.admission.of("/mutate");
        drop(admission.enter());
        admission.answered(200, Duration::from_millis(3));
        admission.decided("CREATE", "patched");
        admission.faulted("panic");
        metrics.certificates.reloaded("operator-webhook", 3, 1);
        metrics.certificates.expires("ca", 1.8e9);
        metrics.certificates.phase("overlap");
        let operator = &metrics.operator;
        operator.leads(true);
        operator.reconciled("sriovoperatorconfig", "success", Duration::from_millis(40));
        operator.applied("config-daemon", "applied");
        operator.repaired("operator-webhook");
        operator.rolled_out("injector", "success", Duration::from_millis(9));
        metrics.stores.holds("nodes", 7);
        metrics.stores.fresh_at("nodes", 1.7e9);
        metrics.stores.set_aside("nodes", 2);
        let webhook = metrics.server("webhook");
        let open = webhook.open();
        drop(open);
        webhook.ended("idle");
        metrics
    }

    /// The metrics of one listener, such as `webhook`.
    pub fn server(&self, listener: &'static str) -> Arc<ServerMetrics> {
        Arc::new(self.connections.of(listener))
    }

    /// Runs `refresh` before each scrape: for what is a state to be looked at, such as the size of a store.
    pub fn before_scrape(&self, refresh: impl Fn(&Self) + Send + Sync + 'static) {
        self.refresh.lock().push(Box::new(refresh));
    }

    /// All metrics in the text format of `OpenMetrics`.
    pub fn encode(&self) -> Result<String, std::fmt::Error> {
        for refresh in self.refresh.lock().iter() {
            refresh(self);
        }
        self.process.refresh();
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

/// `/metrics`.
pub fn router(metrics: Arc<Metrics>) -> Router {
    Router::new()
        .route("/metrics", get(scrape))
        .with_state(metrics)
}

async fn scrape(State(metrics): State<Arc<Metrics>>) -> Response {
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    match metrics.encode() {
        Ok(text) => ([(CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashboards_find_the_names_they_know() {
        let text = Metrics::sample().encode().unwrap();
        for line in [
            r#"controller_runtime_webhook_requests_total{webhook="/mutate",code="200"} 1"#,
            r#"controller_runtime_webhook_requests_in_flight{webhook="/mutate"} 0"#,
            r#"controller_runtime_webhook_latency_seconds_count{webhook="/mutate"} 1"#,
            r#"sriov_operator_admission_faults_total{webhook="/mutate",fault="panic"} 1"#,
            r#"controller_runtime_reconcile_total{controller="sriovoperatorconfig",result="success"} 1"#,
            r#"controller_runtime_reconcile_time_seconds_count{controller="sriovoperatorconfig"} 1"#,
            r#"leader_election_master_status{name="sriov-operator"} 1"#,
            r#"sriov_operator_admission_decisions_total{webhook="/mutate",operation="CREATE",outcome="patched"} 1"#,
            r#"sriov_operator_certificate_reloads_total{certificate="operator-webhook",result="succeeded"} 3"#,
            r#"sriov_operator_certificate_reloads_total{certificate="operator-webhook",result="failed"} 1"#,
            r#"sriov_operator_certificate_expiry_timestamp_seconds{certificate="ca"} 1800000000.0"#,
            r#"sriov_operator_rotation_phase{phase="overlap"} 1"#,
            r#"sriov_operator_applies_total{component="config-daemon",result="applied"} 1"#,
            r#"sriov_operator_component_reconcile_seconds_count{component="injector",result="success"} 1"#,
            r#"sriov_operator_drift_repairs_total{component="operator-webhook"} 1"#,
            r#"sriov_operator_store_objects{store="nodes"} 7"#,
            r#"sriov_operator_store_fresh_timestamp_seconds{store="nodes"} 1700000000.0"#,
            r#"sriov_operator_store_set_aside_total{store="nodes"} 2"#,
            r#"sriov_operator_connections{listener="webhook"} 0"#,
            r#"sriov_operator_connections_ended_total{listener="webhook",reason="idle"} 1"#,
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "no {line} in\n{text}"
            );
        }
        assert!(text.ends_with("# EOF\n"));
    }

    #[tokio::test]
    async fn tasks_that_are_alive_are_counted() {
        let waiting = tokio::spawn(std::future::pending::<()>());
        let text = Metrics::new().encode().unwrap();
        assert!(text.contains("sriov_operator_tasks 1\n"), "{text}");
        waiting.abort();
    }

    #[test]
    fn one_rotation_phase_at_a_time() {
        let metrics = Metrics::new();
        metrics.certificates.phase("overlap");
        metrics.certificates.phase("stable");
        let text = metrics.encode().unwrap();
        assert!(text.contains(r#"sriov_operator_rotation_phase{phase="stable"} 1"#));
        assert!(!text.contains("overlap"));
    }

    #[test]
    fn who_does_not_lead_tells_of_no_rotation() {
        let metrics = Metrics::sample();
        metrics.certificates.forget_authority();
        let text = metrics.encode().unwrap();
        assert!(!text.contains("overlap") && !text.contains(r#"certificate="ca""#));
    }

    #[test]
    fn states_are_looked_at_when_somebody_scrapes() {
        let metrics = Metrics::new();
        metrics.before_scrape(|metrics| metrics.stores.holds("policies", 3));
        assert!(
            metrics
                .encode()
                .unwrap()
                .contains(r#"sriov_operator_store_objects{store="policies"} 3"#)
        );
    }
}
