//! What the reconciler counts.

use std::time::Duration;

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use super::{Durations, durations};

labels!(ByName { name: &'static str });
labels!(ByController {
    controller: &'static str
});
labels!(ByResult {
    controller: &'static str,
    result: &'static str
});
labels!(ByApply {
    component: &'static str,
    result: &'static str
});
labels!(ByComponent {
    component: &'static str
});

/// Reconciles, what they wrote, and who leads.
#[derive(Clone)]
pub struct OperatorMetrics {
    leader: Family<ByName, Gauge>,
    reconciles: Family<ByResult, Counter>,
    reconcile_time: Durations<ByController>,
    applies: Family<ByApply, Counter>,
    repairs: Family<ByComponent, Counter>,
    rollout_time: Durations<ByApply>,
}

impl OperatorMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            leader: Family::default(),
            reconciles: Family::default(),
            reconcile_time: durations(),
            applies: Family::default(),
            repairs: Family::default(),
            rollout_time: durations(),
        };
        registry.register(
            "leader_election_master_status",
            "1 while this process holds the Lease, else 0",
            metrics.leader.clone(),
        );
        registry.register(
            "controller_runtime_reconcile",
            "Reconciles by result",
            metrics.reconciles.clone(),
        );
        registry.register(
            "controller_runtime_reconcile_time_seconds",
            "Time that a reconcile took",
            metrics.reconcile_time.clone(),
        );
        registry.register(
            "sriov_operator_applies",
            "Objects that a reconcile looked at, by what was done about them",
            metrics.applies.clone(),
        );
        registry.register(
            "sriov_operator_drift_repairs",
            "Objects put right after somebody else had changed or deleted them",
            metrics.repairs.clone(),
        );
        registry.register(
            "sriov_operator_component_reconcile_seconds",
            "Time that a component's share of a reconcile took, by result",
            metrics.rollout_time.clone(),
        );
        metrics
    }

    /// Whether this process holds the Lease.
    pub fn leads(&self, leads: bool) {
        self.leader
            .get_or_create(&ByName {
                name: "sriov-operator",
            })
            .set(i64::from(leads));
    }

    /// A reconcile ended with `result` (`success`, `error`, `requeue_after`) after `took`.
    pub fn reconciled(&self, controller: &'static str, result: &'static str, took: Duration) {
        self.reconciles
            .get_or_create(&ByResult { controller, result })
            .inc();
        self.reconcile_time
            .get_or_create(&ByController { controller })
            .observe(took.as_secs_f64());
    }

    /// An object of `component` was `applied`, `skipped` since nothing differed, or `failed`.
    pub fn applied(&self, component: &'static str, result: &'static str) {
        self.applies
            .get_or_create(&ByApply { component, result })
            .inc();
    }

    /// The share of `component` in a reconcile ended with `result` (`success`, `error`) after `took`.
    pub fn rolled_out(&self, component: &'static str, result: &'static str, took: Duration) {
        self.rollout_time
            .get_or_create(&ByApply { component, result })
            .observe(took.as_secs_f64());
    }

    /// An object of `component` was put right.
    pub fn repaired(&self, component: &'static str) {
        self.repairs.get_or_create(&ByComponent { component }).inc();
    }
}
