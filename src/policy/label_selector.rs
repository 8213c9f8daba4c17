//! Label selectors with expressions, as pools carry them: reading one, and asking whether labels meet it.

use super::labels;
use crate::api::pool_config::{LabelSelector, LabelSelectorRequirement};

/// A label selector that is understood. Everything in it must hold; an empty one is met by any labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    wants: Wants,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Wants {
    In(Vec<String>),
    NotIn(Vec<String>),
    Present,
    Absent,
}

/// What keeps a label selector from being understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {fault}")]
pub struct SelectorError {
    path: String,
    fault: String,
}

impl Selector {
    /// Reads a selector; an absent one is met by any labels.
    pub fn parse(selector: Option<&LabelSelector>) -> Result<Self, SelectorError> {
        let mut requirements = Vec::new();
        let Some(selector) = selector else {
            return Ok(Self::default());
        };
        for (key, value) in selector.match_labels.iter().flatten() {
            let path = || format!("matchLabels[{key:?}]");
            check(labels::key_fault(key), path)?;
            check(labels::value_fault(value), path)?;
            requirements.push(Requirement {
                key: key.clone(),
                wants: Wants::In(vec![value.clone()]),
            });
        }
        for (index, expression) in selector.match_expressions.iter().flatten().enumerate() {
            requirements.push(read(index, expression)?);
        }
        Ok(Self(requirements))
    }

    /// Whether the labels, asked by key, meet it.
    pub fn matches<'a>(&self, value_of: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0.iter().all(|requirement| {
            let value = value_of(&requirement.key);
            let among = |values: &[String]| value.is_some_and(|v| values.iter().any(|w| w == v));
            match &requirement.wants {
                Wants::In(values) => among(values),
                Wants::NotIn(values) => !among(values),
                Wants::Present => value.is_some(),
                Wants::Absent => value.is_none(),
            }
        })
    }
}

fn read(index: usize, expression: &LabelSelectorRequirement) -> Result<Requirement, SelectorError> {
    let LabelSelectorRequirement {
        key,
        operator,
        values,
    } = expression;
    let at = |field: &str| format!("matchExpressions[{index}].{field}");
    check(labels::key_fault(key), || at("key"))?;
    let values = values.clone().unwrap_or_default();
    for value in &values {
        check(labels::value_fault(value), || at("values"))?;
    }
    let wants = match (operator.as_str(), values.is_empty()) {
        ("In", false) => Wants::In(values),
        ("NotIn", false) => Wants::NotIn(values),
        ("Exists", true) => Wants::Present,
        ("DoesNotExist", true) => Wants::Absent,
        ("In" | "NotIn", true) => {
            return Err(fault(at("values"), "In and NotIn need values"));
        }
        ("Exists" | "DoesNotExist", false) => {
            return Err(fault(at("values"), "Exists and DoesNotExist have none"));
        }
        (other, _) => {
            let text = format!("{other:?} is none of In, NotIn, Exists and DoesNotExist");
            return Err(fault(at("operator"), text));
        }
    };
    Ok(Requirement {
        key: key.clone(),
        wants,
    })
}

fn check(found: Option<&'static str>, path: impl FnOnce() -> String) -> Result<(), SelectorError> {
    found.map_or(Ok(()), |text| Err(fault(path(), text)))
}

fn fault(path: String, fault: impl Into<String>) -> SelectorError {
    SelectorError {
        path,
        fault: fault.into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(selector: Value) -> LabelSelector {
        serde_json::from_value(selector).unwrap()
    }

    #[test]
    fn every_operator_asks_for_a_label() {
        let labels = |key: &str| match key {
            "role" => Some("bm"),
            "empty" => Some(""),
            _ => None,
        };
        let one = |key: &str, operator: &str, values: Value| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        for (selector, expected) in [
            (json!({}), true),
            (json!({"matchLabels": {"role": "bm"}}), true),
            (json!({"matchLabels": {"role": "vm"}}), false),
            (json!({"matchLabels": {"role": "bm", "rack": "a"}}), false),
            (json!({"matchLabels": {"empty": ""}}), true),
            (json!({"matchLabels": {"none": ""}}), false),
            (one("role", "In", json!(["vm", "bm"])), true),
            (one("none", "In", json!(["bm"])), false),
            (one("role", "NotIn", json!(["bm"])), false),
            (one("none", "NotIn", json!(["bm"])), true),
            (one("empty", "Exists", Value::Null), true),
            (one("none", "Exists", Value::Null), false),
            (one("none", "DoesNotExist", json!([])), true),
            (one("role", "DoesNotExist", json!([])), false),
        ] {
            let parsed = Selector::parse(Some(&read(selector.clone()))).unwrap();
            assert_eq!(parsed.matches(labels), expected, "{selector}");
        }
        assert!(Selector::parse(None).unwrap().matches(|_| None));
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (selector, says) in [
            (
                json!({"matchLabels": {"a b": "c"}}),
                r#"matchLabels["a b"]: "#,
            ),
            (json!({"matchLabels": {"a": "b c"}}), r#"matchLabels["a"]"#),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "Like"}]}),
                r#"matchExpressions[0].operator: "Like""#,
            ),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "In"}]}),
                "matchExpressions[0].values",
            ),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]}),
                "matchExpressions[0].values",
            ),
        ] {
            let error = Selector::parse(Some(&read(selector))).unwrap_err();
            let error = error.to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
