//! Entry of the `sriov-operator` binary: parses the command line and runs the command.

use std::process::ExitCode;

use clap::Parser;
use sriov_operator::commands::Cli;

fn main() -> ExitCode {
    match Cli::parse().run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("sriov-operator: {error:#}");
            ExitCode::FAILURE
        }
    }
}
