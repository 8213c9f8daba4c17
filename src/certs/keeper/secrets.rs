//! What our Secrets look like, and how one is told from somebody else's. Pure.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::{Value, json};

use crate::apply::{FIELD_MANAGER, MANAGED_BY, MANAGED_BY_LABEL};
use crate::certs::authority::AUTHORITY_NAME;
use crate::certs::pair::{CA_CRT, PairContents, ServingPair, TLS_CRT, TLS_KEY};
use crate::certs::rotation::state::{ALL_KEYS, SecretData};

/// The Secret with the CA.
pub const AUTHORITY_SECRET: &str = "sriov-operator-ca";

/// The keys of a serving Secret that are ours.
pub(super) const SERVING_KEYS: [&str; 3] = [TLS_CRT, TLS_KEY, CA_CRT];

const TLS: &str = "kubernetes.io/tls";
const OPAQUE: &str = "Opaque";

/// Annotations of the Secrets that OpenShift's service CA makes, of now and of before.
const ORIGINATING_SERVICE: [&str; 2] = [
    "service.beta.openshift.io/originating-service-name",
    "service.alpha.openshift.io/originating-service-name",
];
/// An annotation of the Secrets that cert-manager fills.
const CERT_MANAGER_CERTIFICATE: &str = "cert-manager.io/certificate-name";

/// Whether a Secret is ours: our label, a controller reference to our configuration, or data that we wrote last. One
/// sign is enough, so that a label removed by hand does not lock the operator out of its own Secret.
pub fn is_ours(secret: &Secret, owner: &OwnerReference) -> bool {
    let metadata = &secret.metadata;
    let labelled = metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get(MANAGED_BY_LABEL))
        .is_some_and(|manager| manager == MANAGED_BY);
    let belongs = metadata
        .owner_references
        .iter()
        .flatten()
        .any(|reference| reference.controller == Some(true) && reference.uid == owner.uid);
    let written = metadata.managed_fields.iter().flatten().any(|entry| {
        entry.manager.as_deref() == Some(FIELD_MANAGER)
            && entry
                .fields_v1
                .as_ref()
                .is_some_and(|fields| fields.0.get("f:data").is_some())
    });
    labelled || belongs || written
}

/// Whether a serving Secret holds a whole pair that another issuer made.
pub(super) fn holds_others_pair(secret: &Secret) -> bool {
    let contents = PairContents::from_data(secret.data.as_ref());
    ServingPair::load(&contents.tls_crt, &contents.tls_key)
        .is_ok_and(|pair| pair.leaf().issuer_common_name() != AUTHORITY_NAME)
}

/// Whether OpenShift's service CA made a Secret, and nobody has filled it since. It fills in no others.
pub(super) fn is_of_service_ca(secret: &Secret) -> bool {
    let has = |key: &str| {
        let annotations = secret.metadata.annotations.as_ref();
        annotations.is_some_and(|annotations| annotations.contains_key(key))
    };
    let made = ORIGINATING_SERVICE.into_iter().any(has);
    made && !has(CERT_MANAGER_CERTIFICATE)
}

/// The data of a Secret, decoded.
pub(super) fn data(secret: &Secret) -> SecretData {
    secret
        .data
        .iter()
        .flatten()
        .map(|(key, value)| (key.clone(), value.0.clone()))
        .collect()
}

/// The Secret with the CA, as it is created.
pub(super) fn authority_secret(
    namespace: &str,
    owner: &OwnerReference,
    content: &SecretData,
) -> Secret {
    secret(AUTHORITY_SECRET, namespace, owner, OPAQUE, content.clone())
}

/// A serving Secret, as it is applied.
pub(super) fn serving_secret(
    name: &str,
    namespace: &str,
    owner: &OwnerReference,
    contents: &PairContents,
) -> Secret {
    let content = [
        (TLS_CRT, contents.tls_crt.clone()),
        (TLS_KEY, contents.tls_key.expose().to_vec()),
        (CA_CRT, contents.ca_crt.clone()),
    ];
    let content = content.map(|(key, value)| (key.to_owned(), value));
    secret(name, namespace, owner, TLS, content.into())
}

