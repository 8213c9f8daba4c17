//! The bundles that the live webhook configurations carry, watched by every replica.
//!
//! The leader needs them to know when a new CA is published everywhere, every replica to know whether what it serves
//! will be believed. It writes nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use futures::{StreamExt, stream::SelectAll};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
    discovery::Scope,
};
use serde_json::{Value, json};
use tokio::sync::watch;
use tracing::warn;

use crate::apply::FIELD_MANAGER;
use crate::lines::causes;
use crate::watching::watch_object;

/// A webhook configuration of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Configuration {
    /// `MutatingWebhookConfiguration/sriov-operator-webhook-config`.
    OperatorMutating,
    /// `ValidatingWebhookConfiguration/sriov-operator-webhook-config`.
    OperatorValidating,
    /// `MutatingWebhookConfiguration/network-resources-injector-config`.
    Injector,
}

impl Configuration {
    /// All of them.
    pub const ALL: [Self; 3] = [
        Self::OperatorMutating,
        Self::OperatorValidating,
        Self::Injector,
    ];

    /// `metadata.name`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OperatorMutating | Self::OperatorValidating => "sriov-operator-webhook-config",
            Self::Injector => "network-resources-injector-config",
        }
    }

    /// Its kind.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::OperatorMutating | Self::Injector => "MutatingWebhookConfiguration",
            Self::OperatorValidating => "ValidatingWebhookConfiguration",
        }
    }

    /// The plural of its kind.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::OperatorMutating | Self::Injector => "mutatingwebhookconfigurations",
            Self::OperatorValidating => "validatingwebhookconfigurations",
        }
    }
}

impl fmt::Display for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind(), self.name())
    }
}

/// By this annotation a configuration asks OpenShift's service CA for its bundles.
const INJECT_SERVICE_CA: &str = "service.beta.openshift.io/inject-cabundle";

/// What the live configurations carry.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// Those that are watched and have not been looked at yet.
    awaited: BTreeSet<Configuration>,
    configurations: BTreeMap<Configuration, Registered>,
}

/// A configuration that exists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registered {
    /// The bundle (PEM) of its webhooks; `None` when one of them has none.
    pub ca_bundle: Option<Vec<u8>>,
    /// Whether every bundle is as our last apply left it: nobody else has filled one in since.
    pub is_ours: bool,
    /// Its `resourceVersion`.
    pub version: String,
    /// Whether a call that fails lets the request through (`failurePolicy: Ignore`).
    pub ignores_failures: bool,
    /// Whether it asks OpenShift's service CA to fill in its bundles.
    pub asks_service_ca: bool,
}

impl Published {
    /// Nothing seen yet of these configurations.
    pub fn awaiting(configurations: impl IntoIterator<Item = Configuration>) -> Self {
        Self {
            awaited: configurations.into_iter().collect(),
            configurations: BTreeMap::new(),
        }
    }

    /// Whether all configurations that are watched have been looked at.
    pub fn is_complete(&self) -> bool {
        self.awaited.is_empty()
    }

    /// A configuration, if it exists.
    pub fn get(&self, configuration: Configuration) -> Option<&Registered> {
        self.configurations.get(&configuration)
    }
}

/// Watches the configurations that `published` awaits until dropped.
pub async fn watch_published(client: Client, published: watch::Sender<Published>) {
    let mut events = SelectAll::new();
    let awaited = published.borrow().awaited.clone();
    for configuration in awaited {
        let resource = ApiResource {
            group: "admissionregistration.k8s.io".into(),
            version: "v1".into(),
            api_version: "admissionregistration.k8s.io/v1".into(),
            kind: configuration.kind().into(),
            plural: configuration.plural().into(),
        };
        let api: Api<DynamicObject> = Api::dynamic(client.clone(), &resource, &Scope::Cluster);
        events.push(Box::pin(
            watch_object(api, configuration.name()).map(move |shown| (configuration, shown)),
        ));
    }
    while let Some((configuration, shown)) = events.next().await {
        let update = match shown {
            Ok(object) => object.as_ref().map(registered),
            Err(error) => {
                warn!(%configuration, error = %causes(&error), "watch interrupted, it is tried again");
                continue;
            }
        };
        published.send_if_modified(|published| {
            let before = published.clone();
            published.awaited.remove(&configuration);
            match update {
                Some(registered) => published.configurations.insert(configuration, registered),
                None => published.configurations.remove(&configuration),
            };
            *published != before
        });
    }
}

