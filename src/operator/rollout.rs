//! One component's share of a pass: its objects are applied in order, what it no longer has is removed.

use std::time::{Duration, Instant};

use serde_json::Value;
use tracing::{debug, warn};

use super::{certificates::Issued, reconcile::Reconciler, report::Report, teardown::catalogue};
use crate::{
    api::SriovOperatorConfig,
    apply::{Applied, Drift, Error as ApplyError, ObjectRef},
    certs::published::{Configuration, Published},
    render::{Component, ComponentError, Desired, Rendered},
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
    /// How webhook configurations can be registered.
    pub(super) issued: &'a Issued,
    pub(super) published: &'a Published,
    /// What woke the pass.
    pub(super) drifts: &'a [Drift],
}

impl Reconciler {
    /// Brings a component to what is desired, and measures it.
    pub(super) async fn settle(
        &self,
        rollout: &Rollout<'_>,
        desired: Result<Desired, ComponentError>,
        report: &mut Report,
    ) {
        let (component, started, faults) =
            (rollout.component, Instant::now(), report.fault_count());
        match desired {
            Ok(Desired::Off) => {
                self.remove_others(component, &[], report).await;
                self.announcer().component(rollout.config, component, false);
            }
            Ok(Desired::On(rendered)) => {
                self.roll_out(rollout, rendered, report).await;
                self.announcer().component(rollout.config, component, true);
            }
            Err(ComponentError::Unsupported(what)) => report.unsupported(what),
            Err(error) => report.lasting_fault(component, error),
        }
        let result = if report.fault_count() == faults {
            "success"
        } else {
            "error"
        };
        self.metrics()
            .operator
            .rolled_out(component.name(), result, started.elapsed());
    }

    /// Applies what a component renders to, in order, then removes what it no longer has.
    async fn roll_out(&self, rollout: &Rollout<'_>, rendered: Rendered, report: &mut Report) {
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
            if let Some(configuration) = configuration(&reference)
                && let Some(missing) = self
                    .missing_for(rollout, &reference, configuration, backend_failed)
                    .await
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
        reference: &ObjectRef,
        configuration: Configuration,
        backend_failed: bool,
    ) -> Option<String> {
        let standing = rollout.issued.standing(configuration);
        if let Some(registered) = rollout.published.get(configuration) {
            // Field ownership does not show what somebody did in our name.
            if standing.differs_from(registered) {
                self.applier().doubt(reference, &registered.version);
            }
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
        match self.settings().components.serving {
            AdmissionServing::Dedicated if self.has_ready_pod(rollout.component).await => None,
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

fn configuration(object: &ObjectRef) -> Option<Configuration> {
    Configuration::ALL.into_iter().find(|configuration| {
        configuration.name() == object.name && configuration.kind() == object.kind.kind
    })
}
