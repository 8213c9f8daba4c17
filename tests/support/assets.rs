//! Where the control plane's binaries are: in `CONTROL_PLANE_ASSETS` (set by the Makefile), else where
//! `tests/control-plane/build.sh` puts them, which takes a moment when they are built already.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, ensure};

/// The path of one binary, such as `etcd`.
pub(crate) fn binary(name: &str) -> Result<PathBuf> {
    static DIRECTORY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let directory = DIRECTORY
        .get_or_init(|| directory().map_err(|error| format!("{error:#}")))
        .as_ref()
        .map_err(|error| anyhow!("{error}"))?;
    let path = directory.join(name);
    ensure!(
        path.is_file(),
        "{} is missing: run `make control-plane`",
        path.display()
    );
    Ok(path)
}

fn directory() -> Result<PathBuf> {
    if let Some(set) = std::env::var_os("CONTROL_PLANE_ASSETS") {
        return Ok(set.into());
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/control-plane/build.sh");
    let output = Command::new(&script)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("failed to run {}", script.display()))?;
    ensure!(output.status.success(), "{} failed", script.display());
    let text = String::from_utf8(output.stdout).context("the assets directory is no UTF-8")?;
    let last = text.lines().last().context("build.sh named no directory")?;
    Ok(last.into())
}
