//! Entry of the `sriov-operator` binary: parses the command line and runs the command.

use std::process::ExitCode;

use clap::Parser;
use sriov_operator::commands::Cli;

fn main() -> ExitCode {
    match Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sriov-operator: {error:#}");
            ExitCode::FAILURE
        }
    }
}
