//! `sriov-operator man`: the manual pages, from the definition of the command line.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_mangen::Man as Page;

use super::{Cli, output};

/// Print the manual page, or write one for each command.
#[derive(Debug, clap::Args)]
pub(super) struct Man {
    /// Write a page for each command into this directory, such as /usr/local/share/man/man1.
    #[arg(long, value_name = "DIRECTORY")]
    directory: Option<PathBuf>,
}

impl Man {
    /// Runs the command.
    pub(super) fn run(&self) -> Result<()> {
        let pages = pages()?;
        let Some(directory) = &self.directory else {
            let text: String = pages.into_iter().map(|(_, text)| text).take(1).collect();
            return output::text(&mut std::io::stdout().lock(), &text);
        };
        for (name, text) in pages {
            let path = directory.join(format!("{name}.1"));
            std::fs::write(&path, text)
                .with_context(|| format!("failed to write {}", path.display()))?;
        }
        Ok(())
    }
}

/// The pages by name, that of the program first.
fn pages() -> Result<Vec<(String, String)>> {
    let mut program = Cli::command();
    program.build();
    let mut commands = vec![program.clone()];
    let subcommands = program.get_subcommands();
    commands.extend(
        subcommands
            .filter(|command| command.get_name() != "help")
            .cloned(),
    );
    commands
        .into_iter()
        .map(|command| {
            // Of a built subcommand: the program's name, a hyphen and its own.
            let name = command.get_display_name().unwrap_or(command.get_name());
            let name = name.to_owned();
            let mut page = Vec::new();
            Page::new(command)
                .render(&mut page)
                .context("failed to make the manual page")?;
            let text = String::from_utf8(page).context("the manual page is no text")?;
            Ok((name, text))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_with_its_flags() {
        let pages = pages().unwrap();
        assert_eq!(pages[0].0, "sriov-operator");
        let run = pages
            .iter()
            .find(|(name, _)| name == "sriov-operator-run")
            .unwrap();
        assert!(run.1.contains("webhook\\-bind\\-address"), "{}", run.1);
        assert!(run.1.contains("WEBHOOK_BIND_ADDRESS"), "{}", run.1);
    }
}
