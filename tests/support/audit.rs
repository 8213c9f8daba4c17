//! The API server's audit log, kept for the ServiceAccounts of the operator's namespace only: what the product
//! wrote, how often, and what it was not allowed to do.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::Path,
};

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

/// The calls from `offset` of the log on, oldest first. `offset` moves behind them, so that what was read is not read again.
pub(crate) fn read(log: &Path, offset: &mut u64) -> Result<Vec<Call>> {
    let read = |offset| -> std::io::Result<Vec<u8>> {
        let mut file = File::open(log)?;
        file.seek(SeekFrom::Start(offset))?;
        let mut content = Vec::new();
        file.read_to_end(&mut content)?;
        Ok(content)
    };
    let mut content = read(*offset).with_context(|| format!("failed to read {}", log.display()))?;
    let complete = content.iter().rposition(|byte| *byte == b'\n');
    content.truncate(complete.map_or(0, |end| end + 1));
    *offset += u64::try_from(content.len())?;
    str::from_utf8(&content)?
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
