//! The spec of a pod: what injection looks at of containers, volumes and the node selector. All the rest is passed over.

use std::fmt;

use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;

use super::{
    borrowed::{Entries, Fields, Text, no_text},
    message::json_fault,
    pod::Unreadable,
    quantity::{Quantity, QuantityError},
};
use crate::scan::Scanner;

/// `spec`. A list or map that is null counts as absent, as it does for the API server.
#[derive(Debug)]
pub(super) struct Spec<'a> {
    pub(super) node_selector: Option<Entries<'a, Text<'a>>>,
    pub(super) volumes: Option<Vec<Named<'a>>>,
    containers: Option<Vec<Container<'a>>>,
    init_containers: Option<Vec<Container<'a>>>,
}

impl<'a> Spec<'a> {
    /// Reads the fields above. All the others, most of a pod, are passed over.
    pub(super) fn read(text: &'a str) -> Result<Self, Unreadable> {
        let (mut node_selector, mut volumes) = (None, None);
        let (mut in_containers, mut in_init_containers) = (None, None);
        members("spec", &mut Scanner::new(text), |key, scanner| match key {
            "nodeSelector" => once(
                &mut node_selector,
                key,
                serde_json::from_str(value(scanner)?)?,
            ),
            "volumes" => once(&mut volumes, key, list(value(scanner)?)?),
            "containers" => once(&mut in_containers, key, containers(key, scanner)?),
            "initContainers" => once(&mut in_init_containers, key, containers(key, scanner)?),
            _ => value(scanner).map(drop),
        })?;
        Ok(Self {
            node_selector: node_selector.flatten(),
            volumes: volumes.flatten(),
            containers: in_containers.flatten(),
            init_containers: in_init_containers.flatten(),
        })
    }
}

/// Takes the value of a field. One that is given twice is refused: whoever stores the pod might go by the other.
fn once<T>(slot: &mut Option<T>, field: &str, value: T) -> Result<(), Unreadable> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(Unreadable(format!("{field} is given twice"))),
    }
}

/// Calls `member` with the key of each member of an object, which is called `what` where it is none, at the place of its
/// value.
fn members<'a>(
    what: &str,
    scanner: &mut Scanner<'a>,
    mut member: impl FnMut(&'a str, &mut Scanner<'a>) -> Result<(), Unreadable>,
) -> Result<(), Unreadable> {
    let start = scanner.clone();
    let mut fault = None;
    let walked = scanner.members(|key, scanner| {
        let read = member(key, scanner);
        read.map_err(|error| fault = Some(error)).ok()
    });
    match (walked, fault) {
        (Some(()), _) => Ok(()),
        (None, Some(fault)) => Err(fault),
        (None, None) => Err(unwalked(what, '{', "an object", start)),
    }
}

/// Why a value, which `opening` opens where it is `form`, cannot be gone through.
fn unwalked(what: &str, opening: char, form: &str, mut at: Scanner<'_>) -> Unreadable {
    let Some(text) = at.value() else {
        return Unreadable(format!("{what} is not JSON"));
    };
    Unreadable(match serde_json::from_str::<IgnoredAny>(text) {
        Err(error) => format!("{what} is not JSON: {}", json_fault(&error)),
        Ok(_) if text.starts_with(opening) => {
            format!("{what} has a field whose name is written with escapes")
        }
        Ok(_) => format!("{what} is not {form}"),
    })
}

/// The text of the value at a place.
fn value<'a>(scanner: &mut Scanner<'a>) -> Result<&'a str, Unreadable> {
    let text = scanner.value();
    text.ok_or_else(|| Unreadable("it is not JSON".to_owned()))
}

/// A list of containers, or nothing where it is null.
fn containers<'a>(
    what: &str,
    scanner: &mut Scanner<'a>,
) -> Result<Option<Vec<Container<'a>>>, Unreadable> {
    if scanner.passes_null() {
        return Ok(None);
    }
    let start = scanner.clone();
    let mut containers = Vec::new();
    let mut fault = None;
    let walked = scanner.elements(|scanner| {
        let container = Container::read(scanner);
        containers.push(container.map_err(|error| fault = Some(error)).ok()?);
        Some(())
    });
    match (walked, fault) {
        (Some(()), _) => Ok(Some(containers)),
        (None, Some(fault)) => Err(fault),
        (None, None) => Err(unwalked(&format!("spec.{what}"), '[', "a list", start)),
    }
}

/// A list of objects, or nothing where it is null.
fn list<'a, T: Deserialize<'a>>(text: &'a str) -> Result<Option<Vec<T>>, Unreadable> {
    let list: Option<Vec<Fields<T>>> = serde_json::from_str(text)?;
    Ok(list.map(|list| list.into_iter().map(|Fields(it)| it).collect()))
}

