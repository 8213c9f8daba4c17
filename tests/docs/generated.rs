//! The parts that are made from code: the command line, the settings, the metrics.

use std::fmt::Write as _;

use anyhow::{Result, ensure};
use clap::CommandFactory as _;
use sriov_operator::commands::Cli;
use sriov_operator::server::metrics::Metrics;
use sriov_operator::settings::{Group, SETTINGS, Scope};

use super::pages::Page;

#[test]
fn the_command_line() -> Result<()> {
    let mut program = Cli::command().term_width(100);
    program.build();
    let mut text = String::new();
    let mut summary = String::from("| command | what it does |\n| --- | --- |\n");
    for command in program.get_subcommands_mut() {
        let name = command.get_name().to_owned();
        if name == "help" {
            continue;
        }
        let about = command.get_about().unwrap_or_default().to_string();
        writeln!(
            summary,
            "| [`sriov-operator {name}`](docs/cli.md#sriov-operator-{name}) | {about} |"
        )?;
        let help = command
            .clone()
            .term_width(100)
            .render_long_help()
            .to_string();
        let help: String = help
            .lines()
            .flat_map(|line| [line.trim_end(), "\n"])
            .collect();
        write!(text, "\n## `sriov-operator {name}`\n\n```text\n{help}```\n")?;
    }
    Page::read("docs/cli.md")?.settle("commands", &text)?;
    Page::read("README.md")?.settle("commands", &summary)
}

#[test]
fn the_settings() -> Result<()> {
    let mut text = String::new();
    for group in Group::ALL {
        write!(text, "\n## {}\n\n", group.heading())?;
        text.push_str("| variable | flag | default | legal | meaning | taken by |\n");
        text.push_str("| --- | --- | --- | --- | --- | --- |\n");
        for setting in SETTINGS.iter().filter(|setting| setting.group == group) {
            let flag = setting
                .flag
                .map_or_else(String::new, |flag| format!("`--{flag}`"));
            let default = match setting.default {
                "" => String::new(),
                default => format!("`{default}`"),
            };
            let scope = match setting.scope {
                Scope::Serving => "`run`, `webhook`",
                Scope::Run => "`run`",
            };
            writeln!(
                text,
                "| `{}` | {flag} | {default} | {} | {} | {scope} |",
                setting.variable, setting.legal, setting.meaning
            )?;
        }
    }
    text.push('\n');
    Page::read("docs/configuration.md")?.settle("settings", &text)
}

#[test]
fn the_metrics() -> Result<()> {
    let encoded = Metrics::sample().encode()?;
    let mut text =
        String::from("| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n");
    let mut lines = encoded.lines().peekable();
    while let Some(line) = lines.next() {
        let Some((name, help)) = line
            .strip_prefix("# HELP ")
            .and_then(|line| line.split_once(' '))
        else {
            continue;
        };
        let kind = lines
            .next()
            .and_then(|line| line.rsplit(' ').next())
            .unwrap_or_default();
        let sample = lines.peek().copied().unwrap_or_default();
        ensure!(
            sample.starts_with(name),
            "{name} has no sample: add it to Metrics::sample"
        );
        let labels: Vec<String> = sample
            .split_once('{')
            .map(|(_, labels)| labels.split('}').next().unwrap_or_default())
            .into_iter()
            .flat_map(|labels| labels.split(','))
            .filter_map(|label| label.split_once('='))
            .map(|(label, _)| format!("`{label}`"))
            .filter(|label| label != "`le`")
            .collect();
        let suffix = if kind == "counter" { "_total" } else { "" };
        writeln!(
            text,
            "| `{name}{suffix}` | {kind} | {} | {} |",
            labels.join(", "),
            help.trim_end_matches('.')
        )?;
    }
    Page::read("docs/metrics.md")?.settle("metrics", &text)
}
