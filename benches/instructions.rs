//! Instructions of one call of a pure path, counted by callgrind, beside those that were counted before. They hardly
//! differ from run to run or between machines, so that one path that has become dearer shows where times would hide it.
//!
//! What was counted before is in `instructions.json`; `BENCH_INSTRUCTIONS=write` writes it anew, for a commit that says why.

use std::{collections::BTreeMap, path::PathBuf, process::Command};

use anyhow::{Context, Result, ensure};

use crate::{
    load::count,
    pure,
    report::{Bar, Report},
};

/// A cluster of ten thousand takes minutes to make under callgrind.
const COUNTED: [&str; 7] = [
    "inject-without-networks",
    "inject-two-networks",
    "answer-without-networks",
    "answer-two-networks",
    "default-policy",
    "validate-among-1000",
    "render-everything",
];
/// Calls under callgrind, where each takes some fifty times as long.
const CALLS: usize = 10;
/// How much dearer a path may become: compilers and libraries move a little, too.
const TOLERANCE: f64 = 1.05;

type Counts = BTreeMap<String, f64>;

/// Calls a path so often, for callgrind.
pub(crate) fn run(name: &str, calls: usize) -> Result<()> {
    let call = pure::path(name)?;
    for _ in 0..calls {
        call();
    }
    Ok(())
}

/// Counts all paths, if valgrind is installed.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let version = Command::new("valgrind").arg("--version").output();
    if !version.is_ok_and(|output| output.status.success()) {
        println!("  not counted: valgrind is not installed");
        return Ok(());
    }
    let baseline = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("benches/instructions.json");
    let before: Counts = match std::fs::read(&baseline) {
        Ok(text) => serde_json::from_slice(&text)?,
        Err(_) => Counts::new(),
    };
    let mut now = Counts::new();
    for name in COUNTED {
        let none = instructions(name, 0)?;
        let some = instructions(name, CALLS)?;
        let each = ((some - none) / count(CALLS)).round();
        let bar = before.get(name).map_or(Bar::None, |before| {
            Bar::AtMost((before * TOLERANCE).round())
        });
        report.figure(format!("{name}, one call"), each, "instr", bar);
        now.insert(name.to_owned(), each);
    }
    if std::env::var_os("BENCH_INSTRUCTIONS").is_some_and(|what| what == "write") {
        std::fs::write(&baseline, serde_json::to_string_pretty(&now)? + "\n")?;
    }
    Ok(())
}

/// What callgrind counts of a process that calls a path so often.
fn instructions(name: &str, calls: usize) -> Result<f64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe()?)
        .args(["pure", name, &calls.to_string()])
        .output()?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "valgrind failed: {told}");
    let collected = told
        .lines()
        .find_map(|line| line.split_once("Collected :"))
        .context("valgrind told no count")?;
    Ok(collected.1.trim().parse()?)
}