impl<'a> Spec<'a> {
    /// The first of `spec.containers`.
    pub(super) fn first_container(&self) -> Option<(Place, &Container<'a>)> {
        places("containers", self.containers.as_deref()).next()
    }

    /// The containers that run as long as the pod, with their place in the pod: `spec.containers`, then the sidecars,
    /// which are the init containers that restart. Plain init containers hold their devices only before the others run.
    pub(super) fn running(&self) -> impl Iterator<Item = (Place, &Container<'a>)> {
        let containers = places("containers", self.containers.as_deref());
        let sidecars = places("initContainers", self.init_containers.as_deref())
            .filter(|(_, container)| container.restart_policy.as_deref() == Some("Always"));
        containers.chain(sidecars)
    }
}

fn places<'s, 'a>(
    list: &'static str,
    containers: Option<&'s [Container<'a>]>,
) -> impl Iterator<Item = (Place, &'s Container<'a>)> {
    let numbered = containers.unwrap_or_default().iter().enumerate();
    numbered.map(move |(index, container)| (Place { list, index }, container))
}

/// Where a container stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// `containers` or `initContainers`.
    pub(super) list: &'static str,
    pub(super) index: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "spec.{}[{}]", self.list, self.index)
    }
}

/// A volume, or a variable of an environment.
#[derive(Debug, Deserialize)]
pub(super) struct Named<'a> {
    #[serde(borrow, default = "no_text")]
    pub(super) name: Text<'a>,
}

/// A container.
#[derive(Debug)]
pub(super) struct Container<'a> {
    pub(super) name: Text<'a>,
    restart_policy: Option<Text<'a>>,
    /// Undecoded: there may be many, and few pods need to know them.
    pub(super) env: Option<&'a str>,
    pub(super) resources: Option<Resources<'a>>,
    pub(super) volume_mounts: Option<Vec<Mount<'a>>>,
    pub(super) volume_devices: Option<Vec<Mount<'a>>>,
}

impl<'a> Container<'a> {
    fn read(scanner: &mut Scanner<'a>) -> Result<Self, Unreadable> {
        let (mut name, mut restart_policy, mut env) = (None, None, None);
        let (mut resources, mut volume_mounts, mut volume_devices) = (None, None, None);
        members("a container", scanner, |key, scanner| {
            let value = value(scanner)?;
            match key {
                "name" => once(&mut name, key, serde_json::from_str(value)?),
                "restartPolicy" => once(&mut restart_policy, key, serde_json::from_str(value)?),
                "env" => once(&mut env, key, (value != "null").then_some(value)),
                "resources" => {
                    let given: Option<Fields<_>> = serde_json::from_str(value)?;
                    once(&mut resources, key, given.map(|Fields(it)| it))
                }
                "volumeMounts" => once(&mut volume_mounts, key, list(value)?),
                "volumeDevices" => once(&mut volume_devices, key, list(value)?),
                _ => Ok(()),
            }
        })?;
        Ok(Self {
            name: name.unwrap_or_else(no_text),
            restart_policy: restart_policy.flatten(),
            env: env.flatten(),
            resources: resources.flatten(),
            volume_mounts: volume_mounts.flatten(),
            volume_devices: volume_devices.flatten(),
        })
    }

    /// The variables of its environment.
    pub(super) fn variables(&self) -> Result<Vec<Named<'a>>, Unreadable> {
        let variables = self.env.map(list).transpose()?.flatten();
        Ok(variables.unwrap_or_default())
    }
}

/// A volume mount, or a block device, which shares names and paths with mounts.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Mount<'a> {
    #[serde(borrow, default = "no_text")]
    pub(super) name: Text<'a>,
    #[serde(borrow, default = "no_text", alias = "devicePath")]
    pub(super) mount_path: Text<'a>,
}

/// Requests and limits of a container.
#[derive(Debug, Deserialize)]
pub(super) struct Resources<'a> {
    #[serde(borrow)]
    pub(super) requests: Option<Amounts<'a>>,
    #[serde(borrow)]
    pub(super) limits: Option<Amounts<'a>>,
}

/// Amounts by resource name, each a JSON string or number.
pub(super) type Amounts<'a> = Entries<'a, &'a RawValue>;

/// Reads an amount, quoted or not.
pub(super) fn amount(raw: &RawValue) -> Result<Quantity, QuantityError> {
    let token = raw.get();
    if token.starts_with('"') {
        let Text(text) = serde_json::from_str(token).map_err(|_| QuantityError::Syntax)?;
        text.parse()
    } else {
        token.parse()
    }
}
