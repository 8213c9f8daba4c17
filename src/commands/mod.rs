//! The command line: one file a subcommand.

mod check;
mod cleanup;
mod client;
mod completions;
mod crds;
mod file;
mod man;
mod output;
mod process;
mod readiness;
mod render;
mod run;
mod serving;
mod status;
mod webhook;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// SR-IOV network operator for Kubernetes and OpenShift.
#[derive(Debug, Parser)]
#[command(name = "sriov-operator", version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(Box<run::Run>),
    Webhook(Box<webhook::Webhook>),
    Check(check::Check),
    Crds(crds::Crds),
    Render(Box<render::Render>),
    Status(status::Status),
    Cleanup(cleanup::Cleanup),
    Completions(completions::Completions),
    Man(man::Man),
}

impl Cli {
    /// Runs the command that was given.
    ///
    /// # Errors
    /// What the command could not do, for people.
    pub fn run(self) -> Result<ExitCode> {
        match self.command {
            Command::Run(run) => run.run()?,
            Command::Webhook(webhook) => webhook.run()?,
            Command::Check(check) => return Ok(check.run()),
            Command::Crds(crds) => crds.run()?,
            Command::Render(render) => render.run()?,
            Command::Status(status) => status.run()?,
            Command::Completions(completions) => completions.run()?,
            Command::Man(man) => man.run()?,
            Command::Cleanup(cleanup) => cleanup.run()?,
        }
        Ok(ExitCode::SUCCESS)
    }
}