/// What turns `live` into `wanted` by a guarded merge patch: the data, what is ours in the metadata, nothing else.
pub(super) fn authority_patch(live: &Secret, wanted: &Secret) -> Value {
    let mut values = serde_json::Map::new();
    let empty = BTreeMap::new();
    let wanted_data = wanted.data.as_ref().unwrap_or(&empty);
    for key in ALL_KEYS {
        let value = wanted_data.get(key);
        if value.is_some()
            || live
                .data
                .as_ref()
                .is_some_and(|data| data.contains_key(key))
        {
            values.insert(key.to_owned(), json!(value));
        }
    }
    json!({
        "metadata": {
            "resourceVersion": live.metadata.resource_version,
            "labels": wanted.metadata.labels,
            "ownerReferences": owners(live, wanted),
        },
        "data": values,
    })
}

/// Whether `live` has everything that `wanted` says: type, label, owner and, of the data, `keys`. Other keys, which
/// somebody may have added, are not ours to judge.
pub(super) fn is_as_wanted(live: &Secret, wanted: &Secret, keys: &[&str]) -> bool {
    let (have, want) = (&live.metadata, &wanted.metadata);
    let labels = want.labels.iter().flatten().all(|(key, value)| {
        have.labels
            .as_ref()
            .is_some_and(|labels| labels.get(key) == Some(value))
    });
    let owned = want.owner_references.iter().flatten().all(|owner| {
        have.owner_references
            .iter()
            .flatten()
            .any(|one| one == owner)
    });
    let value = |secret: &Secret, key: &str| secret.data.as_ref()?.get(key).cloned();
    let data = keys
        .iter()
        .all(|key| value(live, key) == value(wanted, key));
    labels && owned && data && !must_be_recreated(live, wanted)
}

/// Whether `live` has what cannot be changed: another type, or the mark of immutability.
pub(super) fn must_be_recreated(live: &Secret, wanted: &Secret) -> bool {
    live.type_ != wanted.type_ || live.immutable == Some(true)
}

/// `wanted` as a change of `live`, which fails when that one was changed meanwhile.
pub(super) fn guarded(mut wanted: Secret, live: &Secret) -> Secret {
    wanted
        .metadata
        .resource_version
        .clone_from(&live.metadata.resource_version);
    wanted
}

/// An apply that gives up everything of ours in a Secret that somebody else fills now. The type stays claimed: it
/// cannot be given up without changing it.
pub(super) fn release(live: &Secret) -> Secret {
    Secret {
        metadata: ObjectMeta {
            name: live.metadata.name.clone(),
            namespace: live.metadata.namespace.clone(),
            resource_version: live.metadata.resource_version.clone(),
            ..ObjectMeta::default()
        },
        type_: live.type_.clone(),
        ..Secret::default()
    }
}

fn secret(
    name: &str,
    namespace: &str,
    owner: &OwnerReference,
    kind: &str,
    content: SecretData,
) -> Secret {
    Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: Some([(MANAGED_BY_LABEL.to_owned(), MANAGED_BY.to_owned())].into()),
            owner_references: Some(vec![owner.clone()]),
            ..ObjectMeta::default()
        },
        type_: Some(kind.to_owned()),
        data: Some(
            content
                .into_iter()
                .map(|(key, value)| (key, ByteString(value)))
                .collect(),
        ),
        ..Secret::default()
    }
}

/// Others' references stay; one to an earlier object of the same name goes, it would have the Secret collected.
fn owners(live: &Secret, wanted: &Secret) -> Vec<OwnerReference> {
    let ours = wanted.metadata.owner_references.clone().unwrap_or_default();
    let others = live
        .metadata
        .owner_references
        .iter()
        .flatten()
        .filter(|one| {
            !ours
                .iter()
                .any(|own| own.kind == one.kind && own.name == one.name)
        })
        .cloned();
    others.chain(ours.clone()).collect()
}
