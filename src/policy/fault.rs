//! One fault of an object in Kubernetes' own form: field path, value, what is legal.

use std::fmt::{self, Write as _};

/// Most characters of a value that are repeated in a fault.
const MAX_VALUE: usize = 120;

/// What kind of fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// A value that is not legal, or not legal here.
    Invalid,
    /// A value that must be there.
    Required,
    /// A value outside a closed set.
    NotSupported,
    /// A field that must not be set here.
    Forbidden,
    /// A value that is too long.
    TooLong,
}

impl FaultKind {
    /// The `reason` of a cause in `status.details.causes`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Invalid => "FieldValueInvalid",
            Self::Required => "FieldValueRequired",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Invalid => "Invalid value",
            Self::Required => "Required value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
        }
    }
}

/// One fault. Displays as `spec.numVfs: Invalid value: 65: node bm-0, interface ens1f0 has 64 VFs`, on one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    field: String,
    kind: FaultKind,
    value: Option<String>,
    detail: String,
}

impl Fault {
    fn new(
        field: impl Into<String>,
        kind: FaultKind,
        value: Option<String>,
        detail: impl Into<String>,
    ) -> Self {
        Self {
            field: one_line(&field.into()),
            kind,
            value,
            detail: one_line(&detail.into()),
        }
    }

    /// A value that is not legal.
    pub fn invalid(
        field: impl Into<String>,
        value: impl serde::Serialize,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(field, FaultKind::Invalid, Some(shown(&value)), detail)
    }

    /// A value that must be there.
    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(field, FaultKind::Required, None, detail)
    }

    /// A value outside the closed set `supported`.
    pub fn not_supported(field: impl Into<String>, value: &str, supported: &[&str]) -> Self {
        let supported: Vec<String> = supported.iter().map(|s| format!("{s:?}")).collect();
        let detail = format!("supported values: {}", supported.join(", "));
        Self::new(field, FaultKind::NotSupported, Some(shown(&value)), detail)
    }

    /// A field that must not be set here.
    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(field, FaultKind::Forbidden, None, detail)
    }

    /// A value of more than `most` bytes.
    pub fn too_long(field: impl Into<String>, most: usize) -> Self {
        let detail = format!("may not be more than {most} bytes");
        Self::new(field, FaultKind::TooLong, None, detail)
    }

    /// The field path, never empty.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// What kind of fault it is.
    pub fn kind(&self) -> FaultKind {
        self.kind
    }

    /// The fault without its field, on one line: the `message` of a cause.
    pub fn message(&self) -> String {
        let title = self.kind.title();
        match &self.value {
            Some(value) => format!("{title}: {value}: {}", self.detail),
            None => format!("{title}: {}", self.detail),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message())
    }
}

/// A user's text in quotes, control characters escaped, shortened when it is long.
pub(super) fn quoted(text: &str) -> String {
    shown(&text)
}

/// The path of a map's entry: `spec.nodeSelector[role]`.
pub(super) fn entry_path(map: &str, key: &str) -> String {
    let plain = key.len() <= MAX_VALUE && !key.is_empty() && key.chars().all(|c| !c.is_control());
    if plain {
        format!("{map}[{key}]")
    } else {
        format!("{map}[{}]", quoted(key))
    }
}

/// A value as JSON, which escapes what would break the line, shortened when it is long.
fn shown(value: &impl serde::Serialize) -> String {
    let json = serde_json::to_string(value).unwrap_or_default();
    let json = one_line(&json);
    match json.char_indices().nth(MAX_VALUE) {
        Some((cut, _)) => format!("{}...", json.get(..cut).unwrap_or_default()),
        None => json,
    }
}

/// A text without control characters: names that come from nodes are not the user's, but may hold anything.
pub(super) fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

/// Where a fault shows: the first few places in words, the rest as a count.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    shown: Vec<String>,
    more: usize,
}

/// Places that are spelled out.
const MAX_PLACES: usize = 3;

impl Places {
    /// Adds a place; its words are only made when they are shown.
    pub(super) fn add(&mut self, place: impl FnOnce() -> String) {
        if self.shown.len() < MAX_PLACES {
            self.shown.push(place());
        } else {
            self.more += 1;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.shown.is_empty()
    }

    /// The places, joined by `separator`.
    pub(super) fn joined(&self, separator: &str) -> String {
        let mut text = self.shown.join(separator);
        if self.more > 0 {
            let _ = write!(text, "{separator}and {} more", self.more);
        }
        text
    }
}

impl<T: AsRef<str>> FromIterator<T> for Places {
    fn from_iter<I: IntoIterator<Item = T>>(names: I) -> Self {
        let mut places = Self::default();
        for name in names {
            places.add(|| name.as_ref().to_owned());
        }
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_read_as_kubernetes_writes_them() {
        for (fault, text) in [
            (
                Fault::invalid("spec.numVfs", 65, "node bm-0, interface ens1f0 has 64 VFs"),
                "spec.numVfs: Invalid value: 65: node bm-0, interface ens1f0 has 64 VFs",
            ),
            (
                Fault::required("spec.resourceName", "names it"),
                "spec.resourceName: Required value: names it",
            ),
            (
                Fault::not_supported("spec.x", "c", &["a", "b"]),
                r#"spec.x: Unsupported value: "c": supported values: "a", "b""#,
            ),
            (
                Fault::forbidden("spec.x", "not here"),
                "spec.x: Forbidden: not here",
            ),
            (
                Fault::too_long("spec.x", 63),
                "spec.x: Too long: may not be more than 63 bytes",
            ),
        ] {
            assert_eq!(fault.to_string(), text);
        }
    }

    #[test]
    fn any_text_stays_on_one_line_and_is_cut() {
        let fault = Fault::invalid("spec.x", "a\nb\u{7f}\u{85}", "c\r\nd");
        assert!(!fault.to_string().contains(char::is_control), "{fault}");
        let fault = Fault::invalid("spec.x", "ä".repeat(10_000), "is long");
        assert!(fault.to_string().len() < 400);
        assert!(fault.to_string().ends_with("...: is long"));
        assert_eq!(entry_path("spec.m", "a b"), "spec.m[a b]");
        assert_eq!(entry_path("spec.m", "a\nb"), r#"spec.m["a\nb"]"#);
        assert_eq!(entry_path("spec.m", ""), r#"spec.m[""]"#);
    }

    #[test]
    fn the_first_few_places_and_a_count() {
        let places: Places = ["a", "b", "c", "d", "e"].into_iter().collect();
        assert_eq!(places.joined("; "), "a; b; c; and 2 more");
    }
}
