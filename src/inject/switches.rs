//! What the ConfigMap `nri-control-switches` says: features, and the annotations that labels ask for.
//!
//! One bad feature or injection is set aside by itself; where there is nothing usable the start-up values hold.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    label::is_label_key,
    message::{json_fault, quote},
    resources::INJECTED_RESOURCES,
};

/// The key of the ConfigMap's data.
pub const CONFIG_KEY: &str = "config.json";
const FEATURES: &str = "features";
const INJECTIONS: &str = "user-defined-injections";
const HUGEPAGES: &str = "enableHugePageDownApi";
const HONOR_EXISTING: &str = "enableHonorExistingResources";
/// The one place that an injection may add to.
const ANNOTATIONS: &str = "/metadata/annotations";

/// What is in force.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Switches {
    /// Whether containers get files about their hugepages.
    pub hugepages: bool,
    /// Whether the attachments count on top of what containers ask for by themselves.
    pub honor_existing: bool,
    /// Annotations by the label that asks for them with the value `true`; applied in the order of the labels.
    pub injections: BTreeMap<String, BTreeMap<String, String>>,
}

/// Switches as they were read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Loaded {
    /// What is in force.
    pub switches: Switches,
    /// What is not, one line each, fit for a log and an Event: the entry, its value and what is legal.
    pub set_aside: Vec<String>,
}

impl Loaded {
    /// Reads the text under [`CONFIG_KEY`]; `None` where the ConfigMap or the key is missing. What it does not say is as
    /// in `start_up`, whose injections do not count.
    pub fn parse(text: Option<&str>, start_up: &Switches) -> Self {
        let mut loaded = Self {
            switches: Switches {
                hugepages: start_up.hugepages,
                honor_existing: start_up.honor_existing,
                injections: BTreeMap::new(),
            },
            set_aside: Vec::new(),
        };
        let Some(text) = text else { return loaded };
        match serde_json::from_str::<Map<String, Value>>(text) {
            Ok(sections) => {
                loaded.read_features(sections.get(FEATURES));
                loaded.read_injections(sections.get(INJECTIONS));
            }
            Err(error) => loaded.set_aside.push(format!(
                "{CONFIG_KEY} is not a JSON object: {}",
                json_fault(&error)
            )),
        }
        loaded
    }

    fn read_features(&mut self, section: Option<&Value>) {
        for (name, value) in self.section(FEATURES, section) {
            let Some(value) = value.as_bool() else {
                self.put_aside(
                    FEATURES,
                    name,
                    &format!("{} is neither true nor false", quote(&value.to_string())),
                );
                continue;
            };
            match name.as_str() {
                HUGEPAGES => self.switches.hugepages = value,
                HONOR_EXISTING => self.switches.honor_existing = value,
                _ => self.put_aside(
                    FEATURES,
                    name,
                    &format!("unknown; known are {HUGEPAGES} and {HONOR_EXISTING}"),
                ),
            }
        }
    }

    fn read_injections(&mut self, section: Option<&Value>) {
        for (label, entry) in self.section(INJECTIONS, section) {
            match injection(label, entry) {
                Ok(annotations) => {
                    self.switches.injections.insert(label.clone(), annotations);
                }
                Err(reason) => self.put_aside(INJECTIONS, label, &reason),
            }
        }
    }

    /// The entries of a section; none where it is missing or null.
    fn section<'s>(
        &mut self,
        name: &str,
        section: Option<&'s Value>,
    ) -> impl Iterator<Item = (&'s String, &'s Value)> + use<'s> {
        let entries = section.and_then(Value::as_object);
        if entries.is_none() && section.is_some_and(|section| !section.is_null()) {
            self.set_aside
                .push(format!("{CONFIG_KEY}: {name} is not a JSON object"));
        }
        entries.into_iter().flatten()
    }

    fn put_aside(&mut self, section: &str, entry: &str, reason: &str) {
        self.set_aside.push(format!(
            "{CONFIG_KEY}: {section}[{}]: {reason}",
            quote(entry)
        ));
    }
}

