//! Objects as they are decoded from a list or a watch: identity and version, and of the rest only what is used.
//!
//! An object whose rest does not decode is still an object with a name and a version: it is set aside by its store,
//! and neither ends a list nor a watch.

use std::fmt;

use serde::de::{Deserialize, DeserializeOwned, Deserializer};
use serde_json::value::RawValue;

/// What names an object of one kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Empty for what has no namespace.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
}

impl Key {
    /// The key of the object of that name; `namespace` is empty for what has none.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

/// An object of which `T` is what is used.
#[derive(Debug, Clone)]
pub(super) struct Object<T> {
    pub(super) key: Key,
    /// The resourceVersion.
    pub(super) version: String,
    /// What is used, or why it could not be decoded.
    pub(super) body: Result<T, String>,
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let envelope: Envelope =
            serde_json::from_str(raw.get()).map_err(serde::de::Error::custom)?;
        let Meta {
            namespace,
            name,
            resource_version,
        } = envelope.metadata;
        Ok(Self {
            key: Key { namespace, name },
            version: resource_version,
            body: serde_json::from_str(raw.get()).map_err(|error| error.to_string()),
        })
    }
}

#[derive(serde::Deserialize)]
struct Envelope {
    metadata: Meta,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    #[serde(default)]
    namespace: Box<str>,
    #[serde(default)]
    name: Box<str>,
    #[serde(default)]
    resource_version: String,
}

/// One page of a list.
#[derive(serde::Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
pub(super) struct Page<T> {
    #[serde(default)]
    pub(super) metadata: PageMeta,
    #[serde(default)]
    pub(super) items: Option<Vec<Object<T>>>,
}

/// Where a list stands.
#[derive(Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PageMeta {
    pub(super) resource_version: String,
    #[serde(rename = "continue")]
    pub(super) next: Option<String>,
}

/// Whether version `held` is at least as new as `other`. Versions that are no numbers compare by equality only.
pub fn at_least(held: &str, other: &str) -> bool {
    match (held.parse::<u64>(), other.parse::<u64>()) {
        (Ok(held), Ok(other)) => held >= other,
        _ => held == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    struct Spec {
        spec: Inner,
    }

    #[derive(Debug, serde::Deserialize)]
    struct Inner {
        size: u8,
    }

    #[test]
    fn a_page_keeps_its_good_objects_beside_a_bad_one() {
        let page: Page<Spec> = serde_json::from_str(
            r#"{"metadata":{"resourceVersion":"7","continue":"x"},"items":[
                {"metadata":{"name":"a","namespace":"n","resourceVersion":"1"},"spec":{"size":1}},
                {"metadata":{"name":"b","resourceVersion":"2"},"spec":{"size":"huge"}}]}"#,
        )
        .unwrap();
        assert_eq!(page.metadata.resource_version, "7");
        assert_eq!(page.metadata.next.as_deref(), Some("x"));
        let items = page.items.unwrap();
        assert_eq!(items[0].key.to_string(), "n/a");
        assert_eq!(items[0].body.as_ref().unwrap().spec.size, 1);
        assert_eq!(items[1].key.to_string(), "b");
        assert_eq!(items[1].version, "2");
        assert!(items[1].body.as_ref().unwrap_err().contains("huge"));
    }

    #[test]
    fn null_items_are_no_items() {
        let page: Page<Spec> = serde_json::from_str(r#"{"items":null}"#).unwrap();
        assert!(page.items.is_none());
    }

    #[test]
    fn versions_compare_as_numbers() {
        for (held, other, expected) in [
            ("10", "9", true),
            ("9", "10", false),
            ("9", "9", true),
            ("x", "x", true),
            ("x", "y", false),
        ] {
            assert_eq!(at_least(held, other), expected, "{held} {other}");
        }
    }
}
