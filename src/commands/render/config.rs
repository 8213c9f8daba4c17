//! Reading the config that is to be rendered, from a file that may hold other objects beside it.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{
    api::{API_VERSION, DEFAULT_CONFIG_NAME, SriovOperatorConfigSpec},
    commands::file::{self, Limit},
};

/// The config of a file.
pub(super) struct Config {
    pub(super) namespace: Option<String>,
    pub(super) spec: SriovOperatorConfigSpec,
}

impl Config {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = file::read(path, Limit::Config)?;
        Self::parse(&text).with_context(|| format!("--config {}", path.display()))
    }

    /// The one config among the documents of a file, which may hold other objects.
    fn parse(text: &str) -> Result<Self> {
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(text).context("it is neither YAML nor JSON")?;
        let is_config = |document: &&Value| {
            document["apiVersion"] == API_VERSION && document["kind"] == "SriovOperatorConfig"
        };
        let mut configs = documents.iter().filter(is_config);
        let config = configs.next().with_context(|| {
            format!("it holds no object of apiVersion {API_VERSION} and kind SriovOperatorConfig")
        })?;
        if configs.next().is_some() {
            bail!("it holds more than one SriovOperatorConfig");
        }
        let text = |field: &str| config["metadata"][field].as_str().map(str::to_owned);
        if let Some(name) = text("name").filter(|name| name != DEFAULT_CONFIG_NAME) {
            bail!(
                "the SriovOperatorConfig is named {name:?}: only the one named {DEFAULT_CONFIG_NAME:?} has an effect"
            );
        }
        let spec = match &config["spec"] {
            Value::Null => SriovOperatorConfigSpec::default(),
            spec => serde_path_to_error::deserialize(spec)
                .map_err(|error| anyhow::anyhow!("spec.{}: {}", error.path(), error.inner()))?,
        };
        Ok(Self {
            namespace: text("namespace"),
            spec,
        })
    }
}
