//! By when the API server wants an answer: the `timeout` parameter of the query. It must not sleep or read a clock.

use std::time::Duration;

/// What applies when the query names no timeout: the API server's own default for a webhook.
const DEFAULT: Duration = Duration::from_secs(10);
/// The API server takes no longer `timeoutSeconds` than this; nobody else's wish keeps a request here for longer.
const LONGEST: Duration = Duration::from_secs(30);
const SHORTEST_MARGIN: Duration = Duration::from_millis(20);
const LONGEST_MARGIN: Duration = Duration::from_millis(500);

/// How long a verdict may take: the timeout in `query` less a tenth of it (20 to 500 ms), so that our sentence arrives before
/// the API server gives up. An absent, unreadable or zero timeout counts as 10 s, one above 30 s as 30 s.
pub(super) fn allowance(query: Option<&str>) -> Duration {
    let timeout = query
        .into_iter()
        .flat_map(|query| query.split('&'))
        .find_map(|pair| pair.strip_prefix("timeout="))
        .and_then(go_duration)
        .filter(|timeout| !timeout.is_zero())
        .map_or(DEFAULT, |timeout| timeout.min(LONGEST));
    timeout.saturating_sub((timeout / 10).clamp(SHORTEST_MARGIN, LONGEST_MARGIN))
}

/// A duration as Go writes it: `10s`, `1m30s`, `1.5s`, `250ms`.
fn go_duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut seconds = 0.0_f64;
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let value: f64 = rest.get(..number)?.parse().ok()?;
        let tail = rest.get(number..)?;
        let (unit, after) = [
            ("ns", 1e-9),
            ("us", 1e-6),
            ("\u{b5}s", 1e-6),
            ("%C2%B5s", 1e-6),
            ("ms", 1e-3),
            ("s", 1.0),
            ("m", 60.0),
            ("h", 3600.0),
        ]
        .into_iter()
        .find_map(|(name, unit)| Some((unit, tail.strip_prefix(name)?)))?;
        seconds += value * unit;
        rest = after;
    }
    if text.is_empty() {
        return None;
    }
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn go_durations_are_understood() {
        for (text, milliseconds) in [
            ("10s", 10_000),
            ("30s", 30_000),
            ("1m30s", 90_000),
            ("1.5s", 1_500),
            ("250ms", 250),
            ("1h", 3_600_000),
            ("5000us", 5),
            ("0", 0),
        ] {
            assert_eq!(
                go_duration(text),
                Some(Duration::from_millis(milliseconds)),
                "{text}"
            );
        }
        for text in [
            "",
            "10",
            "s",
            "-1s",
            "10 s",
            "1..5s",
            "10x",
            "99999999999999999999h",
        ] {
            assert_eq!(go_duration(text), None, "{text}");
        }
    }

    #[test]
    fn the_answer_leaves_before_the_deadline() {
        assert_eq!(allowance(Some("timeout=10s")), Duration::from_millis(9_500));
        assert_eq!(allowance(Some("timeout=1s")), Duration::from_millis(900));
        assert_eq!(allowance(Some("timeout=50ms")), Duration::from_millis(30));
        assert_eq!(allowance(Some("timeout=10ms")), Duration::ZERO);
        assert_eq!(
            allowance(Some("a=b&timeout=2s")),
            Duration::from_millis(1_800)
        );
    }

    #[test]
    fn without_a_sensible_timeout_the_defaults_hold() {
        for query in [
            None,
            Some(""),
            Some("timeout="),
            Some("timeout=soon"),
            Some("timeout=0s"),
        ] {
            assert_eq!(allowance(query), Duration::from_millis(9_500), "{query:?}");
        }
        assert_eq!(allowance(Some("timeout=1h")), Duration::from_millis(29_500));
    }

    proptest! {
        #[test]
        fn no_query_breaks_it(query in ".{0,64}") {
            let query = format!("timeout={query}");
            prop_assert!(allowance(Some(&query)) <= LONGEST);
        }
    }
}
