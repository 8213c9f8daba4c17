//! Objects as reviews carry them: what is needed of their metadata, and their spec. A decoding error becomes a fault
//! with the path of the field.

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};

use super::{Kind, Verdict, defaults, fault::Fault};
use crate::brief::{LINE_BYTES, brief};

/// An object, its spec decoded to JSON values; everything else but a few fields of the metadata is skipped.
#[derive(Debug)]
pub(super) struct Object {
    metadata: Metadata,
    spec: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    name: Option<String>,
    deletion_timestamp: Option<String>,
}

#[derive(Deserialize)]
struct Raw<'a> {
    #[serde(default)]
    metadata: Option<Metadata>,
    #[serde(borrow, default)]
    spec: Option<&'a RawValue>,
}

impl Object {
    pub(super) fn read(json: Option<&str>) -> Result<Self, Fault> {
        let json =
            json.ok_or_else(|| Fault::required("metadata", "the review carries no object"))?;
        // A list would decode too: as the fields in their order.
        let unreadable = |reason: String| Fault::invalid("metadata", None::<()>, reason);
        if !json.trim_start().starts_with('{') {
            return Err(unreadable("the review carries no JSON object".into()));
        }
        let raw: Raw<'_> = serde_json::from_str(json).map_err(|error| unreadable(said(&error)))?;
        let spec = raw
            .spec
            .map(|spec| serde_json::from_str(spec.get()))
            .transpose()
            .map_err(|error| Fault::invalid("spec", None::<()>, said(&error)))?;
        Ok(Self {
            metadata: raw.metadata.unwrap_or_default(),
            spec,
        })
    }

    pub(super) fn name(&self) -> Option<&str> {
        self.metadata
            .name
            .as_deref()
            .filter(|name| !name.is_empty())
    }

    pub(super) fn under_deletion(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// The spec; nothing when it is absent or null.
    pub(super) fn spec(&self) -> Option<&Value> {
        self.spec.as_ref()
    }
}

/// What a library says about a value that does not decode. It repeats the value.
fn said(error: &serde_json::Error) -> String {
    brief(&error.to_string(), LINE_BYTES).into_owned()
}

/// Whether two versions of an object have one spec, once both have their defaults.
pub(super) fn same_spec(kind: Kind, new: &Object, old: &Object) -> bool {
    new.spec == old.spec
        || defaults::complete(kind, new.spec.clone()) == defaults::complete(kind, old.spec.clone())
}

/// What the rules of a kind judge.
pub(super) struct Review<'a> {
    pub(super) name: &'a str,
    pub(super) namespace: &'a str,
    pub(super) spec: Option<&'a Value>,
    /// Only on UPDATE.
    pub(super) old_spec: Option<&'a Value>,
}

impl Review<'_> {
    /// The spec in its type. What is missing of `required`, and what does not decode, becomes faults.
    pub(super) fn decode<T: DeserializeOwned>(
        &self,
        required: &[(&str, &str)],
        verdict: &mut Verdict,
    ) -> Option<T> {
        let absent = Value::Object(serde_json::Map::new());
        let spec = self.spec.unwrap_or(&absent);
        let missing: Vec<_> = required
            .iter()
            .filter(|(field, _)| spec.is_object() && spec.get(field).is_none())
            .collect();
        for (field, purpose) in &missing {
            verdict.fault(Fault::required(format!("spec.{field}"), *purpose));
        }
        if !missing.is_empty() {
            return None;
        }
        match serde_path_to_error::deserialize(spec) {
            Ok(spec) => Some(spec),
            Err(error) => {
                let path = error.path().to_string();
                let field = match path.as_str() {
                    "." => "spec".to_owned(),
                    path => format!("spec.{path}"),
                };
                let value = at(spec, error.path());
                verdict.fault(Fault::invalid(field, value, said(error.inner())));
                None
            }
        }
    }
}

fn at<'a>(value: &'a Value, path: &serde_path_to_error::Path) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, segment| match segment {
        serde_path_to_error::Segment::Seq { index } => value.get(index),
        serde_path_to_error::Segment::Map { key } => value.get(key),
        _ => None,
    })
}
