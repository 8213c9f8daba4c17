//! How commands print: objects as YAML documents for people and kubectl or as JSON for machines, and tables.

use std::io::Write;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::lines::escaped;

/// The format of printed objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// YAML, one document an object.
    #[default]
    Yaml,
    /// JSON, one `List`.
    Json,
}

/// Prints objects.
pub(super) fn objects(out: &mut impl Write, format: Format, objects: &[Value]) -> Result<()> {
    let text = match format {
        Format::Json => {
            let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
            serde_json::to_string_pretty(&list).context("failed to print the objects")? + "\n"
        }
        Format::Yaml => {
            let mut text = String::new();
            for object in objects {
                text.push_str("---\n");
                let document =
                    serde_saphyr::to_string(object).context("failed to print the objects")?;
                text.push_str(document.trim_end());
                text.push('\n');
            }
            text
        }
    };
    self::text(out, &text)
}

/// Prints a text. A reader that has gone away, such as `head`, is no error.
pub(super) fn text(out: &mut impl Write, text: &str) -> Result<()> {
    match out.write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("failed to print"),
    }
}

/// Lines of columns that are as wide as their widest cell, each line after `indent`; control characters are escaped.
pub(super) fn columns<const N: usize>(
    indent: &str,
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let rows: Vec<[String; N]> = rows
        .into_iter()
        .map(|row| row.map(|cell| escaped(&cell).into_owned()))
        .collect();
    let mut widths = [0; N];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(widths);
        let line: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        text.push_str(indent);
        text.push_str(line.join("  ").trim_end());
        text.push('\n');
    }
    text
}
