//! Node selectors of network attachment definitions: reading one, agreeing on all of a pod's.

use std::collections::{BTreeMap, btree_map::Entry};

use super::{
    label::{is_label_key, is_label_value},
    message::quote,
    nad::{NODE_SELECTOR, NadKey},
    patch::{Part, Patch},
    spec::Spec,
};

/// Why an item of a node selector is illegal. User texts in it are quoted.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ItemFault {
    #[error("{0} has more than one '='; the form is key=value or key, separated by commas")]
    Repeated(String),
    #[error("{0} is not a legal label key")]
    Key(String),
    #[error("{0} is not a legal label value")]
    Value(String),
}

/// Reads `key=value,key`, where a bare key means the empty value; blanks around, and empty items, do not count.
fn parse(text: &str) -> impl Iterator<Item = Result<(&str, &str), ItemFault>> {
    let items = text
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty());
    items.map(|item| {
        let (key, value) = item.split_once('=').unwrap_or((item, ""));
        let (key, value) = (key.trim(), value.trim());
        if value.contains('=') {
            Err(ItemFault::Repeated(quote(item)))
        } else if !is_label_key(key) {
            Err(ItemFault::Key(quote(key)))
        } else if !is_label_value(value) {
            Err(ItemFault::Value(quote(value)))
        } else {
            Ok((key, value))
        }
    })
}

/// The labels that the networks of a pod want its node to have.
#[derive(Debug, Default)]
pub(super) struct NodeLabels<'v> {
    wanted: BTreeMap<&'v str, (&'v str, NadKey)>,
}

impl<'v> NodeLabels<'v> {
    /// Adds the selector of a NAD. Returns what is wrong with it, or with it beside the others.
    pub(super) fn add(&mut self, selector: &'v str, nad: &NadKey) -> Vec<String> {
        let mut faults = Vec::new();
        for item in parse(selector) {
            let (key, value) = match item {
                Ok(pair) => pair,
                Err(fault) => {
                    faults.push(format!(
                        "annotation {NODE_SELECTOR} of network attachment definition {nad}: {fault}"
                    ));
                    continue;
                }
            };
            match self.wanted.entry(key) {
                Entry::Vacant(vacant) => {
                    vacant.insert((value, nad.clone()));
                }
                Entry::Occupied(earlier) => {
                    let (other, other_nad) = earlier.get();
                    if *other != value {
                        faults.push(format!(
                            "network attachment definitions {other_nad} and {nad} want different values of the node label {key}: {} and {}",
                            quote(other),
                            quote(value)
                        ));
                    }
                }
            }
        }
        faults
    }

    pub(super) fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    /// Adds what the pod's own node selector lacks or has otherwise. Returns a warning for each value that is replaced.
    pub(super) fn inject(&self, spec: &Spec<'_>, patch: &mut Patch) -> Vec<String> {
        let mut warnings = Vec::new();
        let Some(own) = &spec.node_selector else {
            let labels = self.wanted.iter().map(|(key, (value, _))| (*key, *value));
            let labels: BTreeMap<&str, &str> = labels.collect();
            patch.make(Part::NodeSelector, &labels);
            return warnings;
        };
        for (key, (value, nad)) in &self.wanted {
            let current = own.get(key).map(|current| &**current);
            if current == Some(value) {
                continue;
            }
            if let Some(current) = current {
                warnings.push(format!(
                    "spec.nodeSelector[{key}]: {} is replaced by {}, which network attachment definition {nad} wants",
                    quote(current),
                    quote(value)
                ));
            }
            patch.add_member(Part::NodeSelector, key, value);
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<(&str, &str)>, ItemFault> {
        parse(text).collect()
    }

    #[test]
    fn items() {
        for (text, labels) in [
            ("", vec![]),
            ("rack=a", vec![("rack", "a")]),
            (" zone = z1 ", vec![("zone", "z1")]),
            ("gpu", vec![("gpu", "")]),
            ("gpu=", vec![("gpu", "")]),
            ("a=b,c=d,", vec![("a", "b"), ("c", "d")]),
            (" , a=b ,, c", vec![("a", "b"), ("c", "")]),
            ("example.com/rack=A_1", vec![("example.com/rack", "A_1")]),
        ] {
            assert_eq!(read(text), Ok(labels), "{text}");
        }
    }

    #[test]
    fn illegal_items() {
        let quoted = |text: &str| quote(text);
        assert_eq!(
            read("rack=a=b"),
            Err(ItemFault::Repeated(quoted("rack=a=b")))
        );
        assert_eq!(read("a==b"), Err(ItemFault::Repeated(quoted("a==b"))));
        assert_eq!(read("=b"), Err(ItemFault::Key(quoted(""))));
        assert_eq!(read("a b"), Err(ItemFault::Key(quoted("a b"))));
        assert_eq!(read("a=b c"), Err(ItemFault::Value(quoted("b c"))));
        assert_eq!(read("a=b/c"), Err(ItemFault::Value(quoted("b/c"))));
    }

    #[test]
    fn networks_must_agree() {
        let nad = |name: &str| NadKey {
            namespace: "ns".to_owned(),
            name: name.to_owned(),
        };
        let mut labels = NodeLabels::default();
        assert_eq!(
            labels.add("rack=a,zone=z", &nad("one")),
            Vec::<String>::new()
        );
        assert_eq!(labels.add("rack=a,gpu", &nad("two")), Vec::<String>::new());
        let faults = labels.add("rack=b,x=y=z", &nad("three"));
        assert_eq!(
            faults[0],
            "network attachment definitions ns/one and ns/three want different values of the node label rack: \"a\" and \"b\""
        );
        assert!(faults[1].contains("annotation k8s.v1.cni.cncf.io/nodeSelector of network attachment definition ns/three: \"x=y=z\""));
    }
}
