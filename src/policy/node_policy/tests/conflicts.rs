//! What policies must agree on, per node and NIC.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{add_node, ask, judged, judged_in, replace_fields, spec, store, world_with};
use crate::policy::{
    Cluster, Kind, ParsedPolicy, View,
    tests::support::{
        Asked, NAMESPACE, assert_allowed, assert_no_warnings, assert_refused, rules, world,
    },
};

/// Stored and new selectors, and whether they get along, on `bm-0`.
fn pairs() -> Vec<(Value, Value, bool)> {
    let pf = |names: &[&str]| json!({"pfNames": names});
    let at = |addresses: &[&str]| json!({"rootDevices": addresses});
    let f0 = "0000:18:00.0";
    vec![
        (pf(&["ens1f0"]), pf(&["ens1f0"]), false),
        (pf(&["ens1f0#0-1"]), pf(&["ens1f0#2-3"]), true),
        (pf(&["ens1f0#0-1"]), pf(&["ens1f0#1-3"]), false),
        (pf(&["ens1f0#0-1"]), pf(&["ens1f0"]), false),
        (pf(&["ens1f0"]), pf(&["ens1f0#3-3"]), false),
        (pf(&["ens1f0#0-1", "ens1f0#3-3"]), pf(&["ens1f0#2-2"]), true),
        (
            pf(&["ens1f0#0-0", "ens1f0#3-3"]),
            pf(&["ens1f0#1-3"]),
            false,
        ),
        // Every pair is compared, not only the first that shares a NIC.
        (
            pf(&["ens1f0#2-3", "ens2f1#0-3"]),
            pf(&["ens1f0#0-1", "ens2f1#0-3"]),
            false,
        ),
        // Whatever the NIC is called.
        (pf(&["ens1f0#0-1"]), pf(&["lan-a#2-3"]), true),
        (pf(&["ens1f0#0-1"]), pf(&["lan-a#1-1"]), false),
        (pf(&["enp24s0f0"]), pf(&["lan-a"]), false),
        (pf(&["ens1f0"]), at(&[f0]), false),
        (at(&[f0]), at(&[f0]), false),
        (at(&[f0]), pf(&["lan-a#3-3"]), false),
        (at(&[f0]), at(&["0000:18:00.9", "0000:18:00.1"]), true),
        // Beside PF names addresses only filter.
        (
            json!({"rootDevices": [f0], "pfNames": ["ens1f0#0-1"]}),
            json!({"rootDevices": [f0], "pfNames": ["ens1f0#2-3"]}),
            true,
        ),
        (
            json!({"rootDevices": [f0], "pfNames": ["ens1f0#0-1"]}),
            json!({"rootDevices": [f0], "pfNames": ["ens1f0#1-2"]}),
            false,
        ),
        (
            json!({"rootDevices": ["0000:ff:00.0"], "pfNames": ["ens1f0"]}),
            pf(&["ens1f0"]),
            true,
        ),
        // A NIC that is only meant by vendor or device is not named: priority decides.
        (json!({"vendor": "8086"}), pf(&["ens1f0"]), true),
        (
            pf(&["ens1f0"]),
            json!({"vendor": "8086", "deviceID": "158b"}),
            true,
        ),
        (json!({"vendor": "8086"}), json!({"vendor": "8086"}), true),
        (
            json!({"vendor": "8086", "pfNames": ["ens1f0"]}),
            pf(&["ens1f0"]),
            false,
        ),
        (
            json!({"vendor": "15b3", "pfNames": ["ens1f0"]}),
            pf(&["ens1f0"]),
            true,
        ),
        (pf(&["ens1f0"]), pf(&["ens1f1"]), true),
        (pf(&["nonexistent"]), pf(&["nonexistent", "ens1f0"]), true),
    ]
}

/// The recorded nodes without the recorded policies.
fn without_policies() -> Cluster {
    let mut cluster = world();
    cluster.retain_policies(|_| false);
    cluster
}

#[test]
fn no_two_policies_name_one_virtual_function() {
    for (stored, new, fine) in pairs() {
        for (stored, new) in [(&stored, &new), (&new, &stored)] {
            let mut cluster = without_policies();
            store(&mut cluster, "old", json!({"nicSelector": stored}));
            let verdict = judged_in(&cluster, json!({"nicSelector": new}));
            let overlaps = verdict.status_message().contains("overlaps policy \"old\"");
            assert_eq!(
                !overlaps,
                fine,
                "{stored} and {new}: {}",
                verdict.status_message()
            );
        }
    }
}

