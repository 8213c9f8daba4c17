//! What every rendered object has in common: no nulls, lists unique by their key, our label, an owner.
//!
//! The API server answers a list with a key twice, and a null in a list, with an error that looks like its own
//! (500, "failed to create typed patch object"), and a null in a mapping wipes what others set. So the first two are
//! faults of a template, found here, and the last means that the field is absent.

use serde_json::{Map, Value, json};
use serde_saphyr::{DuplicateKeyPolicy, MergeKeyPolicy};

use super::{Owner, Owners, RenderError};

/// The label that says who manages an object.
pub const MANAGED_BY_LABEL: &str = "app.kubernetes.io/managed-by";
/// The value of [`MANAGED_BY_LABEL`] on everything that is rendered.
pub const MANAGED_BY: &str = "sriov-operator";

/// The lists that server-side apply merges by a key, with that key.
const KEYED_LISTS: &[(&str, &[&str])] = &[
    ("env", &["name"]),
    ("volumeMounts", &["mountPath"]),
    ("volumes", &["name"]),
    ("imagePullSecrets", &["name"]),
    ("initContainers", &["name"]),
    ("containers", &["name"]),
    ("matchConditions", &["name"]),
    ("webhooks", &["name"]),
];

/// Reads what a template rendered to.
pub(super) fn parse(file: &str, text: &str) -> Result<Vec<Value>, RenderError> {
    let options = serde_saphyr::options! {
        // The keys of a user's mapping may be longer than YAML wants them in one line.
        budget: serde_saphyr::budget! { simple_key_max_lookahead: text.len() },
        duplicate_keys: DuplicateKeyPolicy::Error,
        merge_keys: MergeKeyPolicy::AsOrdinary,
        strict_booleans: true,
    };
    let documents: Vec<Value> =
        serde_saphyr::from_multiple_with_options(text, options).map_err(|error| {
            RenderError::Yaml {
                file: file.to_owned(),
                problem: error.to_string(),
            }
        })?;
    let mut objects = Vec::new();
    for (index, document) in documents.into_iter().enumerate() {
        let object =
            clean(document, "")
                .and_then(complete)
                .map_err(|problem| RenderError::Object {
                    file: file.to_owned(),
                    document: index + 1,
                    problem,
                })?;
        objects.push(object);
    }
    Ok(objects)
}

/// An object that can be named.
fn complete(object: Value) -> Result<Value, String> {
    for (field, pointer) in [
        ("apiVersion", "/apiVersion"),
        ("kind", "/kind"),
        ("metadata.name", "/metadata/name"),
    ] {
        let text = object.pointer(pointer).and_then(Value::as_str);
        if text.is_none_or(str::is_empty) {
            return Err(format!("{field} is not set"));
        }
    }
    Ok(object)
}

/// Drops nulls from mappings, and mappings that held nothing else; checks lists. `path` is where `value` is.
fn clean(value: Value, path: &str) -> Result<Value, String> {
    match value {
        Value::Object(fields) => {
            let was_empty = fields.is_empty();
            let mut kept = Map::new();
            for (name, field) in fields {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                let field = clean(field, &path)?;
                if let Value::Array(items) = &field {
                    unique(&name, items).map_err(|problem| format!("{path}: {problem}"))?;
                }
                if !field.is_null() {
                    kept.insert(name, field);
                }
            }
            Ok(if kept.is_empty() && !was_empty {
                Value::Null
            } else {
                Value::Object(kept)
            })
        }
        Value::Array(items) => {
            let mut kept = Vec::with_capacity(items.len());
            for (index, item) in items.into_iter().enumerate() {
                let path = format!("{path}[{index}]");
                let item = clean(item, &path)?;
                if item.is_null() {
                    return Err(format!("{path} is null"));
                }
                kept.push(item);
            }
            Ok(Value::Array(kept))
        }
        scalar => Ok(scalar),
    }
}

/// A keyed list holds no key twice.
fn unique(name: &str, items: &[Value]) -> Result<(), String> {
    // Ports have this key where they are merged by it; those of a NetworkPolicy are not.
    let ports: &[&str] = if items.iter().any(|item| item.get("containerPort").is_some()) {
        &["containerPort", "protocol"]
    } else {
        &["port", "protocol"]
    };
    let keys = match KEYED_LISTS.iter().find(|(list, _)| *list == name) {
        Some((_, keys)) => *keys,
        None if name == "ports" => ports,
        None => return Ok(()),
    };
    let key_of = |item: &Value| -> Vec<Value> {
        keys.iter()
            .map(|key| item.get(*key).cloned().unwrap_or_default())
            .collect()
    };
    for (index, item) in items.iter().enumerate() {
        if items
            .iter()
            .take(index)
            .any(|other| key_of(other) == key_of(item))
        {
            return Err(format!(
                "{} is there twice: {:?}",
                keys.join(" and "),
                key_of(item)
            ));
        }
    }
    Ok(())
}

