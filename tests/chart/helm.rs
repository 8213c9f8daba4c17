//! Runs Helm, and reads what it renders.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::support::NAMESPACE;
use crate::support::kinds::text;
use crate::support::manifests::root;

/// The release that the tests install; the operator's objects have its name.
pub(crate) const RELEASE: &str = "sriov-network-operator";

/// A major version of Helm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Helm {
    Three,
    Four,
}

impl Helm {
    pub(crate) const BOTH: [Self; 2] = [Self::Three, Self::Four];

    /// Runs it and hands over what it said, whether it succeeded or not.
    pub(crate) fn attempt(self, arguments: &[&str]) -> Result<Output> {
        let binary = match self {
            Self::Three => "helm3",
            Self::Four => "helm4",
        };
        // Nothing of the user's own Helm is read or written.
        let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("helm");
        Command::new(directory()?.join(binary))
            .args(arguments)
            .envs(
                ["CACHE", "CONFIG", "DATA"].map(|what| (format!("HELM_{what}_HOME"), home.clone())),
            )
            .env_remove("KUBECONFIG")
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("failed to run {binary}"))
    }

    /// Runs it and hands over its output; failing, with its words, when it fails.
    pub(crate) fn run(self, arguments: &[&str]) -> Result<String> {
        let output = self.attempt(arguments)?;
        ensure!(
            output.status.success(),
            "{self:?} {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8(output.stdout)?)
    }

    /// What it renders for values, hooks included.
    pub(crate) fn render(self, values: &Value) -> Result<Objects> {
        let file = values_file(values)?;
        let output = self.run(&[
            "template",
            RELEASE,
            &chart(),
            "--namespace",
            NAMESPACE,
            "--values",
            &path(file.path()),
        ])?;
        Objects::parse(&output)
    }

    /// Why it refuses values.
    pub(crate) fn refusal(self, values: &Value) -> Result<String> {
        let file = values_file(values)?;
        let output = self.attempt(&[
            "template",
            RELEASE,
            &chart(),
            "--values",
            &path(file.path()),
        ])?;
        ensure!(!output.status.success(), "{self:?} takes {values}");
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// What Helm 4 renders for values.
pub(crate) fn render(values: &Value) -> Result<Objects> {
    Helm::Four.render(values)
}

/// The chart's directory.
pub(crate) fn chart() -> String {
    path(&root().join("deploy/chart"))
}

/// Values in a file, which vanishes when dropped.
pub(crate) fn values_file(values: &Value) -> Result<NamedTempFile> {
    let file = NamedTempFile::with_suffix(".json")?;
    std::fs::write(file.path(), values.to_string())?;
    Ok(file)
}

pub(crate) fn path(path: &Path) -> String {
    path.display().to_string()
}

fn directory() -> Result<&'static PathBuf> {
    static DIRECTORY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    DIRECTORY
        .get_or_init(|| built().map_err(|error| format!("{error:#}")))
        .as_ref()
        .map_err(|error| anyhow!("{error}"))
}

fn built() -> Result<PathBuf> {
    let script = root().join("tests/helm/build.sh");
    let output = Command::new(&script)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("failed to run {}", script.display()))?;
    ensure!(output.status.success(), "{} failed", script.display());
    let text = String::from_utf8(output.stdout)?;
    Ok(text
        .lines()
        .last()
        .context("build.sh named no directory")?
        .into())
}

/// Rendered objects.
#[derive(Debug, PartialEq)]
pub(crate) struct Objects(pub(crate) Vec<Value>);

impl Objects {
    pub(crate) fn parse(yaml: &str) -> Result<Self> {
        let mut objects: Vec<Value> = serde_saphyr::from_multiple(yaml)?;
        objects.retain(|object| !object.is_null());
        Ok(Self(objects))
    }

    /// `kind name` of each, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .0
            .iter()
            .map(|object| {
                format!(
                    "{} {}",
                    text(object, "/kind"),
                    text(object, "/metadata/name")
                )
            })
            .collect();
        names.sort();
        names
    }

    /// Those of a kind.
    pub(crate) fn of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.0.iter().filter(move |object| object["kind"] == kind)
    }

    /// One object, which must be there.
    pub(crate) fn get(&self, kind: &str, name: &str) -> Result<&Value> {
        self.0
            .iter()
            .find(|object| object["kind"] == kind && object["metadata"]["name"] == name)
            .with_context(|| format!("{kind} {name} is not rendered"))
    }

    /// The operator's pod template.
    pub(crate) fn pod(&self) -> Result<&Value> {
        Ok(&self.get("Deployment", RELEASE)?["spec"]["template"])
    }

    /// The operator's environment. What comes from a Secret or from the pod itself stands as JSON.
    pub(crate) fn environment(&self) -> Result<BTreeMap<String, String>> {
        environment(&self.get("Deployment", RELEASE)?["spec"]["template"]["spec"])
    }
}

/// The environment of a pod's first container.
pub(crate) fn environment(pod_spec: &Value) -> Result<BTreeMap<String, String>> {
    let variables = pod_spec["containers"][0]["env"]
        .as_array()
        .context("the container has no environment")?;
    let mut environment = BTreeMap::new();
    for variable in variables {
        let name = text(variable, "/name").to_owned();
        let value = match &variable["value"] {
            Value::String(value) => value.clone(),
            _ => variable["valueFrom"].to_string(),
        };
        let before = environment.insert(name.clone(), value);
        ensure!(before.is_none(), "{name} is set twice");
    }
    Ok(environment)
}

/// Values that switch on whatever can be switched on together.
pub(crate) fn everything() -> Value {
    json!({
        "namespace": { "create": true },
        "imagePullSecrets": ["one", "two"],
        "supportedExtraNICs": ["Acme_nic: \"1234 5678 9abc\""],
        "operator": {
            "nodeSelector": { "node-role.kubernetes.io/infra": "" },
            "extraEnv": { "LOG_FORMAT": "json", "CLUSTER_TYPE": "kubernetes" },
            "metricsExporter": { "prometheusOperator": { "enabled": true, "deployRules": true } },
            "admissionControllers": {
                "enabled": true,
                "serving": "dedicated",
                "certificates": { "certManager": { "enabled": true, "generateSelfSigned": true } },
            },
        },
        "networkPolicy": { "apiServerPorts": [443, 6443] },
        "sriovOperatorConfig": {
            "deploy": true,
            "configDaemonNodeSelector": { "network": "fast" },
            "disablePlugins": ["mellanox"],
            "featureGates": { "metricsExporter": true },
            "configDaemonEnvVars": { "LEVEL": "7" },
        },
        "monitoring": {
            "serviceMonitor": { "enabled": true, "labels": { "release": "prometheus" } },
            "prometheusRule": { "enabled": true },
            "grafanaDashboard": { "enabled": true },
        },
        "extraDeploy": [{ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "more" } }],
    })
}
