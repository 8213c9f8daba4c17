//! Equality as the recorded answers mean it, and differences that can be read.

use serde_json::{Value, json};

/// `metadata.annotations`, `metadata.labels` and `spec` of an answer, the items of a downward API volume by path.
pub(super) fn result(object: &Value) -> Value {
    let mut metadata = json!({});
    for field in ["annotations", "labels"] {
        if let Some(value) = object["metadata"].get(field) {
            metadata[field] = value.clone();
        }
    }
    let mut spec = object["spec"].clone();
    if let Some(volumes) = spec.get_mut("volumes").and_then(Value::as_array_mut) {
        for volume in volumes {
            if let Some(items) = volume
                .pointer_mut("/downwardAPI/items")
                .and_then(Value::as_array_mut)
            {
                items.sort_by_key(|item| item["path"].as_str().unwrap_or_default().to_owned());
            }
        }
    }
    json!({ "metadata": metadata, "spec": spec })
}

/// Without nulls, empty texts, lists and objects, zero and false, all the way down.
pub(super) fn without_empty(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| (key.clone(), without_empty(value)))
            .filter(|(_, value)| !is_empty(value))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        Value::Array(items) => items.iter().map(without_empty).collect(),
        other => other.clone(),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(true) => false,
    }
}

/// What would have to change to make `actual` right, or nothing.
pub(super) fn difference(actual: &Value, expected: &Value) -> Option<String> {
    let patch = json_patch::diff(actual, expected);
    (!patch.0.is_empty()).then(|| format!("to be right it needs {}", json!(patch)))
}
