//! The API server's audit log, kept for the ServiceAccounts of the operator's namespace only: what the product
//! wrote, how often, and what it was not allowed to do.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::NAMESPACE;
use super::kinds::text;

/// One request, as it ended.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`.
    pub(crate) verb: String,
    /// Path and query.
    pub(crate) uri: String,
    /// The HTTP status.
    pub(crate) code: u64,
    /// The `resourceVersion` of the object that a write left, empty for what was read, deleted or is secret.
    #[allow(dead_code, reason = "only the soak asks for it")]
    pub(crate) version: String,
}

impl Call {
    /// Whether it may change what is stored. Leases are renewed all the time, by design.
    pub(crate) fn is_write(&self) -> bool {
        matches!(
            self.verb.as_str(),
            "create" | "update" | "patch" | "delete" | "deletecollection"
        ) && !self.uri.contains("/leases")
    }

    /// Whether a role lacks what the product asked for.
    pub(crate) fn is_forbidden(&self) -> bool {
        self.code == 403
    }
}

/// What the API server writes down.
pub(crate) fn policy() -> Value {
    let users = [format!("system:serviceaccounts:{NAMESPACE}")];
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived", "ResponseStarted"],
        "omitManagedFields": true,
        "rules": [
            { "level": "Metadata", "userGroups": users, "resources": [{ "resources": ["secrets"] }] },
            // What a write left: whether it changed anything.
            { "level": "RequestResponse", "userGroups": users, "verbs": ["create", "update", "patch"] },
            { "level": "Metadata", "userGroups": users },
            { "level": "None" },
        ],
    })
}

/// All calls so far, oldest first.
pub(crate) fn read(log: &Path) -> Result<Vec<Call>> {
    let content = std::fs::read_to_string(log)
        .with_context(|| format!("failed to read {}", log.display()))?;
    let complete = content.rfind('\n').map_or("", |end| &content[..end]);
    complete
        .lines()
        .map(|line| {
            let event: Value = serde_json::from_str(line)?;
            Ok(Call {
                verb: text(&event, "/verb").to_owned(),
                uri: text(&event, "/requestURI").to_owned(),
                code: event["responseStatus"]["code"].as_u64().unwrap_or_default(),
                version: text(&event, "/responseObject/metadata/resourceVersion").to_owned(),
            })
        })
        .collect()
}
