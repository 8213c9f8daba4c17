//! What is read of the objects: networks, definitions, and what has to be there. Everything else is dropped while it is decoded.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::{
    api::{API_VERSION, Condition, NETWORK_FINALIZER},
    apply::{FIELD_MANAGER, LEGACY_FIELD_MANAGER},
    networks::{
        Attachment, LAST_NAMESPACE_ANNOTATION, NetworkRef, OWNER_ANNOTATION, RESOURCE_ANNOTATION,
    },
};

/// Metadata, as far as it is used.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Meta {
    #[serde(deserialize_with = "or_default")]
    pub(super) uid: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) resource_version: String,
    pub(super) generation: Option<i64>,
    deletion_timestamp: Option<String>,
    #[serde(deserialize_with = "or_default")]
    annotations: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    pub(super) finalizers: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    owner_references: Vec<Owner>,
    #[serde(deserialize_with = "or_default")]
    managed_fields: Vec<Entry>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Owner {
    api_version: String,
    kind: String,
    name: String,
    uid: String,
    controller: Option<bool>,
}

/// An entry of `managedFields`: who wrote, not what.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Entry {
    manager: String,
    operation: String,
    time: Option<String>,
    subresource: Option<String>,
}

/// A network of any kind.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Network {
    pub(super) metadata: Meta,
    pub(super) spec: Value,
    status: Option<Status>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Status {
    #[serde(deserialize_with = "or_default")]
    conditions: Vec<Condition>,
}

/// A network attachment definition.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Definition {
    pub(super) metadata: Meta,
    spec: Option<DefinitionSpec>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct DefinitionSpec {
    config: Option<String>,
}

/// What only matters as far as it is there: a namespace, the operator's config.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Presence {
    metadata: Meta,
}

/// Whose a definition is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// It says that it comes of the network.
    Ours,
    /// It says nothing: a user made it, or an older version of the reference's operator.
    Nobodys,
    /// It comes of something else, whose name this is.
    Anothers(String),
}

impl Meta {
    /// Whether it is being deleted.
    pub(super) fn goes(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations
            .get(key)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    fn writers(&self) -> impl Iterator<Item = &Entry> {
        self.managed_fields
            .iter()
            .filter(|entry| entry.subresource.is_none())
    }
}

impl Network {
    /// The conditions of its status.
    pub(super) fn conditions(&self) -> &[Condition] {
        self.status
            .as_ref()
            .map(|status| status.conditions.as_slice())
            .unwrap_or_default()
    }

    /// Whether it has our finalizer.
    pub(super) fn is_finalized(&self) -> bool {
        let mut finalizers = self.metadata.finalizers.iter();
        finalizers.any(|finalizer| finalizer == NETWORK_FINALIZER)
    }

    /// Where its definition was made last, as its annotation says; an empty one says nothing.
    pub(super) fn last_namespace(&self) -> Option<&str> {
        self.metadata.annotation(LAST_NAMESPACE_ANNOTATION)
    }

    /// Whether it has to do with a namespace other than its own: its definition is or was to be there.
    pub(super) fn reaches_into(&self, namespace: &str) -> bool {
        let target = self.spec.get("networkNamespace").and_then(Value::as_str);
        target == Some(namespace) || self.last_namespace() == Some(namespace)
    }
}

impl Definition {
    /// The network that it says it comes of, if it is one of the kinds here.
    pub(super) fn owner(&self) -> Option<NetworkRef> {
        NetworkRef::parse(self.metadata.annotation(OWNER_ANNOTATION)?)
    }

    /// Whose it is, asked by a network.
    pub(super) fn claim(&self, network: &NetworkRef, uid: &str) -> Claim {
        if let Some(owner) = self.metadata.annotation(OWNER_ANNOTATION) {
            return if owner == network.to_string() {
                Claim::Ours
            } else {
                Claim::Anothers(owner.to_owned())
            };
        }
        let controller = self
            .metadata
            .owner_references
            .iter()
            .find(|owner| owner.controller == Some(true) && owner.uid != uid);
        match controller {
            Some(owner) => Claim::Anothers(format!("{} {}", owner.kind, owner.name)),
            None => Claim::Nobodys,
        }
    }

    /// Whether this operator, or the reference's, has written it: the mark that it carries is no copy.
    pub(super) fn is_of_operators(&self) -> bool {
        self.metadata
            .writers()
            .any(|entry| entry.manager == FIELD_MANAGER || entry.manager == LEGACY_FIELD_MANAGER)
    }

    /// Whether fields of it are to be taken over from the reference's operator.
    pub(super) fn is_of_reference(&self) -> bool {
        self.metadata
            .writers()
            .any(|entry| entry.manager == LEGACY_FIELD_MANAGER && entry.operation == "Update")
    }

    /// The manager other than us that wrote last, for messages.
    pub(super) fn last_other_manager(&self) -> Option<String> {
        self.metadata
            .writers()
            .filter(|entry| entry.manager != FIELD_MANAGER)
            .max_by(|a, b| a.time.cmp(&b.time))
            .map(|entry| entry.manager.clone())
    }

    /// Whether all that is ours of it is as wanted. What others added is theirs.
    pub(super) fn is_as_wanted(&self, wanted: &Attachment) -> bool {
        let annotation = |key| self.metadata.annotations.get(key);
        let config = self.spec.as_ref().and_then(|spec| spec.config.as_ref());
        config == Some(&wanted.config)
            && annotation(RESOURCE_ANNOTATION) == Some(&wanted.resource)
            && annotation(OWNER_ANNOTATION) == Some(&wanted.network.to_string())
            && wanted
                .owner_uid
                .as_ref()
                .is_none_or(|uid| self.is_owned_by(&wanted.network, uid))
    }

    fn is_owned_by(&self, network: &NetworkRef, uid: &str) -> bool {
        self.metadata.owner_references.iter().any(|owner| {
            owner.uid == uid
                && owner.api_version == API_VERSION
                && owner.kind == network.kind.as_str()
                && owner.name == network.name
        })
    }
}

impl Presence {
    /// Whether it is being deleted; nothing can be made in a namespace that is.
    pub(super) fn goes(&self) -> bool {
        self.metadata.goes()
    }
}

/// What is null is as good as absent.
fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
