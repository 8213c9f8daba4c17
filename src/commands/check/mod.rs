//! `sriov-operator check`: the rules of admission on a laptop or in CI, before anything is applied.
//!
//! ```text
//! files, stdin -> input -> documents --+
//! dump | API server -> state ----------+-> judge, made -> report
//! ```
//!
//! It judges with the functions that answer the API server, and does before them what the API server does: defaults and
//! the schema's own constraints. It changes nothing.

mod input;
mod judge;
mod live;
mod made;
mod report;
mod state;
#[cfg(test)]
mod tests;

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context, Result, bail};

use self::{
    input::Document,
    judge::Judge,
    report::{Format, Report},
    state::State,
};
use super::{client, file::Limit, process};
use crate::{features::Feature, inject, policy::Rules};

/// What was judged is refused.
const REFUSED: u8 = 1;
/// There was nothing that could be judged.
const UNUSABLE: u8 = 2;

/// Judge objects as admission would, without applying them.
///
/// Says for each SR-IOV custom resource what is wrong with it and what is suspicious, for each policy which NICs and
/// virtual functions it would take, for each network which network attachment definition it would make, and for each pod
/// what would be injected; and at the end the node states that come of the policies, pools and config. Objects are judged in their order, and those
/// that are fine count for the ones after them; nodes, node states, network attachment definitions and the operator's
/// config maps among them are taken as part of the cluster.
///
/// Ends with 0 when everything is fine, 1 when something is refused, 2 when the input cannot be used.
#[derive(Debug, clap::Args)]
pub(super) struct Check {
    /// Files of YAML documents or JSON, Lists included, each 64 MiB at most; `-` is the standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Judge against this state of a cluster instead of the current cluster: what `kubectl get -A -o yaml` prints of
    /// nodes, sriovnetworknodestates, sriovnetworknodepolicies, configmaps and network-attachment-definitions, as far as
    /// it matters, 1 GiB at most. May be given several times.
    #[arg(long, value_name = "FILE")]
    cluster_state: Vec<PathBuf>,
    /// Judge against the cluster of these kubeconfig files.
    #[arg(
        long,
        value_name = "FILE",
        env = "KUBECONFIG",
        hide_env_values = true,
        value_delimiter = ':'
    )]
    kubeconfig: Vec<PathBuf>,
    /// The operator's namespace.
    #[arg(
        short,
        long,
        env = "NAMESPACE",
        hide_env_values = true,
        default_value = "sriov-network-operator"
    )]
    namespace: String,
    /// The prefix of resource names, as the operator is told it.
    #[arg(
        long,
        env = "RESOURCE_PREFIX",
        hide_env_values = true,
        default_value = "openshift.io"
    )]
    resource_prefix: String,
    /// Admit NICs that are not listed as supported, as the operator does in its development mode.
    #[arg(long)]
    dev_mode: bool,
    /// How to print the findings.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

impl Check {
    /// Runs the command. Errors are about the input, and printed.
    pub(super) fn run(&self) -> ExitCode {
        match self.report() {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::from(REFUSED),
            Err(error) => {
                eprintln!("sriov-operator: {error:#}");
                ExitCode::from(UNUSABLE)
            }
        }
    }

    /// Prints the findings. Returns whether all is fine.
    fn report(&self) -> Result<bool> {
        let documents = input::read(&self.files, Limit::Objects)?;
        let state = self.state(&documents)?;
        let options = inject::Options::default();
        let mut judge = Judge::new(self.rules(), &self.resource_prefix, options, state);
        let judgements = judge.all(&documents);
        if judgements.is_empty() {
            bail!("there is nothing to judge: no SR-IOV custom resource and no pod");
        }
        let states = judge.node_states(&judgements);
        let report = Report::new(judgements, states, documents.len(), judge.set_aside());
        report.print(&mut std::io::stdout().lock(), self.output)?;
        Ok(report.is_fine())
    }

    fn state(&self, documents: &[Document]) -> Result<State> {
        if self.cluster_state.is_empty() {
            return process::runtime()?.block_on(async {
                let client = client::connect(&self.kubeconfig()).await?;
                live::read(&client, &self.namespace, documents)
                    .await
                    .context(
                        "failed to read the cluster; --cluster-state judges against a dump instead",
                    )
            });
        }
        let mut state = State::new(&self.namespace);
        for dumped in input::read(&self.cluster_state, Limit::Dump)? {
            state.insert(&dumped.object);
        }
        Ok(state)
    }

    /// The kubeconfig files that were named; else that of the home directory, as for kubectl.
    fn kubeconfig(&self) -> Vec<PathBuf> {
        let named: Vec<PathBuf> = self
            .kubeconfig
            .iter()
            .filter(|path| !path.as_os_str().is_empty())
            .cloned()
            .collect();
        if !named.is_empty() {
            return named;
        }
        let usual = std::env::home_dir().map(|home| home.join(".kube/config"));
        usual.filter(|path| path.is_file()).into_iter().collect()
    }

    fn rules(&self) -> Rules {
        Rules {
            namespace: self.namespace.clone(),
            dev_mode: self.dev_mode,
            known_gates: Feature::KNOWN
                .iter()
                .map(|feature| feature.name())
                .collect(),
        }
    }
}
