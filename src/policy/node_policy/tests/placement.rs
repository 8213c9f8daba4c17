//! The nodes and NICs that a policy selects must be there and able to do what it asks.

use serde_json::{Value, json};

use super::{add_node, ask, judged, judged_in, replace_fields};
use crate::policy::{
    Cluster, Kind, View, claims,
    node_policy::ParsedPolicy,
    tests::support::{Asked, assert_allowed, assert_no_warnings, assert_refused, rules, world},
};

#[test]
fn selectors_that_select_no_node() {
    for (selector, says) in [
        (
            json!({"role": "nope"}),
            r#"spec.nodeSelector: Invalid value: {"role":"nope"}: no node has role=nope (there is "bm", "cp", "ec2", and 2 more)"#,
        ),
        (
            json!({"nope": "x"}),
            "no node has nope=x (no node has the label \"nope\")",
        ),
        (
            json!({"role": "vm", "rack": "a"}),
            "no node has all of these labels",
        ),
        (
            json!({"role": "bm", "rack": "z"}),
            "no node has rack=z (there is \"a\", \"b\")",
        ),
    ] {
        assert_refused(&judged(json!({"nodeSelector": selector})), &[says]);
    }
    let nothing = Cluster::default();
    assert_refused(
        &judged_in(
            &nothing,
            json!({"nodeSelector": {}, "nicSelector": {"pfNames": ["e"]}}),
        ),
        &["spec.nodeSelector: Invalid value: {}: there is no node"],
    );
}

#[test]
fn selectors_that_select_no_nic() {
    for (nodes, nics, says) in [
        (
            json!({"rack": "a"}),
            json!({"pfNames": ["ens9f0"]}),
            r#"spec.nicSelector.pfNames[0]: Invalid value: "ens9f0": is on no selected node; node bm-0 has eno1, ens1f0 (enp24s0f0, lan-a), ens1f1, ens2f0 (enp59s0f0np0), ens2f1"#,
        ),
        (
            json!({"rack": "a"}),
            json!({"rootDevices": ["3b:00.1"]}),
            "spec.nicSelector.rootDevices[0]: Invalid value: \"3b:00.1\": is on no selected node; node bm-0 has 0000:01:00.0 (eno1), 0000:18:00.0 (ens1f0)",
        ),
        (
            json!({"rack": "a"}),
            json!({"pfNames": ["eno1"]}),
            "spec.nicSelector.pfNames[0]: Invalid value: \"eno1\": node bm-0, interface eno1 is 14e4 16ff, which is no PF in the ConfigMap supported-nic-ids",
        ),
        (
            json!({"rack": "a"}),
            json!({"vendor": "15b3", "pfNames": ["ens1f0"]}),
            "node bm-0, interface ens1f0 has vendor 8086",
        ),
        (
            json!({"rack": "a"}),
            json!({"deviceID": "1572", "pfNames": ["ens1f0"]}),
            "node bm-0, interface ens1f0 has deviceID 158b",
        ),
        (
            json!({"rack": "a"}),
            json!({"rootDevices": ["0000:18:00.0"], "pfNames": ["ens2f0"]}),
            "node bm-0, interface ens2f0 has PCI address 0000:3b:00.0, which is not in rootDevices",
        ),
        (
            json!({"rack": "a"}),
            json!({"deviceID": "1572"}),
            r#"spec.nicSelector: Invalid value: {"deviceID":"1572"}: no NIC of the selected nodes has these ids; node bm-0 has 14e4 16ff (eno1)"#,
        ),
        (
            json!({"rack": "a"}),
            json!({"vendor": "14e4"}),
            "interface eno1 is 14e4 16ff, which is no PF",
        ),
        (
            json!({"role": "vm"}),
            json!({"pfNames": ["ens4"]}),
            "on virtual machines NICs are selected by netFilter",
        ),
        (
            json!({"role": "vm"}),
            json!({"netFilter": "openstack/NetworkID:other"}),
            "spec.nicSelector.netFilter: Invalid value: \"openstack/NetworkID:other\": no NIC of the selected nodes is attached to this network; attached are node os-0, interface ens4 to openstack/NetworkID:1111",
        ),
        (
            json!({"rack": "a"}),
            json!({"netFilter": "aws/NetworkID:subnet-0abc"}),
            "none is attached to any, as on bare metal",
        ),
        (
            json!({"role": "nostate"}),
            json!({"pfNames": ["ens1f0"]}),
            "spec.nodeSelector: Invalid value: {\"role\":\"nostate\"}: no selected node has a SriovNetworkNodeState",
        ),
    ] {
        let verdict = judged(json!({"nodeSelector": nodes, "nicSelector": nics, "numVfs": 1}));
        assert_refused(&verdict, &[says]);
        assert_eq!(verdict.faults().len(), 1, "{}", verdict.status_message());
    }
}