/// The annotations of one entry, or why it is none.
fn injection(label: &str, entry: &Value) -> Result<BTreeMap<String, String>, String> {
    if !is_label_key(label) {
        return Err("the key is no legal label key".to_owned());
    }
    let entry = entry
        .as_object()
        .ok_or("not a JSON object of op, path and value")?;
    for (field, legal) in [("op", "add"), ("path", ANNOTATIONS)] {
        let value = entry.get(field).unwrap_or(&Value::Null);
        if value.as_str() != Some(legal) {
            return Err(format!(
                "{field}: {} is not {}",
                quote(&value.to_string()),
                quote(legal)
            ));
        }
    }
    let value = entry.get("value").and_then(Value::as_object);
    let annotations = value.ok_or("value: not a JSON object of annotations")?;
    let read = annotations.iter().map(|(key, value)| match value {
        _ if key == INJECTED_RESOURCES => {
            Err(format!("value[{}]: kept by the injector", quote(key)))
        }
        Value::String(value) => Ok((key.clone(), value.clone())),
        other => Err(format!(
            "value[{}]: {} is not a string",
            quote(key),
            quote(&other.to_string())
        )),
    });
    read.collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START_UP: Switches = Switches {
        hugepages: true,
        honor_existing: false,
        injections: BTreeMap::new(),
    };

    fn load(text: &str) -> Loaded {
        Loaded::parse(Some(text), &START_UP)
    }

    #[test]
    fn features_override_the_start_up_values() {
        let features = |text: &str| {
            let loaded = load(text);
            (
                loaded.switches.hugepages,
                loaded.switches.honor_existing,
                loaded.set_aside.len(),
            )
        };
        for (text, expected) in [
            ("{}", (true, false, 0)),
            (r#"{"features":null,"other":5}"#, (true, false, 0)),
            (
                r#"{"features":{"enableHugePageDownApi":false}}"#,
                (false, false, 0),
            ),
            (
                r#"{"features":{"enableHonorExistingResources":true}}"#,
                (true, true, 0),
            ),
            (
                r#"{"features":{"enableHugePageDownApi":"false","enableHonorExistingResources":true}}"#,
                (true, true, 1),
            ),
            (
                r#"{"features":{"enablehugepagedownapi":false}}"#,
                (true, false, 1),
            ),
            (r#"{"features":[]}"#, (true, false, 1)),
            ("[]", (true, false, 1)),
            ("{", (true, false, 1)),
            ("", (true, false, 1)),
        ] {
            assert_eq!(features(text), expected, "{text}");
        }
        let missing = Loaded::parse(None, &START_UP);
        assert_eq!(
            missing,
            Loaded {
                switches: START_UP,
                set_aside: vec![]
            }
        );
    }

    #[test]
    fn a_bad_injection_is_set_aside_and_harms_no_other() {
        let good = r#""good":{"op":"add","path":"/metadata/annotations","value":{"a":"b","c":""}}"#;
        for (bad, reason) in [
            (
                r#""bad":5"#,
                r#"user-defined-injections["bad"]: not a JSON object of op, path and value"#,
            ),
            (
                r#""bad":{"op":"remove","path":"/metadata/annotations","value":{}}"#,
                r#"op: "\"remove\"" is not "add""#,
            ),
            (
                r#""bad":{"path":"/metadata/annotations","value":{}}"#,
                r#"op: "null" is not "add""#,
            ),
            (r#""bad":{"op":"add","path":"/spec","value":{}}"#, "path: "),
            (
                r#""bad":{"op":"add","path":"/metadata/annotations"}"#,
                "value: not a JSON object of annotations",
            ),
            (
                r#""bad":{"op":"add","path":"/metadata/annotations","value":"x"}"#,
                "value: not a JSON object of annotations",
            ),
            (
                r#""bad":{"op":"add","path":"/metadata/annotations","value":{"team":5}}"#,
                r#"value["team"]: "5" is not a string"#,
            ),
            (
                r#""bad":{"op":"add","path":"/metadata/annotations","value":{"sriovnetwork.openshift.io/injected-resources":"{}"}}"#,
                "kept by the injector",
            ),
            (
                r#""-bad":{"op":"add","path":"/metadata/annotations","value":{}}"#,
                r#"["-bad"]: the key is no legal label key"#,
            ),
        ] {
            let loaded = load(&format!("{{\"user-defined-injections\":{{{bad},{good}}}}}"));
            assert_eq!(
                loaded.switches.injections.keys().collect::<Vec<_>>(),
                ["good"],
                "{bad}"
            );
            assert_eq!(loaded.set_aside.len(), 1, "{bad}");
            assert!(
                loaded.set_aside[0].contains(reason),
                "{bad}: {:?}",
                loaded.set_aside
            );
        }
        let loaded =
            load(r#"{"features":{"enableHugePageDownApi":false},"user-defined-injections":[]}"#);
        assert!(!loaded.switches.hugepages && loaded.switches.injections.is_empty());
        assert_eq!(
            loaded.set_aside,
            ["config.json: user-defined-injections is not a JSON object"]
        );
    }

    #[test]
    fn injections_come_from_the_text_alone() {
        let start_up = Switches {
            injections: BTreeMap::from([("a".to_owned(), BTreeMap::new())]),
            ..START_UP
        };
        assert!(
            Loaded::parse(None, &start_up)
                .switches
                .injections
                .is_empty()
        );
    }

    proptest! {
        #[test]
        fn any_text_leaves_switches(text in any::<String>()) {
            let loaded = load(&text);
            prop_assert!(loaded.switches == START_UP || loaded.set_aside.is_empty());
        }
    }
}
