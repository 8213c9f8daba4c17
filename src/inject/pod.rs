//! The pod of a review, decoded only where injection looks, borrowed from the review's text.
//!
//! Reading happens in two steps: metadata at once, since it decides whether there is anything to do, and the spec only
//! when there is. Nothing here changes a pod, and nothing is ever written back from these types: they drop what they
//! do not know.

use std::{borrow::Cow, fmt, marker::PhantomData, ops::Deref};

use serde::{Deserialize, Deserializer, de};
use serde_json::value::RawValue;

use super::{
    message::json_fault,
    quantity::{Quantity, QuantityError},
};

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
    raw_metadata: Option<&'a RawValue>,
    spec: Option<&'a RawValue>,
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
        Self::of(namespace, metadata, spec)
    }

    /// The pod of these parts; reads the metadata. `namespace` is the request's, since the pods of a controller carry
    /// none of their own; where it is empty (no API server sends that) the pod's own counts, then `default`.
    pub fn of(
        namespace: &'a str,
        raw_metadata: Option<&'a RawValue>,
        spec: Option<&'a RawValue>,
    ) -> Result<Self, Unreadable> {
        let metadata = raw_metadata.map(|metadata| serde_json::from_str(metadata.get()));
        let metadata: Option<Metadata<'_>> = metadata.transpose()?.map(|Fields(it)| it);
        let own = || metadata.as_ref()?.namespace.as_ref();
        let namespace = match (namespace, own()) {
            ("", Some(own)) if !own.is_empty() => own.0.clone(),
            ("", _) => Cow::Borrowed("default"),
            (namespace, _) => Cow::Borrowed(namespace),
        };
        Ok(Self {
            namespace,
            metadata,
            raw_metadata,
            spec,
        })
    }

    /// The parts of the pod as one JSON text.
    pub(super) fn text(&self) -> String {
        let parts = [("metadata", self.raw_metadata), ("spec", self.spec)];
        let parts: Vec<String> = parts
            .iter()
            .filter_map(|(name, part)| Some(format!(r#""{name}":{}"#, (*part)?.get())))
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
        let spec = self.spec.map(|spec| serde_json::from_str(spec.get()));
        Ok(spec.transpose()?.map(|Fields(spec)| spec))
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
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Spec<'a> {
    #[serde(borrow)]
    pub(super) node_selector: Option<Entries<'a, Text<'a>>>,
    #[serde(borrow, default, deserialize_with = "list_of_fields")]
    pub(super) volumes: Option<Vec<Named<'a>>>,
    #[serde(borrow, default, deserialize_with = "list_of_fields")]
    containers: Option<Vec<Container<'a>>>,
    #[serde(borrow, default, deserialize_with = "list_of_fields")]
    init_containers: Option<Vec<Container<'a>>>,
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
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Container<'a> {
    #[serde(borrow, default = "no_text")]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    restart_policy: Option<Text<'a>>,
    /// Undecoded: there may be many, and few pods need to know them.
    #[serde(borrow)]
    pub(super) env: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "fields")]
    pub(super) resources: Option<Resources<'a>>,
    #[serde(borrow, default, deserialize_with = "list_of_fields")]
    pub(super) volume_mounts: Option<Vec<Mount<'a>>>,
    #[serde(borrow, default, deserialize_with = "list_of_fields")]
    pub(super) volume_devices: Option<Vec<Mount<'a>>>,
}

impl<'a> Container<'a> {
    /// The variables of its environment.
    pub(super) fn variables(&self) -> Result<Vec<Named<'a>>, Unreadable> {
        let Some(env) = self.env else {
            return Ok(Vec::new());
        };
        let variables: Vec<Fields<Named<'_>>> = serde_json::from_str(env.get())?;
        Ok(variables.into_iter().map(|Fields(it)| it).collect())
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

/// An object, or nothing.
fn fields<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    Ok(Option::<Fields<T>>::deserialize(from)?.map(|Fields(object)| object))
}

/// A list of objects, or nothing.
fn list_of_fields<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<Vec<T>>, D::Error> {
    let objects = Option::<Vec<Fields<T>>>::deserialize(from)?;
    Ok(objects.map(|objects| objects.into_iter().map(|Fields(object)| object).collect()))
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
