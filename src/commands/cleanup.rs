//! `sriov-operator cleanup`: removes the operator's part from a cluster.

use std::time::Duration;

use anyhow::{Result, bail};

use super::{client, process};
use crate::{
    operator::cleanup::{self, Options},
    settings,
};

/// Remove the operator's part from a cluster.
///
/// Removes SriovOperatorConfig/default, the webhook configurations, everything that was rolled out and the
/// certificates; then the finalizers that nobody else would remove. Works with and without a running operator, and may
/// be repeated. Policies, networks, pools and the definitions stay. Fails, and says what is left, when time is over.
#[derive(Debug, clap::Args)]
pub(super) struct Cleanup {
    #[command(flatten)]
    access: client::Access,
    /// How long to wait until everything is gone.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration)]
    timeout: Duration,
    /// Print what would be done, and change nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    secrets: client::Secrets,
}

fn duration(text: &str) -> Result<Duration, &'static str> {
    settings::parse_duration(text).ok_or("it must be a duration such as 90s, 5m or 1h30m")
}

impl Cleanup {
    /// Runs the command.
    pub(super) fn run(&self) -> Result<()> {
        process::runtime()?.block_on(async {
            let client = self.access.connect().await?;
            let options = Options {
                namespace: self.access.namespace.clone(),
                secrets: self.secrets.names(),
                within: self.timeout,
                dry_run: self.dry_run,
            };
            let mark = if self.dry_run { "would " } else { "" };
            let mut steps = 0_usize;
            let faults = cleanup::run(&client, &options, |step| {
                steps += 1;
                println!("{mark}{step}");
            })
            .await;
            if !faults.is_empty() {
                bail!("not everything is gone:\n  {}", faults.join("\n  "));
            }
            if steps == 0 {
                println!("there is nothing to remove");
            } else if !self.dry_run {
                println!("everything is gone");
            }
            Ok(())
        })
    }
}
