//! What holds for every kind, and the rules of pools and networks.

use serde_json::{Value, json};

use super::support::{Asked, assert_allowed, assert_refused, rules, world};
use crate::policy::{Kind, Operation, validate};

/// A spec of each kind that is not legal, though its schema takes it.
fn illegal(kind: Kind) -> Value {
    match kind {
        Kind::OperatorConfig => json!({"configDaemonEnvVars": {"": "x"}}),
        Kind::NodePolicy => {
            json!({"resourceName": "", "nodeSelector": {}, "numVfs": 0, "nicSelector": {}})
        }
        Kind::PoolConfig => json!({"maxUnavailable": -1}),
        Kind::Network | Kind::IbNetwork | Kind::OvsNetwork => {
            json!({"resourceName": "r", "networkNamespace": "tenant-b"})
        }
    }
}

fn illegal_object(kind: Kind) -> Asked {
    let asked = Asked::create(kind, "default-x", illegal(kind));
    match kind {
        Kind::Network | Kind::IbNetwork | Kind::OvsNetwork => asked.in_namespace("tenant-a"),
        _ => asked,
    }
}

#[test]
fn kinds_and_operations_by_name() {
    for kind in Kind::ALL {
        assert_eq!(Kind::parse(kind.as_str()), Some(kind));
    }
    assert_eq!(Kind::parse("SriovNetworkNodeState"), None);
    assert_eq!(Operation::parse("UPDATE"), Some(Operation::Update));
    assert_eq!(Operation::parse("CONNECT"), None);
}

#[test]
fn illegal_objects_are_refused_when_made_or_changed() {
    for kind in Kind::ALL {
        let mut asked = illegal_object(kind);
        assert_refused(&asked.verdict(&world(), &rules()), &["spec."]);
        let mut old = asked.object.clone();
        old["spec"] = json!({});
        asked.old = Some(old);
        asked.operation = Operation::Update;
        assert_refused(&asked.verdict(&world(), &rules()), &["spec."]);
    }
}

#[test]
fn illegal_objects_can_be_deleted_relabelled_and_stripped_of_finalizers() {
    for kind in Kind::ALL {
        let mut asked = illegal_object(kind);
        asked.old = Some(asked.object.clone());
        asked.operation = Operation::Delete;
        assert_allowed(&asked.verdict(&world(), &rules()), &[]);

        asked.operation = Operation::Update;
        asked.object["metadata"]["labels"] = json!({"a": "b"});
        assert_allowed(&asked.verdict(&world(), &rules()), &[]);

        asked.object["spec"]["resourceName"] = "changed".into();
        asked.object["metadata"]["deletionTimestamp"] = "2025-01-01T00:00:00Z".into();
        assert_allowed(&asked.verdict(&world(), &rules()), &[]);
    }
}

