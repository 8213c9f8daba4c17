//! Configurations by kind, faults by field, and what no text can do.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{
    networks::{NetworkKind, NetworkRef, Setting, attachment},
    policy::Fault,
};

const NAMESPACE: &str = "sriov-network-operator";

fn of(kind: NetworkKind, namespace: &str, spec: &Value) -> Result<Value, Vec<Fault>> {
    let network = NetworkRef {
        kind,
        namespace: namespace.into(),
        name: "net".into(),
    };
    let setting = Setting {
        namespace: NAMESPACE.into(),
        resource_prefix: "openshift.io".into(),
    };
    attachment(&network, Some("u"), spec, &setting).map(|attachment| attachment.object())
}

fn config(kind: NetworkKind, mut spec: Value) -> String {
    spec["resourceName"] = "r".into();
    let object = of(kind, NAMESPACE, &spec).unwrap();
    object["spec"]["config"].as_str().unwrap().to_owned()
}

fn faults(kind: NetworkKind, namespace: &str, spec: &Value) -> Vec<String> {
    let faults = of(kind, namespace, spec).unwrap_err();
    faults.iter().map(ToString::to_string).collect()
}

#[test]
fn the_text_is_that_of_the_reference() {
    let spec = json!({
        "spoofChk": "on", "trust": "off", "linkState": "enable", "logLevel": "info",
        "ipam": "{\"type\":\"host-local\", \"routes\": [ {} ]}",
    });
    let expected = r#"{
    "cniVersion": "1.0.0",
    "name": "net",
    "type": "sriov",
    "vlan": 0,
    "spoofchk": "on",
    "trust": "off",
    "vlanQoS": 0,
    "link_state": "enable",
    "logLevel": "info",
    "ipam": {
        "type": "host-local",
        "routes": [
            {}
        ]
    }
}"#;
    assert_eq!(config(NetworkKind::Sriov, spec), expected);
    let spec = json!({"metaPlugins": "{\"type\":\"a\"},\n{\"type\":\"b\"}"});
    let expected = r#"{
    "cniVersion": "1.0.0",
    "name": "net",
    "plugins": [
        {
            "type": "ib-sriov",
            "ipam": {}
        },
        {
            "type": "a"
        },
        {
            "type": "b"
        }
    ]
}"#;
    assert_eq!(config(NetworkKind::Ib, spec), expected);
}

#[test]
fn every_field_has_its_key_and_its_place() {
    let compact = |kind, spec| {
        let text = config(kind, spec);
        text.split_whitespace().collect::<String>()
    };
    let sriov = json!({
        "vlan": 100, "vlanQoS": 5, "vlanProto": "802.1ad", "minTxRate": 0, "maxTxRate": 100, "spoofChk": "off",
        "trust": "on", "capabilities": "{\"mac\":true}", "linkState": "auto", "logLevel": "debug", "logFile": "/x",
    });
    assert_eq!(
        compact(NetworkKind::Sriov, sriov),
        r#"{"cniVersion":"1.0.0","name":"net","type":"sriov","vlan":100,"spoofchk":"off","trust":"on","vlanQoS":5,"vlanProto":"802.1ad","min_tx_rate":0,"max_tx_rate":100,"capabilities":{"mac":true},"link_state":"auto","logLevel":"debug","logFile":"/x","ipam":{}}"#
    );
    let ib = json!({"capabilities": "{\"guid\":1}", "linkState": "disable", "ipam": "{\"a\":1}"});
    assert_eq!(
        compact(NetworkKind::Ib, ib),
        r#"{"cniVersion":"1.0.0","name":"net","type":"ib-sriov","capabilities":{"guid":1},"link_state":"disable","ipam":{"a":1}}"#
    );
    let ovs = json!({
        "capabilities": "{\"a\":1}", "bridge": "br0", "vlan": 100, "mtu": 1500, "interfaceType": "netdev",
        "trunk": [{"id": 120}, {"minID": 500, "maxID": 550}, {"id": 0}],
    });
    assert_eq!(
        compact(NetworkKind::Ovs, ovs),
        r#"{"cniVersion":"1.0.0","name":"net","type":"ovs","capabilities":{"a":1},"bridge":"br0","vlan":100,"mtu":1500,"trunk":[{"id":120},{"minID":500,"maxID":550},{"id":0}],"interface_type":"netdev","ipam":{}}"#
    );
    let zeros = json!({"vlan": 0, "mtu": 0, "bridge": "", "trunk": [], "metaPlugins": " ", "ipam": "\n", "capabilities": ""});
    assert_eq!(
        compact(NetworkKind::Ovs, zeros),
        r#"{"cniVersion":"1.0.0","name":"net","type":"ovs","ipam":{}}"#
    );
}

