//! The match condition that lets the API server skip the injector for pods that do not need it.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    selection::{DEFAULT_NETWORK, NETWORKS},
    switches::Switches,
};

/// A CEL expression over `object`, a pod under creation: it has one of the network annotations, or a label of an
/// injection in force with the value `true` in any letter case. No pod makes it fail, which would be a refusal.
pub fn match_condition(switches: &Switches) -> String {
    let annotations = "object.metadata.annotations";
    let mut condition = format!(
        "has({annotations}) && ({} in {annotations} || {} in {annotations})",
        literal(NETWORKS),
        literal(DEFAULT_NETWORK)
    );
    let labels: Vec<String> = labels(&switches.injections).map(literal).collect();
    if !labels.is_empty() {
        let list = labels.join(", ");
        condition = format!(
            "({condition}) || (has(object.metadata.labels) && [{list}].exists(label, \
             label in object.metadata.labels && object.metadata.labels[label].lowerAscii() == \"true\"))"
        );
    }
    condition
}

/// The labels whose injections add something.
fn labels(injections: &BTreeMap<String, BTreeMap<String, String>>) -> impl Iterator<Item = &str> {
    let adding = injections
        .iter()
        .filter(|(_, annotations)| !annotations.is_empty());
    adding.map(|(label, _)| label.as_str())
}

/// A text as a CEL literal: CEL knows all escapes of JSON strings.
fn literal(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_default_network_and_labels_of_injections() {
        let mut switches = Switches::default();
        let base = "has(object.metadata.annotations) && \
            (\"k8s.v1.cni.cncf.io/networks\" in object.metadata.annotations || \
            \"v1.multus-cni.io/default-network\" in object.metadata.annotations)";
        assert_eq!(match_condition(&switches), base);

        let annotations = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        switches
            .injections
            .insert("x/y".to_owned(), annotations.clone());
        switches.injections.insert("a".to_owned(), annotations);
        switches
            .injections
            .insert("nothing".to_owned(), BTreeMap::new());
        assert_eq!(
            match_condition(&switches),
            format!(
                "({base}) || (has(object.metadata.labels) && [\"a\", \"x/y\"].exists(label, \
                label in object.metadata.labels && object.metadata.labels[label].lowerAscii() == \"true\"))"
            )
        );
    }

    #[test]
    fn texts_cannot_leave_their_literal() {
        assert_eq!(literal("a\"] || true \\ \n"), r#""a\"] || true \\ \n""#);
    }
}
