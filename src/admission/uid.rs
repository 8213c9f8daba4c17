//! Finds a review's uid in bytes that are not a whole or not a proper review, so that they can still be answered.
//! The ordinary path does not come here.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

/// Bytes of the longest uid that is answered. Those of API servers have 36.
pub(super) const LONGEST: usize = 256;

/// The first string at `request.uid` of a JSON text that may break off anywhere, or go wrong after it. Neither empty ones
/// nor ones above [`LONGEST`] count.
pub(super) fn find(json: &[u8]) -> Option<String> {
    let mut found = None;
    let mut text = serde_json::Deserializer::from_slice(json);
    let seek = Seek {
        level: Level::Review,
        found: &mut found,
    };
    // An error only means that the text ends or goes wrong; what was found before that stands.
    let _ = seek.deserialize(&mut text);
    found.filter(|uid| !uid.is_empty() && uid.len() <= LONGEST)
}

#[derive(Clone, Copy)]
enum Level {
    Review,
    Request,
    Uid,
}

struct Seek<'a> {
    level: Level,
    found: &'a mut Option<String>,
}

impl Seek<'_> {
    /// Where the member `key` of this level leads, if anywhere.
    fn below(&self, key: &str) -> Option<Level> {
        match (self.level, key) {
            (Level::Review, "request") => Some(Level::Request),
            (Level::Request, "uid") => Some(Level::Uid),
            _ => None,
        }
    }
}

impl<'de> DeserializeSeed<'de> for Seek<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.level {
            Level::Uid => deserializer.deserialize_str(self),
            Level::Review | Level::Request => deserializer.deserialize_map(self),
        }
    }
}

impl<'de> Visitor<'de> for Seek<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an admission review")
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        if matches!(self.level, Level::Uid) && self.found.is_none() {
            *self.found = Some(value.to_owned());
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match self.below(&key) {
                Some(level) => map.next_value_seed(Seek {
                    level,
                    found: self.found,
                })?,
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_uid_wherever_the_text_breaks_off_after_it() {
        let whole = r#"{"kind":"AdmissionReview","request":{"uid":"u-1","object":{"a":[1,2]}}}"#;
        let end_of_uid = whole.find("u-1").unwrap() + 4;
        for length in end_of_uid..whole.len() {
            assert_eq!(
                find(&whole.as_bytes()[..length]).as_deref(),
                Some("u-1"),
                "cut at {length}"
            );
        }
    }

    #[test]
    fn finds_none_where_there_is_none() {
        let long = format!(r#"{{"request":{{"uid":"{}"}}}}"#, "u".repeat(LONGEST + 1));
        for text in [
            &long,
            "",
            "null",
            "[]",
            r#"{"uid":"u-1"}"#,
            r#"{"request":{"uid":""}}"#,
            r#"{"request":{"uid":7}}"#,
            r#"{"request":{"uid":"u-"#,
            r#"{"request":{"object":{"uid":"u-1"}}}"#,
            r#"{"object":{"request":{"uid":"u-1"}}}"#,
        ] {
            assert_eq!(find(text.as_bytes()), None, "{text}");
        }
    }
}
