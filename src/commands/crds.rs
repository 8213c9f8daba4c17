//! `sriov-operator crds`: prints the custom resource definitions.

use std::io::Write;

use anyhow::{Context, Result};

use super::output::{self, Format};
use crate::api::crd;

/// Print the custom resource definitions.
///
/// Helm does not upgrade definitions. Do it with:
/// `sriov-operator crds | kubectl apply --server-side -f -`
#[derive(Debug, clap::Args)]
pub(super) struct Crds {
    /// How to print them.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    /// Write one file a definition into this directory instead, as `deploy/crds` has them.
    #[arg(long, value_name = "DIRECTORY")]
    directory: Option<std::path::PathBuf>,
}

impl Crds {
    /// Runs the command.
    pub(super) fn run(&self) -> Result<()> {
        let Some(directory) = &self.directory else {
            return output::objects(&mut std::io::stdout().lock(), self.output, &crd::all());
        };
        for definition in crd::all() {
            let plural = definition["spec"]["names"]["plural"]
                .as_str()
                .unwrap_or_default();
            let path = directory.join(format!("sriovnetwork.openshift.io_{plural}.yaml"));
            let mut file = std::fs::File::create(&path)
                .with_context(|| format!("failed to write {}", path.display()))?;
            output::objects(&mut file, Format::Yaml, std::slice::from_ref(&definition))?;
            file.flush()?;
        }
        Ok(())
    }
}
