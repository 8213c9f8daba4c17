//! The networks with their network attachment definitions. Pure.

use std::{collections::BTreeMap, fmt};

use kube::{ResourceExt, api::DynamicObject};
use serde::Serialize;

use super::{
    gather::Metadata,
    report::Part,
    screen::{line, table},
};
use crate::networks::{NetworkKind, NetworkRef, OWNER_ANNOTATION};

/// How many networks the screen shows.
const SHOWN: usize = 30;

/// A network.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkStatus {
    /// `SriovNetwork`, `SriovIBNetwork` or `OVSNetwork`.
    pub kind: &'static str,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The resource whose virtual functions it uses.
    pub resource_name: String,
    /// The namespace that its definition is to be in.
    pub network_namespace: String,
    /// The definitions that are its own, as `namespace/name`.
    pub definitions: Part<Vec<String>>,
    /// The status of its condition `Ready`; empty when nobody has looked at it.
    pub ready: String,
    /// The message of that condition.
    pub message: String,
}

/// The networks of all kinds, by kind, namespace and name.
pub(super) fn all(
    read: &BTreeMap<NetworkKind, Part<Vec<DynamicObject>>>,
    definitions: &Part<Vec<Metadata>>,
) -> Part<Vec<NetworkStatus>> {
    let mut networks = Vec::new();
    for (kind, part) in read {
        match part {
            Part::Read(objects) => {
                networks.extend(
                    objects
                        .iter()
                        .map(|object| network(*kind, object, definitions)),
                );
            }
            // All kinds have the same rights.
            Part::Unreadable { unreadable } => {
                return Part::Unreadable {
                    unreadable: unreadable.clone(),
                };
            }
        }
    }
    Part::Read(networks)
}

fn network(
    kind: NetworkKind,
    object: &DynamicObject,
    definitions: &Part<Vec<Metadata>>,
) -> NetworkStatus {
    let own = NetworkRef {
        kind,
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
    };
    let spec = &object.data["spec"];
    let text = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
    let target = Some(text("networkNamespace")).filter(|target| !target.is_empty());
    let conditions = object.data["status"]["conditions"].as_array();
    let ready = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == "Ready");
    let of_ready = |field: &str| {
        let text = ready.and_then(|ready| ready[field].as_str());
        text.unwrap_or_default().to_owned()
    };
    let owner = own.to_string();
    let is_own =
        |definition: &&Metadata| definition.annotations().get(OWNER_ANNOTATION) == Some(&owner);
    NetworkStatus {
        kind: kind.as_str(),
        resource_name: text("resourceName"),
        network_namespace: target.unwrap_or_else(|| own.namespace.clone()),
        definitions: definitions.as_ref().map(|definitions| {
            let own = definitions.iter().filter(is_own);
            own.map(|one| format!("{}/{}", one.namespace().unwrap_or_default(), one.name_any()))
                .collect()
        }),
        ready: of_ready("status"),
        message: of_ready("message"),
        namespace: own.namespace,
        name: own.name,
    }
}

/// The table of the networks.
pub(super) fn show(networks: &Part<Vec<NetworkStatus>>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let networks = match networks {
        Part::Unreadable { unreadable } => {
            return line(f, format_args!("Networks   not shown: {unreadable}"));
        }
        Part::Read(networks) if networks.is_empty() => {
            return line(f, format_args!("Networks   there is none"));
        }
        Part::Read(networks) => networks,
    };
    line(f, format_args!("Networks   {}", networks.len()))?;
    // What wants attention comes first.
    let mut ordered: Vec<&NetworkStatus> = networks.iter().collect();
    ordered.sort_by_key(|network| network.ready == "True");
    let rows = ordered.iter().take(SHOWN).map(|network| network.row());
    table(f, &["NETWORK", "RESOURCE", "DEFINITION", "READY"], rows)?;
    let more = networks.len().saturating_sub(SHOWN);
    if more > 0 {
        line(
            f,
            format_args!("and {more} more, which --output json shows"),
        )?;
    }
    Ok(())
}

impl NetworkStatus {
    fn row(&self) -> Vec<String> {
        let definition = match &self.definitions {
            Part::Unreadable { unreadable } => format!("not shown: {unreadable}"),
            Part::Read(own) if own.is_empty() => {
                format!("none in {}", self.network_namespace)
            }
            Part::Read(own) => own.join(", "),
        };
        let ready = match (self.ready.as_str(), self.message.as_str()) {
            ("", _) => "nobody has looked at it".to_owned(),
            ("True", _) => "True".to_owned(),
            (status, message) => format!("{status}: {message}"),
        };
        vec![
            format!("{} {}/{}", self.kind, self.namespace, self.name),
            self.resource_name.clone(),
            definition,
            ready,
        ]
    }
}
