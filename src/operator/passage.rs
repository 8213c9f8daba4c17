//! The steps of a webhook's change of hands, and how long each has lasted. It changes hands like a certificate is rotated,
//! so that every call is answered:
//!
//! ```text
//! frozen      nobody could take over yet, and the workload itself changes hands: nothing is touched
//! held        the wanted backend cannot answer yet: neither Service nor configurations are touched
//! publishing  the configurations carry the old bundle and ours, until every API server knows
//! switching   the Service leads to the wanted backend
//! settling    both bundles and the old backend stay for calls that are still led there
//! as usual    our bundle alone, and what is no longer rendered goes
//! ```
//!
//! Nothing here reads or writes; [`handover`](super::handover) finds out which step it is.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::render::Component;

/// How far a webhook's change of hands is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Passage {
    /// Nothing changes hands.
    Usual,
    /// The workload that answers now would be replaced by one that cannot yet, for want of this.
    Frozen(String),
    /// The wanted backend cannot answer yet, for want of this.
    Held(String),
    /// Both bundles are being made known; for so long at least.
    Publishing(Duration),
    /// The Service changes now.
    Switching,
    /// The Service has changed; for so long old and new go together.
    Settling(Duration),
}

impl Passage {
    pub(super) fn keeps_service(&self) -> bool {
        matches!(self, Self::Frozen(_) | Self::Held(_) | Self::Publishing(_))
    }

    pub(super) fn keeps_configurations(&self) -> bool {
        matches!(self, Self::Frozen(_) | Self::Held(_))
    }

    /// Whether the configurations carry the live bundle beside ours, and what is no longer rendered stays.
    pub(super) fn keeps_old(&self) -> bool {
        *self != Self::Usual
    }
}

/// The changes of hands that are under way.
#[derive(Debug, Default)]
pub(super) struct Handovers(Mutex<BTreeMap<Component, Progress>>);

#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// Our bundle had to be published for it.
    publishing: bool,
    /// Since when it is in every configuration.
    published: Option<Instant>,
    /// Since when the Service leads to the wanted backend.
    switched: Option<Instant>,
}

impl Handovers {
    /// The Service of a component was switched.
    pub(super) fn switched(&self, component: Component) {
        self.0.lock().entry(component).or_default().switched = Some(Instant::now());
    }

    /// What remains of the pause after the Service was switched.
    pub(super) fn settling(&self, component: Component, pause: Duration) -> Option<Duration> {
        let mut handovers = self.0.lock();
        let rest = pause.saturating_sub(handovers.get(&component)?.switched?.elapsed());
        if rest.is_zero() {
            handovers.remove(&component);
            return None;
        }
        Some(rest)
    }

    /// What remains of the pause after both bundles were published; `None` when it is over, or none was needed.
    pub(super) fn publishing(
        &self,
        component: Component,
        is_published: bool,
        pause: Duration,
    ) -> Option<Duration> {
        let mut handovers = self.0.lock();
        let progress = handovers.entry(component).or_default();
        if !is_published {
            progress.publishing = true;
            progress.published = None;
            return Some(pause);
        }
        if !progress.publishing {
            return None;
        }
        let since = *progress.published.get_or_insert_with(Instant::now);
        let rest = pause.saturating_sub(since.elapsed());
        (!rest.is_zero()).then_some(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_secs(60);
    const NO_PAUSE: Duration = Duration::ZERO;

    #[test]
    fn what_is_published_already_waits_for_nothing() {
        let handovers = Handovers::default();
        assert_eq!(handovers.publishing(Component::Injector, true, PAUSE), None);
    }

    #[test]
    fn what_had_to_be_published_waits_from_when_it_is() {
        let handovers = Handovers::default();
        let publishing =
            |published, pause| handovers.publishing(Component::Injector, published, pause);
        assert_eq!(publishing(false, PAUSE), Some(PAUSE));
        assert!(publishing(true, PAUSE).is_some());
        assert_eq!(publishing(true, NO_PAUSE), None);
        assert_eq!(
            publishing(false, PAUSE),
            Some(PAUSE),
            "it was taken away again"
        );
    }

    #[test]
    fn the_old_stays_for_a_while_after_the_switch() {
        let handovers = Handovers::default();
        assert_eq!(handovers.settling(Component::Injector, PAUSE), None);
        handovers.switched(Component::Injector);
        assert!(handovers.settling(Component::Injector, PAUSE).is_some());
        assert_eq!(handovers.settling(Component::Injector, NO_PAUSE), None);
        assert_eq!(
            handovers.settling(Component::Injector, PAUSE),
            None,
            "it is over"
        );
    }
}
