//! The product's commands as a person runs them.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

use super::NAMESPACE;
use super::operator::binary;

/// What a command came to.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Whether it succeeded.
    pub(crate) success: bool,
    /// Its standard output.
    pub(crate) out: String,
    /// Its standard error.
    pub(crate) err: String,
}

impl Outcome {
    /// The output of a command that has to succeed.
    pub(crate) fn succeeded(self) -> Result<String> {
        ensure!(self.success, "it failed: {}{}", self.out, self.err);
        Ok(self.out)
    }

    /// The complaint of a command that has to fail.
    pub(crate) fn failed(self) -> Result<String> {
        ensure!(!self.success, "it succeeded: {}", self.out);
        Ok(self.err)
    }
}

/// Runs `sriov-operator` with these arguments and nothing but this kubeconfig in its environment.
pub(crate) async fn run(kubeconfig: &Path, arguments: &[&str]) -> Result<Outcome> {
    let output = Command::new(binary()?)
        .args(arguments)
        .env_clear()
        .env("KUBECONFIG", kubeconfig)
        .env("NAMESPACE", NAMESPACE)
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(Duration::from_secs(120), output)
        .await
        .with_context(|| format!("{arguments:?} did not end"))??;
    Ok(Outcome {
        success: output.status.success(),
        out: String::from_utf8(output.stdout)?,
        err: String::from_utf8(output.stderr)?,
    })
}
