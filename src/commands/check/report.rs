//! How findings are printed: a table for people, JSON or YAML for machines.

use std::{fmt, io::Write};

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::Value;

use super::{judge::Judgement, made::NodeState};
use crate::{commands::output, lines::escaped, policy::NicClaim};

/// How many nodes the table shows.
const SHOWN: usize = 30;

/// The format of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// For people.
    #[default]
    Table,
    /// For machines, one JSON object.
    Json,
    /// The same as YAML.
    Yaml,
}

/// All findings of a run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report<'a> {
    /// Whether nothing is refused.
    allowed: bool,
    /// What was judged, in order.
    objects: Vec<Judgement>,
    /// The states of the nodes that they touch.
    node_states: Vec<NodeState>,
    /// Objects in the files that admission is not asked about.
    not_judged: usize,
    /// What of the cluster could not be understood and took part in nothing.
    set_aside: &'a [String],
}

impl<'a> Report<'a> {
    pub(super) fn new(
        objects: Vec<Judgement>,
        node_states: Vec<NodeState>,
        documents: usize,
        set_aside: &'a [String],
    ) -> Self {
        Self {
            allowed: objects.iter().all(|object| object.allowed),
            not_judged: documents.saturating_sub(objects.len()),
            objects,
            node_states,
            set_aside,
        }
    }

    pub(super) fn is_fine(&self) -> bool {
        self.allowed
    }

    pub(super) fn print(&self, out: &mut impl Write, format: Format) -> Result<()> {
        let text = match format {
            Format::Table => self.table(),
            Format::Json => {
                serde_json::to_string_pretty(self).context("failed to print the findings")? + "\n"
            }
            Format::Yaml => {
                serde_saphyr::to_string(self).context("failed to print the findings")?
            }
        };
        output::text(out, &text)
    }

    fn table(&self) -> String {
        let mut text = String::new();
        for object in &self.objects {
            line(&mut text, format_args!("{}", head(object)));
            for fault in &object.faults {
                let field = match fault.field.as_str() {
                    "" => String::new(),
                    field => format!("{field}: "),
                };
                line(&mut text, format_args!("  {field}{}", fault.message));
            }
            for warning in &object.warnings {
                line(&mut text, format_args!("  warning: {warning}"));
            }
            if let Some(claims) = &object.claims {
                text.push_str(&claimed(claims));
            }
            if let Some(definition) = &object.definition {
                text.push_str(&defined(definition));
            }
            for operation in object.patch.iter().flatten() {
                let path = operation["path"].as_str().unwrap_or_default();
                line(
                    &mut text,
                    format_args!("  injected: {path} = {}", operation["value"]),
                );
            }
        }
        text.push_str(&made(&self.node_states));
        for aside in self.set_aside {
            line(&mut text, format_args!("cluster: {aside}"));
        }
        let refused = self.objects.iter().filter(|object| !object.allowed).count();
        line(
            &mut text,
            format_args!(
                "{} judged, {refused} refused, {} of other kinds",
                self.objects.len(),
                self.not_judged
            ),
        );
        text
    }
}

/// Appends a line. All text for people goes through here or a table: what files and clusters say may hold control
/// characters.
fn line(text: &mut String, told: fmt::Arguments<'_>) {
    text.push_str(&escaped(&told.to_string()));
    text.push('\n');
}

fn head(object: &Judgement) -> String {
    let name = if object.name.is_empty() {
        "(generated name)"
    } else {
        &object.name
    };
    let verdict = if object.allowed { "ok" } else { "refused" };
    format!(
        "{}: {} {}/{name}: {verdict}",
        object.source, object.kind, object.namespace
    )
}

/// The definition that a network comes to.
fn defined(definition: &Value) -> String {
    let text = |pointer: &str| {
        let found = definition.pointer(pointer).and_then(Value::as_str);
        found.unwrap_or_default()
    };
    let mut told = String::new();
    line(
        &mut told,
        format_args!(
            "  NetworkAttachmentDefinition {}/{}, resource {}",
            text("/metadata/namespace"),
            text("/metadata/name"),
            text("/metadata/annotations/k8s.v1.cni.cncf.io~1resourceName"),
        ),
    );
    for config in text("/spec/config").lines() {
        line(&mut told, format_args!("    {config}"));
    }
    told
}

/// The node states: a line a NIC, and what is not done.
fn made(states: &[NodeState]) -> String {
    if states.is_empty() {
        return String::new();
    }
    let mut rows = vec![["NODE", "NIC", "VFS", "GROUPS", "STATE"].map(str::to_owned)];
    let mut notes = String::new();
    for state in states.iter().take(SHOWN) {
        let word = match state.changes {
            None => "new",
            Some(true) => "changes",
            Some(false) => "stays",
        };
        let nics = state.spec.interfaces.as_deref().unwrap_or_default();
        let cells = nics.iter().map(|nic| {
            let groups = nic.vf_groups.iter().flatten().map(|group| {
                let of = |text: &Option<String>| text.clone().unwrap_or_default();
                format!("{} {}", of(&group.resource_name), of(&group.vf_range))
            });
            (
                nic.name.clone().unwrap_or_else(|| nic.pci_address.clone()),
                nic.num_vfs.unwrap_or_default().to_string(),
                groups.collect::<Vec<_>>().join(", "),
            )
        });
        let mut cells: Vec<(String, String, String)> = cells.collect();
        if cells.is_empty() {
            cells.push(("-".to_owned(), "-".to_owned(), "-".to_owned()));
        }
        for (nic, vfs, groups) in cells {
            rows.push([state.node.clone(), nic, vfs, groups, word.to_owned()]);
        }
        for problem in &state.problems {
            line(&mut notes, format_args!("  {}: {problem}", state.node));
        }
    }
    let more = states.len().saturating_sub(SHOWN);
    if more > 0 {
        line(
            &mut notes,
            format_args!("  and {more} more nodes, which --output json shows"),
        );
    }
    format!(
        "node states:\n{}{notes}",
        output::columns("  ", rows.into_iter())
    )
}

/// The NICs that a policy takes.
fn claimed(claims: &[NicClaim]) -> String {
    if claims.is_empty() {
        return "  it takes no NIC at the moment\n".to_owned();
    }
    let rows = claims.iter().map(|claim| {
        let ranges: Vec<String> = claim.vfs.iter().map(ToString::to_string).collect();
        let vfs = if claim.named {
            ranges.join(",")
        } else {
            format!("{} (if no stronger policy does)", ranges.join(","))
        };
        [
            claim.node.clone(),
            claim.interface.clone(),
            claim.pci_address.clone(),
            vfs,
        ]
    });
    let header = ["NODE", "NIC", "PCI ADDRESS", "VFS"].map(str::to_owned);
    output::columns("  ", std::iter::once(header).chain(rows))
}