#[test]
fn one_match_anywhere_is_enough_and_gaps_are_warned_of() {
    let everywhere = judged(json!({"nodeSelector": {}}));
    assert_allowed(
        &everywhere,
        &[
            "spec.nicSelector.pfNames[0]: \"ens1f0\" exists on only 2 of 5 selected nodes; missing on aws-0, cp-0, os-0",
        ],
    );
    let half = judged(json!({"nicSelector": {"pfNames": ["typo0", "ens1f0"]}}));
    assert_allowed(
        &half,
        &["spec.nicSelector.pfNames[0]: \"typo0\" exists on no selected nodes; missing on bm-0"],
    );
    let root = judged(json!({"nicSelector": {"rootDevices": ["0000:18:00.0", "0000:ff:00.0"]}}));
    assert_allowed(
        &root,
        &["spec.nicSelector.rootDevices[1]: \"0000:ff:00.0\" exists on no selected nodes"],
    );
    let fits = judged(json!({"nicSelector": {"pfNames": ["lan-a"]}}));
    assert_allowed(&fits, &[]);
    assert_no_warnings(&fits);
}

#[test]
fn nodes_that_have_not_reported_yet() {
    let new_pool = |interfaces: &[Option<Value>]| {
        let mut cluster = world();
        for (i, interfaces) in interfaces.iter().enumerate() {
            add_node(&mut cluster, &format!("new-{i}"), interfaces.clone());
        }
        judged_in(&cluster, json!({"nodeSelector": {"pool": "new"}}))
    };
    let fits = || {
        Some(
            json!([{"name": "ens1f0", "vendor": "8086", "deviceID": "158b", "pciAddress": "0000:18:00.0", "totalvfs": 64}]),
        )
    };
    let other = || {
        Some(
            json!([{"name": "eth0", "vendor": "8086", "deviceID": "158b", "pciAddress": "0000:18:00.0", "totalvfs": 64}]),
        )
    };
    let silent = || Some(json!([]));
    let stateless = || None;

    let waiting = "not checked against nodes that have not reported their NICs yet: new-0";
    assert_allowed(&new_pool(&[silent()]), &[waiting]);
    assert_allowed(&new_pool(&[silent(), other()]), &[waiting]);
    assert_allowed(&new_pool(&[silent(), stateless()]), &[waiting]);
    assert_allowed(&new_pool(&[silent(), fits()]), &[waiting]);
    assert_allowed(&new_pool(&[fits(), stateless()]), &[]);
    assert_allowed(&new_pool(&[fits(), other()]), &["missing on new-1"]);
    assert_refused(
        &new_pool(&[other(), stateless()]),
        &["spec.nicSelector.pfNames[0]", "node new-0 has eth0"],
    );
    assert_refused(&new_pool(&[other()]), &["spec.nicSelector.pfNames[0]"]);
    assert_refused(
        &new_pool(&[stateless()]),
        &["spec.nodeSelector", "SriovNetworkNodeState"],
    );
    assert_refused(
        &new_pool(&[]),
        &["spec.nodeSelector", "no node has the label \"pool\""],
    );
    let five = new_pool(&[silent(), silent(), silent(), silent(), silent()]);
    assert_allowed(&five, &["yet: new-0, new-1, new-2, and 2 more"]);
}

