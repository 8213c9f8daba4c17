//! The examples of admission: each block of YAML is judged by `sriov-operator check` against the nodes that tests and demo
//! share, and the block of text after it is what that says.

use std::io::Write as _;
use std::process::{Command, Stdio};

use super::pages::Page;
use crate::support::manifests::root;
use crate::support::operator::binary;

#[test]
fn every_example_comes_out_as_shown() {
    let mut page = Page::read("docs/admission.md");
    let mut seen = 0;
    let mut index = 0;
    loop {
        let blocks = page.blocks();
        let Some(example) = blocks.get(index) else {
            break;
        };
        index += 1;
        if example.info != "yaml" {
            continue;
        }
        seen += 1;
        let output = blocks
            .get(index)
            .filter(|block| block.info == "text")
            .unwrap_or_else(|| panic!("line {}: no output follows", example.lines.end));
        page.settle_lines(output.lines.clone(), &judged(&example.text));
    }
    assert!(seen >= 20, "only {seen} examples were found");
}

/// What the command says about these objects.
fn judged(objects: &str) -> String {
    let mut check = Command::new(binary().unwrap())
        .args(["check", "--cluster-state", "tests/data/seed.yaml", "-"])
        .current_dir(root())
        .env_remove("NAMESPACE")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    check
        .stdin
        .take()
        .unwrap()
        .write_all(objects.as_bytes())
        .unwrap();
    let output = check.wait_with_output().unwrap();
    assert_ne!(
        output.status.code(),
        Some(2),
        "{objects}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}
