//! How the demo looks: one line a step with the time since the start, what was seen indented below it.

use std::io::IsTerminal as _;
use std::time::Instant;

use anyhow::{Context as _, Result};

const GREEN: &str = "\x1b[32m";
const RED: &str = "\x1b[31m";
const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";
/// Longer lines are cut: the point is to see what happens.
const WIDTH: usize = 160;

/// The transcript on stdout.
pub(crate) struct Transcript {
    start: Instant,
    colour: bool,
}

impl Transcript {
    /// Starts the clock. Colours are for terminals only, and not when `NO_COLOR` is set.
    pub(crate) fn new() -> Self {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self {
            start: Instant::now(),
            colour: std::io::stdout().is_terminal() && !unwanted,
        }
    }

    /// The heading.
    pub(crate) fn title(&self, text: &str) {
        println!("\n{}\n", self.paint(BOLD, text));
    }

    /// A step: `work` does it, looks at what came of it, and returns the lines to show.
    pub(crate) async fn step(
        &self,
        text: &str,
        work: impl AsyncFnOnce() -> Result<Vec<String>>,
    ) -> Result<()> {
        let lines = work().await.with_context(|| text.to_owned())?;
        println!("{} {} {text}", self.time(), self.paint(GREEN, "✓"));
        for line in lines.iter().flat_map(|line| line.lines()) {
            println!("             {}", self.paint(DIM, &cut(line)));
        }
        Ok(())
    }

    /// Something to know, beside the steps.
    pub(crate) fn note(&self, text: &str, body: &str) {
        println!("\n{}", self.paint(BOLD, text));
        for line in body.lines() {
            println!("  {line}");
        }
        println!();
    }

    /// The step that was not as it should be, and why.
    pub(crate) fn failure(&self, error: &anyhow::Error) {
        println!("{} {} {error}", self.time(), self.paint(RED, "✗"));
        for cause in error.chain().skip(1) {
            for line in cause.to_string().lines() {
                println!("             {line}");
            }
        }
    }

    /// The last line.
    pub(crate) fn end(&self) {
        let seconds = self.start.elapsed().as_secs_f32();
        let text = format!("All of it was as it should be, in {seconds:.1} s.");
        println!("\n{}", self.paint(BOLD, &text));
    }

    fn time(&self) -> String {
        let time = format!("[{:>6.1} s]", self.start.elapsed().as_secs_f32());
        self.paint(DIM, &time)
    }

    fn paint(&self, style: &str, text: &str) -> String {
        if self.colour {
            format!("{style}{text}{PLAIN}")
        } else {
            text.to_owned()
        }
    }
}

fn cut(line: &str) -> String {
    if line.chars().count() <= WIDTH {
        return line.to_owned();
    }
    let kept: String = line.chars().take(WIDTH).collect();
    format!("{kept} ...")
}