#[test]
fn as_many_virtual_functions_as_the_nic_has() {
    let on = |rack: &str, pf: &str, num_vfs: u32| {
        judged(
            json!({"nodeSelector": {"rack": rack}, "nicSelector": {"pfNames": [pf]}, "numVfs": num_vfs}),
        )
    };
    assert_allowed(&on("a", "ens1f0", 64), &[]);
    assert_allowed(&on("b", "ens4f0", 8), &[]);
    assert_allowed(&on("b", "ens2f0", 128), &[]);
    for (rack, pf, num_vfs, says) in [
        (
            "a",
            "ens1f0",
            65,
            "spec.numVfs: Invalid value: 65: node bm-0, interface ens1f0 has 64 VFs",
        ),
        (
            "b",
            "ens4f0",
            9,
            "spec.numVfs: Invalid value: 9: node bm-1, interface ens4f0 has 8 VFs",
        ),
        (
            "b",
            "ens2f0",
            129,
            "spec.numVfs: Invalid value: 129: node bm-1, interface ens2f0 has 128 VFs",
        ),
    ] {
        assert_refused(&on(rack, pf, num_vfs), &[says]);
    }
    let two_nodes = judged(json!({"nodeSelector": {"role": "bm"}, "numVfs": 100}));
    assert_refused(
        &two_nodes,
        &[
            "spec.numVfs: Invalid value: 100: node bm-0, interface ens1f0 has 64 VFs; node bm-1, interface ens1f0 has 16 VFs",
        ],
    );
}

#[test]
fn the_first_few_nodes_are_named_and_the_rest_counted() {
    let mut cluster = world();
    for i in 0..40 {
        let nic = json!([{"name": "ens1f0", "vendor": "8086", "deviceID": "158b", "pciAddress": "0000:18:00.0", "totalvfs": 2}]);
        add_node(&mut cluster, &format!("new-{i:02}"), Some(nic));
    }
    let verdict = judged_in(&cluster, json!({"nodeSelector": {"pool": "new"}}));
    assert_refused(
        &verdict,
        &[
            "4: node new-00, interface ens1f0 has 2 VFs; node new-01, interface ens1f0 has 2 VFs; node new-02, interface ens1f0 has 2 VFs; and 37 more",
        ],
    );
    assert_eq!(verdict.causes().len(), 1);
}

#[test]
fn externally_managed_nics_are_taken_as_they_are() {
    let ext = |change: Value| {
        let whole = json!({"nodeSelector": {"rack": "b"}, "nicSelector": {"pfNames": ["ens2f0"]}, "numVfs": 2, "externallyManaged": true});
        judged(replace_fields(whole, change))
    };
    for legal in [
        json!({}),
        json!({"numVfs": 1}),
        json!({"mtu": 1500}),
        json!({"mtu": 1400}),
        json!({"linkType": "eth"}),
    ] {
        assert_allowed(&ext(legal), &[]);
    }
    for (change, says) in [
        (
            json!({"numVfs": 3}),
            "spec.numVfs: Invalid value: 3: an externally managed PF must have as many VFs already: node bm-1, interface ens2f0 was given 2",
        ),
        (
            json!({"mtu": 1501}),
            "spec.mtu: Invalid value: 1501: an externally managed PF must have at least this MTU already: node bm-1, interface ens2f0 has 1500",
        ),
        (
            json!({"linkType": "IB"}),
            "spec.linkType: Invalid value: \"IB\": an externally managed PF must have this link type already: node bm-1, interface ens2f0 has \"ETH\"",
        ),
    ] {
        assert_refused(&ext(change), &[says]);
    }
    assert_allowed(&judged(json!({"mtu": 9000, "linkType": "IB"})), &[]);
}

