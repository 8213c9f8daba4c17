//! Commands in the pages: ours can be given as they stand, targets of make exist, and those of blocks marked
//! `on-cluster` are run, in their order, against a real API server with the operator at work.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser as _;
use sriov_operator::commands::Cli;

use super::pages;
use crate::support::assets;
use crate::support::manifests::root;
use crate::support::operator::binary;
use crate::support::scene::{Scene, both_webhooks};

/// The commands of a block of shell, in the words that a shell makes of them; what is beside our program and make is
/// left out.
fn ours(text: &str) -> Vec<Vec<String>> {
    let joined = text.replace("\\\n", " ");
    let mut commands = Vec::new();
    for line in joined.lines().map(str::trim) {
        let line = line.strip_prefix("$ ").unwrap_or(line);
        if line.starts_with('#') {
            continue;
        }
        for part in line.split(['|', ';', '&', '(', ')', '`']) {
            let mut words = words(part);
            // Variables that are set for one command.
            while words.first().is_some_and(|word| {
                word.split_once('=').is_some_and(|(name, _)| {
                    name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
                })
            }) {
                words.remove(0);
            }
            if words
                .first()
                .is_some_and(|word| word == "sriov-operator" || word == "make")
            {
                commands.push(words);
            }
        }
    }
    commands
}

/// Words, quotes removed; redirections end a command.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut quote) = (String::new(), None);
    for c in text.chars() {
        match (c, quote) {
            ('>' | '<', None) => break,
            (c, Some(q)) if c == q => quote = None,
            ('"' | '\'', None) => quote = Some(c),
            (c, None) if c.is_whitespace() => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            (c, _) => word.push(c),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

#[test]
fn what_is_a_command_can_be_given() -> Result<()> {
    let makefile = std::fs::read_to_string(root().join("Makefile"))?;
    let mut seen = 0;
    for page in pages::all()? {
        for block in page.blocks()? {
            if !["sh", "console"].contains(&block.info.split(' ').next().unwrap_or_default()) {
                continue;
            }
            for command in ours(&block.text) {
                seen += 1;
                let place = format!("{}: {}", page.path.display(), command.join(" "));
                if command[0] == "make" {
                    for target in command[1..].iter().filter(|word| !word.contains('=')) {
                        ensure!(makefile.contains(&format!("\n{target}:")), "{place}");
                    }
                    continue;
                }
                match Cli::try_parse_from(&command) {
                    Ok(_) => {}
                    Err(error) if !error.use_stderr() => {}
                    Err(error) => bail!("{place}: {error}"),
                }
            }
        }
    }
    ensure!(seen > 15, "only {seen} commands were found");
    Ok(())
}

#[tokio::test]
async fn commands_on_a_cluster_work() -> Result<()> {
    let mut scene = Scene::installed().await?;
    scene.configure(&both_webhooks()).await?;
    scene.operator.start()?;
    scene.is_ready().await?;
    for page in pages::all()? {
        for block in page.blocks()? {
            if block.info == "sh on-cluster" {
                run(&block.text, &scene.cluster.admin_kubeconfig())
                    .await
                    .with_context(|| {
                        format!("{}, line {}", page.path.display(), block.lines.start + 1)
                    })?;
                // The next block starts from a configuration that is there and ready.
                let config = crate::support::kinds::CONFIG;
                if scene.admin().get(config, "default").await?.is_none() {
                    scene.configure(&both_webhooks()).await?;
                }
                scene.is_ready().await?;
            }
        }
    }
    Ok(())
}

/// Runs a script with our program and kubectl at hand, as somebody in the repository would.
async fn run(script: &str, kubeconfig: &Path) -> Result<()> {
    let program = binary()?;
    let own = program.parent().context("the program is nowhere")?;
    let kubectl = assets::binary("kubectl")?;
    let tools = kubectl.parent().context("kubectl is nowhere")?;
    let path = std::env::var("PATH").unwrap_or_default();
    let shell = tokio::process::Command::new("bash")
        .args(["-euo", "pipefail", "-c", script])
        .current_dir(root())
        .env("KUBECONFIG", kubeconfig)
        .env(
            "PATH",
            format!("{}:{}:{path}", own.display(), tools.display()),
        )
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(Duration::from_secs(90), shell)
        .await
        .with_context(|| format!("it does not end: {script}"))??;
    ensure!(
        output.status.success(),
        "{script}ended with {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

#[test]
fn commands_are_found_in_pipes_and_substitutions() {
    let found = ours(
        "# make nothing\nLOG_FORMAT=json sriov-operator run --log-format \\\n  'text' > log\nsriov-operator crds | kubectl apply -f -\nsource <(sriov-operator completions bash)\nmake demo KEEP=1\n",
    );
    assert_eq!(
        found,
        [
            vec!["sriov-operator", "run", "--log-format", "text"],
            vec!["sriov-operator", "crds"],
            vec!["sriov-operator", "completions", "bash"],
            vec!["make", "demo", "KEEP=1"],
        ]
    );
}
