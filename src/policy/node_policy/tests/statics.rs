//! What a policy says must be consistent.

use serde_json::{Value, json};

use super::{ask, judged, judged_in_dev_mode, replace_fields};
use crate::policy::{
    Kind, Operation, ParsedPolicy, Subject, default_node_policy,
    tests::support::{Asked, NAMESPACE, assert_allowed, assert_refused, rules, world},
};

#[test]
fn resource_names() {
    let longest = "a".repeat(63);
    for legal in ["a", "9", "AbC", "a_b", "a-b", "a__b", &longest] {
        assert_allowed(&judged(json!({"resourceName": legal})), &[]);
    }
    for (illegal, says) in [
        ("", "spec.resourceName: Required value"),
        ("_a", "spec.resourceName: Invalid value: \"_a\""),
        ("a_", "spec.resourceName: Invalid value"),
        ("-a", "spec.resourceName: Invalid value"),
        ("a.b", "letters, digits, '-' and '_'"),
        ("a/b", "spec.resourceName: Invalid value"),
        ("a b", "spec.resourceName: Invalid value"),
        ("a\nb", r#"Invalid value: "a\nb""#),
        ("réseau", "spec.resourceName: Invalid value"),
        (
            &"a".repeat(64),
            "spec.resourceName: Too long: may not be more than 63 bytes",
        ),
        (&"é".repeat(40), "spec.resourceName: Too long"),
    ] {
        assert_refused(&judged(json!({"resourceName": illegal})), &[says]);
    }
}

#[test]
fn node_selectors_are_labels() {
    for (selector, says) in [
        (
            json!({"a b": "c"}),
            "spec.nodeSelector[a b]: Invalid value: \"a b\": a label key",
        ),
        (
            json!({"a": "x y"}),
            "spec.nodeSelector[a]: Invalid value: \"x y\": a label value",
        ),
        (json!({"": "x"}), "spec.nodeSelector[\"\"]: Invalid value"),
        (json!({"A.b/c": "x"}), "in lower case"),
    ] {
        let verdict = judged(json!({"nodeSelector": selector}));
        assert_refused(&verdict, &[says]);
        assert_eq!(
            verdict.faults().len(),
            1,
            "that no node has it goes without saying"
        );
    }
}

#[test]
fn a_selector_must_select_something() {
    for empty in [
        json!({}),
        json!({"vendor": "", "deviceID": "", "netFilter": ""}),
        json!({"pfNames": [], "rootDevices": []}),
    ] {
        let verdict = judged(json!({"nicSelector": empty}));
        assert_refused(
            &verdict,
            &["spec.nicSelector: Required value: at least one of vendor"],
        );
        assert_eq!(verdict.faults().len(), 1);
    }
}

#[test]
fn ids_must_be_listed_and_near_misses_are_explained() {
    for (selector, says) in [
        (
            json!({"vendor": "15B3"}),
            r#"spec.nicSelector.vendor: Invalid value: "15B3": PCI ids are written in lower case and without 0x: "15b3""#,
        ),
        (json!({"vendor": "0x8086"}), r#"without 0x: "8086""#),
        (json!({"vendor": "intel"}), "is no PCI id"),
        (
            json!({"vendor": "dead"}),
            r#"spec.nicSelector.vendor: Invalid value: "dead": is in no line of the ConfigMap supported-nic-ids; vendors listed are 14e4, 15b3"#,
        ),
        (
            json!({"vendor": "15b3", "deviceID": "158b"}),
            "spec.nicSelector.deviceID: Invalid value: \"158b\": is no PF of vendor 15b3 in the ConfigMap supported-nic-ids; PFs listed are 1013, 1017",
        ),
        (
            json!({"deviceID": "ffff"}),
            "is no PF in the ConfigMap supported-nic-ids",
        ),
        (json!({"deviceID": "158B"}), r#"without 0x: "158b""#),
        (
            json!({"vendor": "15b3", "deviceID": "1018"}),
            "it is the VF of 1017",
        ),
    ] {
        let verdict = judged(json!({"nicSelector": selector}));
        assert_refused(&verdict, &[says]);
        assert_eq!(verdict.faults().len(), 1, "{}", verdict.status_message());
    }
    let both = judged(json!({"nicSelector": {"vendor": "dead", "deviceID": "ffff"}}));
    assert_refused(
        &both,
        &["spec.nicSelector.vendor", "spec.nicSelector.deviceID"],
    );
}

#[test]
fn development_mode_takes_any_nic_but_not_any_spelling() {
    assert_allowed(
        &judged_in_dev_mode(json!({"nicSelector": {"pfNames": ["eno1"]}})),
        &[],
    );
    assert_allowed(
        &judged_in_dev_mode(json!({"nicSelector": {"vendor": "14e4", "deviceID": "16ff"}})),
        &[],
    );
    assert_refused(
        &judged(json!({"nicSelector": {"vendor": "14e4", "deviceID": "16ff"}})),
        &["spec.nicSelector.deviceID"],
    );
    assert_refused(
        &judged_in_dev_mode(json!({"nicSelector": {"vendor": "15B3"}})),
        &["lower case"],
    );
}

#[test]
fn without_a_list_nothing_is_supported() {
    let mut cluster = world();
    cluster.set_nic_ids(crate::policy::NicIds::default());
    let verdict = super::judged_in(&cluster, json!({"nicSelector": {"vendor": "8086"}}));
    assert_refused(&verdict, &["ConfigMap supported-nic-ids; it lists no NIC"]);
}

#[test]
fn ranges() {
    for legal in ["ens1f0#0-3", "ens1f0#3-3", "ens1f0#00-03", "lan-a#0-1"] {
        assert_allowed(&judged(json!({"nicSelector": {"pfNames": [legal]}})), &[]);
    }
    for (illegal, says) in [
        (
            "ens1f0#0-4",
            "ends beyond the last VF, which is 3 with numVfs 4",
        ),
        ("ens1f0#4-9", "ends beyond the last VF"),
        ("ens1f0#2-1", "last VF 1 is before its first 2"),
        ("ens1f0#1", "for one VF write ens1f0#1-1"),
        ("ens1f0#", "such as ens1f0#0-3"),
        ("ens1f0#0-1#2-3", "more than one '#'"),
        ("#0-1", "names no PF"),
        ("", "names no PF"),
    ] {
        let verdict = judged(json!({"nicSelector": {"pfNames": [illegal]}}));
        assert_refused(
            &verdict,
            &["spec.nicSelector.pfNames[0]: Invalid value", says],
        );
        assert_eq!(verdict.faults().len(), 1, "{}", verdict.status_message());
    }
    let second = judged(json!({"nicSelector": {"pfNames": ["ens1f0", "#0-1", "ens1f1#9-9"]}}));
    assert_refused(
        &second,
        &["spec.nicSelector.pfNames[1]", "spec.nicSelector.pfNames[2]"],
    );
}

#[test]
fn ranges_of_one_name_are_apart() {
    for (pf_names, says) in [
        (
            json!(["ens1f0#0-1", "ens1f0#1-3"]),
            "pfNames[1]: Invalid value: \"ens1f0#1-3\": VFs 1-3 overlap VFs 0-1 of spec.nicSelector.pfNames[0]",
        ),
        (json!(["ens1f0", "ens1f0"]), "overlap"),
        (json!(["ens1f0#0-0", "ens1f0"]), "overlap"),
    ] {
        assert_refused(
            &judged(json!({"nicSelector": {"pfNames": pf_names}})),
            &[says],
        );
    }
    let twice = json!({"rootDevices": ["0000:18:00.0", "0000:18:00.0"]});
    assert_refused(
        &judged(json!({"nicSelector": twice})),
        &["spec.nicSelector.rootDevices[1]"],
    );
    let filter_twice =
        json!({"rootDevices": ["0000:18:00.0", "0000:18:00.0"], "pfNames": ["ens1f0"]});
    assert_allowed(&judged(json!({"nicSelector": filter_twice})), &[]);
    assert_allowed(
        &judged(json!({"nicSelector": {"pfNames": ["ens1f0#0-1", "ens1f0#2-3"]}})),
        &[],
    );
}

#[test]
fn a_net_filter_stands_alone() {
    const NETWORK: &str = "openstack/NetworkID:11111111-2222-3333-4444-555555555555";
    let vm = |change: Value| {
        let whole = json!({"nodeSelector": {"role": "vm"}, "numVfs": 1, "nicSelector": {}});
        let mut whole = replace_fields(whole, change);
        whole["nicSelector"]["netFilter"] = NETWORK.into();
        judged(whole)
    };
    assert_allowed(&vm(json!({})), &[]);
    assert_allowed(&vm(json!({"linkType": "ETH"})), &[]);
    for (change, field) in [
        (
            json!({"nicSelector": {"vendor": "15b3"}}),
            "spec.nicSelector.vendor: Forbidden",
        ),
        (
            json!({"nicSelector": {"deviceID": "1017"}}),
            "spec.nicSelector.deviceID: Forbidden",
        ),
        (
            json!({"nicSelector": {"pfNames": ["ens4"]}}),
            "spec.nicSelector.pfNames: Forbidden",
        ),
        (
            json!({"nicSelector": {"rootDevices": ["0000:00:05.0"]}}),
            "spec.nicSelector.rootDevices: Forbidden",
        ),
        (
            json!({"eSwitchMode": "legacy"}),
            "spec.eSwitchMode: Forbidden",
        ),
        (
            json!({"eSwitchMode": "switchdev", "bridge": {"ovs": {}}}),
            "spec.bridge.ovs: Forbidden",
        ),
        (
            json!({"linkType": "ib"}),
            "spec.linkType: Invalid value: \"ib\"",
        ),
    ] {
        assert_refused(&vm(change), &[field, "together with netFilter"]);
    }
}

#[test]
fn modes_go_together() {
    for change in [
        json!({"deviceType": "vfio-pci"}),
        json!({"deviceType": "vfio-pci", "isRdma": false}),
        json!({"deviceType": "netdevice", "isRdma": true}),
        json!({"isRdma": true}),
        json!({"eSwitchMode": "switchdev", "linkType": "eth"}),
        json!({"eSwitchMode": "switchdev", "bridge": {"ovs": {}}}),
        json!({"eSwitchMode": "legacy", "linkType": "IB"}),
        json!({"bridge": {}}),
    ] {
        assert_allowed(&judged(change), &[]);
    }
    for (change, says) in [
        (
            json!({"deviceType": "vfio-pci", "isRdma": true}),
            "spec.isRdma: Invalid value: true",
        ),
        (
            json!({"eSwitchMode": "switchdev", "linkType": "IB"}),
            "spec.linkType: Invalid value: \"IB\"",
        ),
        (
            json!({"bridge": {"ovs": {}}}),
            "spec.eSwitchMode: Invalid value: \"legacy\": must be switchdev with bridge.ovs",
        ),
        (
            json!({"bridge": {"ovs": {}}, "eSwitchMode": "switchdev", "externallyManaged": true}),
            "spec.bridge.ovs: Forbidden",
        ),
    ] {
        assert_refused(&judged(change), &[says]);
    }
}

#[test]
fn vdpa_needs_kernel_drivers_switchdev_and_mellanox() {
    let vdpa = |change: Value| {
        let whole = json!({"nodeSelector": {"rack": "b"}, "nicSelector": {"pfNames": ["ens2f0"]}, "vdpaType": "vhost", "eSwitchMode": "switchdev"});
        judged(replace_fields(whole, change))
    };
    assert_allowed(&vdpa(json!({})), &[]);
    assert_allowed(
        &vdpa(json!({"vdpaType": "virtio", "deviceType": "netdevice"})),
        &[],
    );
    for (change, says) in [
        (
            json!({"eSwitchMode": null}),
            "spec.eSwitchMode: Invalid value: \"legacy\": must be switchdev with vdpaType vhost",
        ),
        (
            json!({"eSwitchMode": "legacy"}),
            "spec.eSwitchMode: Invalid value",
        ),
        (
            json!({"deviceType": "vfio-pci"}),
            "spec.deviceType: Invalid value: \"vfio-pci\": must be netdevice with vdpaType vhost",
        ),
        (
            json!({"nicSelector": {"pfNames": ["ens1f0"]}}),
            "spec.vdpaType: Invalid value: \"vhost\": vDPA needs Mellanox NICs (vendor 15b3): node bm-1, interface ens1f0 has vendor 8086",
        ),
    ] {
        assert_refused(&vdpa(change), &[says]);
    }
}

#[test]
fn no_virtual_functions_is_no_policy() {
    let verdict = judged(json!({"numVfs": 0, "nicSelector": {"pfNames": ["ens1f0#0-3"]}}));
    assert_refused(
        &verdict,
        &["spec.numVfs: Invalid value: 0: must be at least 1"],
    );
    assert_eq!(verdict.faults().len(), 1);
}

#[test]
fn every_fault_is_told_at_once() {
    let verdict = judged(json!({
        "resourceName": "a.b",
        "numVfs": 65,
        "nicSelector": {"pfNames": ["ens1f0#0-99", "ens1f1"]},
        "deviceType": "vfio-pci",
        "isRdma": true,
        "bridge": {"ovs": {}},
    }));
    let fields: Vec<&str> = verdict
        .faults()
        .iter()
        .map(crate::policy::Fault::field)
        .collect();
    assert_eq!(
        fields,
        [
            "spec.resourceName",
            "spec.nicSelector.pfNames[0]",
            "spec.isRdma",
            "spec.eSwitchMode",
            "spec.numVfs",
            "spec.nicSelector.pfNames[1]",
        ]
    );
}

#[test]
fn admission_makes_a_policy_without_priority_the_weakest_and_without_admission_it_is_the_strongest()
{
    let asked = ask(json!({}));
    let stored = |object: &Value| {
        let policy = serde_json::from_value(object.clone()).unwrap();
        ParsedPolicy::new(&policy).unwrap().priority()
    };
    assert_eq!(stored(&asked.object), 0);
    let text = asked.object.to_string();
    let subject = Subject {
        kind: Kind::NodePolicy,
        operation: Operation::Create,
        name: "new",
        namespace: NAMESPACE,
        object: Some(&text),
        old: None,
    };
    let patch = default_node_policy(&subject).unwrap();
    let patch: json_patch::Patch = serde_json::from_slice(&patch).unwrap();
    let mut admitted = asked.object;
    json_patch::patch(&mut admitted, &patch).unwrap();
    assert_eq!(stored(&admitted), 99);
    for priority in [0, 7, 99] {
        assert_eq!(stored(&ask(json!({"priority": priority})).object), priority);
    }
}

#[test]
fn policies_that_have_no_effect() {
    let bad = json!({"resourceName": "", "nodeSelector": {}, "numVfs": 0, "nicSelector": {}});
    let default = Asked::create(Kind::NodePolicy, "default", bad);
    assert_allowed(&default.verdict(&world(), &rules()), &[]);
    assert_refused(
        &default.in_namespace("tenant-a").verdict(&world(), &rules()),
        &["spec.numVfs"],
    );
    let elsewhere = ask(json!({})).in_namespace("tenant-a");
    let verdict = elsewhere.verdict(&world(), &rules());
    assert_allowed(
        &verdict,
        &["outside namespace \"sriov-network-operator\" are stored but have no effect"],
    );
    assert!(
        verdict.admitted().is_none(),
        "it takes nothing from anybody"
    );
}
