//! What an administrator applies before the operator runs: namespace, definitions, accounts and roles of the install manifest.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::kinds::{self, Kind, text};
use super::user::User;
use super::wait::eventually;

const PATIENCE: Duration = Duration::from_secs(30);

/// What of deploy/install.yaml the tests need: not the Deployment, since the operator runs as a process, and not what comes
/// with the seeds.
const KINDS: [&str; 7] = [
    "CustomResourceDefinition",
    "Namespace",
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "ClusterRole",
    "ClusterRoleBinding",
];

/// All that an administrator applies: the namespace, the definitions, and what the operator runs as.
pub(crate) fn shipped() -> Result<Vec<Value>> {
    let mut objects = read_yaml(&root().join("deploy/install.yaml"))?;
    objects.retain(|object| KINDS.contains(&text(object, "/kind")));
    Ok(objects)
}

/// Applies all of it, and waits until the definitions are served.
pub(crate) async fn install(admin: &User) -> Result<()> {
    apply(admin, &shipped()?).await
}

/// Applies objects in their order, and waits until the definitions among them are served.
pub(crate) async fn apply(admin: &User, objects: &[Value]) -> Result<()> {
    for object in objects {
        admin.apply(object).await?;
    }
    for object in objects {
        if Kind::of(object)? == kinds::CRD {
            established(admin, text(object, "/metadata/name")).await?;
        }
    }
    Ok(())
}

/// A namespace, unless it is there.
pub(crate) async fn namespace(admin: &User, name: &str) -> Result<()> {
    admin.ensure(&namespace_object(name)).await
}

fn namespace_object(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } })
}

/// The definition of a kind of another product, which takes any content.
pub(crate) fn stand_in(group: &str, kind: &str, plural: &str, scope: &str) -> Value {
    json!({
        "apiVersion": kinds::CRD.api_version,
        "kind": kinds::CRD.name,
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group,
            "scope": scope,
            "names": { "kind": kind, "plural": plural, "singular": kind.to_lowercase() },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                } },
            }],
        },
    })
}

/// Makes the API server know cluster-scoped kinds of OpenShift, with any content.
pub(crate) async fn learn(admin: &User, kinds: &[Kind]) -> Result<()> {
    for kind in kinds {
        let group = kind.api_version.trim_end_matches("/v1");
        let crd = stand_in(group, kind.name, kind.plural, "Cluster");
        admin.create(&crd).await?;
        established(admin, text(&crd, "/metadata/name")).await?;
    }
    Ok(())
}

/// Waits until a CRD is served.
pub(crate) async fn established(admin: &User, name: &str) -> Result<()> {
    eventually(PATIENCE, &format!("CRD {name} to be served"), async || {
        let crd = admin.must_get(kinds::CRD, name).await?;
        let conditions = crd["status"]["conditions"].as_array().cloned();
        let served = conditions
            .unwrap_or_default()
            .iter()
            .any(|condition| condition["type"] == "Established" && condition["status"] == "True");
        ensure!(served, "it is not established");
        Ok(())
    })
    .await
}

/// The documents of a YAML file that hold something.
pub(crate) fn read_yaml(file: &Path) -> Result<Vec<Value>> {
    let content = std::fs::read_to_string(file)
        .with_context(|| format!("failed to read {}", file.display()))?;
    let mut objects: Vec<Value> = serde_saphyr::from_multiple(&content)
        .with_context(|| format!("{} is no YAML", file.display()))?;
    objects.retain(|object| !object.is_null());
    Ok(objects)
}

/// The directory of Cargo.toml.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
