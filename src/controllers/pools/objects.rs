//! What is decoded of the objects of OpenShift: metadata only, since a rendered MachineConfig has megabytes.

use serde::Deserialize;

use crate::apply::{FIELD_MANAGER, LEGACY_FIELD_MANAGER, MANAGED_BY};

/// A MachineConfigPool, of which only the name matters.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct MachinePool {}

/// A MachineConfig.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct MachineConfig {
    metadata: Meta,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    uid: Box<str>,
    resource_version: Box<str>,
    #[serde(default)]
    labels: Option<Labels>,
    #[serde(default)]
    managed_fields: Option<Vec<Manager>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Labels {
    #[serde(rename = "app.kubernetes.io/managed-by")]
    managed_by: Option<Box<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Manager {
    #[serde(default)]
    manager: Option<Box<str>>,
    #[serde(default)]
    subresource: Option<Box<str>>,
}

impl MachineConfig {
    /// Whether it is provably the operator's, or the reference operator's, whose place it takes.
    pub(super) fn is_ours(&self) -> bool {
        let labels = self.metadata.labels.as_ref();
        let labelled = labels.and_then(|labels| labels.managed_by.as_deref()) == Some(MANAGED_BY);
        let mut managers = self.metadata.managed_fields.iter().flatten();
        labelled
            || managers.any(|entry| {
                entry.subresource.is_none()
                    && matches!(
                        entry.manager.as_deref(),
                        Some(FIELD_MANAGER | LEGACY_FIELD_MANAGER)
                    )
            })
    }

    pub(super) fn uid(&self) -> &str {
        &self.metadata.uid
    }

    pub(super) fn version(&self) -> &str {
        &self.metadata.resource_version
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_we_and_the_reference_made_is_ours() {
        let with = |key: &str, value: Value| -> MachineConfig {
            let mut meta = json!({"uid": "u", "resourceVersion": "1"});
            meta[key] = value;
            serde_json::from_value(json!({ "metadata": meta })).unwrap()
        };
        for (key, value, ours) in [
            (
                "labels",
                json!({"app.kubernetes.io/managed-by": "sriov-operator"}),
                true,
            ),
            (
                "labels",
                json!({"app.kubernetes.io/managed-by": "helm"}),
                false,
            ),
            (
                "managedFields",
                json!([{"manager": "kubectl"}, {"manager": "sriov-network-operator"}]),
                true,
            ),
            (
                "managedFields",
                json!([{"manager": "sriov-operator"}]),
                true,
            ),
            ("managedFields", json!([{"manager": "kubectl"}]), false),
            (
                "managedFields",
                json!([{"manager": "sriov-operator", "subresource": "status"}]),
                false,
            ),
        ] {
            assert_eq!(with(key, value.clone()).is_ours(), ours, "{value}");
        }
    }
}
