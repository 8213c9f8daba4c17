//! Which selections are read, and as what.

use proptest::prelude::*;

use super::*;

/// The attachments as `namespace/name` or `name`.
fn names(text: &str) -> Vec<String> {
    let selections = parse(text).unwrap_or_else(|faults| panic!("{text}: {faults:?}"));
    let networks = selections.networks.into_iter();
    networks
        .map(|selected| match selected.namespace {
            Some(namespace) => format!("{namespace}/{}", selected.name),
            None => selected.name,
        })
        .collect()
}

/// The faults as one line.
fn faults(text: &str) -> String {
    let faults = parse(text).expect_err(text);
    let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
    lines.join("; ")
}

#[test]
fn lists() {
    for (text, networks) in [
        ("", vec![]),
        ("foo", vec!["foo"]),
        (" foo , bar ", vec!["foo", "bar"]),
        ("foo,foo", vec!["foo", "foo"]),
        ("ns1/net1@eth0", vec!["ns1/net1"]),
        ("net1@eth0", vec!["net1"]),
        ("ns1/net1,net2", vec!["ns1/net1", "net2"]),
        ("/net1@", vec!["net1"]),
        // As Multus has it: without brackets, braces and quotes this is a name.
        ("null", vec!["null"]),
    ] {
        assert_eq!(names(text), networks, "{text}");
    }
}

#[test]
fn blank_elements_are_counted() {
    for (text, networks, blanks) in [
        ("", 0, 0),
        (" ", 0, 1),
        ("foo,", 1, 1),
        (",foo", 1, 1),
        ("foo,\t,,bar", 2, 2),
        (",", 0, 2),
        ("[]", 0, 0),
    ] {
        let selections = parse(text).unwrap();
        assert_eq!(
            (selections.networks.len(), selections.blanks),
            (networks, blanks),
            "{text}"
        );
    }
}

#[test]
fn malformed_elements_are_named_with_their_reason() {
    for (text, fault) in [
        ("a/b/c", "element 1 \"a/b/c\": more than one '/'"),
        ("foo,a@b@c", "element 2 \"a@b@c\": more than one '@'"),
        ("Net_A", "name \"Net_A\" is not a DNS-1123 label"),
        ("a.b", "name \"a.b\" is not"),
        ("Ns/a", "namespace \"Ns\" is not"),
        ("a@b/c", "namespace \"a@b\" is not"),
        ("ns / a", "namespace \"ns \" is not"),
        ("ns/", "has no name"),
        ("@eth0", "has no name"),
        ("foo@0123456789abcdef", "interface \"0123456789abcdef\""),
        ("foo@..", "interface \"..\""),
        ("foo@a:1", "interface \"a:1\""),
        ("foo@a b", "interface \"a b\""),
    ] {
        let found = faults(text);
        assert!(found.contains(fault), "{text}: {found}");
    }
    assert_eq!(faults("A,b,C").matches("element").count(), 2);
    assert!(faults(&"a".repeat(64)).contains("not a DNS-1123 label"));
}

