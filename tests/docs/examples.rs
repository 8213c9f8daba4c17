//! The examples of admission: each block of YAML is judged by `sriov-operator check` against the nodes that tests and demo
//! share, and the block of text after it is what that says.

use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::pages::Page;
use crate::support::manifests::root;
use crate::support::operator::binary;

#[test]
fn every_example_comes_out_as_shown() -> Result<()> {
    let mut page = Page::read("docs/admission.md")?;
    let mut seen = 0;
    let mut index = 0;
    while let Some(example) = page.blocks()?.get(index).cloned() {
        index += 1;
        if example.info != "yaml" {
            continue;
        }
        seen += 1;
        let blocks = page.blocks()?;
        let output = blocks.get(index).filter(|block| block.info == "text");
        let output =
            output.with_context(|| format!("no output after line {}", example.lines.end))?;
        page.settle_lines(output.lines.clone(), &judged(&example.text)?)?;
    }
    ensure!(seen >= 20, "only {seen} examples were found");
    Ok(())
}

/// What the command says about these objects.
fn judged(objects: &str) -> Result<String> {
    let mut check = Command::new(binary()?)
        .args(["check", "--cluster-state", "tests/data/seed.yaml", "-"])
        .current_dir(root())
        .env_remove("NAMESPACE")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut input = check.stdin.take().context("it has no input")?;
    input.write_all(objects.as_bytes())?;
    drop(input);
    let output = check.wait_with_output()?;
    ensure!(
        output.status.code() != Some(2),
        "{objects}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}