#[test]
fn an_overlap_names_entry_policy_node_and_interface() {
    let cluster = world_with(
        "old",
        json!({"nodeSelector": {"role": "bm"}, "nicSelector": {"pfNames": ["ens1f0#0-1"]}}),
    );
    let verdict = judged_in(
        &cluster,
        json!({"nodeSelector": {"role": "bm"}, "nicSelector": {"pfNames": ["ens1f1#4-5", "ens1f0#1-3"]}, "numVfs": 8}),
    );
    assert_refused(
        &verdict,
        &[
            "spec.nicSelector.pfNames[1]: Invalid value: \"ens1f0#1-3\": overlaps policy \"old\", which names VFs 0-1 of node bm-0, interface ens1f0; VFs 0-1 of node bm-1, interface ens1f0",
        ],
    );
    assert_eq!(verdict.faults().len(), 1, "{}", verdict.status_message());
}

#[test]
fn policies_for_other_nodes_do_not_matter() {
    let cluster = world_with("old", json!({"nodeSelector": {"rack": "b"}}));
    assert_allowed(
        &judged_in(&cluster, json!({"nodeSelector": {"rack": "a"}})),
        &[],
    );
    assert_refused(
        &judged_in(&cluster, json!({"nodeSelector": {"role": "bm"}})),
        &["node bm-1, interface ens1f0"],
    );
}

#[test]
fn a_policy_is_not_compared_with_the_version_it_replaces() {
    let stored = spec(
        json!({"nodeSelector": {"role": "bm"}, "nicSelector": {"pfNames": ["ens1f1#0-3"]}, "numVfs": 8}),
    );
    let mut new = stored.clone();
    new["nicSelector"] = json!({"pfNames": ["ens1f1#0-5"]});
    let verdict =
        Asked::update(Kind::NodePolicy, "intel-a", stored, new.clone()).verdict(&world(), &rules());
    assert_allowed(&verdict, &[]);
    let verdict = Asked::create(Kind::NodePolicy, "other", new).verdict(&world(), &rules());
    assert_refused(&verdict, &["intel-a"]);
}

#[test]
fn the_policy_called_default_takes_nothing() {
    let cluster = world_with("default", json!({}));
    assert_allowed(&judged_in(&cluster, json!({})), &[]);
}

#[test]
fn a_policy_without_virtual_functions_is_in_nobodys_way() {
    let cluster = world_with("old", json!({"numVfs": 0}));
    assert_allowed(&judged_in(&cluster, json!({})), &[]);
}

#[test]
fn names_of_one_nic_in_one_policy() {
    let verdict = judged(json!({"nicSelector": {"pfNames": ["ens1f0#0-1", "lan-a#1-3"]}}));
    assert_refused(
        &verdict,
        &[
            "spec.nicSelector.pfNames[1]: Invalid value: \"lan-a#1-3\": overlaps spec.nicSelector.pfNames[0] (\"ens1f0#0-1\"), which is the same NIC: node bm-0, interface ens1f0",
        ],
    );
    assert_eq!(verdict.faults().len(), 1);
    assert_refused(
        &judged(json!({"nicSelector": {"pfNames": ["ens1f0", "enp24s0f0"]}})),
        &["the same NIC"],
    );
    assert_allowed(
        &judged(json!({"nicSelector": {"pfNames": ["ens1f0#0-1", "lan-a#2-3"]}})),
        &[],
    );
}

#[test]
fn external_management_is_agreed_on_by_those_who_name_a_nic() {
    let new = |change: Value| {
        let whole = json!({"nicSelector": {"pfNames": ["ens2f0#2-5"]}, "numVfs": 6});
        judged(replace_fields(whole, change))
    };
    assert_allowed(&new(json!({"externallyManaged": true})), &[]);
    for other in [json!({}), json!({"externallyManaged": false})] {
        assert_refused(
            &new(other),
            &[
                "spec.externallyManaged: Invalid value: false: policy \"mlx-ext\" has true for the same NIC: node bm-0, interface ens2f0",
            ],
        );
    }
    let unnamed = judged(json!({"nicSelector": {"vendor": "15b3"}}));
    assert_allowed(&unnamed, &[]);
}

#[test]
fn one_resource_has_one_topology_on_a_node() {
    let topo = |nodes: Value, exclude: Option<bool>| {
        judged(
            json!({"resourceName": "topo_res", "nodeSelector": nodes, "nicSelector": {"vendor": "8086"}, "excludeTopology": exclude}),
        )
    };
    assert_allowed(&topo(json!({"role": "bm"}), Some(true)), &[]);
    for exclude in [None, Some(false)] {
        assert_refused(
            &topo(json!({"rack": "b"}), exclude),
            &[
                "spec.excludeTopology: Invalid value: false: policy \"topo\" has true for the same resourceName: node bm-1",
            ],
        );
    }
    let elsewhere = judged(json!({
        "resourceName": "topo_res", "nodeSelector": {"role": "vm"}, "numVfs": 1, "nicSelector": {"pfNames": ["ens5"]}
    }));
    assert_allowed(&elsewhere, &[]);
}