#[test]
fn interface_names_are_what_linux_takes() {
    for interface in ["net1.100", "Net1", "0123456789abcde", "a_b", "é", "..."] {
        assert_eq!(names(&format!("foo@{interface}")), ["foo"], "{interface}");
        assert_eq!(
            names(&format!(r#"[{{"name":"foo","interface":"{interface}"}}]"#)),
            ["foo"]
        );
    }
}

#[test]
fn json() {
    for (text, networks) in [
        ("[]", vec![]),
        (r#"[{"name":"foo"}]"#, vec!["foo"]),
        (
            "[\n {\"name\": \"foo\"},\n {\"name\": \"foo\"}\n]",
            vec!["foo", "foo"],
        ),
        (r#"[{"name":"foo","namespace":"ns"}]"#, vec!["ns/foo"]),
        (r#"[{"NAME":"foo","nameSpace":"ns"}]"#, vec!["ns/foo"]),
        (
            r#"[{"name":"foo","namespace":"","interface":""}]"#,
            vec!["foo"],
        ),
        (
            r#"[{"name":"foo","namespace":null,"mac":null,"ips":null,"bandwidth":null}]"#,
            vec!["foo"],
        ),
        (r#"[{"name":"bar","Name":"foo","name":null}]"#, vec!["foo"]),
        (r#"[{"name":"\u0066oo"}]"#, vec!["foo"]),
        (r#"[{"name":"foo","unknown":{"a":[1,{}]}}]"#, vec!["foo"]),
    ] {
        assert_eq!(names(text), networks, "{text}");
    }
}

/// Fields that Multus knows, each with legal and illegal values.
const KNOWN_FIELDS: &[(&str, &[&str], &[&str])] = &[
    (
        "namespace",
        &["\"\"", "null"],
        &["5", "{}", r#""../b""#, r#""A""#],
    ),
    ("interface", &[r#""a""#], &["5", r#""a/b""#]),
    ("interfaceRequest", &[r#""x""#], &["5", r#""a b""#]),
    (
        "mac",
        &[
            r#""""#,
            r#""02:00:00:00:00:01""#,
            r#""02-00-00-00-00-01""#,
            r#""0200.0000.0001""#,
        ],
        &[
            "1",
            r#""02:00:00:00:00""#,
            r#""02:00:00:00:00:0g""#,
            r#""2:0:0:0:0:1""#,
            r#""020000000001""#,
            r#""02:00-00:00:00:01""#,
        ],
    ),
    (
        "infiniband-guid",
        &[r#""c2:11:22:33:44:55:66:77""#],
        &[
            "1",
            r#""c2:11:22:33:44:55:66:7z""#,
            r#""c2:11:22:33:44:55""#,
        ],
    ),
    (
        "ips",
        &[
            "[]",
            r#"["10.1.1.1/24"]"#,
            r#"["10.1.1.1","2001:db8::1/64","fe80::1"]"#,
        ],
        &[
            r#""10.1.1.1""#,
            "[5]",
            r#"["10.1.1"]"#,
            r#"["10.1.1.1/33"]"#,
            r#"["::1/129"]"#,
            r#"["10.1.1.1/+1"]"#,
            r#"["10.1.1.1/"]"#,
            r#"[""]"#,
        ],
    ),
    (
        "default-route",
        &[r#"["10.1.1.1"]"#],
        &["{}", r#"["10.1.1.0/24"]"#, r#"["x"]"#],
    ),
    ("deviceID", &[r#""0000:18:02.5""#], &["7"]),
    (
        "portMappings",
        &[
            "[]",
            "[null]",
            r#"[{"hostPort":80,"ContainerPort":8080,"protocol":"tcp","hostIP":null,"x":{}}]"#,
        ],
        &[
            "{}",
            "[5]",
            r#"[{"hostPort":"80"}]"#,
            r#"[{"hostport":1.5}]"#,
            r#"[{"protocol":6}]"#,
        ],
    ),
    (
        "bandwidth",
        &["{}", r#"{"ingressRate":1,"egressBurst":null,"x":"y"}"#],
        &[
            "[]",
            "1",
            r#"{"ingressRate":"1"}"#,
            r#"{"egressburst":1.5}"#,
        ],
    ),
    ("cni-args", &["{}", r#"{"a":1}"#], &["[]", "1", r#""a""#]),
];

#[test]
fn known_fields_of_json_have_their_types() {
    let element = |field: &str, value: &str| format!(r#"[{{"name":"foo","{field}":{value}}}]"#);
    for (field, legal, illegal) in KNOWN_FIELDS {
        for value in *legal {
            assert_eq!(names(&element(field, value)), ["foo"], "{field}: {value}");
        }
        for value in *illegal {
            let found = faults(&element(field, value));
            assert!(
                found.contains(field.trim_end_matches("Request")),
                "{field}: {value}: {found}"
            );
        }
    }
}

#[test]
fn malformed_json_is_refused() {
    for (text, fault) in [
        ("{\"name\":\"foo\"}", "is not a JSON array"),
        ("\"foo\"", "is not a JSON array"),
        ("[{\"name\":\"foo\"}", "is not a JSON array"),
        ("[{\"name\":\"foo\"}] x", "is not a JSON array"),
        ("foo,[bar]", "is not a JSON array"),
        ("[\"foo\"]", "element 1 \"\\\"foo\\\"\": not a JSON object"),
        ("[null]", "element 1 \"null\": not a JSON object"),
        ("[{}]", "has no name"),
        (r#"[{"namespace":"default"}]"#, "has no name"),
        (r#"[{"name":""}]"#, "has no name"),
        (
            r#"[{"name":"foo"},{"name":5}]"#,
            "element 2 \"{\\\"name\\\":5}\": name: \"5\" is not a string",
        ),
        (
            r#"[{"name":"Foo"}]"#,
            "name \"Foo\" is not a DNS-1123 label",
        ),
        (r#"[{"name":" foo"}]"#, "name \" foo\" is not"),
        (r#"[{"name":"../../x"}]"#, "name \"../../x\" is not"),
    ] {
        let found = faults(text);
        assert!(found.contains(fault), "{text}: {found}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in any::<String>()) {
        let _ = parse(&text);
    }

    #[test]
    fn nearly_selections_too(text in r#"[\[\]{}",:@/a-c. 0-9A-Z]{0,40}"#) {
        if let Ok(selections) = parse(&text) {
            for selected in selections.networks {
                prop_assert!(is_dns_label(&selected.name));
                prop_assert!(selected.namespace.is_none_or(|namespace| is_dns_label(&namespace)));
            }
        }
    }

    #[test]
    fn deep_json_is_harmless(depth in 0usize..20_000) {
        let _ = parse(&"[".repeat(depth));
        let _ = parse(&format!(r#"[{{"name":"a","x":{}{}}}]"#, "[".repeat(depth), "]".repeat(depth)));
    }
}
