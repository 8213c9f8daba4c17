//! A webhook whose Service leads to another backend than the wanted one: the reference's workload that is taken over,
//! or the other way of serving. It changes hands like a certificate is rotated, so that every call is answered:
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
//! Where it stands follows from the cluster, so a restart goes on there; only the pauses begin anew.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use parking_lot::Mutex;
use serde_json::Value;

use super::{
    reconcile::Reconciler,
    rollout::{LOOK_AGAIN, Rollout},
    standing::Standing,
};
use crate::{
    apply::{Error, ObjectRef},
    certs::{
        bundle::Bundle,
        published::{Configuration, Registered},
    },
    render::Component,
    settings::AdmissionServing,
};

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
    fn settling(&self, component: Component, pause: Duration) -> Option<Duration> {
        let mut handovers = self.0.lock();
        let rest = pause.saturating_sub(handovers.get(&component)?.switched?.elapsed());
        if rest.is_zero() {
            handovers.remove(&component);
            return None;
        }
        Some(rest)
    }

    /// What remains of the pause after both bundles were published; `None` when it is over, or none was needed.
    fn publishing(
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

impl Reconciler {
    /// How far the component's change of hands is. Reads the Service only when it is not as it was applied.
    pub(super) async fn passage(
        &self,
        rollout: &Rollout<'_>,
        objects: &[Value],
    ) -> Result<Passage, Error> {
        let component = rollout.component;
        let registered = registered(rollout);
        let service = objects.iter().find(|object| object["kind"] == "Service");
        let Some(service) = service.filter(|_| !registered.is_empty()) else {
            return Ok(Passage::Usual);
        };
        let answered = is_answered(rollout);
        if !answered && self.inherits_workload(component, objects).await? {
            return Ok(Passage::Frozen(self.missing_pair(component)));
        }
        if self.applier().is_current(service) || !self.leads_elsewhere(service).await? {
            let pause = self.settings().process.shutdown_delay;
            if let Some(rest) = self.handovers().settling(component, pause) {
                return Ok(Passage::Settling(rest));
            }
            let others = registered
                .iter()
                .any(|(ours, live)| ours.as_ref().is_some_and(|ours| !ours.holds(live)));
            let rolling = others && self.is_rolling_out(component, objects).await?;
            return Ok(if rolling {
                Passage::Settling(LOOK_AGAIN)
            } else {
                Passage::Usual
            });
        }
        if let Some(missing) = self.missing_backend(rollout).await {
            return Ok(Passage::Held(missing));
        }
        if !answered {
            return Ok(Passage::Held(self.missing_pair(component)));
        }
        let is_published = registered
            .iter()
            .all(|(ours, live)| ours.as_ref().is_none_or(|ours| live.holds(ours)));
        let pause = self.settings().lifetimes.settle_time;
        Ok(
            match self.handovers().publishing(component, is_published, pause) {
                Some(rest) => Passage::Publishing(rest),
                None => Passage::Switching,
            },
        )
    }

    /// Whether the live Service is ours to change, and leads to another backend than the rendered one.
    async fn leads_elsewhere(&self, service: &Value) -> Result<bool, Error> {
        let Some(live) = self.applier().get_ours(&ObjectRef::of(service)?).await? else {
            return Ok(false);
        };
        let led = |object: &Value| {
            let port = object.pointer("/spec/ports/0/targetPort").cloned();
            (object.pointer("/spec/selector").cloned(), port)
        };
        Ok(led(&live) != led(service))
    }

    fn missing_pair(&self, component: Component) -> String {
        let secret = &self.certificates().endpoint(component).secret;
        format!("a serving certificate in Secret {secret} that its CA bundle verifies")
    }

    /// Whether the live DaemonSet under the name of the rendered one is another operator's that was not taken over yet.
    async fn inherits_workload(
        &self,
        component: Component,
        objects: &[Value],
    ) -> Result<bool, Error> {
        let rendered = objects.iter().find(|object| object["kind"] == "DaemonSet");
        match (rendered, self.daemon_set(component)) {
            (Some(rendered), Some(daemon_set)) if !self.applier().is_current(rendered) => {
                self.applier().is_inherited(&daemon_set).await
            }
            _ => Ok(false),
        }
    }

    /// Whether pods of an older rendering may still answer for a DaemonSet.
    async fn is_rolling_out(&self, component: Component, objects: &[Value]) -> Result<bool, Error> {
        let Some(rendered) = objects.iter().find(|object| object["kind"] == "DaemonSet") else {
            return Ok(false);
        };
        if !self.applier().is_current(rendered) {
            return Ok(true);
        }
        let live = match self.daemon_set(component) {
            Some(daemon_set) => self.applier().get(&daemon_set).await?,
            None => None,
        };
        let number = |pointer: &str| {
            let live = live.as_ref()?;
            live.pointer(pointer)?.as_i64()
        };
        // Without its controller nothing is known of it.
        let Some(observed) = number("/status/observedGeneration") else {
            return Ok(false);
        };
        Ok(Some(observed) < number("/metadata/generation")
            || number("/status/updatedNumberScheduled").unwrap_or_default()
                < number("/status/desiredNumberScheduled").unwrap_or_default())
    }

    /// Why the wanted backend of a webhook could not answer a call; `None` when it could.
    pub(super) async fn missing_backend(&self, rollout: &Rollout<'_>) -> Option<String> {
        let component = rollout.component;
        if standings(rollout).any(|(standing, _)| !standing.verified) {
            return Some(self.missing_pair(component));
        }
        match self.settings().components.serving {
            AdmissionServing::Dedicated if self.has_ready_pod(component).await => None,
            AdmissionServing::Dedicated => Some("a ready pod of its DaemonSet".to_owned()),
            AdmissionServing::InProcess => {
                let checked = self.own_checks().run().await;
                let failed = checked
                    .findings()
                    .find_map(|(name, finding)| Some((name, finding.as_ref().err()?.clone())));
                failed.map(|(name, reason)| format!("this process: {name}: {reason}"))
            }
        }
    }
}

/// How the configurations of a component can be registered, and how they are.
fn standings<'a>(
    rollout: &'a Rollout<'_>,
) -> impl Iterator<Item = (&'a Standing, Option<&'a Registered>)> {
    configurations(rollout.component)
        .iter()
        .map(|configuration| {
            let standing = rollout.issued.standing(*configuration);
            (standing, rollout.published.get(*configuration))
        })
}

