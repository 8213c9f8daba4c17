//! Removing what is ours: configurations first, so that no call is left without a backend; then everything else.

use std::time::Duration;

use tokio::time::sleep;
use tracing::{info, warn};

use super::{
    finalizer,
    reconcile::{Reconciler, Verdict, owner_reference},
    report::Report,
};
use crate::{
    api::SriovOperatorConfig,
    apply::{Kind, ObjectRef},
    render::{Component, DEVICE_PLUGIN_CONFIG, ObjectName, SWITCHES},
    settings::ClusterType,
};

/// How long what answers a webhook outlives its configuration: an API server learns of the removal by its watch, and
/// until then it calls, and calls that are under way end.
const CALLS_CEASE: Duration = Duration::from_secs(2);
/// The group of the Prometheus operator's kinds.
const PROMETHEUS: &str = "monitoring.coreos.com";

impl Reconciler {
    /// There is no config: what an earlier one left without its finalizer having run goes.
    pub(super) async fn sweep(&self) -> Verdict {
        let mut report = Report::default();
        self.remove_everything(&mut report).await;
        if report.is_to_be_retried() {
            warn!(outcome = ?report.outcome(), "failed to remove what an earlier config left");
            Verdict::Retry
        } else {
            Verdict::Settled { look_again: None }
        }
    }

    /// The config goes: so does everything of ours, then the finalizer.
    pub(super) async fn teardown(&self, config: &SriovOperatorConfig) -> Verdict {
        let uid = config.metadata.uid.as_ref();
        if (uid.is_some() && self.finished.lock().as_ref() == uid) || !finalizer::is_present(config)
        {
            return Verdict::Settled { look_again: None };
        }
        let mut report = Report::default();
        if let Some(uid) = uid {
            self.applier().set_config_uid(uid);
        }
        self.remove_everything(&mut report).await;
        self.certificates()
            .remove(&owner_reference(config), &mut report)
            .await;
        if report.is_to_be_retried() {
            self.write_status(config, &report).await;
            return Verdict::Retry;
        }
        match finalizer::remove(&self.configs(), config).await {
            Ok(()) => {
                info!("everything of the config is removed, and its finalizer");
                self.finished.lock().clone_from(&config.metadata.uid);
                Verdict::Settled { look_again: None }
            }
            Err(error) => {
                warn!(%error, "failed to remove the finalizer");
                Verdict::Retry
            }
        }
    }

    /// Removes every object of ours that templates make, and goes on with the others when one fails.
    pub(super) async fn remove_everything(&self, report: &mut Report) {
        let mut called = false;
        for (component, object) in in_order_of_removal() {
            if self.is_possible(component) {
                self.remove_one(component, &object, &mut called, report)
                    .await;
            }
        }
    }

    /// Removes what a component no longer has: what is in its catalogue and not in `kept`, in the reverse of the order
    /// in which it was applied, so that configurations go before what answers them.
    pub(super) async fn remove_others(
        &self,
        component: Component,
        kept: &[ObjectRef],
        report: &mut Report,
    ) -> bool {
        let (mut removed, mut called) = (false, false);
        let mut catalogue = self.catalogue(component);
        catalogue.sort_by_key(|object| is_webhook_configuration(object.kind));
        for object in catalogue
            .iter()
            .rev()
            .filter(|object| !kept.contains(object))
        {
            removed |= self
                .remove_one(component, object, &mut called, report)
                .await;
        }
        removed
    }

    /// Removes an object. `called`: a webhook configuration was removed a moment ago, and calls by it may still come.
    async fn remove_one(
        &self,
        component: Component,
        object: &ObjectRef,
        called: &mut bool,
        report: &mut Report,
    ) -> bool {
        let registers = is_webhook_configuration(object.kind);
        if *called && !registers {
            sleep(CALLS_CEASE).await;
            *called = false;
        }
        match self.applier().remove(object).await {
            Ok(removed) => {
                *called |= removed && registers;
                removed
            }
            Err(error) => {
                report.fault(component, error);
                false
            }
        }
    }

    /// Every object that a component may have in any variant on this platform, in the order in which it is applied.
    pub(super) fn catalogue(&self, component: Component) -> Vec<ObjectRef> {
        if self.is_possible(component) {
            catalogue(component)
        } else {
            Vec::new()
        }
    }

    /// Whether the platform can have objects of a component. Elsewhere nobody may have the right to ask for them.
    fn is_possible(&self, component: Component) -> bool {
        component != Component::MachineConfig
            || self.settings().components.cluster_type == ClusterType::OpenShift
    }

    /// What is watched for drift: everything that may be applied, but for kinds that nothing here makes objects of.
    pub(super) fn watched_objects(&self) -> Vec<ObjectRef> {
        let prometheus = self
            .settings()
            .components
            .metrics_exporter
            .prometheus
            .is_some();
        Component::ALL
            .into_iter()
            .flat_map(|component| self.catalogue(component))
            .filter(|object| prometheus || object.kind.group != PROMETHEUS)
            .chain(switches())
            .collect()
    }
}

/// The injector's switches.
fn switches() -> Option<ObjectRef> {
    reference(&SWITCHES)
}

fn reference(name: &ObjectName) -> Option<ObjectRef> {
    ObjectRef::find(name.api_version, name.kind, name.name)
}

/// Everything that is made in the operator's namespace and for the cluster, in the order in which it is removed.
pub(super) fn in_order_of_removal() -> Vec<(Component, ObjectRef)> {
    let mut objects: Vec<(Component, ObjectRef)> = Component::ALL
        .into_iter()
        .flat_map(|component| {
            catalogue(component)
                .into_iter()
                .map(move |object| (component, object))
        })
        .collect();
    objects.extend(switches().map(|switches| (Component::Injector, switches)));
    objects
        .extend(reference(&DEVICE_PLUGIN_CONFIG).map(|config| (Component::DevicePlugin, config)));
    let (mut ordered, mut others): (Vec<_>, Vec<_>) = objects
        .into_iter()
        .partition(|(_, object)| is_webhook_configuration(object.kind));
    others.reverse();
    ordered.append(&mut others);
    ordered
}

/// Every object that a component may have in any variant, in the order in which it is applied.
fn catalogue(component: Component) -> Vec<ObjectRef> {
    component.objects().iter().filter_map(reference).collect()
}

fn is_webhook_configuration(kind: &Kind) -> bool {
    kind.group == "admissionregistration.k8s.io"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_go_before_what_answers_them_and_everything_goes() {
        let order = in_order_of_removal();
        let last_configuration = order
            .iter()
            .rposition(|(_, object)| is_webhook_configuration(object.kind));
        assert_eq!(last_configuration, Some(2));
        for component in Component::ALL {
            for object in catalogue(component) {
                assert!(order.contains(&(component, object.clone())), "{object}");
            }
        }
        assert!(order.iter().any(|(_, object)| object.name == SWITCHES.name));
    }
}
