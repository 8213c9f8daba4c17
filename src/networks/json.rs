//! JSON that users write into text fields: where it is wrong, and the same JSON with another layout. Strings, numbers
//! and the order of keys stay as they were written.

use serde_json::{Value, value::RawValue};

use crate::scan::Scanner;

/// How deep the JSON of a field may be nested. CNI plugins need a handful of levels; each costs a longer indentation of
/// every line within.
const DEEPEST: usize = 64;
/// How long a whole configuration may be, in bytes: the API server stores no object that is much larger.
pub(super) const LONGEST: usize = 1024 * 1024;

/// Why a text is not the JSON that it has to be, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {reason}")]
pub(super) struct Error {
    line: usize,
    /// In characters, from 1.
    column: usize,
    reason: String,
}

impl Error {
    /// At a place given in bytes; one inside a character is that character's.
    fn at(text: &str, mut offset: usize, reason: impl Into<String>) -> Self {
        offset = offset.min(text.len());
        while !text.is_char_boundary(offset) {
            offset -= 1;
        }
        let before = text.get(..offset).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let in_line = before.get(line_start..).unwrap_or_default();
        Self {
            line: before.matches('\n').count() + 1,
            column: in_line.chars().count() + 1,
            reason: reason.into(),
        }
    }
}

/// Whether a text holds nothing but white space.
pub(super) fn is_blank(text: &str) -> bool {
    text.chars().all(is_space)
}

/// The one object that a text holds.
///
/// # Errors
/// Where it is no JSON, no object, or followed by something.
pub(super) fn object(text: &str) -> Result<&RawValue, Error> {
    let (object, end) = object_at(text, 0)?;
    let rest = skip_spaces(text, end);
    if rest < text.len() {
        return Err(Error::at(text, rest, "nothing may follow the object"));
    }
    Ok(object)
}

/// The objects of a text, which are separated by commas, each with its place in bytes.
///
/// # Errors
/// Where it is no JSON, or something else than objects and commas.
pub(super) fn objects(text: &str) -> Result<Vec<(usize, &RawValue)>, Error> {
    let mut objects = Vec::new();
    let mut at = 0;
    loop {
        let start = skip_spaces(text, at);
        let (object, end) = object_at(text, start)?;
        objects.push((start, object));
        let comma = skip_spaces(text, end);
        match text.as_bytes().get(comma) {
            None => return Ok(objects),
            Some(b',') => at = comma + 1,
            Some(_) => {
                let reason = "expected a comma before the next object, or the end";
                return Err(Error::at(text, comma, reason));
            }
        }
    }
}

/// A plugin's configuration has to say which plugin it is for: what is wrong with the `type` of an object that stands
/// at that place of a text.
pub(super) fn check_type(text: &str, at: usize, object: &RawValue) -> Result<(), Error> {
    #[derive(serde::Deserialize)]
    struct Typed {
        #[serde(rename = "type")]
        type_: Option<Value>,
    }
    let typed: Typed = serde_json::from_str(object.get())
        .map_err(|error| Error::at(text, at + offset(object.get(), &error), reason(&error)))?;
    match typed.type_ {
        Some(Value::String(name)) if !name.is_empty() => Ok(()),
        Some(_) => Err(Error::at(
            text,
            at,
            "the plugin's \"type\" must be a text that is not empty",
        )),
        None => Err(Error::at(text, at, "the plugin has no \"type\"")),
    }
}

/// The object that begins at `from`, spaces aside, and where it ends.
fn object_at(text: &str, from: usize) -> Result<(&RawValue, usize), Error> {
    let start = skip_spaces(text, from);
    let rest = text.get(start..).unwrap_or_default();
    if rest.is_empty() {
        return Err(Error::at(text, start, "expected an object, found the end"));
    }
    if !rest.starts_with('{') {
        let reason = "expected an object, which begins with '{'";
        return Err(Error::at(text, start, reason));
    }
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<&RawValue>();
    match values.next() {
        Some(Ok(value)) => {
            if let Some((at, reason)) = excess(value.get()) {
                return Err(Error::at(text, start + at, reason));
            }
            Ok((value, start + values.byte_offset()))
        }
        Some(Err(error)) => Err(Error::at(
            text,
            start + offset(rest, &error),
            reason(&error),
        )),
        None => Err(Error::at(text, start, "expected an object, found the end")),
    }
}

/// Where JSON is nested deeper than anybody reads, or has a number that nobody can hold: the place in bytes, and what is
/// wrong there.
fn excess(json: &str) -> Option<(usize, String)> {
    let bytes = json.as_bytes();
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'{' | b'[' if depth == DEEPEST => {
                return Some((at, format!("nested deeper than {DEEPEST} levels")));
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' | b'-' | b'0'..=b'9' => {
                let token = Scanner::new(json.get(at..)?).value()?;
                if token.parse().is_ok_and(f64::is_infinite) {
                    return Some((at, "number out of range".to_owned()));
                }
                at += token.len();
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// What an error says, without the place, which it only knows relative to where parsing began.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((reason, _)) => reason.to_owned(),
        None => text,
    }
}

/// Where in `text` an error is, in bytes.
fn offset(text: &str, error: &serde_json::Error) -> usize {
    let line_start = match error.line().saturating_sub(1) {
        0 => 0,
        newlines => text
            .match_indices('\n')
            .nth(newlines - 1)
            .map_or(text.len(), |(at, _)| at + 1),
    };
    line_start + error.column().saturating_sub(1)
}

fn skip_spaces(text: &str, from: usize) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    from + (rest.len() - rest.trim_start_matches(is_space).len())
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