/// Sets our label and the owner.
///
/// What lives in the namespace is controlled by the config, so that it goes with it. What does not is owned by the
/// namespace, so that it goes with that even when no operator runs; but for the `MachineConfig`, whose removal
/// reboots nodes.
pub(super) fn stamp(object: &mut Value, owners: &Owners) {
    let kind = object.get("kind").cloned();
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    let labels = metadata.entry("labels").or_insert_with(|| json!({}));
    if let Some(labels) = labels.as_object_mut() {
        labels.insert(MANAGED_BY_LABEL.to_owned(), MANAGED_BY.into());
    }
    let reference = if metadata.contains_key("namespace") {
        owners.config.as_ref().map(config_reference)
    } else if kind.as_ref().and_then(Value::as_str) == Some("MachineConfig") {
        None
    } else {
        owners.namespace.as_ref().map(namespace_reference)
    };
    if let Some(reference) = reference {
        metadata.insert("ownerReferences".to_owned(), json!([reference]));
    }
}

fn config_reference(owner: &Owner) -> Value {
    json!({
        "apiVersion": crate::api::API_VERSION,
        "kind": "SriovOperatorConfig",
        "name": owner.name,
        "uid": owner.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

fn namespace_reference(owner: &Owner) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "name": owner.name, "uid": owner.uid})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_one(text: &str) -> Value {
        let header = "apiVersion: v1\nkind: T\nmetadata:\n  name: n\n";
        parse("t/1.yaml", &format!("{header}{text}"))
            .unwrap()
            .remove(0)
    }

    fn problem(text: &str) -> String {
        let header = "apiVersion: v1\nkind: T\nmetadata:\n  name: n\n";
        parse("t/1.yaml", &format!("{header}{text}"))
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn a_null_in_a_mapping_is_absent_and_so_is_a_mapping_of_nulls() {
        let object = parse_one("spec:\n  a: null\n  b: {c: null, d: {e: null}}\n  f: {}\n");
        assert_eq!(object["spec"], json!({"f": {}}));
        let object = parse_one("spec: {a: null}\n");
        assert_eq!(object.get("spec"), None);
    }

    #[test]
    fn a_null_in_a_list_is_a_fault() {
        let problem = problem("spec:\n  a:\n    - 1\n    - null\n");
        assert_eq!(problem, "template t/1.yaml, document 1: spec.a[1] is null");
    }

    #[test]
    fn keyed_lists_hold_no_key_twice() {
        for list in [
            "env: [{name: A}, {name: B}, {name: A}]",
            "volumeMounts: [{name: x, mountPath: /a}, {name: y, mountPath: /a}]",
            "ports: [{port: 1, protocol: TCP}, {port: 1, protocol: TCP}]",
            "ports: [{containerPort: 1}, {containerPort: 1}]",
        ] {
            assert!(
                problem(&format!("spec: {{{list}}}\n")).contains("twice"),
                "{list}"
            );
        }
        parse_one("spec: {ports: [{port: 1, protocol: TCP}, {port: 1, protocol: UDP}]}\n");
        parse_one("spec: {args: [a, a]}\n");
    }

    #[test]
    fn mistakes_are_named() {
        assert!(problem("spec: {a: 1, a: 2}\n").contains("t/1.yaml"));
        let nameless = parse("t/1.yaml", "apiVersion: v1\nkind: T\n").unwrap_err();
        assert!(nameless.to_string().contains("metadata.name is not set"));
        assert_eq!(
            parse("t/1.yaml", "\n# nothing\n").unwrap(),
            Vec::<Value>::new()
        );
    }

    #[test]
    fn words_that_yaml_1_1_retyped_stay_words() {
        let object = parse_one("spec: {a: yes, b: None, c: 33%, d: 10m, e: on}\n");
        assert_eq!(
            object["spec"],
            json!({"a": "yes", "b": "None", "c": "33%", "d": "10m", "e": "on"})
        );
    }

    #[test]
    fn owners_by_scope() {
        let owner = |name: &str| {
            Some(Owner {
                name: name.to_owned(),
                uid: format!("uid-{name}"),
            })
        };
        let owners = Owners {
            config: owner("default"),
            namespace: owner("sriov"),
        };
        let stamped = |kind: &str, namespace: Value| {
            let mut object = json!({"kind": kind, "metadata": {"name": "n"}});
            if !namespace.is_null() {
                object["metadata"]["namespace"] = namespace;
            }
            stamp(&mut object, &owners);
            assert_eq!(object["metadata"]["labels"][MANAGED_BY_LABEL], MANAGED_BY);
            object["metadata"]["ownerReferences"].clone()
        };
        let config = stamped("Service", json!("sriov"));
        assert_eq!(config[0]["kind"], "SriovOperatorConfig");
        assert_eq!(config[0]["controller"], true);
        let namespace = stamped("ClusterRole", Value::Null);
        assert_eq!(
            namespace,
            json!([{"apiVersion": "v1", "kind": "Namespace", "name": "sriov", "uid": "uid-sriov"}])
        );
        assert_eq!(stamped("MachineConfig", Value::Null), Value::Null);
    }
}
