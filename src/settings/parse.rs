//! The small languages that settings are written in: booleans, durations, bind addresses, names, lists.
//!
//! Each function turns text into a value or `None`; the caller names the setting and what is legal.
//! Nothing here knows a setting.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use serde::Serialize;

/// Where a listener binds.
///
/// Written `:6443` (all addresses of both families), `127.0.0.1:6443` or `[::1]:6443`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindAddress {
    /// `None` means all addresses of both families.
    pub host: Option<IpAddr>,
    /// The TCP port; `0` lets the kernel choose one.
    pub port: u16,
}

impl BindAddress {
    /// The address to bind, and the one to fall back to where the kernel has no IPv6.
    ///
    /// All addresses are bound as `[::]`, which takes both families when the socket is not IPv6-only.
    pub fn socket_addresses(self) -> (SocketAddr, Option<SocketAddr>) {
        match self.host {
            Some(host) => (SocketAddr::new(host, self.port), None),
            None => (
                SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), self.port),
                Some(SocketAddr::new([0, 0, 0, 0].into(), self.port)),
            ),
        }
    }
}

impl fmt::Display for BindAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host {
            Some(host) => SocketAddr::new(host, self.port).fmt(f),
            None => write!(f, ":{}", self.port),
        }
    }
}

/// A port of a `NetworkPolicy`: a number from 1 to 65535 or a port's name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum PolicyPort {
    /// A port number.
    Number(u16),
    /// An IANA service name, as containers name their ports.
    Name(String),
}

/// `true` or `false` in any letter case; an empty text is `false`.
pub(super) fn boolean(text: &str) -> Option<bool> {
    if text.is_empty() || text.eq_ignore_ascii_case("false") {
        Some(false)
    } else if text.eq_ignore_ascii_case("true") {
        Some(true)
    } else {
        None
    }
}

/// `90s`, `5m`, `1h30m`, `3650d`, `250ms`; a bare `0` is zero.
pub fn duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .filter(|&at| at > 0)?;
        let (number, tail) = rest.split_at(digits);
        let number: u64 = number.parse().ok()?;
        let unit_end = tail
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let milliseconds = number.checked_mul(match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        })?;
        total = total.checked_add(Duration::from_millis(milliseconds))?;
        rest = tail;
    }
    // A century and more is a typing error, and dates computed from it leave the calendar.
    (!text.is_empty() && total <= Duration::from_secs(200 * 366 * 86_400)).then_some(total)
}

/// A duration that is not zero.
pub(super) fn positive_duration(text: &str) -> Option<Duration> {
    duration(text).filter(|d| !d.is_zero())
}

/// Writes a duration in the form that [`duration`] reads.
pub fn format_duration(duration: Duration) -> String {
    let mut rest = duration.as_millis();
    if rest == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    for (unit, size) in [
        ("h", 3_600_000),
        ("m", 60_000),
        ("s", 1_000),
        ("ms", 1_u128),
    ] {
        let count = rest / size;
        rest %= size;
        if count > 0 {
            text.push_str(&count.to_string());
            text.push_str(unit);
        }
    }
    text
}

/// A bind address with a port.
pub(super) fn bind_address(text: &str) -> Option<BindAddress> {
    if let Some(port) = text.strip_prefix(':') {
        return Some(BindAddress {
            host: None,
            port: number(port)?,
        });
    }
    let address: SocketAddr = text.parse().ok()?;
    Some(BindAddress {
        host: Some(address.ip()),
        port: address.port(),
    })
}

/// A bind address whose port others must know, so that it cannot be left to the kernel.
pub(super) fn fixed_bind_address(text: &str) -> Option<BindAddress> {
    bind_address(text).filter(|address| address.port != 0)
}

/// Digits only: Rust's own parser would take a leading `+`.
fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.bytes()
        .all(|b| b.is_ascii_digit())
        .then(|| text.parse().ok())
        .flatten()
}

/// A TCP port from 1 to 65535.
pub(super) fn port(text: &str) -> Option<u16> {
    number(text).filter(|&port| port != 0)
}

/// A whole number of minutes, `0` included.
pub(super) fn minutes(text: &str) -> Option<Duration> {
    let minutes: u32 = number(text)?;
    Some(Duration::from_secs(u64::from(minutes) * 60))
}

/// A port number or a port name (at most 15 of `[a-z0-9-]`, with a letter, no hyphen at an end or doubled).
pub(super) fn policy_port(text: &str) -> Option<PolicyPort> {
    if text.bytes().all(|b| b.is_ascii_digit()) {
        return port(text).map(PolicyPort::Number);
    }
    let legal = text.len() <= 15
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && text.bytes().any(|b| b.is_ascii_lowercase())
        && !text.starts_with('-')
        && !text.ends_with('-')
        && !text.contains("--");
    legal.then(|| PolicyPort::Name(text.to_owned()))
}