#[test]
fn policies_that_share_a_nic_are_warned_of_different_settings() {
    let old = json!({"nicSelector": {"pfNames": ["ens1f0#0-1"]}, "mtu": 9000, "linkType": "eth", "eSwitchMode": "switchdev"});
    let cluster = world_with("old", old);
    let new = |change: Value| {
        let whole = json!({"nicSelector": {"pfNames": ["lan-a#2-3"]}, "eSwitchMode": "switchdev"});
        judged_in(&cluster, replace_fields(whole, change))
    };
    for (change, warning) in [
        (
            json!({"mtu": 1500}),
            "spec.mtu: differs from that of policy \"old\", which shares node bm-0, interface ens1f0",
        ),
        (
            json!({"linkType": "ib", "eSwitchMode": "legacy"}),
            "spec.linkType: differs",
        ),
        (json!({"eSwitchMode": null}), "spec.eSwitchMode: differs"),
    ] {
        assert_allowed(&new(change), &[warning]);
    }
    for same in [json!({}), json!({"mtu": 9000}), json!({"linkType": "ETH"})] {
        let verdict = new(same);
        assert_allowed(&verdict, &[]);
        assert_no_warnings(&verdict);
    }
    // Where one claims what the other has, nothing is shared: one gives way altogether.
    let by_vendor = judged_in(
        &cluster,
        json!({"nicSelector": {"vendor": "8086"}, "mtu": 1500}),
    );
    assert_no_warnings(&by_vendor);
}

#[test]
fn where_no_nic_is_known_yet_one_text_is_one_nic() {
    let mut cluster = world();
    add_node(&mut cluster, "new-0", Some(json!([])));
    let pool = |nics: Value| json!({"nodeSelector": {"pool": "new"}, "nicSelector": nics});
    store(
        &mut cluster,
        "old",
        pool(json!({"vendor": "8086", "pfNames": ["ens1f0#0-1"]})),
    );
    for (nics, fine) in [
        (json!({"pfNames": ["ens1f0#2-3"]}), true),
        (json!({"pfNames": ["ens1f0"]}), false),
        (json!({"vendor": "15b3", "pfNames": ["ens1f0"]}), true),
        (json!({"pfNames": ["ens1f1"]}), true),
        (json!({"rootDevices": ["0000:18:00.0"]}), true),
    ] {
        let verdict = judged_in(&cluster, pool(nics.clone()));
        assert_eq!(
            verdict.allowed(),
            fine,
            "{nics}: {}",
            verdict.status_message()
        );
    }
    let verdict = judged_in(&cluster, pool(json!({"pfNames": ["ens1f0"]})));
    assert_refused(
        &verdict,
        &["overlaps policy \"old\", which names VFs 0-1 there on node new-0"],
    );
}

#[test]
fn what_was_just_admitted_counts() {
    let cluster = without_policies();
    let first = ask(json!({}));
    let admitted = first
        .verdict(&cluster, &rules())
        .admitted()
        .cloned()
        .unwrap();
    assert_eq!(admitted.name(), "new");

    let second = Asked::create(Kind::NodePolicy, "second", spec(json!({})));
    let view = |admitted: &[Arc<ParsedPolicy>]| {
        second.verdict(
            View {
                cluster: &cluster,
                admitted,
            },
            &rules(),
        )
    };
    assert_allowed(&view(&[]), &[]);
    assert_refused(
        &view(std::slice::from_ref(&admitted)),
        &["overlaps policy \"new\""],
    );

    // A later version replaces an earlier one, and the stored one.
    let moved = Asked::create(
        Kind::NodePolicy,
        "new",
        spec(json!({"nicSelector": {"pfNames": ["ens1f1"]}})),
    );
    let moved = moved
        .verdict(&cluster, &rules())
        .admitted()
        .cloned()
        .unwrap();
    assert_allowed(&view(&[admitted.clone(), moved.clone()]), &[]);
    assert_refused(
        &view(&[moved.clone(), admitted.clone()]),
        &["overlaps policy \"new\""],
    );
    let mut stored = cluster.clone();
    store(&mut stored, "new", json!({}));
    assert_refused(
        &second.verdict(&stored, &rules()),
        &["overlaps policy \"new\""],
    );
    let view = View {
        cluster: &stored,
        admitted: &[moved],
    };
    assert_allowed(&second.verdict(view, &rules()), &[]);

    // What is refused takes nothing.
    assert!(judged(json!({"numVfs": 0})).admitted().is_none());
}

#[test]
fn a_malformed_stored_policy_harms_no_verdict() {
    for bad in [
        json!({"nicSelector": {"pfNames": ["ens1f0#3"]}}),
        json!({"nicSelector": {"netFilter": "nonsense"}}),
        json!({"numVfs": "four"}),
    ] {
        let mut cluster = world();
        let object = Asked::create(Kind::NodePolicy, "bad", spec(bad.clone())).object;
        let aside = cluster.insert_object(&object, NAMESPACE);
        assert_eq!(aside.len(), 1, "{bad}");
        assert!(
            aside[0]
                .to_string()
                .contains("SriovNetworkNodePolicy bad is set aside: "),
            "{}",
            aside[0]
        );
        assert_allowed(&judged_in(&cluster, json!({})), &[]);
    }
}
