//! What controllers ask about OpenShift: whether the control plane runs in the cluster, so that its nodes are configured
//! by MachineConfigs.

use std::sync::Arc;

use kube::Client;
use serde::Deserialize;

use crate::stores::{Change, Mirror, Objects, Source};

const NAME: &str = "cluster";

/// The Infrastructure `cluster`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Infrastructure {
    #[serde(default)]
    status: Status,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    #[serde(default)]
    control_plane_topology: Option<Box<str>>,
}

impl Infrastructure {
    /// Its store, and the task that keeps it.
    pub(super) fn watch(
        client: &Client,
        on_change: impl Fn() + Send + Sync + 'static,
    ) -> (Arc<Objects<Self>>, Mirror) {
        let path = "/apis/config.openshift.io/v1/infrastructures".into();
        let source = Source::all("infrastructures", path).named(NAME);
        Objects::mirror_of(client, source, move |change: &Change<'_, Self>| {
            if change.before != change.after {
                on_change();
            }
        })
    }

    /// Whether the control plane is hosted elsewhere (Hypershift): then there are no MachineConfigPools.
    pub(super) fn is_hosted(store: &Objects<Self>) -> bool {
        store.get("", NAME).is_some_and(|infrastructure| {
            infrastructure.status.control_plane_topology.as_deref() == Some("External")
        })
    }
}
