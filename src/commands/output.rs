//! How commands print objects: YAML documents for people and kubectl, JSON for machines.

use std::io::Write;

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// The format of printed objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// YAML, one document an object.
    #[default]
    Yaml,
    /// JSON, one `List`.
    Json,
}

/// Prints objects. A reader that has gone away, such as `head`, is no error.
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
    match out.write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("failed to print the objects"),
    }
}
