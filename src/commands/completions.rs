//! `sriov-operator completions`: what a shell needs to complete the command line, from its own definition.

use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;

use super::{Cli, output};

/// Print the completions of a shell.
///
/// For bash, in this shell: `source <(sriov-operator completions bash)`
#[derive(Debug, clap::Args)]
pub(super) struct Completions {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    /// Runs the command.
    pub(super) fn run(&self) -> Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(
            self.shell,
            &mut Cli::command(),
            "sriov-operator",
            &mut script,
        );
        let script = String::from_utf8(script).context("the completions are no text")?;
        output::text(&mut std::io::stdout().lock(), &script)
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn every_shell_knows_every_command() {
        for shell in Shell::value_variants() {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "sriov-operator", &mut script);
            let script = String::from_utf8(script).unwrap();
            for command in Cli::command().get_subcommands() {
                let name = command.get_name();
                assert!(script.contains(name), "{shell} does not know {name}");
            }
        }
    }
}
