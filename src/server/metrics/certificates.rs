//! What is counted of certificates: expiry, reloads, rotation.

use std::sync::atomic::Ordering;

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use super::Seconds;

labels!(ByCertificate {
    certificate: &'static str
});
labels!(ByReload {
    certificate: &'static str,
    result: &'static str
});
labels!(ByPhase {
    phase: &'static str
});

/// Certificates by what they are for, such as `ca`, `operator-webhook` and `injector`.
#[derive(Clone)]
pub struct CertificateMetrics {
    expiry: Family<ByCertificate, Seconds>,
    reloads: Family<ByReload, Counter>,
    phase: Family<ByPhase, Gauge>,
}

impl CertificateMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            expiry: Family::default(),
            reloads: Family::default(),
            phase: Family::default(),
        };
        registry.register(
            "sriov_operator_certificate_expiry_timestamp_seconds",
            "End of validity of the certificates in use, in seconds since 1970",
            metrics.expiry.clone(),
        );
        registry.register(
            "sriov_operator_certificate_reloads",
            "Serving pairs that a Secret brought, taken (succeeded) or not (failed)",
            metrics.reloads.clone(),
        );
        registry.register(
            "sriov_operator_rotation_phase",
            "The phase that the rotation of the CA is in, as 1",
            metrics.phase.clone(),
        );
        metrics
    }

    /// The certificate in use ends at `timestamp`, in seconds since 1970.
    pub fn expires(&self, certificate: &'static str, timestamp: f64) {
        self.expiry
            .get_or_create(&ByCertificate { certificate })
            .set(timestamp);
    }

    /// How often pairs from that Secret were taken into use and refused since the start.
    pub fn reloaded(&self, certificate: &'static str, taken: u64, refused: u64) {
        for (result, count) in [("succeeded", taken), ("failed", refused)] {
            let by = ByReload {
                certificate,
                result,
            };
            let counter = self.reloads.get_or_create(&by);
            counter.inner().store(count, Ordering::Relaxed);
        }
    }

    /// The rotation is in `phase`, and in no other.
    pub fn phase(&self, phase: &'static str) {
        self.phase.clear();
        self.phase.get_or_create(&ByPhase { phase }).set(1);
    }

    /// This process knows of no CA (any more): it does not lead, or there is none.
    pub fn forget_authority(&self) {
        self.phase.clear();
        self.expiry.remove(&ByCertificate { certificate: "ca" });
    }
}