/// Our bundle, where it is ours to fill in, and the live one, of each configuration of a component that is registered.
fn registered(rollout: &Rollout<'_>) -> Vec<(Option<Bundle>, Bundle)> {
    standings(rollout)
        .filter_map(|(standing, live)| {
            let ours = standing.registration.ca_bundle.as_deref();
            let live = live?.ca_bundle.as_deref().unwrap_or_default();
            Some((
                ours.map(|pem| Bundle::from_live(pem.as_bytes())),
                Bundle::from_live(live),
            ))
        })
        .collect()
}

/// Whether what this process serves would be believed.
fn is_answered(rollout: &Rollout<'_>) -> bool {
    standings(rollout).all(|(standing, _)| standing.answered)
}

fn configurations(component: Component) -> &'static [Configuration] {
    match component {
        Component::OperatorWebhook => &[
            Configuration::OperatorMutating,
            Configuration::OperatorValidating,
        ],
        Component::Injector => &[Configuration::Injector],
        _ => &[],
    }
}

/// Adds to the bundles of a rendered configuration what the live one carries, in front: it is what is in use.
pub(super) fn keep_live_bundle(configuration: &mut Value, live: &Bundle) {
    let webhooks = configuration
        .get_mut("webhooks")
        .and_then(Value::as_array_mut);
    for webhook in webhooks.into_iter().flatten() {
        let Some(bundle) = webhook.pointer_mut("/clientConfig/caBundle") else {
            continue;
        };
        let ours = bundle.as_str().and_then(|text| STANDARD.decode(text).ok());
        let ours = Bundle::from_live(&ours.unwrap_or_default());
        let both: Bundle = live
            .certificates()
            .iter()
            .chain(ours.certificates())
            .cloned()
            .collect();
        *bundle = STANDARD.encode(both.to_pem()).into();
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
