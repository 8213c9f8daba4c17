//! One component's share of a pass: its objects are applied in order, what it no longer has is removed.

use std::time::Duration;

use serde_json::Value;
use tracing::{debug, warn};

use super::{
    certificates::Standing,
    reconcile::Reconciler,
    report::Report,
    teardown::{catalogue, is_webhook_configuration},
};
use crate::{
    api::SriovOperatorConfig,
    apply::{Applied, Drift, Error as ApplyError, ObjectRef},
    certs::published::{Configuration, Published},
    render::{Component, Rendered},
    settings::AdmissionServing,
};

/// How soon a backend that is waited for is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How soon a name that somebody else's object has is looked at again: no watch of ours shows that it is free.
const LOOK_AT_FOREIGN: Duration = Duration::from_secs(30);

/// What a component is rolled out by.
pub(super) struct Rollout<'a> {
    pub(super) config: &'a SriovOperatorConfig,
    pub(super) component: Component,
    /// How the component's webhook can be registered; `None` when it has none.
    pub(super) standing: Option<&'a Standing>,
    pub(super) published: &'a Published,
    /// What woke the pass.
    pub(super) drifts: &'a [Drift],
}

impl Reconciler {
    /// Applies what a component renders to, in order, then removes what it no longer has.
    pub(super) async fn roll_out(
        &self,
        rollout: &Rollout<'_>,
        rendered: Rendered,
        report: &mut Report,
    ) {
        let component = rollout.component;
        for warning in &rendered.warnings {
            report.warning(warning.to_string());
        }
        let mut kept = Vec::new();
        let mut backend_failed = false;
        let once = rendered.created_once.iter().map(|object| (object, true));
        let applied = rendered.objects.iter().map(|object| (object, false));
        for (object, once) in once.chain(applied) {
            let reference = match ObjectRef::of(object) {
                Ok(reference) => reference,
                Err(error) => {
                    report.lasting_fault(component, error);
                    continue;
                }
            };
            kept.push(reference.clone());
            if is_webhook_configuration(reference.kind)
                && let Some(missing) = self.missing_for(rollout, &reference, backend_failed).await
            {
                report.waiting(component, missing, LOOK_AGAIN);
                continue;
            }
            backend_failed |= !self.apply(rollout, &reference, object, once, report).await;
        }
        self.remove_others(component, &kept, report).await;
    }

    /// Applies one object, and says whether it is as wanted or may be missing.
    async fn apply(
        &self,
        rollout: &Rollout<'_>,
        reference: &ObjectRef,
        object: &Value,
        once: bool,
        report: &mut Report,
    ) -> bool {
        let component = rollout.component;
        let applied = if once {
            self.applier().create_once(object).await
        } else {
            self.applier().apply(object).await
        };
        let metrics = &self.metrics().operator;
        let result = match &applied {
            Ok(Applied::Unchanged) => "skipped",
            Ok(_) => "applied",
            Err(_) => "failed",
        };
        metrics.applied(component.name(), result);
        match applied {
            Ok(Applied::Repaired) => {
                metrics.repaired(component.name());
                self.announcer()
                    .repaired(rollout.config, reference, rollout.drifts);
                true
            }
            Ok(applied) => {
                debug!(%component, object = %reference, ?applied, "reconciled");
                true
            }
            // What the server does not know cannot be there: the Prometheus operator is not installed.
            Err(error @ ApplyError::UnknownKind(_)) => {
                report.warning(format!("{component}: left out: {error}"));
                true
            }
            Err(ApplyError::Contested {
                object,
                manager,
                retry_in,
            }) => {
                report.warning(format!(
                    "{component}: {object} is changed again and again by {manager}"
                ));
                report.look_again_in(retry_in);
                true
            }
            Err(error @ ApplyError::Foreign(_)) => {
                report.lasting_fault(component, error);
                report.look_again_in(LOOK_AT_FOREIGN);
                false
            }
            Err(error) => {
                report.fault(component, error);
                false
            }
        }
    }

    /// What a webhook configuration waits for; `None` when it may be applied. One that is registered stays so.
    async fn missing_for(
        &self,
        rollout: &Rollout<'_>,
        configuration: &ObjectRef,
        backend_failed: bool,
    ) -> Option<String> {
        let standing = rollout.standing?;
        let registered = Configuration::ALL.into_iter().any(|known| {
            known.name() == configuration.name
                && known.kind() == configuration.kind.kind
                && rollout.published.get(known).is_some()
        });
        if registered {
            return None;
        }
        if backend_failed {
            return Some("its backend, which could not be applied".to_owned());
        }
        if !standing.verified {
            let secret = &self.certificates().endpoint(rollout.component).secret;
            return Some(format!(
                "a serving certificate in Secret {secret} that its CA bundle verifies"
            ));
        }
        let dedicated = self.settings().components.serving == AdmissionServing::Dedicated;
        if dedicated && !self.has_ready_pod(rollout.component).await {
            return Some("a ready pod of its DaemonSet".to_owned());
        }
        None
    }

    /// Whether the DaemonSet of a dedicated webhook has a ready pod. Asked only until its webhook is registered.
    async fn has_ready_pod(&self, component: Component) -> bool {
        let daemon_set = catalogue(component)
            .into_iter()
            .find(|object| object.kind.kind == "DaemonSet");
        let Some(daemon_set) = daemon_set else {
            return false;
        };
        match self.applier().get(&daemon_set).await {
            Ok(live) => live
                .as_ref()
                .and_then(|live| live.pointer("/status/numberReady"))
                .and_then(Value::as_i64)
                .is_some_and(|ready| ready > 0),
            Err(error) => {
                warn!(%error, "failed to look for ready pods");
                false
            }
        }
    }
}
