//! Reads objects from files: YAML documents or JSON, one after the other, Lists taken apart. It judges nothing.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::commands::file::{self, Limit};

/// Bytes that aliases may add to a text.
const MOST_REPEATED: usize = 256 << 20;

/// Levels of a YAML document, each of which takes some of the stack.
const DEEPEST: usize = 64;

/// An object and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Document {
    /// The file's name, `-` for the standard input.
    pub(super) source: String,
    /// The object, a JSON object with a `kind`.
    pub(super) object: Value,
}

/// The objects of all files, in their order; each file is as large as `limit` at most.
pub(super) fn read(files: &[PathBuf], limit: Limit) -> Result<Vec<Document>> {
    let mut documents = Vec::new();
    for path in files {
        let source = path.display().to_string();
        let values = values(&file::read(path, limit)?)
            .with_context(|| format!("{source} cannot be read"))?;
        for value in values {
            take(value, &source, &mut documents)?;
        }
    }
    Ok(documents)
}

/// The documents of a text, of whatever size: reading it had a limit.
fn values(text: &str) -> Result<Vec<Value>> {
    if text.trim_start().starts_with('{') {
        let json: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(text)
            .into_iter()
            .collect();
        if let Ok(values) = json {
            return Ok(values);
        }
    }
    // A dump may be of any size, but not of a depth that takes the stack, and aliases may not make much of little.
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DEEPEST,
            flow_nesting_limit: DEEPEST,
            max_total_scalar_bytes: text.len() + MOST_REPEATED,
            max_reader_input_bytes: None,
            max_events: usize::MAX,
            max_nodes: usize::MAX,
            max_documents: usize::MAX,
            max_merge_keys: usize::MAX,
            enforce_alias_anchor_ratio: false,
        },
    };
    Ok(serde_saphyr::from_multiple_with_options(text, options)?)
}

/// Takes an object, or the items of a list. Empty documents are passed over.
fn take(value: Value, source: &str, documents: &mut Vec<Document>) -> Result<()> {
    let mut object = value;
    if object.is_null() {
        return Ok(());
    }
    let kind = object.get("kind").and_then(Value::as_str);
    let Some(kind) = kind.map(str::to_owned) else {
        bail!("{source}: a document is no Kubernetes object: it has no kind");
    };
    let items = object.get_mut("items").map(Value::take);
    if let (Some(item_kind), Some(items)) = (kind.strip_suffix("List"), items) {
        let items = match items {
            Value::Array(items) => items,
            Value::Null => Vec::new(),
            _ => bail!("{source}: the items of a {kind} are no array"),
        };
        for mut item in items {
            // Items of a typed list do not repeat what they are.
            if let Some(fields) = item.as_object_mut()
                && !item_kind.is_empty()
            {
                fields.entry("kind").or_insert_with(|| item_kind.into());
                let version = object["apiVersion"].clone();
                fields.entry("apiVersion").or_insert(version);
            }
            take(item, source, documents)?;
        }
        return Ok(());
    }
    documents.push(Document {
        source: source.to_owned(),
        object,
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<String> {
        let mut documents = Vec::new();
        for value in values(text).unwrap() {
            take(value, "f", &mut documents).unwrap();
        }
        let kinds = documents.iter().map(|document| &document.object["kind"]);
        kinds
            .map(|kind| kind.as_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn documents_and_lists_are_taken_apart() {
        for (text, expected) in [
            ("kind: A\n---\n---\nkind: B\n", vec!["A", "B"]),
            (
                "kind: List\nitems: [{kind: A}, {kind: List, items: [{kind: B}]}]",
                vec!["A", "B"],
            ),
            ("kind: NodeList\nitems: [{metadata: {}}]", vec!["Node"]),
            ("kind: NodeList\nitems: null", vec![]),
            (r#"{"kind": "A"} {"kind": "B"}"#, vec!["A", "B"]),
            ("{kind: A}", vec!["A"]),
            ("", vec![]),
            ("# nothing\n", vec![]),
        ] {
            assert_eq!(kinds(text), expected, "{text}");
        }
    }

    #[test]
    fn no_depth_is_too_deep_for_an_answer() {
        for opening in ["[", "{a: ", "- ", "{\"a\":", "[{\"a\":"] {
            assert!(values(&opening.repeat(200_000)).is_err(), "{opening}");
        }
    }

    #[test]
    fn aliases_make_little_of_little() {
        let of = |size, aliases| {
            let (text, aliases) = ("x".repeat(size), "- *a\n".repeat(aliases));
            values(&format!("kind: List\na: &a {text}\nitems:\n{aliases}"))
        };
        assert!(of(100, 40_000).is_ok());
        assert!(of(1_000_000, 100).is_ok());
        assert!(of(1_000_000, 1_000).is_err());
        let policy = |n: usize| format!("- {{kind: A, name: p{n}, selector: *a}}\n");
        let policies: String = (0..4_000).map(policy).collect();
        let selectors = format!("kind: List\na: &a {{x: y, z: w}}\nitems:\n{policies}");
        assert!(values(&selectors).is_ok());
        let doubled = (1..40).map(|n| format!("a{n}: &a{n} [*a{0}, *a{0}]\n", n - 1));
        let doubled: String = doubled.collect();
        assert!(values(&format!("kind: List\na0: &a0 [x, x]\n{doubled}")).is_err());
    }

    #[test]
    fn words_are_what_kubectl_takes_them_for() {
        let value = &values("trust: on\nvendor: 8086\nname: \"on\"").unwrap()[0];
        assert_eq!(
            *value,
            serde_json::json!({"trust": true, "vendor": 8086, "name": "on"})
        );
    }

    #[test]
    fn what_is_no_object_is_named() {
        for text in [
            "5",
            "[1]",
            "a: b",
            "kind: 5",
            "{kind: List, items: {}}",
            "{kind: NodeList, items: no}",
        ] {
            let value = values(text).unwrap().remove(0);
            let error = take(value, "f.yaml", &mut Vec::new()).unwrap_err();
            assert!(error.to_string().contains("f.yaml"), "{text}: {error}");
        }
        assert!(values("a: [").is_err());
        assert!(values("a: 1\na: 2").is_err(), "a key given twice");
    }
}
