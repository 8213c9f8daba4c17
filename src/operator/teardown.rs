//! Removing what is ours: configurations first, so that no call is left without a backend; then everything else.

use super::{reconcile::Reconciler, report::Report};
use crate::{
    apply::{Kind, ObjectRef},
    render::{Component, SWITCHES},
    settings::ClusterType,
};

/// The group of the Prometheus operator's kinds.
const PROMETHEUS: &str = "monitoring.coreos.com";

impl Reconciler {
    /// Removes every object of ours that templates make, and goes on with the others when one fails.
    pub(super) async fn remove_everything(&self, report: &mut Report) {
        let mut objects: Vec<(Component, ObjectRef)> = Component::ALL
            .into_iter()
            .flat_map(|component| {
                self.catalogue(component)
                    .into_iter()
                    .map(move |object| (component, object))
            })
            .collect();
        objects.extend(switches().map(|switches| (Component::Injector, switches)));
        let (configurations, others): (Vec<_>, Vec<_>) = objects
            .into_iter()
            .partition(|(_, object)| is_webhook_configuration(object.kind));
        for (component, object) in configurations.iter().chain(others.iter().rev()) {
            if let Err(error) = self.applier().remove(object).await {
                report.fault(component, error);
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
        let mut removed = false;
        let mut catalogue = self.catalogue(component);
        catalogue.sort_by_key(|object| is_webhook_configuration(object.kind));
        for object in catalogue
            .iter()
            .rev()
            .filter(|object| !kept.contains(object))
        {
            match self.applier().remove(object).await {
                Ok(this) => removed |= this,
                Err(error) => report.fault(component, error),
            }
        }
        removed
    }

    /// Every object that a component may have in any variant on this platform, in the order in which it is applied.
    pub(super) fn catalogue(&self, component: Component) -> Vec<ObjectRef> {
        let cluster_type = self.settings().components.cluster_type;
        if component == Component::MachineConfig && cluster_type != ClusterType::OpenShift {
            return Vec::new();
        }
        component
            .objects()
            .iter()
            .filter_map(|object| ObjectRef::find(object.api_version, object.kind, object.name))
            .collect()
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
    ObjectRef::find(SWITCHES.api_version, SWITCHES.kind, SWITCHES.name)
}

pub(super) fn is_webhook_configuration(kind: &Kind) -> bool {
    kind.group == "admissionregistration.k8s.io"
}
