//! Loads a state of the cluster: namespaces and objects in their order, node states' status through its subresource,
//! the operator's configuration last.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::NAMESPACE;
use super::kinds::{CONFIG, CRD, Kind, NODE_STATE, text};
use super::manifests;
use super::user::User;

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
pub(crate) async fn seed(admin: &User) -> Result<()> {
    let file = manifests::root().join("tests/data/seed.yaml");
    load(admin, &manifests::read_yaml(&file)?).await
}

/// The operator's configuration.
pub(crate) fn config(spec: &Value) -> Value {
    custom(CONFIG, "default", spec)
}

/// A custom resource in the operator's namespace.
pub(crate) fn custom(kind: Kind, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": kind.api_version,
        "kind": kind.kind,
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
