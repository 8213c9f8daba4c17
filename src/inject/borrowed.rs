//! How parts of a pod are decoded: borrowed from the review's text, strict about what is an object.

use std::{borrow::Cow, fmt, marker::PhantomData, ops::Deref};

use serde::{Deserialize, Deserializer, de};
use serde_json::value::RawValue;

use crate::scan::Scanner;

/// A text of the review; allocated only where the JSON escapes something.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// The text of a JSON value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Raw<'a>(pub(super) &'a str);

impl<'de: 'a, 'a> Deserialize<'de> for Raw<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&RawValue>::deserialize(deserializer).map(|raw| Self(raw.get()))
    }
}

/// A JSON object in the order in which it stands.
#[derive(Debug)]
pub(super) struct Entries<'a, V>(Vec<(Text<'a>, V)>);

impl<'a> Entries<'a, Raw<'a>> {
    /// The object at a place, whose values stay as they are. Nothing where it is none, or a key has escapes.
    pub(super) fn scan(scanner: &mut Scanner<'a>) -> Option<Self> {
        let mut entries = Vec::new();
        scanner.members(|key, scanner| {
            let key = Text(Cow::Borrowed(key));
            entries.push((key, Raw(scanner.value()?)));
            Some(())
        })?;
        Some(Self(entries))
    }
}

impl<V> Entries<'_, V> {
    /// The value of `key`; the last one where a key is given twice, as the API server has it.
    pub(super) fn get(&self, key: &str) -> Option<&V> {
        let found = self.0.iter().rev().find(|(name, _)| **name == *key);
        found.map(|(_, value)| value)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &V)> {
        self.0.iter().map(|(key, value)| (&**key, value))
    }
}

impl<'de: 'a, 'a, V: Deserialize<'de>> Deserialize<'de> for Entries<'a, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<'a, V>(PhantomData<(&'a (), V)>);

        impl<'de: 'a, 'a, V: Deserialize<'de>> de::Visitor<'de> for Visitor<'a, V> {
            type Value = Entries<'a, V>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(Visitor(PhantomData))
    }
}

/// A struct that decodes from an object only. Derived ones take a list for their fields in order, too, and what is no
/// object is nothing that a patch could add a member to.
pub(super) struct Fields<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Fields<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> de::Visitor<'de> for Visitor<T> {
            type Value = Fields<T>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(de::value::MapAccessDeserializer::new(map)).map(Fields)
            }
        }

        deserializer.deserialize_map(Visitor(PhantomData))
    }
}

pub(super) fn no_text<'a>() -> Text<'a> {
    Text(Cow::Borrowed(""))
}
