//! One file a component: when it is on, and the typed input of its templates.

mod config_daemon;
mod device_plugin;
mod injector;
mod machine_config;
mod metrics_exporter;
mod operator_webhook;
mod webhook;

use serde::Serialize;

pub use config_daemon::{ConfigDaemon, RESERVED_ENVIRONMENT};
pub use device_plugin::DevicePlugin;
pub use injector::{Injector, Switches};
pub use machine_config::MachineConfig;
pub use metrics_exporter::MetricsExporter;
pub use operator_webhook::OperatorWebhook;
pub use webhook::DedicatedWebhook;

use super::{ComponentError, ComponentInput, Facts, Owners, Renderer};

/// What every workload of a component has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Workload {
    /// The container's image.
    pub image: String,
    /// Pull secrets; `None` when there are none.
    pub image_pull_secrets: Option<Vec<NameReference>>,
    /// The value of the annotation `release.openshift.io/version`.
    pub release_version: String,
}

/// A reference to an object in the same namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NameReference {
    /// Its name.
    pub name: String,
}

impl Workload {
    fn new(facts: &Facts<'_>, image: &str, variable: &'static str) -> Result<Self, ComponentError> {
        let settings = &facts.settings.components;
        let secrets: Vec<NameReference> = settings
            .image_pull_secrets
            .iter()
            .map(|name| NameReference { name: name.clone() })
            .collect();
        Ok(Self {
            image: required_image(image, variable)?,
            image_pull_secrets: (!secrets.is_empty()).then_some(secrets),
            release_version: settings.release_version.clone(),
        })
    }
}

/// An image of a component that is switched on.
fn required_image(image: &str, variable: &'static str) -> Result<String, ComponentError> {
    if image.is_empty() {
        Err(ComponentError::ImageNotSet { variable })
    } else {
        Ok(image.to_owned())
    }
}
