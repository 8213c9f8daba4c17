//! A webhook whose Service leads to another backend than the wanted one: the reference's workload that is taken over,
//! or the other way of serving. How far its change of hands is ([`Passage`]) follows from the cluster, so a restart goes
//! on there; only the pauses begin anew.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;

use super::{
    passage::Passage,
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
