//! What a listener counts.

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

labels!(ByListener {
    listener: &'static str
});
labels!(ByEnd {
    listener: &'static str,
    reason: &'static str
});

/// Connections of all listeners.
pub(super) struct Connections {
    open: Family<ByListener, Gauge>,
    ended: Family<ByEnd, Counter>,
}

impl Connections {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let connections = Self {
            open: Family::default(),
            ended: Family::default(),
        };
        registry.register(
            "sriov_operator_connections",
            "Open connections",
            connections.open.clone(),
        );
        registry.register(
            "sriov_operator_connections_ended",
            "Connections that ended, by reason",
            connections.ended.clone(),
        );
        connections
    }

    pub(super) fn of(&self, listener: &'static str) -> ServerMetrics {
        ServerMetrics {
            listener,
            open: self.open.get_or_create_owned(&ByListener { listener }),
            ended: self.ended.clone(),
        }
    }
}

/// Connections of one listener.
pub struct ServerMetrics {
    listener: &'static str,
    open: Gauge,
    ended: Family<ByEnd, Counter>,
}

impl ServerMetrics {
    /// A connection is open until the guard is dropped.
    pub fn open(&self) -> impl Drop + Send + Sync + use<> {
        self.open.inc();
        Open(self.open.clone())
    }

    /// A connection ended, or was turned away, for `reason`.
    pub fn ended(&self, reason: &'static str) {
        let labels = ByEnd {
            listener: self.listener,
            reason,
        };
        self.ended.get_or_create(&labels).inc();
    }

    /// Connections open now.
    #[cfg(test)]
    pub(in crate::server) fn open_now(&self) -> i64 {
        self.open.get()
    }

    /// Connections that ended for `reason`.
    #[cfg(test)]
    pub(in crate::server) fn ended_for(&self, reason: &'static str) -> u64 {
        let labels = ByEnd {
            listener: self.listener,
            reason,
        };
        self.ended.get_or_create(&labels).get()
    }
}

struct Open(Gauge);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}
