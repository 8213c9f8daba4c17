//! How an applied object is named.

use std::fmt;

use serde_json::Value;

use super::{Error, Kind};

/// An object by kind and name. A namespaced one lives in the operator's namespace: nothing else is applied.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectRef {
    /// Its kind.
    pub kind: &'static Kind,
    /// Its name.
    pub name: String,
}

impl ObjectRef {
    /// The object of that name, if its kind is one that is applied.
    pub fn find(api_version: &str, kind: &str, name: &str) -> Option<Self> {
        let kind = Kind::find(api_version, kind)?;
        Some(Self {
            kind,
            name: name.to_owned(),
        })
    }

    /// Reads kind and name of a rendered object.
    ///
    /// # Errors
    /// When the kind is none that is applied, or the name is missing.
    pub fn of(object: &Value) -> Result<Self, Error> {
        let text = |pointer: &str| {
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let (api_version, kind, name) =
            (text("/apiVersion"), text("/kind"), text("/metadata/name"));
        let unknown = || Error::Unsupported {
            kind: format!("{api_version} {kind}"),
            name: name.to_owned(),
        };
        if name.is_empty() {
            return Err(unknown());
        }
        let kind = Kind::find(api_version, kind).ok_or_else(unknown)?;
        Ok(Self {
            kind,
            name: name.to_owned(),
        })
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.kind, self.name)
    }
}
