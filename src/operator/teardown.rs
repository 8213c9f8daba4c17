//! Removing what is ours: configurations first, so that no call is left without a backend; then everything else.

use super::{reconcile::Reconciler, report::Report};
use crate::{
    apply::{Kind, ObjectRef},
    render::{Component, SWITCHES},
};

impl Reconciler {
    /// Removes every object of ours that templates make, and goes on with the others when one fails.
    pub(super) async fn remove_everything(&self, report: &mut Report) {
        let mut objects: Vec<(Component, ObjectRef)> = Component::ALL
            .into_iter()
            .flat_map(|component| {
                catalogue(component)
                    .into_iter()
                    .map(move |object| (component, object))
            })
            .collect();
        let switches = ObjectRef::find(SWITCHES.api_version, SWITCHES.kind, SWITCHES.name);
        objects.extend(switches.map(|switches| (Component::Injector, switches)));
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
        let mut catalogue = catalogue(component);
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
}

/// Every object that a component may have in any variant, in the order in which it is applied.
pub(super) fn catalogue(component: Component) -> Vec<ObjectRef> {
    component
        .objects()
        .iter()
        .filter_map(|object| ObjectRef::find(object.api_version, object.kind, object.name))
        .collect()
}

pub(super) fn is_webhook_configuration(kind: &Kind) -> bool {
    kind.group == "admissionregistration.k8s.io"
}
