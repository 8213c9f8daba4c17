//! Templates to objects: what a config means, as the objects that are to be applied. No cluster, no clock; the only I/O is
//! reading a directory of templates, once, when one is named.
//!
//! ```text
//! Facts -> a component's input -> templates/<component>/NNN-name.yaml -> objects -> label, owner
//! ```
//!
//! One file of `components` maps facts to the typed input of one component; the templates decide how it looks. The
//! reconciler and `sriov-operator render` both call [`all`].

mod catalogue;
mod component;
mod components;
mod conditions;
mod error;
mod facts;
pub mod objects;
mod renderer;
#[cfg(test)]
mod tests;

use std::fmt;

use serde::Serialize;
use serde_json::Value;

pub use catalogue::{DEVICE_PLUGIN_CONFIG, ObjectName, SWITCHES};
pub use component::{Component, ComponentInput};
pub use components::{
    ConfigDaemon, DedicatedWebhook, DevicePlugin, Injector, MachineConfig, MetricsExporter,
    OperatorWebhook, RESERVED_ENVIRONMENT, Switches,
};
pub use conditions::MatchCondition;
pub use error::{ComponentError, RenderError};
pub use facts::{Facts, Owner, Owners, Registration};
pub use objects::{MANAGED_BY, MANAGED_BY_LABEL};
pub use renderer::Renderer;

use crate::settings::tls::TlsWarning;

/// Something in the config or the settings that was set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// A name in `spec.configDaemonEnvVars` that the operator sets itself.
    ReservedVariable(String),
    /// A TLS setting that the metrics proxy cannot follow to the letter.
    ProxyTls(TlsWarning),
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReservedVariable(name) => write!(
                f,
                "spec.configDaemonEnvVars[{name}] is left out: the operator sets this variable itself"
            ),
            Self::ProxyTls(warning) => write!(f, "metrics exporter: {warning}"),
        }
    }
}

/// What a component comes to.
#[derive(Clone, Debug, PartialEq)]
pub enum Desired {
    /// It is switched off: what there is of [`Component::objects`] goes.
    Off,
    /// It is switched on.
    On(Rendered),
}

/// The objects of a component that is switched on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rendered {
    /// To apply, in this order. What of [`Component::objects`] is not among them goes.
    pub objects: Vec<Value>,
    /// To create when missing, and to leave to the users afterwards but for the metadata.
    pub created_once: Vec<Value>,
    /// What was set aside on the way.
    pub warnings: Vec<Warning>,
}

impl Renderer {
    /// The objects of a component with this input, labelled and owned, in the order in which they are to be applied.
    pub fn render<I: ComponentInput>(
        &self,
        input: &I,
        owners: &Owners,
    ) -> Result<Vec<Value>, RenderError> {
        self.stamped(I::NAME, input, owners)
    }

    /// The `ConfigMap` with the injector's switches, to create once: applied without its data it would lose them.
    pub fn switches(&self, input: &Switches, owners: &Owners) -> Result<Vec<Value>, RenderError> {
        self.stamped(Switches::DIRECTORY, input, owners)
    }

    fn stamped(
        &self,
        directory: &str,
        input: &impl Serialize,
        owners: &Owners,
    ) -> Result<Vec<Value>, RenderError> {
        let mut objects = self.objects(directory, input)?;
        for object in &mut objects {
            objects::stamp(object, owners);
        }
        Ok(objects)
    }
}

/// What every component comes to, in the order in which they are reconciled. One that fails keeps none back.
pub fn all(
    renderer: &Renderer,
    facts: &Facts<'_>,
    owners: &Owners,
) -> Vec<(Component, Result<Desired, ComponentError>)> {
    Component::ALL
        .into_iter()
        .map(|component| (component, component.render(renderer, facts, owners)))
        .collect()
}
