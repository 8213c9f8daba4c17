//! What an administrator applies before the operator runs: the namespace, the shipped CRDs and roles, and the
//! ConfigMap of supported NICs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::NAMESPACE;
use super::kinds::{self, text};
use super::user::User;
use super::wait::eventually;

const PATIENCE: Duration = Duration::from_secs(30);

/// Namespace, CRDs, and what the operator runs as.
pub(crate) async fn install(admin: &User) -> Result<()> {
    namespace(admin, NAMESPACE).await?;
    install_crds(admin).await?;
    for object in read_yaml(&root().join("deploy/rbac.yaml"))? {
        admin.apply(&object).await?;
    }
    Ok(())
}

/// A namespace, unless it is there.
pub(crate) async fn namespace(admin: &User, name: &str) -> Result<()> {
    let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
    admin.ensure(&object).await
}

/// The shipped CRDs, and waits until they are served.
pub(crate) async fn install_crds(admin: &User) -> Result<()> {
    let directory = root().join("deploy/crds");
    let mut files: Vec<PathBuf> = std::fs::read_dir(&directory)
        .with_context(|| format!("failed to read {}", directory.display()))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    files.retain(|file| {
        file.extension()
            .is_some_and(|extension| extension == "yaml")
    });
    files.sort();
    let mut crds = Vec::new();
    for file in &files {
        crds.extend(read_yaml(file)?);
    }
    ensure!(!crds.is_empty(), "{} holds no CRD", directory.display());
    for crd in &crds {
        admin.apply(crd).await?;
    }
    for crd in &crds {
        established(admin, text(crd, "/metadata/name")).await?;
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
