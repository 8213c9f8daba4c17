//! What Kubernetes takes for a label: keys, values, DNS-1123 names. Byte tests, no regular expressions.

/// Bytes of the longest DNS-1123 label, and so of the longest name of a namespace.
pub(crate) const LONGEST_LABEL: usize = 63;

/// A DNS-1123 label: 1 to 63 bytes of `a-z`, `0-9` and `-`, a letter or digit at both ends.
pub(crate) fn is_dns_label(text: &str) -> bool {
    text.len() <= LONGEST_LABEL && is_dns_part(text)
}

/// A label key: a name of at most 63 bytes, after an optional DNS subdomain of at most 253 and a `/`.
pub(super) fn is_label_key(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => {
            prefix.len() <= 253 && prefix.split('.').all(is_dns_part) && is_name(name)
        }
        None => is_name(text),
    }
}

/// A label value: empty, or 1 to 63 bytes of letters, digits, `-`, `_` and `.`, a letter or digit at both ends.
pub(super) fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_name(text)
}

fn is_dns_part(text: &str) -> bool {
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(alphanumeric)
        && bytes.last().is_some_and(alphanumeric)
        && bytes.iter().all(|byte| alphanumeric(byte) || *byte == b'-')
}

fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dns_labels() {
        for legal in ["a", "0", "a-b", "a--b", &"a".repeat(63)] {
            assert!(is_dns_label(legal), "{legal}");
        }
        for illegal in [
            "",
            "-a",
            "a-",
            "A",
            "a.b",
            "a_b",
            "a/b",
            "é",
            "a b",
            &"a".repeat(64),
        ] {
            assert!(!is_dns_label(illegal), "{illegal}");
        }
    }

    #[test]
    fn label_keys() {
        let longest = format!("{}/{}", vec!["a".repeat(62); 4].join("."), "b".repeat(63));
        for legal in ["a", "A_b.c-9", "example.com/Role", "a/b", &longest] {
            assert!(is_label_key(legal), "{legal}");
        }
        let too_long = "b".repeat(64);
        for illegal in [
            "", "/a", "a/", "a/b/c", "A.b/c", "a..b/c", "-a", "a b", "é", "a\"b", &too_long,
        ] {
            assert!(!is_label_key(illegal), "{illegal}");
        }
    }

    #[test]
    fn label_values() {
        for legal in ["", "a", "007", "A_b.c-9"] {
            assert!(is_label_value(legal), "{legal}");
        }
        for illegal in ["-", "a/b", "a b", "a=", &"b".repeat(64)] {
            assert!(!is_label_value(illegal), "{illegal}");
        }
    }
}
