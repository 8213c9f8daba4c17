//! What injection knows about network attachment definitions (NADs): two annotations of each, by namespace and name.
//!
//! The index is plain data; whoever watches the cluster keeps it behind a lock and fills it. Specs of NADs are not
//! kept.

use std::{collections::HashMap, fmt};

/// The annotation of a NAD with the labels of the nodes that its network exists on.
pub const NODE_SELECTOR: &str = "k8s.v1.cni.cncf.io/nodeSelector";

/// Namespace and name of a NAD. Those that come out of a pod's annotations are DNS-1123 labels.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NadKey {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl fmt::Display for NadKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.namespace, self.name)
    }
}

/// What an attachment to one network asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Nad {
    resources: Box<[Box<str>]>,
    node_selector: Option<Box<str>>,
}

impl Nad {
    /// Takes what counts from the annotations of a NAD: one resource name under each of `resource_keys`, verbatim,
    /// where an empty one counts as none; and the node selector, which is read when a pod uses it, so that a malformed
    /// one is told to whom it concerns.
    pub fn new<'a>(resource_keys: &[String], annotation: impl Fn(&str) -> Option<&'a str>) -> Self {
        let resources = resource_keys.iter().filter_map(|key| annotation(key));
        Self {
            resources: resources
                .filter(|name| !name.is_empty())
                .map(Box::from)
                .collect(),
            node_selector: annotation(NODE_SELECTOR).map(Box::from),
        }
    }

    /// The resources that an attachment needs one of.
    pub fn resources(&self) -> impl Iterator<Item = &str> {
        self.resources.iter().map(Box::as_ref)
    }

    /// The text of the node selector.
    pub fn node_selector(&self) -> Option<&str> {
        self.node_selector.as_deref()
    }
}

/// What a view says about a NAD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found<'a> {
    /// It exists.
    Nad(&'a Nad),
    /// It does not exist.
    Missing,
    /// The view has not seen it; the API server may know more.
    Unknown,
}

/// Where [`decide`](super::decide) looks NADs up.
pub trait NadView {
    /// The NAD of that namespace and name.
    fn find(&self, namespace: &str, name: &str) -> Found<'_>;
}

/// The NADs of a cluster.
#[derive(Debug, Default)]
pub struct Nads {
    by_namespace: HashMap<Box<str>, HashMap<Box<str>, Nad>>,
}

impl Nads {
    /// Adds or replaces a NAD.
    pub fn insert(&mut self, namespace: &str, name: &str, nad: Nad) {
        if let Some(names) = self.by_namespace.get_mut(namespace) {
            names.insert(name.into(), nad);
        } else {
            let names = HashMap::from([(name.into(), nad)]);
            self.by_namespace.insert(namespace.into(), names);
        }
    }

    /// Forgets a NAD.
    pub fn remove(&mut self, namespace: &str, name: &str) {
        if let Some(names) = self.by_namespace.get_mut(namespace) {
            names.remove(name);
            if names.is_empty() {
                self.by_namespace.remove(namespace);
            }
        }
    }

    /// Forgets the NADs that `keep` does not want, by namespace and name, after a fresh list.
    pub fn retain(&mut self, keep: impl Fn(&str, &str) -> bool) {
        self.by_namespace.retain(|namespace, names| {
            names.retain(|name, _| keep(namespace, name));
            !names.is_empty()
        });
    }

    /// Whether it is known.
    pub fn contains(&self, namespace: &str, name: &str) -> bool {
        self.get(namespace, name).is_some()
    }

    /// How many are known.
    pub fn len(&self) -> usize {
        self.by_namespace.values().map(HashMap::len).sum()
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.by_namespace.is_empty()
    }

    fn get(&self, namespace: &str, name: &str) -> Option<&Nad> {
        self.by_namespace.get(namespace)?.get(name)
    }
}

/// An index that a watch fills may be a moment behind: what it lacks is unknown, not missing.
impl NadView for Nads {
    fn find(&self, namespace: &str, name: &str) -> Found<'_> {
        self.get(namespace, name).map_or(Found::Unknown, Found::Nad)
    }
}

/// The index together with what was read from the API server for one review. What neither has does not exist.
pub struct Live<'a> {
    /// What the watch has shown.
    pub index: &'a dyn NadView,
    /// What was found among the unknown.
    pub read: &'a Nads,
}

impl NadView for Live<'_> {
    fn find(&self, namespace: &str, name: &str) -> Found<'_> {
        match self.index.find(namespace, name) {
            Found::Unknown => self
                .read
                .get(namespace, name)
                .map_or(Found::Missing, Found::Nad),
            known => known,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nad(annotations: &[(&str, &'static str)]) -> Nad {
        let keys = [
            "k8s.v1.cni.cncf.io/resourceName".to_owned(),
            "other/key".to_owned(),
        ];
        Nad::new(&keys, |key| {
            let found = annotations.iter().find(|(name, _)| *name == key);
            found.map(|(_, value)| *value)
        })
    }

    #[test]
    fn a_resource_under_each_key_counts_and_an_empty_one_does_not() {
        let both = nad(&[
            ("other/key", "b"),
            ("k8s.v1.cni.cncf.io/resourceName", "a"),
            ("x", "y"),
        ]);
        assert_eq!(both.resources().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(both.node_selector(), None);
        let none = nad(&[
            ("k8s.v1.cni.cncf.io/resourceName", ""),
            (NODE_SELECTOR, "a=b"),
        ]);
        assert_eq!(none.resources().count(), 0);
        assert_eq!(none.node_selector(), Some("a=b"));
    }

    #[test]
    fn the_index_follows_what_happens() {
        let mut nads = Nads::default();
        nads.insert("a", "x", nad(&[]));
        nads.insert("a", "y", nad(&[]));
        nads.insert("b", "x", nad(&[]));
        nads.insert("a", "x", nad(&[("other/key", "r")]));
        assert_eq!(nads.len(), 3);
        assert!(matches!(nads.find("a", "x"), Found::Nad(nad) if nad.resources().eq(["r"])));
        assert_eq!(nads.find("b", "y"), Found::Unknown);
        nads.remove("a", "x");
        nads.remove("b", "x");
        nads.remove("c", "x");
        assert!(!nads.contains("a", "x") && nads.contains("a", "y"));
        nads.remove("a", "y");
        assert!(nads.is_empty());
    }

    #[test]
    fn after_a_live_read_nothing_is_unknown() {
        let mut index = Nads::default();
        index.insert("a", "x", nad(&[]));
        let mut read = Nads::default();
        read.insert("a", "y", nad(&[]));
        let view = Live {
            index: &index,
            read: &read,
        };
        assert!(matches!(view.find("a", "x"), Found::Nad(_)));
        assert!(matches!(view.find("a", "y"), Found::Nad(_)));
        assert_eq!(view.find("a", "z"), Found::Missing);
    }
}
