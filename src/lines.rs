//! What reaches a log or a terminal, on one line: errors with what they came of, and text whose characters steer nothing.
//!
//! It decides wording alone: what is told, and to whom, is the caller's affair.

use std::{borrow::Cow, error::Error};

/// An error and what it came of, as `a: b: c`. What an error says already is not repeated by its causes: some print their
/// source, others hide it, and the client for the API server does both.
pub fn causes(error: &(dyn Error + 'static)) -> String {
    let mut told = one_line(&error.to_string());
    let mut next = error.source();
    while let Some(cause) = next {
        let text = one_line(&cause.to_string());
        let text = format!(": {text}");
        if !format!(": {told}").contains(&text) {
            told.push_str(&text);
        }
        next = cause.source();
    }
    told
}

/// What the API server said, or why it could not be asked.
pub fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => one_line(&status.message),
        other => causes(other),
    }
}

/// A text with every control character escaped, as `\n` or `\u{1b}`: it neither ends a line nor steers a terminal.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return text.into();
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if character.is_control() {
            escaped.extend(character.escape_default());
        } else {
            escaped.push(character);
        }
    }
    escaped.into()
}

/// A text with each run of white space as one blank.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::io;

    use kube::{Client, Config, runtime::watcher};

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Link {
        text: &'static str,
        source: Option<Box<Link>>,
    }

    fn chain(texts: &[&'static str]) -> Link {
        let mut texts = texts.iter().rev();
        let last = Link {
            text: texts.next().unwrap(),
            source: None,
        };
        texts.fold(last, |inner, text| Link {
            text,
            source: Some(Box::new(inner)),
        })
    }

    #[test]
    fn an_error_is_told_with_what_it_came_of_once_and_on_one_line() {
        for (texts, expected) in [
            (&["a"][..], "a"),
            (&["a", "b", "c"], "a: b: c"),
            (&["watch failed: b", "b", "c"], "watch failed: b: c"),
            (&["a", "b\n  and more"], "a: b and more"),
        ] {
            assert_eq!(causes(&chain(texts)), expected);
        }
    }

    #[tokio::test]
    async fn a_server_out_of_reach_is_told_with_the_reason() {
        // Fails only when another test was first.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let mut config = Config::new("http://127.0.0.1:1".parse().unwrap());
        config.default_retry = false;
        let client = Client::try_from(config).unwrap();
        let error = client.apiserver_version().await.unwrap_err();
        let why = io::Error::from_raw_os_error(111).to_string();
        assert!(!error.to_string().contains(&why), "{error}");
        assert!(said(&error).ends_with(&why), "{}", said(&error));
        let watch = causes(&watcher::Error::InitialListFailed(error));
        assert!(watch.ends_with(&why), "{watch}");
        assert_eq!(watch.matches("client error (Connect)").count(), 1);
    }

    #[test]
    fn of_an_answer_only_the_message_is_told() {
        let status = kube::core::Status::failure("no room\nleft", "Full");
        let error = kube::Error::Api(Box::new(status));
        assert_eq!(said(&error), "no room left");
    }

    #[test]
    fn text_steers_no_terminal() {
        for (text, expected) in [
            ("plain, größer", "plain, größer"),
            ("a\nb\tc", "a\\nb\\tc"),
            ("\u{1b}[31mred", "\\u{1b}[31mred"),
            ("\u{9b}2J\u{7f}", "\\u{9b}2J\\u{7f}"),
        ] {
            assert_eq!(escaped(text), expected);
        }
    }
}
