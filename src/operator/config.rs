//! What the reconciler is woken by: the one config object, and the operator's own Namespace. Watched by name.

use futures::StreamExt;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, Resource, api::PartialObjectMeta, core::ObjectMeta};
use serde::de::DeserializeOwned;
use std::{fmt::Debug, pin::pin};
use tokio::sync::watch;
use tracing::warn;

use crate::{
    api::{DEFAULT_CONFIG_NAME, SriovOperatorConfig},
    lines::causes,
    watching::watch_object,
};

/// An object that is watched: not known yet, not there, or there.
#[derive(Clone, Debug, Default)]
pub enum Observed<K> {
    /// The first list has not ended.
    #[default]
    Unknown,
    /// There is none.
    Absent,
    /// The latest that the watch showed.
    Present(Box<K>),
}

impl<K> Observed<K> {
    /// The object, if there is one.
    pub fn present(&self) -> Option<&K> {
        match self {
            Self::Present(object) => Some(object),
            Self::Unknown | Self::Absent => None,
        }
    }
}

/// Watches `SriovOperatorConfig/default` of a namespace until dropped.
pub async fn watch_config(
    client: Client,
    namespace: &str,
    sender: watch::Sender<Observed<SriovOperatorConfig>>,
) {
    let api: Api<SriovOperatorConfig> = Api::namespaced(client, namespace);
    observe(api, DEFAULT_CONFIG_NAME, sender, needs_reconcile).await;
}

/// Watches the metadata of a Namespace until dropped.
pub async fn watch_namespace(
    client: Client,
    name: &str,
    sender: watch::Sender<Observed<PartialObjectMeta<Namespace>>>,
) {
    let api: Api<PartialObjectMeta<Namespace>> = Api::all(client);
    observe(api, name, sender, |before, after| {
        before.metadata.uid != after.metadata.uid
            || before.metadata.deletion_timestamp != after.metadata.deletion_timestamp
    })
    .await;
}

/// Whether a change of the config matters to the reconciler. Its status does not: we write it ourselves.
fn needs_reconcile(before: &SriovOperatorConfig, after: &SriovOperatorConfig) -> bool {
    fn identity(meta: &ObjectMeta) -> (&Option<String>, Option<i64>, bool, &Option<Vec<String>>) {
        (
            &meta.uid,
            meta.generation,
            meta.deletion_timestamp.is_some(),
            &meta.finalizers,
        )
    }
    identity(&before.metadata) != identity(&after.metadata)
}

async fn observe<K>(
    api: Api<K>,
    name: &str,
    sender: watch::Sender<Observed<K>>,
    matters: impl Fn(&K, &K) -> bool,
) where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut shown = pin!(watch_object(api, name));
    while let Some(shown) = shown.next().await {
        let next = match shown {
            Ok(Some(object)) => Observed::Present(Box::new(object)),
            Ok(None) => Observed::Absent,
            Err(error) => {
                warn!(object = name, error = %causes(&error), "watch interrupted, it is tried again");
                continue;
            }
        };
        sender.send_if_modified(|current| {
            let wakes = match (&*current, &next) {
                (Observed::Present(before), Observed::Present(after)) => matters(before, after),
                (Observed::Absent, Observed::Absent) => false,
                _ => true,
            };
            *current = next;
            wakes
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config(value: serde_json::Value) -> SriovOperatorConfig {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_change_of_the_status_alone_wakes_nobody() {
        let before =
            config(json!({"metadata": {"uid": "a", "generation": 1, "resourceVersion": "1"}}));
        let status = config(
            json!({"metadata": {"uid": "a", "generation": 1, "resourceVersion": "2"}, "status": {"injector": "x"}}),
        );
        assert!(!needs_reconcile(&before, &status));
        for changed in [
            json!({"metadata": {"uid": "b", "generation": 1}}),
            json!({"metadata": {"uid": "a", "generation": 2}}),
            json!({"metadata": {"uid": "a", "generation": 1, "finalizers": ["x"]}}),
            json!({"metadata": {"uid": "a", "generation": 1, "deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        ] {
            assert!(needs_reconcile(&before, &config(changed)));
        }
    }
}
