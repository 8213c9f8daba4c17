//! Loads a state of the cluster: namespaces and objects in their order, node states' status through its subresource,
//! the operator's configuration last.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::NAMESPACE;
use super::kinds::{
    ACCOUNT, CLUSTER_ROLE, CLUSTER_ROLE_BINDING, CONFIG, CONFIG_MAP, CRD, DAEMON_SET, Kind,
    MUTATING, NETWORK_POLICY, NODE_STATE, ROLE, ROLE_BINDING, SECRET, SERVICE, VALIDATING, text,
};
use super::manifests;
use super::user::User;

/// Kinds of which the product makes objects.
const MADE: [Kind; 12] = [
    MUTATING,
    VALIDATING,
    SERVICE,
    SECRET,
    CONFIG_MAP,
    ACCOUNT,
    DAEMON_SET,
    NETWORK_POLICY,
    ROLE,
    ROLE_BINDING,
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
];

/// Creates all of it.
pub(crate) async fn load(admin: &User, objects: &[Value]) -> Result<()> {
    let (last, first): (Vec<&Value>, Vec<&Value>) = objects
        .iter()
        .partition(|object| Kind::of(object).is_ok_and(|kind| kind == CONFIG));
    for object in first.into_iter().chain(last) {
        let name = text(object, "/metadata/name");
        let created = admin
            .create(object)
            .await
            .context("failed to load the world")?;
        match Kind::of(&created)? {
            CRD => manifests::established(admin, name).await?,
            NODE_STATE => {
                admin
                    .merge_status(NODE_STATE, name, &object["status"])
                    .await?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// The nodes, node states, networks and supported NICs that demo and tests share.
pub(crate) fn seeds() -> Result<Vec<Value>> {
    manifests::read_yaml(&manifests::root().join("tests/data/seed.yaml"))
}

/// The operator's configuration.
pub(crate) fn config(spec: &Value) -> Value {
    custom(CONFIG, "default", spec)
}

/// A custom resource in the operator's namespace.
pub(crate) fn custom(kind: Kind, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": spec,
    })
}

/// A pod in the default namespace that asks for networks.
pub(crate) fn pod(name: &str, networks: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "annotations": { "k8s.v1.cni.cncf.io/networks": networks },
        },
        "spec": { "containers": [{ "name": "app", "image": "example.com/app:1" }] },
    })
}

/// Every object of the kinds that the product makes, with its resource version.
pub(crate) async fn inventory(admin: &User) -> Result<BTreeMap<String, String>> {
    let mut objects = BTreeMap::new();
    for kind in MADE {
        for object in admin.list(kind).await? {
            let name = format!("{} {}", kind.name, text(&object, "/metadata/name"));
            objects.insert(name, text(&object, "/metadata/resourceVersion").to_owned());
        }
    }
    Ok(objects)
}

/// A condition of an object's status.
pub(crate) fn condition(object: &Value, kind: &str) -> Result<Value> {
    object["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == kind)
        .cloned()
        .with_context(|| format!("there is no condition {kind}"))
}
