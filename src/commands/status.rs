//! `sriov-operator status`: how an installation stands, for an administrator.

use std::{
    io::{IsTerminal, Write},
    time::Duration,
};

use anyhow::{Context, Result, bail};

use super::{client, process};
use crate::{
    settings::SecretNames,
    status::{Report, gather},
};

/// How often `--watch` looks.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// Show how an installation stands, what is wrong, and what to do about it.
///
/// It reads with your own rights and changes nothing. What you may not read is shown as such. Exits with 0 when it could
/// look, whatever it found; the problems are listed last.
#[derive(Debug, clap::Args)]
pub(super) struct Status {
    #[command(flatten)]
    access: client::Access,
    #[command(flatten)]
    secrets: client::Secrets,
    /// How to show it.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    /// Look again and again, and show each change, until interrupted.
    #[arg(short, long)]
    watch: bool,
}

/// How it is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// One screen for people.
    #[default]
    Text,
    /// One JSON object; with --watch one a line.
    Json,
    /// One YAML document.
    Yaml,
}

impl Status {
    /// Runs the command.
    pub(super) fn run(&self) -> Result<()> {
        process::runtime()?.block_on(self.show())
    }

    async fn show(&self) -> Result<()> {
        let client = self.access.connect().await?;
        match tokio::time::timeout(Duration::from_secs(10), client.apiserver_version()).await {
            Ok(answer) => drop(answer.context("the API server cannot be asked")?),
            Err(_) => bail!("the API server does not answer within 10 s"),
        }
        let secrets: SecretNames = self.secrets.names();
        let mut shown: Option<Report> = None;
        loop {
            let gathered = Box::pin(gather(&client, &self.access.namespace, &secrets)).await;
            let report = Report::new(&gathered);
            if shown
                .as_ref()
                .is_none_or(|shown| !report.says_the_same(shown))
            {
                if !self.print(&report)? {
                    return Ok(());
                }
                shown = Some(report);
            }
            if !self.watch {
                return Ok(());
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Prints a report; false when the reader has gone away.
    fn print(&self, report: &Report) -> Result<bool> {
        let mut out = std::io::stdout().lock();
        let text = match self.output {
            Output::Text if self.watch && out.is_terminal() => {
                format!("\x1b[H\x1b[2J{report}")
            }
            Output::Text => report.to_string(),
            Output::Json if self.watch => serde_json::to_string(report)? + "\n",
            Output::Json => serde_json::to_string_pretty(report)? + "\n",
            Output::Yaml => format!("---\n{}\n", serde_saphyr::to_string(report)?.trim_end()),
        };
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
            result => result.map(|()| true).context("failed to print the status"),
        }
    }
}
