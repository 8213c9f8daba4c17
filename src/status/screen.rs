//! The report as one screen for people.

use std::fmt::{self, Write as _};

use jiff::{SignedDuration, Timestamp};

use super::{
    machine_pools::MachinePoolStatus,
    networks,
    report::{Authority, ComponentStatus, Config, Part, Report, Webhook},
};
use crate::lines::escaped;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        line(
            f,
            format_args!(
                "SR-IOV operator in namespace {}, {}",
                self.namespace, self.observed_at
            ),
        )?;
        writeln!(f)?;
        self.config(f)?;
        writeln!(f)?;
        table(
            f,
            &["COMPONENT", "ENABLED", "WORKLOAD", "READY"],
            self.components.iter().map(Self::component),
        )?;
        writeln!(f)?;
        table(
            f,
            &["WEBHOOK", "UNANSWERED", "CA", "SERVED BY"],
            self.webhooks.iter().map(|one| self.webhook(one)),
        )?;
        writeln!(f)?;
        line(f, format_args!("Certificates: {}", self.certificate_mode))?;
        table(
            f,
            &["SECRET", "ISSUER", "EXPIRES", "STATE"],
            self.certificate_rows(),
        )?;
        writeln!(f)?;
        self.policies(f)?;
        writeln!(f)?;
        match &self.nodes {
            Part::Unreadable { unreadable } => {
                line(f, format_args!("Nodes      not shown: {unreadable}"))?;
            }
            Part::Read(nodes) => nodes.show(f)?,
        }
        writeln!(f)?;
        networks::show(&self.networks, f)?;
        self.machine_pools(f)?;
        writeln!(f)?;
        if self.problems.is_empty() {
            return line(f, format_args!("No problems found."));
        }
        line(f, format_args!("Problems:"))?;
        for (index, problem) in self.problems.iter().enumerate() {
            line(f, format_args!("{:>2}. {}", index + 1, problem.what))?;
            line(f, format_args!("    -> {}", problem.remedy))?;
        }
        Ok(())
    }
}

impl Report {
    fn config(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.config {
            Part::Unreadable { unreadable } => {
                line(f, format_args!("Config     not shown: {unreadable}"))?;
            }
            Part::Read(None) => line(f, format_args!("Config     there is none"))?,
            Part::Read(Some(config)) => {
                line(f, format_args!("Config     {}", summary(config)))?;
                for condition in &config.conditions {
                    let stale = if condition.current {
                        ""
                    } else {
                        " (of an earlier generation)"
                    };
                    line(
                        f,
                        format_args!(
                            "{:<10} {}{stale} since {}{}",
                            condition.type_,
                            condition.status,
                            condition.since,
                            if condition.message.is_empty() {
                                String::new()
                            } else {
                                format!(": {}", condition.message)
                            }
                        ),
                    )?;
                }
                let on = |wanted: bool| -> String {
                    let gates = config.gates.iter().filter(|(_, on)| **on == wanted);
                    let names: Vec<&str> = gates.map(|(name, _)| *name).collect();
                    if names.is_empty() {
                        "none".to_owned()
                    } else {
                        names.join(", ")
                    }
                };
                line(
                    f,
                    format_args!("Gates      on: {}; off: {}", on(true), on(false)),
                )?;
            }
        }
        match &self.leader {
            Part::Unreadable { unreadable } => {
                line(f, format_args!("Leader     not shown: {unreadable}"))
            }
            Part::Read(Some(leader)) if leader.in_force => line(
                f,
                format_args!(
                    "Leader     {}, renewed {} ago",
                    leader.holder,
                    leader.renewed.map_or_else(
                        || "-".to_owned(),
                        |at| rough(self.observed_at.duration_since(at))
                    )
                ),
            ),
            Part::Read(_) => line(f, format_args!("Leader     none")),
        }
    }

    fn component(component: &ComponentStatus) -> Vec<String> {
        let (workload, ready) = match &component.workload {
            Part::Unreadable { unreadable } => (format!("not shown: {unreadable}"), String::new()),
            Part::Read(Some(workload)) => (
                workload.name.clone(),
                format!("{}/{}", workload.ready, workload.desired),
            ),
            Part::Read(None) => ("-".to_owned(), "-".to_owned()),
        };
        vec![
            component.name.to_owned(),
            yes(component.enabled),
            workload,
            ready,
        ]
    }

