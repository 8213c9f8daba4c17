//! What is written down twice is the same in both places: the table of values, the install manifest, the definitions, and the
//! metrics that alerts and dashboard name. `make chart-readme` and `make install-manifest` write the first two.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::helm::{Helm, chart, everything, render};
use crate::support::kinds::text;
use crate::support::manifests::root;

const README: &str = "deploy/chart/README.md";
const OPENS: &str = "<!-- values: generated from values.yaml, `make chart-readme` -->\n";
const CLOSES: &str = "<!-- /values -->\n";

#[test]
fn the_readme_lists_every_value_with_its_default() -> Result<()> {
    let path = root().join(README);
    let readme = fs::read_to_string(&path)?;
    let (before, rest) = readme
        .split_once(OPENS)
        .context("the table's beginning is not marked")?;
    let (listed, after) = rest
        .split_once(CLOSES)
        .context("the table's end is not marked")?;
    let table = table(&fs::read_to_string(
        root().join("deploy/chart/values.yaml"),
    )?)?;
    if std::env::var_os("REGENERATE").is_some() {
        fs::write(&path, format!("{before}{OPENS}{table}{CLOSES}{after}"))?;
        return Ok(());
    }
    ensure!(
        listed == table,
        "{README} differs from values.yaml: make chart-readme"
    );
    Ok(())
}

/// The values as a table, in the order of the file. What has no comment that opens with "--" has to have one above or below it.
fn table(values_yaml: &str) -> Result<String> {
    let values: Value = serde_saphyr::from_str(values_yaml)?;
    let mut rows = String::from("| value | default | meaning |\n| --- | --- | --- |\n");
    let mut path: Vec<(usize, String)> = Vec::new();
    let mut meaning = String::new();
    let mut documented: Vec<String> = Vec::new();
    for line in values_yaml.lines() {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        if let Some(comment) = trimmed.strip_prefix("# ") {
            match comment.strip_prefix("-- ") {
                Some(opening) => opening.clone_into(&mut meaning),
                None if !meaning.is_empty() => meaning = format!("{meaning} {comment}"),
                None => {}
            }
            continue;
        }
        let Some((key, _)) = trimmed
            .split_once(':')
            .filter(|_| !trimmed.starts_with('-'))
        else {
            continue;
        };
        path.retain(|(depth, _)| *depth < indent);
        path.push((indent, key.to_owned()));
        let name = path
            .iter()
            .map(|(_, key)| key.as_str())
            .collect::<Vec<_>>()
            .join(".");
        if documented
            .iter()
            .any(|above| name.starts_with(&format!("{above}.")))
        {
            continue;
        }
        let value = values
            .pointer(&format!("/{}", name.replace('.', "/")))
            .with_context(|| format!("{name} is not in values.yaml"))?;
        if meaning.is_empty() {
            let is_group = value.as_object().is_some_and(|group| !group.is_empty());
            ensure!(is_group, "{name} has no comment that opens with \"--\"");
            continue;
        }
        let default = match value.to_string() {
            long if long.len() > 70 => "see `values.yaml`".to_owned(),
            short => format!("`{short}`"),
        };
        let cell = meaning.replace('|', "\\|");
        writeln!(rows, "| `{name}` | {default} | {cell} |")?;
        documented.push(name);
        meaning.clear();
    }
    Ok(rows)
}

#[test]
fn the_install_manifest_is_the_chart_with_its_defaults() -> Result<()> {
    let output = Command::new(root().join("deploy/install-manifest.sh"))
        .stdin(Stdio::null())
        .output()?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let written = fs::read_to_string(root().join("deploy/install.yaml"))?;
    ensure!(
        written == String::from_utf8(output.stdout)?,
        "deploy/install.yaml is not up to date: make install-manifest"
    );
    Ok(())
}

#[test]
fn the_chart_ships_the_definitions() -> Result<()> {
    for helm in Helm::BOTH {
        let shown = helm.run(&["show", "crds", &chart()])?;
        let shown: Vec<Value> = serde_saphyr::from_multiple(&shown)?;
        let mut files: Vec<_> = fs::read_dir(root().join("deploy/crds"))?
            .map(|entry| Ok(entry?.path()))
            .collect::<Result<_>>()?;
        files.sort();
        let mut definitions = Vec::new();
        for file in files {
            definitions.push(serde_saphyr::from_str::<Value>(&fs::read_to_string(file)?)?);
        }
        let shown: Vec<Value> = shown
            .into_iter()
            .filter(|object| !object.is_null())
            .collect();
        ensure!(shown == definitions, "{helm:?} shows others");
    }
    Ok(())
}

#[test]
fn alerts_and_dashboard_use_metrics_that_there_are() -> Result<()> {
    let mut registered = BTreeSet::new();
    for entry in fs::read_dir(root().join("src/server/metrics"))? {
        let source = fs::read_to_string(entry?.path())?;
        let names = source
            .split("registry.register(")
            .skip(1)
            .filter_map(|rest| rest.split('"').nth(1));
        registered.extend(names.map(str::to_owned));
    }
    ensure!(registered.len() > 10, "found {registered:?}");

    let objects = render(&everything())?;
    let rules = objects.get("PrometheusRule", "sriov-network-operator")?;
    let dashboard = text(
        objects.get("ConfigMap", "sriov-network-operator-dashboard")?,
        "/data/sriov-operator.json",
    );
    let dashboard: Value = serde_json::from_str(dashboard)?;
    let mut used = BTreeSet::new();
    for expression in strings(rules).into_iter().chain(strings(&dashboard)) {
        let words =
            expression.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let ours = ["sriov_operator_", "controller_runtime_", "leader_election_"];
        used.extend(words.filter(|word| ours.iter().any(|prefix| word.starts_with(prefix))));
    }
    ensure!(used.len() > 10, "found {used:?}");
    for name in used {
        let base = ["_total", "_bucket"]
            .iter()
            .find_map(|suffix| name.strip_suffix(suffix))
            .unwrap_or(name);
        ensure!(registered.contains(base), "there is no metric {name}");
    }
    Ok(())
}

#[test]
fn every_alert_says_what_it_means_and_what_to_do() -> Result<()> {
    let objects = render(&everything())?;
    let rules = objects.get("PrometheusRule", "sriov-network-operator")?;
    let alerts = rules["spec"]["groups"][0]["rules"]
        .as_array()
        .context("there are no rules")?;
    ensure!(alerts.len() == 10, "there are {}", alerts.len());
    for alert in alerts {
        for field in [
            "/alert",
            "/expr",
            "/labels/severity",
            "/annotations/summary",
            "/annotations/description",
        ] {
            ensure!(!text(alert, field).is_empty(), "{field} of {alert}");
        }
    }
    Ok(())
}

/// Every text in a document.
fn strings(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().flat_map(strings).collect(),
        Value::Object(fields) => fields.values().flat_map(strings).collect(),
        _ => Vec::new(),
    }
}
