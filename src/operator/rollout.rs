//! One component's share of a pass: its objects are applied in order, what it no longer has is removed.

use std::time::Duration;

use serde_json::Value;
use tracing::warn;

use super::{
    certificates::Issued, handover::keep_live_bundle, passage::Passage, reconcile::Reconciler,
    report::Report,
};
use crate::{
    api::SriovOperatorConfig,
    apply::{Applied, Error as ApplyError, ObjectRef},
    certs::{
        bundle::Bundle,
        published::{Configuration, Published},
    },
    render::{Component, Rendered},
};

/// How soon a backend that is waited for is looked at again.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What a component is rolled out by.
pub(super) struct Rollout<'a> {
    pub(super) config: &'a SriovOperatorConfig,
    pub(super) component: Component,
    /// How webhook configurations can be registered.
    pub(super) issued: &'a Issued,
    pub(super) published: &'a Published,
}

/// What became of one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    /// It was made.
    Created,
    /// It is as wanted.
    AsWanted,
    /// It may be missing.
    Failed,
}

impl Reconciler {
    /// Applies what a component renders to, in order, then removes what it no longer has. Whether objects were made.
    pub(super) async fn roll_out(
        &self,
        rollout: &Rollout<'_>,
        rendered: Rendered,
        report: &mut Report,
    ) -> bool {
        let component = rollout.component;
        for warning in &rendered.warnings {
            report.warning(warning.to_string());
        }
        let passage = match self.passage(rollout, &rendered.objects).await {
            Ok(passage) => passage,
            Err(error) => {
                report.fault(component, &error);
                Passage::Held("its Service, which could not be read".to_owned())
            }
        };
        tell(&passage, component, report);
        if matches!(passage, Passage::Frozen(_)) {
            return false;
        }
        let held = rollout.issued.held.contains(&component);
        let (mut kept, mut created, mut backend_failed) = (Vec::new(), false, false);
        let once = rendered
            .created_once
            .into_iter()
            .map(|object| (object, true));
        let applied = rendered.objects.into_iter().map(|object| (object, false));
        for (mut object, once) in once.chain(applied) {
            let reference = match ObjectRef::of(&object) {
                Ok(reference) => reference,
                Err(error) => {
                    report.lasting_fault(component, error);
                    continue;
                }
            };
            kept.push(reference.clone());
            let is_service = reference.kind.kind == "Service";
            if is_service && (held || passage.keeps_service()) {
                continue;
            }
            if let Some(configuration) = configuration(&reference) {
                if held || passage.keeps_configurations() {
                    continue;
                }
                let live = rollout.published.get(configuration);
                if live.is_none()
                    && let Some(missing) = self.missing_for(rollout, backend_failed).await
                {
                    report.waiting(component, missing, LOOK_AGAIN);
                    continue;
                }
                if let Some(live) = live {
                    if passage.keeps_old() {
                        let bundle = live.ca_bundle.as_deref().unwrap_or_default();
                        keep_live_bundle(&mut object, &Bundle::from_live(bundle));
                    } else if rollout.issued.standing(configuration).differs_from(live) {
                        // Field ownership does not show what somebody did in our name.
                        self.applier().doubt(&reference, &live.version);
                    }
                }
            }
            let done = self.apply(rollout, &reference, &object, once, report).await;
            created |= done == Done::Created;
            backend_failed |= done == Done::Failed;
            if is_service && passage == Passage::Switching && done != Done::Failed {
                self.handovers().switched(component);
                report.look_again_in(self.settings().process.shutdown_delay);
            }
        }
        if !passage.keeps_old() {
            self.remove_others(component, &kept, report).await;
        }
        created
    }

    /// Applies one object.
    async fn apply(
        &self,
        rollout: &Rollout<'_>,
        reference: &ObjectRef,
        object: &Value,
        once: bool,
        report: &mut Report,
    ) -> Done {
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
            Ok(Applied::Repaired(repair)) => {
                metrics.repaired(component.name());
                self.announcer()
                    .repaired(rollout.config, reference, &repair);
                Done::AsWanted
            }
            Ok(Applied::Created) => Done::Created,
            Ok(Applied::Applied | Applied::Unchanged) => Done::AsWanted,
            // What the server does not know cannot be there: the Prometheus operator is not installed.
            Err(error @ ApplyError::UnknownKind(_)) => {
                report.warning(format!("{component}: left out: {error}"));
                Done::AsWanted
            }
            Err(error) => {
                match error {
                    ApplyError::Contested { retry_in, .. } => {
                        report.contested(component, error, retry_in);
                    }
                    // What others have under our names is watched.
                    ApplyError::Foreign(_)
                    | ApplyError::OtherInstallation { .. }
                    | ApplyError::Malformed { .. }
                    | ApplyError::Unsupported { .. } => {
                        report.lasting_fault(component, error);
                    }
                    ApplyError::Api { .. }
                    | ApplyError::Timeout { .. }
                    | ApplyError::UnknownKind(_) => report.fault(component, error),
                }
                Done::Failed
            }
        }
    }

    /// What a webhook configuration that does not exist waits for; `None` when it may be applied.
    async fn missing_for(&self, rollout: &Rollout<'_>, backend_failed: bool) -> Option<String> {
        if backend_failed {
            return Some("its backend, which could not be applied".to_owned());
        }
        self.missing_backend(rollout).await
    }

    /// The DaemonSet of a component.
    pub(super) fn daemon_set(&self, component: Component) -> Option<ObjectRef> {
        self.catalogue(component)
            .into_iter()
            .find(|object| object.kind.kind == "DaemonSet")
    }

    /// Whether the DaemonSet of a dedicated webhook has a ready pod. Asked only before calls are led there.
    pub(super) async fn has_ready_pod(&self, component: Component) -> bool {
        let Some(daemon_set) = self.daemon_set(component) else {
            return false;
        };
        match self.applier().get_ours(&daemon_set).await {
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

/// What a change of hands means for the report.
fn tell(passage: &Passage, component: Component, report: &mut Report) {
    match passage {
        Passage::Usual | Passage::Switching => {}
        Passage::Frozen(missing) | Passage::Held(missing) => report.waiting(
            component,
            format!("{missing}, to take over from the backend that answers now"),
            LOOK_AGAIN,
        ),
        Passage::Publishing(rest) => report.waiting(
            component,
            "its CA bundle to be known, to take over from the backend that answers now",
            *rest,
        ),
        Passage::Settling(rest) => report.look_again_in(*rest),
    }
}

fn configuration(object: &ObjectRef) -> Option<Configuration> {
    Configuration::ALL.into_iter().find(|configuration| {
        configuration.name() == object.name && configuration.kind() == object.kind.kind
    })
}
