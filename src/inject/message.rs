//! Texts that leave the injector: quoting of what users wrote, bounded lists of faults and warnings.
//!
//! It knows nothing about pods. What it returns is one line of printable text.

use std::borrow::Cow;

use crate::brief::{LINE_BYTES, brief};

/// Characters of a user's text that a message shows.
const SHOWN: usize = 64;
/// Faults that one denial spells out; the rest is a count.
const FAULTS: usize = 20;
/// Warnings that one answer carries; the rest is a count.
const WARNINGS: usize = 10;

/// What a user wrote, in double quotes: cut after 64 characters, with quotes and unprintable characters escaped.
pub(super) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len().min(SHOWN) + 8);
    quoted.push('"');
    let mut rest = text.chars();
    for character in rest.by_ref().take(SHOWN) {
        if character == '\'' {
            quoted.push(character);
        } else {
            quoted.extend(character.escape_debug());
        }
    }
    if rest.next().is_some() {
        quoted.push_str("...");
    }
    quoted.push('"');
    quoted
}

/// The faults of one pod, in the order in which they were found.
#[derive(Debug, Default)]
pub(super) struct Faults {
    shown: Vec<String>,
    more: usize,
}

impl Faults {
    pub(super) fn push(&mut self, fault: String) {
        if self.shown.len() < FAULTS {
            self.shown.push(fault);
        } else {
            self.more += 1;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.shown.is_empty()
    }

    /// One line that names them all, or the first 20 and how many more there are.
    pub(super) fn into_message(self) -> String {
        let mut message = self.shown.join("; ");
        if self.more > 0 {
            message.push_str("; and ");
            message.push_str(&self.more.to_string());
            message.push_str(" more");
        }
        message
    }
}

/// What a library says about JSON that it could not read, short.
pub(super) fn json_fault(error: &serde_json::Error) -> String {
    brief(&error.to_string(), LINE_BYTES).into_owned()
}

/// Warnings as the API server passes them on: at most 10 and a count of the rest, each of at most 256 bytes. It drops
/// longer ones, or ones with control characters, without a word.
pub(super) fn bounded(mut warnings: Vec<String>) -> Vec<String> {
    let more = warnings.len().saturating_sub(WARNINGS);
    warnings.truncate(WARNINGS);
    for warning in &mut warnings {
        if let Cow::Owned(short) = brief(warning, LINE_BYTES) {
            *warning = short;
        }
    }
    if more > 0 {
        warnings.push(format!("{more} more warnings"));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_users_wrote_is_quoted_on_one_printable_line() {
        for (text, quoted) in [
            ("foo", r#""foo""#),
            ("it's", r#""it's""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("a\nb\u{7}", r#""a\nb\u{7}""#),
            ("\u{202e}", r#""\u{202e}""#),
        ] {
            assert_eq!(quote(text), quoted);
        }
        assert_eq!(quote(&"é".repeat(65)), format!("\"{}...\"", "é".repeat(64)));
    }

    #[test]
    fn a_denial_spells_out_twenty_faults() {
        let mut faults = Faults::default();
        for number in 0..23 {
            faults.push(number.to_string());
        }
        let message = faults.into_message();
        assert!(message.starts_with("0; 1; "), "{message}");
        assert!(message.ends_with("19; and 3 more"), "{message}");
    }

    #[test]
    fn warnings_are_few_and_short() {
        let warnings = bounded(vec!["é".repeat(300); 12]);
        assert_eq!(warnings.len(), 11);
        assert!(warnings.iter().all(|warning| warning.len() <= 256));
        assert!(warnings[0].ends_with("é..."));
        assert_eq!(warnings[10], "2 more warnings");
    }
}
