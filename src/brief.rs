//! Shortens texts of unknown length, for messages and the log: some callers send megabytes where a name belongs, and some
//! libraries repeat all that they could not read.
//!
//! It knows nothing about what the texts mean, and escapes nothing.

use std::borrow::Cow;

/// Bytes of a line that says what somebody else said.
pub const LINE_BYTES: usize = 256;

/// Bytes of the longest name of an object, which is a DNS-1123 subdomain.
pub const LONGEST_NAME: usize = 253;

/// What follows the beginning of a text that was cut.
const MORE: &str = "...";

/// The text, or as much of its beginning as makes `most` bytes together with the dots behind it.
pub fn brief(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    let mut ends = (0..=most.saturating_sub(MORE.len())).rev();
    let beginning = ends.find_map(|end| text.get(..end)).unwrap_or_default();
    Cow::Owned(format!("{beginning}{MORE}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_short_stays_and_what_is_long_is_cut_between_characters() {
        for (text, most, shown) in [
            ("", 5, ""),
            ("abcde", 5, "abcde"),
            ("abcdef", 5, "ab..."),
            ("aéé", 5, "aéé"),
            ("aééé", 5, "a..."),
            ("éééé", 5, "é..."),
        ] {
            assert_eq!(brief(text, most), shown, "{text}");
        }
    }
}
