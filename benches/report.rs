//! Figures, each with the bar it has to meet, as text for people and as JSON for machines.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::plot::{self, Plot};

/// What a figure has to be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bar {
    /// It is told, nothing more.
    None,
    AtMost(f64),
    AtLeast(f64),
}

impl Bar {
    fn is_met(self, value: f64) -> bool {
        match self {
            Self::None => true,
            Self::AtMost(limit) => value <= limit,
            Self::AtLeast(limit) => value >= limit,
        }
    }
}

struct Figure {
    section: String,
    name: String,
    value: f64,
    unit: &'static str,
    bar: Bar,
}

/// All figures so far; each is printed as soon as it is known.
#[derive(Default)]
pub(crate) struct Report {
    section: String,
    figures: Vec<Figure>,
    plots: Vec<Plot>,
}

impl Report {
    /// What comes belongs together.
    pub(crate) fn section(&mut self, title: &str) {
        title.clone_into(&mut self.section);
        println!("\n{title}");
    }

    /// A figure without a bar.
    pub(crate) fn tell(&mut self, name: impl Into<String>, value: f64, unit: &'static str) {
        self.figure(name, value, unit, Bar::None);
    }

    /// A figure.
    pub(crate) fn figure(
        &mut self,
        name: impl Into<String>,
        value: f64,
        unit: &'static str,
        bar: Bar,
    ) {
        let name = name.into();
        let told = match bar {
            Bar::None => String::new(),
            Bar::AtMost(limit) => format!("at most {}", number(limit)),
            Bar::AtLeast(limit) => format!("at least {}", number(limit)),
        };
        let verdict = match (bar, bar.is_met(value)) {
            (Bar::None, _) => "",
            (_, true) => "ok",
            (_, false) => "MISS",
        };
        let line = format!(
            "  {name:<58} {:>12} {unit:<8} {told:<16} {verdict}",
            number(value)
        );
        println!("{}", line.trim_end());
        self.figures.push(Figure {
            section: self.section.clone(),
            name,
            value,
            unit,
            bar,
        });
    }

    /// A curve to draw at the end.
    pub(crate) fn plot(&mut self, plot: Plot) {
        self.plots.push(plot);
    }

    /// Whether every bar is met.
    pub(crate) fn is_met(&self) -> bool {
        self.missed().next().is_none()
    }

    fn missed(&self) -> impl Iterator<Item = &Figure> {
        self.figures
            .iter()
            .filter(|figure| !figure.bar.is_met(figure.value))
    }

    /// Sums up, and writes the files that were asked for.
    pub(crate) fn finish(&self) -> Result<()> {
        let bars = self
            .figures
            .iter()
            .filter(|figure| !matches!(figure.bar, Bar::None));
        println!("\n{} bars, {} missed", bars.count(), self.missed().count());
        for figure in self.missed() {
            println!("  missed: {}: {}", figure.section, figure.name);
        }
        if let Some(path) = std::env::var_os("BENCH_JSON") {
            let figures: Vec<Value> = self.figures.iter().map(Figure::json).collect();
            let text = serde_json::to_string_pretty(&json!({ "figures": figures }))?;
            std::fs::write(&path, text + "\n")
                .with_context(|| format!("failed to write {}", path.display()))?;
        }
        if let Some(directory) = std::env::var_os("BENCH_PLOTS") {
            plot::write_all(&self.plots, directory.as_ref())?;
        }
        Ok(())
    }
}

impl Figure {
    fn json(&self) -> Value {
        let (at_most, at_least) = match self.bar {
            Bar::None => (None, None),
            Bar::AtMost(limit) => (Some(limit), None),
            Bar::AtLeast(limit) => (None, Some(limit)),
        };
        json!({
            "section": self.section, "name": self.name, "value": self.value, "unit": self.unit,
            "atMost": at_most, "atLeast": at_least, "met": self.bar.is_met(self.value),
        })
    }
}

/// Three significant digits at least, none that means nothing.
fn number(value: f64) -> String {
    if value == 0.0 || value.abs() >= 100.0 {
        format!("{value:.0}")
    } else if value.abs() >= 1.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.4}")
    }
}
