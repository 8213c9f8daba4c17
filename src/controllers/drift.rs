//! Drift: an object that this leadership has made or found as wanted, and that differs while the same is wanted, was changed
//! by others. It is brought back at once, counted and told; one that is fought over is brought back after growing pauses.

use std::{collections::HashMap, hash::Hash, sync::Arc, time::Instant};

use parking_lot::Mutex;

use crate::{
    apply::{Contested, Repairs},
    server::metrics::Metrics,
};

/// Why an object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// It was never as it is wanted now.
    Wanted,
    /// Others have changed it.
    Drifted,
}

/// The objects named by `K`, each of which is to be as `W` says.
pub(super) struct Drift<K, W> {
    /// The label of metrics about them.
    component: &'static str,
    metrics: Arc<Metrics>,
    made: Mutex<HashMap<K, W>>,
    repairs: Mutex<Repairs<K>>,
}

impl<K: Clone + Eq + Hash + Ord, W: PartialEq> Drift<K, W> {
    pub(super) fn new(component: &'static str, metrics: &Arc<Metrics>) -> Self {
        Self {
            component,
            metrics: Arc::clone(metrics),
            made: Mutex::default(),
            repairs: Mutex::default(),
        }
    }

    /// The object is as wanted.
    pub(super) fn is_as_wanted(&self, what: &K, wanted: W) {
        self.metrics.operator.applied(self.component, "skipped");
        self.made.lock().insert(what.clone(), wanted);
    }

    /// Why the object, which is not as wanted, is to be written.
    ///
    /// # Errors
    /// When it may be, since others keep changing it.
    pub(super) fn judge(&self, what: &K, wanted: &W) -> Result<Cause, Contested> {
        if self.made.lock().get(what) != Some(wanted) {
            return Ok(Cause::Wanted);
        }
        self.repairs.lock().may_repair(what, Instant::now())?;
        Ok(Cause::Drifted)
    }

    /// The object was written; `manager` is who had changed it, if that is known.
    pub(super) fn written(&self, what: &K, wanted: W, change: Cause, manager: Option<String>) {
        self.made.lock().insert(what.clone(), wanted);
        self.metrics.operator.applied(self.component, "applied");
        if change == Cause::Drifted {
            self.repairs.lock().repaired(what, manager, Instant::now());
            self.metrics.operator.repaired(self.component);
        }
    }

    /// The object could not be written.
    pub(super) fn failed(&self) {
        self.metrics.operator.applied(self.component, "failed");
    }

    /// The object is no longer wanted.
    pub(super) fn forget(&self, what: &K) {
        self.made.lock().remove(what);
        self.repairs.lock().forget(what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_as_wanted_and_differs_has_drifted_until_it_is_fought_over() {
        let drift: Drift<&str, u8> = Drift::new("networks", &Arc::default());
        assert_eq!(drift.judge(&"a", &1), Ok(Cause::Wanted));
        drift.written(&"a", 1, Cause::Wanted, None);
        assert_eq!(
            drift.judge(&"a", &2),
            Ok(Cause::Wanted),
            "something else is wanted"
        );
        for _ in 0..5 {
            assert_eq!(drift.judge(&"a", &1), Ok(Cause::Drifted));
            drift.written(&"a", 1, Cause::Drifted, Some("kubectl".into()));
        }
        assert_eq!(drift.judge(&"a", &1).unwrap_err().manager, "kubectl");
        drift.is_as_wanted(&"b", 1);
        assert_eq!(drift.judge(&"b", &1), Ok(Cause::Drifted));
        drift.forget(&"a");
        assert_eq!(drift.judge(&"a", &1), Ok(Cause::Wanted));
    }
}
