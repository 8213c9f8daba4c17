//! What is known of the process itself.

use prometheus_client::{metrics::gauge::Gauge, registry::Registry};

/// The process as its runtime sees it.
pub(super) struct ProcessMetrics {
    tasks: Gauge,
}

impl ProcessMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let tasks = Gauge::default();
        registry.register(
            "sriov_operator_tasks",
            "Asynchronous tasks that are alive: those of the process, and one a connection",
            tasks.clone(),
        );
        Self { tasks }
    }

    /// Looks at the runtime; outside one there is nothing to see.
    pub(super) fn refresh(&self) {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let alive = runtime.metrics().num_alive_tasks();
            self.tasks.set(i64::try_from(alive).unwrap_or(i64::MAX));
        }
    }
}