/// A DNS-1123 label, as namespaces are named.
pub(super) fn dns_label(text: &str) -> Option<String> {
    is_dns_label(text).then(|| text.to_owned())
}

fn is_dns_label(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 63
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// A DNS-1123 subdomain, as Secrets and most other objects are named.
pub(super) fn dns_subdomain(text: &str) -> Option<String> {
    (text.len() <= 253 && text.split('.').all(is_dns_label)).then(|| text.to_owned())
}

/// An absolute path, as `hostPath` needs it.
pub(super) fn absolute_path(text: &str) -> Option<String> {
    (text.starts_with('/') && !text.split('/').any(|part| part == "..")).then(|| text.to_owned())
}

/// Items between commas: trimmed, blanks dropped, the first of equals kept, order kept.
pub(super) fn list(text: &str) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    for item in text.split(',').map(str::trim).filter(|i| !i.is_empty()) {
        if !items.iter().any(|known| known == item) {
            items.push(item.to_owned());
        }
    }
    items
}

/// A list each of whose items is legal.
pub(super) fn list_of<T>(text: &str, item: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
    list(text).iter().map(|text| item(text)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations() {
        for (text, seconds) in [
            ("90s", 90),
            ("5m", 300),
            ("1h30m", 5_400),
            ("3650d", 315_360_000),
            ("1d12h", 129_600),
            ("0", 0),
            ("0s", 0),
        ] {
            assert_eq!(duration(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!(duration("250ms"), Some(Duration::from_millis(250)));
        for text in [
            "",
            "5",
            "s",
            "-5s",
            "5 s",
            "1.5h",
            "5S",
            "5y",
            "1h30",
            "99999999999999999999s",
            "99999999d",
            "1µs",
        ] {
            assert_eq!(duration(text), None, "{text}");
        }
        assert_eq!(positive_duration("0s"), None);
    }

    proptest! {
        #[test]
        fn a_written_duration_reads_back(milliseconds in 0_u64..6_000_000_000_000) {
            let duration_ = Duration::from_millis(milliseconds);
            prop_assert_eq!(duration(&format_duration(duration_)), Some(duration_));
        }

        #[test]
        fn no_text_makes_a_parser_panic(text in any::<String>()) {
            let _ = (duration(&text), bind_address(&text), policy_port(&text), minutes(&text));
            let _ = (dns_subdomain(&text), absolute_path(&text), list(&text), port(&text));
        }
    }

    #[test]
    fn bind_addresses() {
        let all = bind_address(":6443").unwrap();
        assert_eq!((all.host, all.port), (None, 6443));
        assert_eq!(all.to_string(), ":6443");
        let (first, fallback) = all.socket_addresses();
        assert_eq!(first.to_string(), "[::]:6443");
        assert_eq!(fallback.unwrap().to_string(), "0.0.0.0:6443");
        for text in ["127.0.0.1:8080", "[::1]:8080", "0.0.0.0:1"] {
            assert_eq!(bind_address(text).unwrap().to_string(), text);
        }
        for text in [
            "",
            "6443",
            "localhost:6443",
            ":",
            ":65536",
            ":+1",
            ":-1",
            "::1:6443",
        ] {
            assert_eq!(bind_address(text), None, "{text}");
        }
        assert_eq!(fixed_bind_address(":0"), None);
    }

    #[test]
    fn booleans_ports_and_lists() {
        assert_eq!(boolean("TRUE"), Some(true));
        assert_eq!(boolean("False"), Some(false));
        assert_eq!(boolean(""), Some(false));
        assert_eq!(boolean("1"), None);
        assert_eq!(policy_port("6443"), Some(PolicyPort::Number(6443)));
        assert_eq!(
            policy_port("https-api"),
            Some(PolicyPort::Name("https-api".into()))
        );
        for text in ["0", "65536", "Https", "a--b", "-a", "1-2", "a_b", ""] {
            assert_eq!(policy_port(text), None, "{text}");
        }
        assert_eq!(list(" a, ,b,a,"), ["a", "b"]);
        assert_eq!(list_of("a,B", dns_label), None);
        assert_eq!(absolute_path("/opt/../etc"), None);
        assert_eq!(dns_subdomain("a.b-c"), Some("a.b-c".into()));
        assert_eq!(dns_subdomain("a..b"), None);
    }
}
