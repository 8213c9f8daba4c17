//! The pod of a review, decoded only where injection looks, borrowed from the review's text.
//!
//! Reading happens in two steps: metadata at once, since it decides whether there is anything to do, and the spec only
//! when there is. Nothing here changes a pod, and nothing is ever written back from these types: they drop what they
//! do not know.

use std::{borrow::Cow, fmt, marker::PhantomData, ops::Deref};

use serde::{
    Deserialize, Deserializer,
    de::{self, IgnoredAny},
};
use serde_json::value::RawValue;

use super::{
    label::LONGEST_LABEL,
    message::{json_fault, quote},
    quantity::{Quantity, QuantityError},
};
use crate::scan::Scanner;

/// The pod of a review cannot be read. The API server has decoded it before, so only other callers meet this.
#[derive(Debug, thiserror::Error)]
#[error("the pod cannot be read: {0}")]
pub struct Unreadable(String);

impl From<serde_json::Error> for Unreadable {
    fn from(error: serde_json::Error) -> Self {
        Self(json_fault(&error))
    }
}

/// A pod to inject into, with the namespace it is created in.
#[derive(Debug)]
pub struct PodReview<'a> {
    pub(super) namespace: Cow<'a, str>,
    pub(super) metadata: Option<Metadata<'a>>,
    metadata_text: Option<&'a str>,
    spec_text: Option<&'a str>,
}

impl<'a> PodReview<'a> {
    /// The pod of this JSON text.
    pub fn new(namespace: &'a str, object: &'a RawValue) -> Result<Self, Unreadable> {
        #[derive(Deserialize)]
        struct Parts<'a> {
            #[serde(borrow)]
            metadata: Option<&'a RawValue>,
            #[serde(borrow)]
            spec: Option<&'a RawValue>,
        }
        let Fields(Parts { metadata, spec }) = serde_json::from_str(object.get())?;
        Self::of(
            namespace,
            metadata.map(RawValue::get),
            spec.map(RawValue::get),
        )
    }

    /// The pod of these parts, JSON texts; reads the metadata. `namespace` is the request's, since the pods of a controller carry
    /// none of their own; where it is empty (no API server sends that) the pod's own counts, then `default`.
    pub fn of(
        namespace: &'a str,
        metadata_text: Option<&'a str>,
        spec_text: Option<&'a str>,
    ) -> Result<Self, Unreadable> {
        let metadata = metadata_text.map(serde_json::from_str);
        let metadata: Option<Metadata<'_>> = metadata.transpose()?.map(|Fields(it)| it);
        let own = || metadata.as_ref()?.namespace.as_ref();
        let namespace = match (namespace, own()) {
            ("", Some(own)) if !own.is_empty() => own.0.clone(),
            ("", _) => Cow::Borrowed("default"),
            (namespace, _) => Cow::Borrowed(namespace),
        };
        // It becomes part of every name that is looked up, and of what is said about it.
        if namespace.len() > LONGEST_LABEL {
            return Err(Unreadable(format!(
                "its namespace {} has {} bytes, and none has more than {LONGEST_LABEL}",
                quote(&namespace),
                namespace.len()
            )));
        }
        Ok(Self {
            namespace,
            metadata,
            metadata_text,
            spec_text,
        })
    }

    /// The parts of the pod as one JSON text.
    pub(super) fn text(&self) -> String {
        let parts = [("metadata", self.metadata_text), ("spec", self.spec_text)];
        let parts: Vec<String> = parts
            .iter()
            .filter_map(|(name, part)| Some(format!(r#""{name}":{}"#, (*part)?)))
            .collect();
        format!("{{{}}}", parts.join(","))
    }

    /// The value of the pod's own annotation.
    pub(super) fn annotation(&self, key: &str) -> Result<Option<Cow<'a, str>>, Unreadable> {
        let annotations = self
            .metadata
            .as_ref()
            .and_then(|metadata| metadata.annotations.as_ref());
        let Some(raw) = annotations.and_then(|annotations| annotations.get(key)) else {
            return Ok(None);
        };
        let Text(text) = serde_json::from_str(raw.get())?;
        Ok(Some(text))
    }

    /// The pod's labels.
    pub(super) fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let labels = self
            .metadata
            .as_ref()
            .and_then(|metadata| metadata.labels.as_ref());
        let pairs = labels.into_iter().flat_map(Entries::iter);
        pairs.map(|(key, value)| (key, &**value))
    }

    /// Whether the pod has annotations of its own.
    pub(super) fn is_annotated(&self) -> bool {
        let annotations = self
            .metadata
            .as_ref()
            .and_then(|metadata| metadata.annotations.as_ref());
        annotations.is_some_and(|annotations| annotations.iter().next().is_some())
    }

    /// The parts of the spec that injection looks at.
    pub(super) fn spec(&self) -> Result<Option<Spec<'a>>, Unreadable> {
        self.spec_text.map(Spec::read).transpose()
    }
}

/// A text of the review; allocated only where the JSON escapes something.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// A JSON object in the order in which it stands.
#[derive(Debug)]
pub(super) struct Entries<'a, V>(Vec<(Text<'a>, V)>);