    fn webhook(&self, webhook: &Webhook) -> Vec<String> {
        let (unanswered, ca) = match &webhook.registered {
            Part::Unreadable { unreadable } => (format!("not shown: {unreadable}"), String::new()),
            Part::Read(None) => ("not registered".to_owned(), "-".to_owned()),
            Part::Read(Some(registered)) => (
                format!(
                    "{} after {} s",
                    registered.failure_policy, registered.timeout_seconds
                ),
                self.authorities(&registered.ca_bundle),
            ),
        };
        let served = match &webhook.served_by {
            Part::Unreadable { unreadable } => format!("not shown: {unreadable}"),
            Part::Read(backend) if backend.serving.is_empty() => "-".to_owned(),
            Part::Read(backend) => {
                format!(
                    "{}, {} of {} pods ready",
                    backend.serving, backend.ready, backend.pods
                )
            }
        };
        vec![webhook.configuration.clone(), unanswered, ca, served]
    }

    fn authorities(&self, bundle: &[Authority]) -> String {
        if bundle.is_empty() {
            return "none".to_owned();
        }
        let authorities = bundle
            .iter()
            .map(|authority| format!("{} ({})", authority.name, self.left(authority.expires)));
        authorities.collect::<Vec<_>>().join(" + ")
    }

    fn certificate_rows(&self) -> impl Iterator<Item = Vec<String>> {
        self.certificates.iter().map(|certificate| {
            let row = match &certificate.certificate {
                Part::Unreadable { unreadable } => [
                    String::new(),
                    String::new(),
                    format!("not shown: {unreadable}"),
                ],
                Part::Read(None) => [String::new(), String::new(), "missing".to_owned()],
                Part::Read(Some(leaf)) => [
                    leaf.issuer.clone(),
                    leaf.expires
                        .map(|at| format!("{at} ({})", self.left(at)))
                        .unwrap_or_default(),
                    leaf.fault.clone().unwrap_or_else(|| "good".to_owned()),
                ],
            };
            std::iter::once(certificate.secret.clone())
                .chain(row)
                .collect()
        })
    }

    fn policies(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.policies {
            Part::Unreadable { unreadable } => {
                line(f, format_args!("Policies   not shown: {unreadable}"))
            }
            Part::Read(policies) if policies.is_empty() => {
                line(f, format_args!("Policies   there is none"))
            }
            Part::Read(policies) => {
                line(
                    f,
                    format_args!(
                        "Policies, in the order in which they apply; of two that match one NIC the later counts:"
                    ),
                )?;
                let rows = policies.iter().map(|policy| {
                    vec![
                        policy.priority.to_string(),
                        policy.name.clone(),
                        policy.resource_name.clone(),
                        policy.num_vfs.to_string(),
                        policy.nics.clone(),
                        policy.nodes.clone(),
                    ]
                });
                table(
                    f,
                    &["PRIORITY", "POLICY", "RESOURCE", "VFS", "NICS", "NODES"],
                    rows,
                )
            }
        }
    }

    fn machine_pools(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.machine_config_pools {
            None => Ok(()),
            Some(Part::Unreadable { unreadable }) => line(
                f,
                format_args!("MachineConfigPools not shown: {unreadable}"),
            ),
            Some(Part::Read(pools)) => table(
                f,
                &["MACHINECONFIGPOOL", "PAUSED", "HARDWARE OFFLOAD"],
                pools.iter().map(MachinePoolStatus::row),
            ),
        }
    }

    /// How long until then, in words.
    fn left(&self, until: Timestamp) -> String {
        let left = until.duration_since(self.observed_at);
        if left.is_negative() {
            format!("expired {} ago", rough(left.abs()))
        } else {
            format!("{} left", rough(left))
        }
    }
}

fn summary(config: &Config) -> String {
    let mut text = format!(
        "SriovOperatorConfig default, generation {}, log level {}",
        config.generation.unwrap_or_default(),
        config.log_level
    );
    if let Some(since) = config.deleting_since {
        // Writing to a text does not fail.
        let _ = write!(text, ", being deleted since {since}");
    }
    text
}

fn yes(known: Option<bool>) -> String {
    match known {
        Some(true) => "yes",
        Some(false) => "no",
        None => "?",
    }
    .to_owned()
}

/// A duration in its largest unit.
fn rough(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        ..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// A line. All text of the screen goes through here: what the cluster says may hold control characters.
pub(super) fn line(f: &mut fmt::Formatter<'_>, text: fmt::Arguments<'_>) -> fmt::Result {
    writeln!(f, "{}", escaped(&text.to_string()))
}

/// Columns as wide as what they hold, two blanks between them, none at the end of a line.
pub(super) fn table(
    f: &mut fmt::Formatter<'_>,
    head: &[&str],
    rows: impl Iterator<Item = Vec<String>>,
) -> fmt::Result {
    let head = head.iter().map(|title| (*title).to_owned()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(head)
        .chain(rows)
        .map(|row: Vec<String>| row.iter().map(|cell| escaped(cell).into_owned()).collect())
        .collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in &rows {
        let mut text = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            write!(text, "{cell:<width$}  ")?;
        }
        line(f, format_args!("{}", text.trim_end()))?;
    }
    Ok(())
}
