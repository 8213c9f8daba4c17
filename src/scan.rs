//! Finds parts of a JSON text without reading the rest of it: most of a review is of no interest to whoever answers it.
//!
//! What is skipped is only followed to its end, by quotes and brackets. Whether it is JSON is for those to find out who
//! decode a part that they use. Nothing here decodes, and nothing copies.

mod blocks;

use blocks::nested_length;

/// Bytes that are looked at together.
const WORD: usize = 8;
/// So many words of a string are looked at one by one.
const SHORT_WORDS: usize = 4;
const LOW_BITS: u64 = u64::MAX / 0xff;
const QUOTES: u64 = LOW_BITS * b'"' as u64;
const BACKSLASHES: u64 = LOW_BITS * b'\\' as u64;

/// A place in a text. Each method returns nothing where the text is not what it asks for, and then the place means nothing
/// any more.
#[derive(Debug, Clone)]
pub struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    /// The beginning of `text`.
    pub fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// Goes through the members of an object. `member` is called with each key at the place of its value, which it has to
    /// pass by [`value`](Self::value) or `members`, and ends the walk when it returns nothing. A key with escapes, which
    /// nobody needs to write, ends it too.
    pub fn members(
        &mut self,
        mut member: impl FnMut(&'a str, &mut Self) -> Option<()>,
    ) -> Option<()> {
        self.expect(b'{')?;
        if self.peek()? == b'}' {
            return self.expect(b'}');
        }
        loop {
            self.expect(b'"')?;
            let start = self.at;
            let has_escapes = self.pass_string()?;
            if has_escapes {
                return None;
            }
            let key = self.text.get(start..self.at - 1)?;
            self.expect(b':')?;
            member(key, self)?;
            match self.next()? {
                b',' => {}
                b'}' => return Some(()),
                _ => return None,
            }
        }
    }

    /// Goes through the elements of a list, and calls `element` at the place of each, which it has to pass.
    pub fn elements(&mut self, mut element: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.expect(b'[')?;
        if self.peek()? == b']' {
            return self.expect(b']');
        }
        loop {
            element(self)?;
            match self.next()? {
                b',' => {}
                b']' => return Some(()),
                _ => return None,
            }
        }
    }

    /// Passes a value. Returns its text.
    pub fn value(&mut self) -> Option<&'a str> {
        let first = self.peek()?;
        let start = self.at;
        match first {
            b'"' => {
                self.at += 1;
                self.pass_string()?;
            }
            b'{' | b'[' => self.at += nested_length(self.text.as_bytes().get(start..)?)?,
            _ => {
                let rest = self.text.as_bytes().get(start..)?;
                let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
                let length = rest.iter().take_while(|byte| is_part(byte)).count();
                if length == 0 {
                    return None;
                }
                self.at += length;
            }
        }
        self.text.get(start..self.at)
    }

    /// Passes a value that is null. Returns whether it did.
    pub fn passes_null(&mut self) -> bool {
        self.peek() == Some(b'n') && self.value() == Some("null")
    }

    /// Whether nothing but white space follows.
    pub fn is_at_end(&mut self) -> bool {
        self.peek().is_none()
    }

    /// From inside a string to behind its closing quote. Returns whether it has escapes.
    fn pass_string(&mut self) -> Option<bool> {
        let bytes = self.text.as_bytes();
        let mut has_escapes = false;
        loop {
            self.at += plain(bytes.get(self.at..)?)?;
            if *bytes.get(self.at)? == b'"' {
                self.at += 1;
                return Some(has_escapes);
            }
            // Whatever is escaped, it is no end.
            self.at += 2;
            has_escapes = true;
        }
    }

    /// The next byte that is no white space, which stays.
    fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = *self.text.as_bytes().get(self.at)?;
            if !is_space(byte) {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then_some(())
    }
}

/// Takes the value of a member. Nothing when there is one already: what is given twice is odd.
pub fn once<T>(slot: &mut Option<T>, value: T) -> Option<()> {
    slot.replace(value).is_none().then_some(())
}

/// How many bytes come before the first quote or backslash, if there is one.
fn plain(bytes: &[u8]) -> Option<usize> {
    // Most texts are too short for a search that is made for long ones to pay.
    let (words, _) = bytes.as_chunks::<WORD>();
    for (index, word) in words.iter().take(SHORT_WORDS).enumerate() {
        let word = u64::from_le_bytes(*word);
        let found = zeros(word ^ QUOTES) | zeros(word ^ BACKSLASHES);
        if found != 0 {
            return Some(index * WORD + found.trailing_zeros() as usize / 8);
        }
    }
    let passed = words.len().min(SHORT_WORDS) * WORD;
    let found = memchr::memchr2(b'"', b'\\', bytes.get(passed..)?)?;
    Some(passed + found)
}

