//! What is a legal label key and a legal label value. Texts only; nothing of nodes.

use super::{
    Verdict,
    fault::{Fault, entry_path},
};

/// Longest name part of a key, and longest value, in bytes.
const MAX_LENGTH: usize = 63;
/// Longest prefix of a key, in bytes.
const MAX_PREFIX_LENGTH: usize = 253;

/// Why a text is no label key: an optional DNS prefix and `/`, then a name of at most 63 letters, digits, `-`, `_` and
/// `.` that begins and ends with a letter or digit.
pub fn key_fault(key: &str) -> Option<&'static str> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if name.contains('/') {
        Some("a label key has at most one '/'")
    } else if prefix.is_some_and(|p| !is_dns_subdomain(p)) {
        Some("the prefix of a label key must be a DNS name in lower case, such as example.com")
    } else if name.is_empty() {
        Some("the name of a label key must not be empty")
    } else if name.len() > MAX_LENGTH {
        Some("the name of a label key may have at most 63 characters")
    } else if !is_label_name(name) {
        Some(
            "a label key consists of letters, digits, '-', '_' and '.', and begins and ends with a letter or digit",
        )
    } else {
        None
    }
}

/// Why a text is no label value: empty, or at most 63 letters, digits, `-`, `_` and `.` that begin and end with a letter
/// or digit.
pub fn value_fault(value: &str) -> Option<&'static str> {
    if value.is_empty() {
        None
    } else if value.len() > MAX_LENGTH {
        Some("a label value may have at most 63 characters")
    } else if !is_label_name(value) {
        Some(
            "a label value consists of letters, digits, '-', '_' and '.', and begins and ends with a letter or digit",
        )
    } else {
        None
    }
}

/// Adds a fault for each key and value of the map at `path` that is no label.
pub(super) fn check<'a>(
    path: &str,
    labels: impl IntoIterator<Item = (&'a String, &'a String)>,
    verdict: &mut Verdict,
) {
    for (key, value) in labels {
        if let Some(fault) = key_fault(key) {
            verdict.fault(Fault::invalid(entry_path(path, key), key, fault));
        }
        if let Some(fault) = value_fault(value) {
            verdict.fault(Fault::invalid(entry_path(path, key), value, fault));
        }
    }
}

fn is_label_name(text: &str) -> bool {
    let ends = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    ends(bytes.first())
        && ends(bytes.last())
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
}

/// Whether a text is a DNS-1123 subdomain, which is what names of most objects are.
pub fn is_dns_subdomain(text: &str) -> bool {
    let alphanumeric =
        |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    text.len() <= MAX_PREFIX_LENGTH
        && text.split('.').all(|part| {
            let bytes = part.as_bytes();
            alphanumeric(bytes.first())
                && alphanumeric(bytes.last())
                && bytes.iter().all(|b| alphanumeric(Some(b)) || *b == b'-')
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys() {
        for legal in [
            "a",
            "A",
            "9",
            "a.b_c-D",
            "node-role.kubernetes.io/control-plane",
            "x/y",
            &"a".repeat(63),
        ] {
            assert_eq!(key_fault(legal), None, "{legal}");
        }
        let long_prefix = format!("{}/a", "a".repeat(254));
        for illegal in [
            "",
            "a b",
            "-a",
            "a-",
            ".a",
            "a/",
            "/a",
            "a/b/c",
            "A.b/c",
            "a..b/c",
            "-a/b",
            "ä",
            "a=b",
            "a\nb",
            &"a".repeat(64),
            &long_prefix,
        ] {
            assert!(key_fault(illegal).is_some(), "{illegal}");
        }
    }

    #[test]
    fn values() {
        for legal in ["", "a", "007", "true", "a.b_c-D", &"a".repeat(63)] {
            assert_eq!(value_fault(legal), None, "{legal}");
        }
        for illegal in ["x y", "-a", "a-", "a/b", "ä", " ", "\n", &"a".repeat(64)] {
            assert!(value_fault(illegal).is_some(), "{illegal}");
        }
    }
}