#[test]
fn virtual_machines() {
    let vm = |role: &str, filter: &str| {
        judged(
            json!({"nodeSelector": {"role": role}, "numVfs": 1, "nicSelector": {"netFilter": filter}}),
        )
    };
    let id = "11111111-2222-3333-4444-555555555555";
    for legal in [
        format!("openstack/NetworkID:{id}"),
        format!("openstack/NetworkID : {id}"),
        format!("  openstack/NetworkID:  {id} "),
    ] {
        assert_allowed(&vm("vm", &legal), &[]);
    }
    assert_allowed(&vm("ec2", "aws/NetworkID:subnet-0abc"), &[]);
    for illegal in [
        format!("OpenStack/NetworkID:{id}"),
        format!("openstack/networkid:{id}"),
        format!("gcp/NetworkID:{id}"),
        "openstack/NetworkID:".into(),
        "openstack/NetworkID: a b".into(),
        "openstack /NetworkID:a".into(),
        id.to_owned(),
    ] {
        assert_refused(
            &vm("vm", &illegal),
            &[
                "spec.nicSelector.netFilter",
                "must be openstack/NetworkID:<id>",
            ],
        );
    }
    let mut moved = world();
    moved.insert_node("os-0", [("role", "vm")], "vsphere://1");
    let asked = json!({"nodeSelector": {"role": "vm"}, "numVfs": 1, "nicSelector": {"netFilter": format!("openstack/NetworkID:{id}")}});
    assert_refused(
        &judged_in(&moved, asked.clone()),
        &["providerID \"vsphere://1\" is not openstack"],
    );
    moved.insert_node("os-0", [("role", "vm")], "OpenStack://1");
    assert_allowed(&judged_in(&moved, asked), &[]);
}

#[test]
fn what_a_policy_would_take() {
    let cluster = world();
    let taken = |change: Value| {
        let object = ask(change).object;
        let policy = ParsedPolicy::new(&serde_json::from_value(object).unwrap()).unwrap();
        serde_json::to_value(claims(&policy, View::from(&cluster), &rules())).unwrap()
    };
    assert_eq!(
        taken(
            json!({"nodeSelector": {"role": "bm"}, "nicSelector": {"pfNames": ["lan-a#2-3", "ens1f0#0-1", "eno1"]}})
        ),
        json!([
            {"node": "bm-0", "interface": "ens1f0", "pciAddress": "0000:18:00.0", "vfs": ["0-1", "2-3"], "named": true},
            {"node": "bm-1", "interface": "ens1f0", "pciAddress": "0000:18:00.0", "vfs": ["0-1"], "named": true},
        ])
    );
    assert_eq!(
        taken(json!({"nicSelector": {"vendor": "15b3"}})),
        json!([
            {"node": "bm-0", "interface": "ens2f0", "pciAddress": "0000:3b:00.0", "vfs": ["0-3"], "named": false},
            {"node": "bm-0", "interface": "ens2f1", "pciAddress": "0000:3b:00.1", "vfs": ["0-3"], "named": false},
        ])
    );
    assert_eq!(
        taken(json!({"nicSelector": {"pfNames": ["eno1"]}})),
        json!([]),
        "not supported"
    );
}

#[test]
fn an_unchanged_policy_is_not_judged_again_when_its_node_lost_the_nic() {
    let gone = super::spec(json!({"nicSelector": {"pfNames": ["gone0"]}}));
    let mut touched = gone.clone();
    touched["priority"] = 99.into();
    let update = |new: &Value| {
        Asked::update(Kind::NodePolicy, "p", gone.clone(), new.clone()).verdict(&world(), &rules())
    };
    assert_allowed(&update(&gone), &[]);
    assert_allowed(&update(&touched), &[]);
    touched["priority"] = 98.into();
    assert_refused(&update(&touched), &["gone0"]);
}
