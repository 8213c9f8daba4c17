//! Templates to objects: what a config means, as the objects that are to be applied. No cluster, no clock; the only I/O is
//! reading a directory of templates, once, when one is named.
//!
//! ```text
//! Facts -> a component's input -> templates/<component>/NNN-name.yaml -> objects -> label, owner
//! ```
//!
//! One file of `components` maps facts to the typed input of one component; the templates decide how it looks. The
//! reconciler and `sriov-operator render` both call [`all`] or [`component`].

mod catalogue;
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

/// A part of what the config rolls out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// The webhooks of the custom resources.
    OperatorWebhook,
    /// The webhook of pods.
    Injector,
    /// What configures the network cards of a node.
    ConfigDaemon,
    /// What offers virtual functions to the kubelet.
    DevicePlugin,
    /// What measures virtual functions.
    MetricsExporter,
    /// The host services of systemd mode on OpenShift.
    MachineConfig,
}

impl Component {
    /// All components in the order in which they are reconciled.
    pub const ALL: [Self; 6] = [
        Self::OperatorWebhook,
        Self::Injector,
        Self::ConfigDaemon,
        Self::DevicePlugin,
        Self::MetricsExporter,
        Self::MachineConfig,
    ];

    /// The directories of templates: one a component, and that of the injector's switches.
    const DIRECTORIES: [&'static str; 7] = [
        Self::OperatorWebhook.name(),
        Self::Injector.name(),
        Self::ConfigDaemon.name(),
        Self::DevicePlugin.name(),
        Self::MetricsExporter.name(),
        Self::MachineConfig.name(),
        Switches::DIRECTORY,
    ];

    /// The name in conditions, metrics and on the command line; also its directory of templates.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OperatorWebhook => "operator-webhook",
            Self::Injector => "injector",
            Self::ConfigDaemon => "config-daemon",
            Self::DevicePlugin => "device-plugin",
            Self::MetricsExporter => "metrics-exporter",
            Self::MachineConfig => "machine-config",
        }
    }

    /// The component of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|component| component.name() == name)
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The typed input of a component's templates. A new component is a new implementation.
pub trait ComponentInput: Serialize + Sized {
    /// Whose input it is.
    const COMPONENT: Component;

    /// The input that follows from the facts; `None` when the component is switched off.
    fn from_facts(facts: &Facts<'_>) -> Result<Option<Self>, ComponentError>;

    /// What was set aside on the way.
    fn warnings(&self) -> Vec<Warning> {
        Vec::new()
    }

    /// Objects to create when missing, and to leave to the users afterwards but for the metadata.
    fn created_once(&self, _: &Renderer, _: &Owners) -> Result<Vec<Value>, RenderError> {
        Ok(Vec::new())
    }
}

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
        self.stamped(I::COMPONENT.name(), input, owners)
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

/// What one component comes to.
pub fn component(
    renderer: &Renderer,
    component: Component,
    facts: &Facts<'_>,
    owners: &Owners,
) -> Result<Desired, ComponentError> {
    components::render(renderer, component, facts, owners)
}

/// What every component comes to, in the order in which they are reconciled. One that fails keeps none back.
pub fn all(
    renderer: &Renderer,
    facts: &Facts<'_>,
    owners: &Owners,
) -> Vec<(Component, Result<Desired, ComponentError>)> {
    Component::ALL
        .into_iter()
        .map(|each| (each, component(renderer, each, facts, owners)))
        .collect()
}