#[test]
fn what_is_no_object_is_refused_with_a_field() {
    for kind in Kind::ALL {
        for text in [
            None,
            Some(""),
            Some("{"),
            Some("[]"),
            Some("5"),
            Some(r#"{"metadata": 5}"#),
            Some(r#"{"spec": 5}"#),
        ] {
            let subject = crate::policy::Subject {
                kind,
                operation: Operation::Create,
                name: "p",
                namespace: super::support::NAMESPACE,
                object: text,
                old: None,
            };
            let verdict = validate(&subject, (&world()).into(), &rules());
            assert!(!verdict.allowed(), "{kind:?} {text:?}");
            assert!(verdict.causes().iter().all(|cause| !cause.field.is_empty()));
        }
    }
}

#[test]
fn pools_that_have_no_effect() {
    let with = |spec: Value| Asked::create(Kind::PoolConfig, "p", spec).verdict(&world(), &rules());
    for (suspicious, says) in [
        (
            json!({"maxUnavailable": 0}),
            "spec.maxUnavailable: 0 lets no node",
        ),
        (
            json!({"ovsHardwareOffloadConfig": {"name": "master"}}),
            "spec.ovsHardwareOffloadConfig.name: \"master\" has no effect",
        ),
    ] {
        assert_allowed(&with(suspicious), &[says]);
    }
    assert_refused(
        &with(json!({"ovsHardwareOffloadConfig": {"name": "Worker pool"}})),
        &["spec.ovsHardwareOffloadConfig.name: Invalid value: \"Worker pool\""],
    );
    let mut elsewhere = Asked::create(Kind::PoolConfig, "p", json!({}));
    elsewhere.object["metadata"]["namespace"] = "other".into();
    assert_allowed(
        &elsewhere.verdict(&world(), &rules()),
        &["metadata.namespace: only pools in"],
    );
}

#[test]
fn pools() {
    let with = |spec: Value| Asked::create(Kind::PoolConfig, "p", spec).verdict(&world(), &rules());
    for legal in [
        json!({}),
        json!({"maxUnavailable": 5000}),
        json!({"maxUnavailable": "1%"}),
        json!({"maxUnavailable": "100%"}),
        json!({"maxUnavailable": "+5%"}),
        json!({"nodeSelector": {}}),
        json!({"nodeSelector": {"matchLabels": {"a": "b"}, "matchExpressions": [
            {"key": "a", "operator": "In", "values": ["b"]}, {"key": "c", "operator": "DoesNotExist"}]}}),
        json!({"ovsHardwareOffloadConfig": {"name": "worker"}}),
        json!({"ovsHardwareOffloadConfig": {"name": ""}, "maxUnavailable": 1}),
    ] {
        assert_allowed(&with(legal), &[]);
    }
    for illegal in [
        json!(-1),
        json!("3"),
        json!("0%"),
        json!("101%"),
        json!("1.5%"),
        json!("%"),
        json!("-5%"),
        json!(" 5%"),
        json!("5 %"),
        json!("abc"),
        json!(""),
        json!(1.5),
    ] {
        assert_refused(
            &with(json!({"maxUnavailable": illegal})),
            &["spec.maxUnavailable: Invalid value"],
        );
    }
    assert_refused(
        &with(json!({"maxUnavailable": "3"})),
        &["a number is written without quotes"],
    );
    let offload = json!({"name": "worker"});
    assert_refused(
        &with(
            json!({"ovsHardwareOffloadConfig": offload, "maxUnavailable": 1, "nodeSelector": {}}),
        ),
        &[
            "spec.maxUnavailable: Forbidden",
            "spec.nodeSelector: Forbidden",
            "ovsHardwareOffloadConfig",
        ],
    );
    for (expression, says) in [
        (
            json!({"key": "a b", "operator": "Exists"}),
            "spec.nodeSelector.matchExpressions[0].key: Invalid value",
        ),
        (
            json!({"key": "a", "operator": "in", "values": ["b"]}),
            "operator: Unsupported value: \"in\": supported values: \"In\"",
        ),
        (
            json!({"key": "a", "operator": "In"}),
            "values: Required value",
        ),
        (
            json!({"key": "a", "operator": "Exists", "values": ["b"]}),
            "values: Forbidden",
        ),
        (
            json!({"key": "a", "operator": "In", "values": ["x y"]}),
            "values[0]: Invalid value",
        ),
    ] {
        assert_refused(
            &with(json!({"nodeSelector": {"matchExpressions": [expression]}})),
            &[says],
        );
    }
    assert_refused(
        &with(json!({"nodeSelector": {"matchLabels": {"a": "-"}}})),
        &["spec.nodeSelector.matchLabels[a]"],
    );
}

#[test]
fn networks() {
    for kind in [Kind::Network, Kind::IbNetwork, Kind::OvsNetwork] {
        let network = |spec: Value| Asked::create(kind, "n", spec);
        let dotted = Asked::create(kind, "a.b", json!({"resourceName": "r"}));
        assert_allowed(
            &dotted.verdict(&world(), &rules()),
            &["\"a.b\" cannot be named by pods"],
        );
        let to = |target: Value| network(json!({"resourceName": "r", "networkNamespace": target}));
        assert_allowed(&to(json!("tenant-a")).verdict(&world(), &rules()), &[]);
        assert_allowed(
            &to(json!(""))
                .in_namespace("tenant-a")
                .verdict(&world(), &rules()),
            &[],
        );
        assert_allowed(
            &network(json!({"resourceName": "r"}))
                .in_namespace("tenant-a")
                .verdict(&world(), &rules()),
            &[],
        );
        assert_refused(
            &to(json!("tenant-a"))
                .in_namespace("tenant-a")
                .verdict(&world(), &rules()),
            &[
                "spec.networkNamespace: Forbidden: networkNamespace cannot be set outside namespace \"sriov-network-operator\"",
            ],
        );
        assert_refused(
            &to(json!(5)).verdict(&world(), &rules()),
            &["spec.networkNamespace: Invalid value: 5"],
        );
        assert_refused(
            &network(json!({})).verdict(&world(), &rules()),
            &["spec.resourceName: Required value"],
        );
        let mut bare = network(json!({}));
        bare.object.as_object_mut().unwrap().remove("spec");
        assert_allowed(&bare.verdict(&world(), &rules()), &[]);
    }
    for kind in [Kind::Network, Kind::IbNetwork, Kind::OvsNetwork] {
        let with = |field: &str, text: &str| {
            let spec = json!({"resourceName": "r", field: text});
            Asked::create(kind, "n", spec).verdict(&world(), &rules())
        };
        assert_allowed(&with("ipam", " {\"type\": \"x\"} "), &[]);
        assert_allowed(
            &with("metaPlugins", "{\"type\":\"a\"}, {\"type\":\"b\"}"),
            &[],
        );
        for (field, text, fault) in [
            ("ipam", "{\n", "spec.ipam: Invalid value: \"{\\n\": line"),
            (
                "capabilities",
                "[]",
                "spec.capabilities: Invalid value: \"[]\": line 1, column 1: ",
            ),
            (
                "metaPlugins",
                "{}",
                "spec.metaPlugins: Invalid value: \"{}\": line 1, column 1: ",
            ),
            (
                "resourceName",
                "a b",
                "spec.resourceName: Invalid value: \"a b\": ",
            ),
            (
                "networkNamespace",
                "a/b",
                "spec.networkNamespace: Invalid value: \"a/b\": ",
            ),
        ] {
            assert_refused(&with(field, text), &[fault]);
        }
    }
    let mtu = |mtu: i64| {
        Asked::create(
            Kind::OvsNetwork,
            "n",
            json!({"resourceName": "r", "mtu": mtu}),
        )
        .verdict(&world(), &rules())
    };
    assert_allowed(&mtu(0), &[]);
    assert_refused(
        &mtu(-1),
        &["spec.mtu: Invalid value: -1: must not be negative"],
    );
}
