//! When two specs of a node state, or two configurations of a device plugin, mean the same. What is equal is not written:
//! each write of a spec makes the config daemon configure its node anew.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Map, Value};

use crate::api::SriovNetworkNodeStateSpec;

/// The lists whose order says nothing.
const UNORDERED: [&str; 4] = ["interfaces", "vfGroups", "ovs", "resourceList"];

/// A number that two specs have in common when, and practically only when, they mean the same: empty fields and the
/// order of interfaces, groups and bridges aside. So a spec need not be kept to be compared.
pub fn of_spec(spec: &SriovNetworkNodeStateSpec) -> u64 {
    let value = serde_json::to_value(spec).unwrap_or_default();
    let mut hasher = DefaultHasher::new();
    normal("", value).to_string().hash(&mut hasher);
    hasher.finish()
}

/// Whether two texts of device plugin configurations mean the same. What is no JSON means nothing.
pub fn same_plugin(a: &str, b: &str) -> bool {
    let read = |text| serde_json::from_str::<Value>(text).ok();
    a == b
        || match (read(a), read(b)) {
            (Some(a), Some(b)) => normal("", a) == normal("", b),
            _ => false,
        }
}

/// Without nulls, empty texts, lists and objects, zeroes and false; lists that are sets in an order of their own.
fn normal(key: &str, value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .map(|(key, value)| {
                let value = normal(&key, value);
                (key, value)
            })
            .filter(|(_, value)| !is_empty(value))
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(items) => {
            let mut items: Vec<Value> = items.into_iter().map(|item| normal("", item)).collect();
            if UNORDERED.contains(&key) {
                items.sort_by_cached_key(ToString::to_string);
            }
            items.into()
        }
        other => other,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn hash(spec: Value) -> u64 {
        of_spec(&serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn specs_are_compared_by_meaning() {
        let plain = hash(json!({}));
        assert_eq!(
            plain,
            hash(json!({"bridges": {}, "system": {}, "interfaces": []}))
        );
        assert_eq!(
            plain,
            hash(json!({"system": {"rdmaMode": ""}, "bridges": {"ovs": []}}))
        );
        let two = json!([{"pciAddress": "a", "numVfs": 1, "mtu": 0}, {"pciAddress": "b", "vfGroups": [{"vfRange": "0-1"}, {"vfRange": "2-3"}]}]);
        let turned = json!([{"pciAddress": "b", "vfGroups": [{"vfRange": "2-3", "isRdma": false}, {"vfRange": "0-1"}]}, {"pciAddress": "a", "numVfs": 1}]);
        assert_eq!(
            hash(json!({"interfaces": two})),
            hash(json!({"interfaces": turned}))
        );
        assert_ne!(
            hash(json!({"interfaces": two})),
            hash(json!({"interfaces": [two[0]]}))
        );
        assert_ne!(plain, hash(json!({"system": {"rdmaMode": "shared"}})));
    }

    #[test]
    fn plugin_configurations_are_compared_by_meaning() {
        let spelled = r#"{"resourceList":[{"resourceName":"a","selectors":{"pfNames":["e0"],"IsRdma":false},"SelectorObj":null}]}"#;
        let terse = r#"{"resourceList":[{"selectors":{"pfNames":["e0"]},"resourceName":"a"}]}"#;
        assert!(same_plugin(spelled, terse));
        assert!(same_plugin(
            r#"{"resourceList":null}"#,
            r#"{"resourceList":[]}"#
        ));
        assert!(!same_plugin(spelled, r#"{"resourceList":null}"#));
        assert!(!same_plugin(spelled, ""));
        let order = |names: &str| {
            format!(
                r#"{{"resourceList":[{{"resourceName":"a","selectors":{{"pfNames":{names}}}}}]}}"#
            )
        };
        assert!(!same_plugin(
            &order(r#"["e0","e1"]"#),
            &order(r#"["e1","e0"]"#)
        ));
    }
}