/// The highest bit of the first byte that is zero, and of no byte before it.
const fn zeros(word: u64) -> u64 {
    word.wrapping_sub(LOW_BITS) & !word & (LOW_BITS << 7)
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    /// Keys and texts of the members.
    fn members(text: &str) -> Option<Vec<(&str, &str)>> {
        let mut members = Vec::new();
        let mut scanner = Scanner::new(text);
        scanner.members(|key, scanner| {
            members.push((key, scanner.value()?));
            Some(())
        })?;
        scanner.is_at_end().then_some(members)
    }

    #[test]
    fn members_are_found_whatever_they_are() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        for value in [
            "1",
            "-1.5e300",
            "null",
            "\"\"",
            r#""a\"}\\""#,
            r#"{"a":"]","b":[{}]}"#,
            "[]",
            "[ 1 , {} ]",
            "\"é\u{1f600}\"",
            &deep,
        ] {
            let text = format!("\t{{ \"a\" : {value} ,\"b\":{value}\n}} ");
            assert_eq!(members(&text), Some(vec![("a", value), ("b", value)]));
        }
        assert_eq!(members(" { } "), Some(vec![]));
    }

    #[test]
    fn objects_in_objects_need_no_second_look() {
        let mut found = None;
        let walked = Scanner::new(r#"{"a":{"b":[1],"c":2},"d":3}"#).members(|key, scanner| {
            if key == "a" {
                return scanner.members(|key, scanner| {
                    let value = scanner.value()?;
                    found = (key == "b").then_some(value).or(found);
                    Some(())
                });
            }
            scanner.value().map(drop)
        });
        assert_eq!((walked, found), (Some(()), Some("[1]")));
    }

    #[test]
    fn lists_have_elements() {
        for (text, elements) in [
            ("[]", Some(vec![])),
            (" [ ] ", Some(vec![])),
            ("[1,{},\"],\"]", Some(vec!["1", "{}", "\"],\""])),
            ("[ [1] , null ]", Some(vec!["[1]", "null"])),
            ("[1,]", None),
            ("[1 2]", None),
            ("[1", None),
            ("{}", None),
            ("", None),
        ] {
            let mut found = Vec::new();
            let walked = Scanner::new(text).elements(|scanner| {
                found.push(scanner.value()?);
                Some(())
            });
            assert_eq!(walked.map(|()| found), elements, "{text}");
        }
    }

    #[test]
    fn what_is_no_object_has_no_members() {
        for text in [
            "",
            "5",
            "[]",
            "null",
            "{",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":1",
            "{\"a\":1,",
            "{\"a\":1,}",
            "{\"a\" 1}",
            "{\"a\":}",
            "{\"a\":[}",
            "{\"a\":\"}",
            "{\"a\":\"\\",
            "{a:1}",
            "{\"a\":1;\"b\":2}",
            "{\"\\u0061\":1}",
            "{} x",
        ] {
            assert_eq!(members(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_passed_or_refused(text in any::<String>(), odd in r#"[{}\[\]",:\\a1 ]{0,40}"#) {
            for text in [text, odd] {
                let _ = members(&text);
            }
        }

        #[test]
        fn parts_are_what_a_decoder_finds(
            keys in prop::collection::btree_set("[a-zé \"]{0,6}", 0..6),
            texts in prop::collection::vec(any::<String>(), 6),
            pretty in any::<bool>(),
        ) {
            let value = |text: &String| serde_json::json!([text, {text.as_str(): [text, 1.5, null]}]);
            let object: serde_json::Map<String, Value> =
                keys.iter().cloned().zip(texts.iter().map(value)).collect();
            let whole = Value::Object(object.clone());
            let text = if pretty { format!("{whole:#}") } else { whole.to_string() };
            let found = members(&text);
            if keys.iter().any(|key| key.contains('"')) {
                prop_assert_eq!(found, None);
                return Ok(());
            }
            let found: serde_json::Map<String, Value> = found
                .unwrap()
                .into_iter()
                .map(|(key, text)| (key.to_owned(), serde_json::from_str(text).unwrap()))
                .collect();
            prop_assert_eq!(found, object);
        }
    }
}