/// The same JSON with one item a line, indented by four spaces a level, a blank after each colon; what is empty stays on
/// one line. `json` must be JSON. Nothing, if that is longer than [`LONGEST`].
pub(super) fn indented(json: &str) -> Option<String> {
    let mut out = String::with_capacity(json.len().min(LONGEST) * 2);
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut escaped = false;
    // A bracket was opened and nothing has followed yet.
    let mut opened = false;
    for c in json.chars() {
        if out.len() > LONGEST {
            return None;
        }
        if in_string {
            out.push(c);
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
            continue;
        }
        match c {
            c if is_space(c) => {}
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                if !std::mem::take(&mut opened) {
                    new_line(&mut out, depth);
                }
                out.push(c);
            }
            ',' => {
                out.push(c);
                new_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c => {
                if std::mem::take(&mut opened) {
                    new_line(&mut out, depth);
                }
                out.push(c);
                in_string = c == '"';
                if matches!(c, '{' | '[') {
                    depth += 1;
                    opened = true;
                }
            }
        }
    }
    Some(out)
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("    ", depth));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn fault(result: Result<impl std::fmt::Debug, Error>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn faults_say_where() {
        for (text, expected) in [
            ("", "line 1, column 1: expected an object, found the end"),
            (
                " \n ",
                "line 2, column 2: expected an object, found the end",
            ),
            (
                "[]",
                "line 1, column 1: expected an object, which begins with '{'",
            ),
            (
                "foo",
                "line 1, column 1: expected an object, which begins with '{'",
            ),
            ("{", "line 1, column 1: EOF while parsing an object"),
            ("{\"a\": 1,}", "line 1, column 9: key must be a string"),
            ("{\n  \"ä\": x}", "line 2, column 8: expected value"),
            (
                "{\"a\": [1e308, -1e999]}",
                "line 1, column 15: number out of range",
            ),
            ("{} {}", "line 1, column 4: nothing may follow the object"),
            ("{}, ", "line 1, column 3: nothing may follow the object"),
        ] {
            assert_eq!(fault(object(text)), expected, "{text:?}");
        }
        for (text, expected) in [
            (
                "{\"type\":\"a\"},",
                "line 1, column 14: expected an object, found the end",
            ),
            (
                "[{}]",
                "line 1, column 1: expected an object, which begins with '{'",
            ),
            (
                "{} {}",
                "line 1, column 4: expected a comma before the next object, or the end",
            ),
            ("{},\n {\"a\" 1}", "line 2, column 7: expected `:`"),
        ] {
            assert_eq!(fault(objects(text)), expected, "{text:?}");
        }
    }

    #[test]
    fn a_plugin_says_which_it_is() {
        let checked = |text: &str| {
            objects(text)?
                .into_iter()
                .try_for_each(|(at, object)| check_type(text, at, object))
        };
        assert_eq!(
            checked(r#"{"type":"a","x":{"type":""}} , {"type":"b"}"#),
            Ok(())
        );
        for (text, expected) in [
            ("{}", "line 1, column 1: the plugin has no \"type\""),
            (
                "{\"type\":\"a\"},\n{\"type\": \"\"}",
                "line 2, column 1: the plugin's \"type\" must be a text that is not empty",
            ),
            (
                "{\"type\": 5}",
                "line 1, column 1: the plugin's \"type\" must be a text that is not empty",
            ),
        ] {
            assert_eq!(fault(checked(text)), expected);
        }
    }

    #[test]
    fn the_layout_is_that_of_the_reference() {
        let text = r#" {"a":[1.50,{"b":{ },"c":[ ]}] ,"d\"{":"x: [,]\\","e":null}"#;
        let expected = "{\n    \"a\": [\n        1.50,\n        {\n            \"b\": {},\n            \"c\": []\n        \
                        }\n    ],\n    \"d\\\"{\": \"x: [,]\\\\\",\n    \"e\": null\n}";
        assert_eq!(indented(text).as_deref(), Some(expected));
    }

    #[test]
    fn what_is_nested_too_deep_has_a_place() {
        let nested = |levels: usize| format!("{}1{}", "{\"[\":".repeat(levels), "}".repeat(levels));
        assert!(object(&nested(DEEPEST)).is_ok());
        let reason = fault(object(&format!(" {}", nested(DEEPEST + 1))));
        let column = 2 + DEEPEST * "{\"[\":".len();
        assert_eq!(
            reason,
            format!("line 1, column {column}: nested deeper than 64 levels")
        );
        assert!(fault(objects(&nested(100_000))).ends_with("nested deeper than 64 levels"));
    }

    #[test]
    fn what_nobody_could_store_is_not_laid_out() {
        let items = format!("[{}1]", "1,".repeat(LONGEST / 4));
        assert_eq!(indented(&items), None);
        let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(indented(&deep), None);
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".*".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map(".*", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn layout_changes_nothing_else(value in values()) {
            let text = value.to_string();
            let laid_out = indented(&text).unwrap();
            prop_assert_eq!(serde_json::from_str::<Value>(&laid_out).unwrap(), value);
            prop_assert_eq!(indented(&laid_out), Some(laid_out));
        }

        #[test]
        fn any_text_has_an_answer(text in ".*") {
            let _ = (object(&text), objects(&text));
        }

        #[test]
        fn any_broken_object_has_a_place_in_it(value in values(), cut in 0_usize..200) {
            let text = json!({ "a": value }).to_string();
            let cut = text.char_indices().map(|(at, _)| at).nth(cut).unwrap_or(0);
            let text = text.get(..cut).unwrap();
            let Err(error) = object(text) else { panic!("{text} is no object") };
            prop_assert!(error.line >= 1 && error.column >= 1 && error.column <= text.chars().count() + 1);
        }
    }
}
