//! What is known of the stores that admission reads.

use std::sync::atomic::Ordering;

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use super::Seconds;

labels!(ByStore {
    store: &'static str
});

/// Stores by what they hold, such as `nodes`.
#[derive(Clone)]
pub struct StoreMetrics {
    objects: Family<ByStore, Gauge>,
    fresh: Family<ByStore, Seconds>,
    set_aside: Family<ByStore, Counter>,
}

impl StoreMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            objects: Family::default(),
            fresh: Family::default(),
            set_aside: Family::default(),
        };
        registry.register(
            "sriov_operator_store_objects",
            "Objects that a store holds",
            metrics.objects.clone(),
        );
        registry.register(
            "sriov_operator_store_fresh_timestamp_seconds",
            "When the watch behind a store last showed signs of life, in seconds since 1970",
            metrics.fresh.clone(),
        );
        registry.register(
            "sriov_operator_store_set_aside",
            "Versions of objects that were set aside as malformed, wholly or in part",
            metrics.set_aside.clone(),
        );
        metrics
    }

    /// The store holds this many objects.
    pub fn holds(&self, store: &'static str, objects: usize) {
        self.objects
            .get_or_create(&ByStore { store })
            .set(i64::try_from(objects).unwrap_or(i64::MAX));
    }

    /// The watch behind the store was alive at `timestamp`, in seconds since 1970.
    pub fn fresh_at(&self, store: &'static str, timestamp: f64) {
        self.fresh.get_or_create(&ByStore { store }).set(timestamp);
    }

    /// So many versions of objects were set aside since the start.
    pub fn set_aside(&self, store: &'static str, versions: u64) {
        self.set_aside
            .get_or_create(&ByStore { store })
            .inner()
            .store(versions, Ordering::Relaxed);
    }
}