fn registered(object: &DynamicObject) -> Registered {
    let webhooks = object.data["webhooks"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let bundle = |webhook: &Value| {
        let text = webhook.pointer("/clientConfig/caBundle")?.as_str()?;
        STANDARD
            .decode(text)
            .ok()
            .filter(|bundle| !bundle.is_empty())
    };
    let bundles: Option<Vec<Vec<u8>>> = webhooks.iter().map(bundle).collect();
    Registered {
        ca_bundle: bundles.and_then(|bundles| bundles.into_iter().next()),
        is_ours: webhooks
            .iter()
            .all(|webhook| owns_bundle(object, &webhook["name"])),
        version: object.metadata.resource_version.clone().unwrap_or_default(),
        ignores_failures: webhooks
            .iter()
            .any(|webhook| webhook["failurePolicy"] == "Ignore"),
        asks_service_ca: object
            .metadata
            .annotations
            .as_ref()
            .and_then(|annotations| annotations.get(INJECT_SERVICE_CA))
            .is_some_and(|value| value == "true"),
    }
}

/// Whether our apply owns the `caBundle` of that webhook: whoever changes it takes it over.
fn owns_bundle(object: &DynamicObject, webhook: &Value) -> bool {
    let key = format!("k:{}", json!({ "name": webhook }));
    let entries = object.metadata.managed_fields.iter().flatten();
    entries
        .filter(|entry| {
            entry.manager.as_deref() == Some(FIELD_MANAGER)
                && entry.operation.as_deref() == Some("Apply")
        })
        .filter_map(|entry| entry.fields_v1.as_ref())
        .any(|fields| !fields.0["f:webhooks"][&key]["f:clientConfig"]["f:caBundle"].is_null())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration(webhooks: &Value, manager: &str, operation: &str) -> DynamicObject {
        let fields = json!({ "f:webhooks": { "k:{\"name\":\"a\"}": {
            "f:clientConfig": { "f:caBundle": {}, "f:service": {} },
        } } });
        serde_json::from_value(json!({
            "metadata": { "resourceVersion": "7", "managedFields": [
                { "manager": "kubectl", "operation": "Update" },
                { "manager": manager, "operation": operation, "fieldsV1": fields },
            ] },
            "webhooks": webhooks,
        }))
        .unwrap()
    }

    #[test]
    fn a_configuration_without_a_bundle_on_every_webhook_has_none() {
        let with =
            json!({"name": "a", "failurePolicy": "Ignore", "clientConfig": {"caBundle": "YQ=="}});
        let without = json!({"name": "b", "clientConfig": {"caBundle": ""}});
        let read = |webhooks| registered(&configuration(&webhooks, FIELD_MANAGER, "Apply"));
        assert_eq!(
            read(json!([with])),
            Registered {
                ca_bundle: Some(b"a".to_vec()),
                is_ours: true,
                version: "7".into(),
                ignores_failures: true,
                asks_service_ca: false,
            }
        );
        let mut asking = configuration(&json!([with]), FIELD_MANAGER, "Apply");
        let annotations = asking.metadata.annotations.get_or_insert_default();
        annotations.insert(INJECT_SERVICE_CA.into(), "true".into());
        assert!(registered(&asking).asks_service_ca);
        assert_eq!(read(json!([with, without])).ca_bundle, None);
        assert_eq!(read(json!(null)).ca_bundle, None);
    }

    #[test]
    fn a_bundle_is_ours_as_long_as_our_apply_owns_it() {
        let webhooks = json!([{"name": "a", "clientConfig": {"caBundle": "YQ=="}}]);
        for (manager, operation, ours) in [
            (FIELD_MANAGER, "Apply", true),
            (FIELD_MANAGER, "Update", false),
            ("cainjector", "Apply", false),
        ] {
            let read = registered(&configuration(&webhooks, manager, operation));
            assert_eq!(read.is_ours, ours, "{manager} {operation}");
        }
        let other = json!([{"name": "b", "clientConfig": {"caBundle": "YQ=="}}]);
        assert!(!registered(&configuration(&other, FIELD_MANAGER, "Apply")).is_ours);
    }
}
