//! The components, in the order in which they are reconciled. A new one is a file in `components`, a directory of templates,
//! and a line here.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::{
    ComponentError, Desired, Facts, ObjectName, Owners, RenderError, Rendered, Renderer, Switches,
    Warning, components,
};

macro_rules! components {
    ($($(#[$doc:meta])* $component:ident,)*) => {
        /// A part of what the config rolls out.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Component {
            $($(#[$doc])* $component,)*
        }

        impl Component {
            /// All components in the order in which they are reconciled.
            pub const ALL: [Self; [$(Self::$component),*].len()] = [$(Self::$component),*];

            /// The name in conditions, metrics and on the command line; also its directory of templates.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$component => components::$component::NAME,)*
                }
            }

            /// Every object that its templates can make, in the order in which they are applied.
            pub const fn objects(self) -> &'static [ObjectName] {
                match self {
                    $(Self::$component => components::$component::OBJECTS,)*
                }
            }

            /// What it comes to.
            pub(super) fn render(
                self,
                renderer: &Renderer,
                facts: &Facts<'_>,
                owners: &Owners,
            ) -> Result<Desired, ComponentError> {
                match self {
                    $(Self::$component => render::<components::$component>(renderer, facts, owners),)*
                }
            }
        }
    };
}

components! {
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
    /// The directories of templates: one a component, and that of the injector's switches.
    pub(super) fn directories() -> impl Iterator<Item = &'static str> {
        Self::ALL
            .into_iter()
            .map(Self::name)
            .chain([Switches::DIRECTORY])
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The typed input of a component's templates.
pub trait ComponentInput: Serialize + Sized {
    /// The name in conditions, metrics and on the command line; also its directory of templates.
    const NAME: &'static str;
    /// Every object that its templates can make, in the order in which they are applied.
    const OBJECTS: &'static [ObjectName];

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

fn render<I: ComponentInput>(
    renderer: &Renderer,
    facts: &Facts<'_>,
    owners: &Owners,
) -> Result<Desired, ComponentError> {
    let Some(input) = I::from_facts(facts)? else {
        return Ok(Desired::Off);
    };
    Ok(Desired::On(Rendered {
        objects: renderer.render(&input, owners)?,
        created_once: input.created_once(renderer, owners)?,
        warnings: input.warnings(),
    }))
}
