//! The command line: one file a subcommand.

mod client;
mod crds;
mod output;
mod process;
mod readiness;
mod render;
mod run;
mod webhook;

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
    Crds(crds::Crds),
    Render(Box<render::Render>),
}

impl Cli {
    /// Runs the command that was given.
    ///
    /// # Errors
    /// What the command could not do, for people.
    pub fn run(self) -> Result<()> {
        match self.command {
            Command::Run(run) => run.run(),
            Command::Webhook(webhook) => webhook.run(),
            Command::Crds(crds) => crds.run(),
            Command::Render(render) => render.run(),
        }
    }
}
