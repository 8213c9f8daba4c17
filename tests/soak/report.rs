//! What is told at the end: lines for people, JSON for machines (`SOAK_JSON=file`).

use anyhow::{Context, Result};
use serde_json::{Map, Value};

/// All that is known, and all that is wrong.
#[derive(Default)]
pub(crate) struct Report {
    figures: Map<String, Value>,
    faults: Vec<String>,
}

impl Report {
    /// A figure.
    pub(crate) fn figure(&mut self, name: &str, value: impl Into<Value>) {
        let value = value.into();
        println!("  {:<46} {value}", name.replace('_', " "));
        self.figures.insert(name.to_owned(), value);
    }

    /// Several of them.
    pub(crate) fn figures(&mut self, values: Value) {
        if let Value::Object(values) = values {
            for (name, value) in values {
                self.figure(&name, value);
            }
        }
    }

    /// Something is wrong.
    pub(crate) fn fault(&mut self, fault: impl Into<String>) {
        self.faults.push(fault.into());
    }

    /// Something may be wrong.
    pub(crate) fn check(&mut self, result: Result<()>) {
        if let Err(error) = result {
            self.fault(format!("{error:#}"));
        }
    }

    /// Tells the end. Returns whether nothing is wrong.
    pub(crate) fn finish(mut self) -> Result<bool> {
        let passed = self.faults.is_empty();
        for fault in &self.faults {
            println!("  FAULT {fault}");
        }
        println!(
            "{}",
            if passed {
                "soak passed: every answer was right, and nothing was left behind"
            } else {
                "soak FAILED"
            }
        );
        self.figures.insert("faults".to_owned(), self.faults.into());
        self.figures.insert("passed".to_owned(), passed.into());
        if let Some(path) = std::env::var_os("SOAK_JSON").filter(|path| !path.is_empty()) {
            let text = serde_json::to_string_pretty(&self.figures)?;
            std::fs::write(&path, text + "\n")
                .with_context(|| format!("SOAK_JSON={}", path.display()))?;
        }
        Ok(passed)
    }
}