impl<V> Entries<'_, V> {
    /// The value of `key`; the last one where a key is given twice, as the API server has it.
    pub(super) fn get(&self, key: &str) -> Option<&V> {
        let found = self.0.iter().rev().find(|(name, _)| **name == *key);
        found.map(|(_, value)| value)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &V)> {
        self.0.iter().map(|(key, value)| (&**key, value))
    }
}

impl<'de: 'a, 'a, V: Deserialize<'de>> Deserialize<'de> for Entries<'a, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<'a, V>(PhantomData<(&'a (), V)>);

        impl<'de: 'a, 'a, V: Deserialize<'de>> de::Visitor<'de> for Visitor<'a, V> {
            type Value = Entries<'a, V>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(Visitor(PhantomData))
    }
}

/// `metadata`. Annotation values stay undecoded: most are long, and none of ours.
#[derive(Debug, Deserialize)]
pub(super) struct Metadata<'a> {
    #[serde(borrow)]
    namespace: Option<Text<'a>>,
    #[serde(borrow)]
    labels: Option<Entries<'a, Text<'a>>>,
    #[serde(borrow)]
    pub(super) annotations: Option<Entries<'a, &'a RawValue>>,
}

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
    fn read(text: &'a str) -> Result<Self, Unreadable> {
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
    /// A container by the list it stands in, `containers` or `initContainers`, and its index there.
    pub(super) fn container(&self, list: &str, index: usize) -> Option<&Container<'a>> {
        let list = match list {
            "containers" => &self.containers,
            "initContainers" => &self.init_containers,
            _ => return None,
        };
        list.as_ref()?.get(index)
    }

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
    list: &'static str,
    index: usize,
}

impl Place {
    /// The JSON pointer of a field of the container.
    pub(super) fn pointer(self, field: &str) -> String {
        let Self { list, index } = self;
        format!("/spec/{list}/{index}/{field}")
    }
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

/// A struct that decodes from an object only. Derived ones take a list for their fields in order, too, and what is no
/// object is nothing that a patch could add a member to.
struct Fields<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Fields<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> de::Visitor<'de> for Visitor<T> {
            type Value = Fields<T>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(de::value::MapAccessDeserializer::new(map)).map(Fields)
            }
        }

        deserializer.deserialize_map(Visitor(PhantomData))
    }
}

fn no_text<'a>() -> Text<'a> {
    Text(Cow::Borrowed(""))
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn spec_fault(spec: &str) -> String {
        let pod = PodReview::of("ns", None, Some(spec)).unwrap();
        pod.spec().unwrap_err().to_string()
    }

    #[test]
    fn a_field_that_is_given_twice_is_refused() {
        for field in ["nodeSelector", "volumes", "containers", "initContainers"] {
            let fault = spec_fault(&format!(r#"{{"{field}":null,"{field}":null}}"#));
            assert_eq!(
                fault,
                format!("the pod cannot be read: {field} is given twice")
            );
        }
        for (field, value) in [
            ("name", r#""c""#),
            ("restartPolicy", "null"),
            ("env", "null"),
            ("resources", "null"),
            ("volumeMounts", "null"),
            ("volumeDevices", "null"),
        ] {
            let twice = format!(r#""{field}":{value},"{field}":{value}"#);
            let fault = spec_fault(&format!(r#"{{"containers":[{{{twice}}}]}}"#));
            assert_eq!(
                fault,
                format!("the pod cannot be read: {field} is given twice")
            );
        }
    }

    #[test]
    fn what_is_wrong_with_a_spec_is_told_as_it_is() {
        for (spec, fault) in [
            ("[]", "spec is not an object"),
            (r#"{"containers":{}}"#, "spec.containers is not a list"),
            (r#"{"containers":[5]}"#, "a container is not an object"),
            (
                r#"{"\u0063ontainers":[]}"#,
                "spec has a field whose name is written with escapes",
            ),
            (
                r#"{"containers":[{"\u006eame":"c"}]}"#,
                "a container has a field whose name is written with escapes",
            ),
            (
                r#"{"containers":[],}"#,
                "spec is not JSON: key must be a string at line 1 column 18",
            ),
            (r#"{"containers":[{},]}"#, "a container is not JSON"),
        ] {
            let told = spec_fault(spec);
            assert_eq!(told, format!("the pod cannot be read: {fault}"), "{spec}");
        }
    }

    #[test]
    fn a_namespace_that_cannot_be_one_is_refused_briefly() {
        let long = "n".repeat(100_000);
        let metadata = format!(r#"{{"namespace":"{long}"}}"#);
        for (namespace, metadata) in [(long.as_str(), None), ("", Some(metadata.as_str()))] {
            let fault = PodReview::of(namespace, metadata, None).unwrap_err();
            let fault = fault.to_string();
            assert!(fault.contains("has 100000 bytes"), "{fault}");
            assert!(fault.len() < 256, "{fault}");
        }
        assert!(PodReview::of(&long[..LONGEST_LABEL], None, None).is_ok());
    }
}