#[test]
fn users_json_keeps_its_words_and_its_order() {
    let spec = json!({"ipam": r#"{"z":"a  b's \u003c<&é\"","a":1.50,"a":[]}"#});
    let text = config(NetworkKind::Ib, spec);
    assert!(text.contains(r#""z": "a  b's \u003c<&é\"""#), "{text}");
    assert!(text.contains("\"a\": 1.50,\n        \"a\": []"), "{text}");
}

#[test]
fn the_definition_names_resource_and_owner() {
    let spec = json!({"resourceName": "nics"});
    let object = of(NetworkKind::Ovs, "tenant", &spec).unwrap();
    let metadata = json!({
        "name": "net", "namespace": "tenant",
        "annotations": {
            "k8s.v1.cni.cncf.io/resourceName": "openshift.io/nics",
            "sriovnetwork.openshift.io/owner-ref": "OVSNetwork.sriovnetwork.openshift.io/tenant/net",
        },
        "ownerReferences": [
            {"apiVersion": "sriovnetwork.openshift.io/v1", "kind": "OVSNetwork", "name": "net", "uid": "u"}
        ],
    });
    assert_eq!(object["metadata"], metadata);

    let spec = json!({"resourceName": "nics", "networkNamespace": "tenant"});
    let object = of(NetworkKind::Ovs, NAMESPACE, &spec).unwrap();
    assert_eq!(object["metadata"]["namespace"], "tenant");
    assert!(object["metadata"].get("ownerReferences").is_none());
}

#[test]
fn a_network_without_a_spec_is_one_without_a_resource() {
    let object = of(NetworkKind::Ib, NAMESPACE, &Value::Null).unwrap();
    let annotations = &object["metadata"]["annotations"];
    assert_eq!(
        annotations["k8s.v1.cni.cncf.io/resourceName"],
        "openshift.io/"
    );
}

#[test]
fn what_no_api_server_would_store_is_a_fault() {
    let long = format!(r#"{{"ranges":[{}1]}}"#, "1,".repeat(300_000));
    let spec =
        json!({"resourceName": "r", "ipam": long, "capabilities": r#"{"a":"#.repeat(100_000)});
    assert!(faults(NetworkKind::Sriov, "", &spec)[0].starts_with("spec.capabilities: "));
    let spec = json!({"resourceName": "r", "ipam": spec["ipam"]});
    let faults = faults(NetworkKind::Sriov, "", &spec);
    assert!(faults[0].contains("longer than 1024 KiB"), "{faults:?}");
    let deep = format!("{}1{}", r#"{"a":"#.repeat(45_000), "}".repeat(45_000));
    let spec = json!({"resourceName": "r", "ipam": deep});
    let fault = &self::faults(NetworkKind::Sriov, "", &spec)[0];
    assert!(
        fault.contains("nested deeper than 64 levels"),
        "{}",
        &fault[fault.len() - 100..]
    );
}

#[test]
fn every_fault_is_told_with_its_field_and_place() {
    let spec =
        json!({"resourceName": "r", "ipam": "{", "capabilities": "[]", "metaPlugins": "{},"});
    let expected = [
        r#"spec.ipam: Invalid value: "{": line 1, column 1: EOF while parsing an object"#,
        r#"spec.capabilities: Invalid value: "[]": line 1, column 1: expected an object, which begins with '{'"#,
        r#"spec.metaPlugins: Invalid value: "{},": line 1, column 4: expected an object, found the end"#,
    ];
    for kind in NetworkKind::ALL {
        assert_eq!(faults(kind, NAMESPACE, &spec), expected);
    }
    let one = |namespace: &str, spec: Value, expected: &str| {
        let faults = faults(NetworkKind::Ovs, namespace, &spec);
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].starts_with(expected), "{faults:?}");
    };
    one(
        NAMESPACE,
        json!({"resourceName": "r", "mtu": -1}),
        "spec.mtu: Invalid value: -1",
    );
    one(
        NAMESPACE,
        json!({"resourceName": "r\n  namespace: kube-system\n  x:"}),
        "spec.resourceName: Invalid value",
    );
    one(
        NAMESPACE,
        json!({"resourceName": "r", "networkNamespace": "../kube-system"}),
        "spec.networkNamespace: Invalid value",
    );
    one(
        "tenant",
        json!({"resourceName": "r", "networkNamespace": "tenant"}),
        "spec.networkNamespace: Forbidden",
    );
    one(
        NAMESPACE,
        json!({"resourceName": "r", "vlan": "x"}),
        "spec.vlan: Invalid value",
    );
    one(NAMESPACE, json!({"vlan": 5}), "spec: Invalid value");
    one(
        NAMESPACE,
        json!({"resourceName": "r", "ipam": "{},\"type\":\"host-device\""}),
        "spec.ipam",
    );
}

proptest! {
    #[test]
    fn any_text_in_a_plain_field_survives(text in "(?s).+") {
        let spec = json!({"logFile": text});
        let sriov: Value = serde_json::from_str(&config(NetworkKind::Sriov, spec)).unwrap();
        prop_assert_eq!(&sriov["logFile"], &json!(text));
        prop_assert_eq!(&sriov["type"], "sriov");

        let spec = json!({"bridge": text, "interfaceType": text});
        let ovs: Value = serde_json::from_str(&config(NetworkKind::Ovs, spec)).unwrap();
        prop_assert_eq!(&ovs["bridge"], &json!(text));
        prop_assert_eq!(&ovs["interface_type"], &json!(text));
        prop_assert_eq!(&ovs["type"], "ovs");
    }

    #[test]
    fn any_text_in_a_json_field_survives_inside_its_string(text in "(?s).*", key in "(?s).*") {
        let user = json!({"type": "user", key: text});
        let written = format!(" {} ", serde_json::to_string_pretty(&user).unwrap());
        let spec = json!({"ipam": written, "capabilities": written, "metaPlugins": format!("{written},{written}")});
        for kind in NetworkKind::ALL {
            let config: Value = serde_json::from_str(&config(kind, spec.clone())).unwrap();
            let plugins = config["plugins"].as_array().unwrap();
            prop_assert_eq!(&plugins[0]["ipam"], &user);
            prop_assert_eq!(&plugins[0]["capabilities"], &user);
            prop_assert_eq!(&plugins[1..], [user.clone(), user.clone()]);
        }
    }

    #[test]
    fn any_text_as_a_json_field_is_legal_or_a_fault_of_that_field(text in "(?s).*") {
        for (field, kind) in [("ipam", NetworkKind::Sriov), ("capabilities", NetworkKind::Ib), ("metaPlugins", NetworkKind::Ovs)] {
            let result = of(kind, NAMESPACE, &json!({"resourceName": "r", field: text}));
            match result {
                Ok(object) => {
                    let config: Value = serde_json::from_str(object["spec"]["config"].as_str().unwrap()).unwrap();
                    prop_assert_eq!(&config["name"], "net");
                }
                Err(faults) => prop_assert_eq!(faults[0].field(), format!("spec.{field}")),
            }
        }
    }
}
