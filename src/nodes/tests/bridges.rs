//! Software bridges.

use serde_json::{Value, json};

use super::*;

fn bridged(id: &str, nics: Value, change: &Value) -> Value {
    let mut fields = json!({
        "eSwitchMode": "switchdev",
        "bridge": {"ovs": {"bridge": {"datapathType": "netdev"}, "uplink": {"interface": {"type": "dpdk"}}}},
    });
    fields
        .as_object_mut()
        .unwrap()
        .extend(change.as_object().unwrap().clone());
    policy(id, nics, 4, "r", fields)
}

fn bridges(policies: &[Value], gate: bool) -> Value {
    let plan = planned_on(&world(), "bm-0", policies, gate);
    serde_json::to_value(plan.spec.bridges).unwrap()
}

fn names(policies: &[Value]) -> Vec<String> {
    let bridges = bridges(policies, true);
    let list = bridges["ovs"].as_array().cloned().unwrap_or_default();
    list.iter()
        .map(|bridge| bridge["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_policy_makes_a_bridge_for_each_of_its_nics() {
    let two = bridged(
        "10/a",
        json!({"rootDevices": ["0000:3b:00.0", "0000:18:00.0"]}),
        &json!({"mtu": 9000}),
    );
    assert_eq!(
        bridges(&[two], true),
        json!({"ovs": [
            {
                "name": "br-0000_18_00.0",
                "bridge": {"datapathType": "netdev"},
                "uplinks": [{"name": "ens1f0", "pciAddress": "0000:18:00.0", "interface": {"type": "dpdk", "mtuRequest": 9000}}],
            },
            {
                "name": "br-0000_3b_00.0",
                "bridge": {"datapathType": "netdev"},
                "uplinks": [{"name": "ens2f0", "pciAddress": "0000:3b:00.0", "interface": {"type": "dpdk", "mtuRequest": 9000}}],
            },
        ]})
    );
}

#[test]
fn the_strongest_policy_of_a_nic_decides() {
    let asks = || bridged("20/a", json!("ens1f0#0-1"), &json!({}));
    assert_eq!(names(&[asks()]), ["br-0000_18_00.0"]);
    let other = policy("10/b", json!("ens1f0#2-3"), 4, "r2", json!({}));
    assert_eq!(names(&[other.clone(), asks()]), [""; 0]);
    let empty = bridged("10/b", json!("ens1f0#2-3"), &json!({"bridge": {"ovs": {}}}));
    assert_eq!(
        bridges(&[asks(), empty], true)["ovs"][0]["bridge"],
        json!({})
    );
    let elsewhere = policy("10/b", json!("ens1f1"), 4, "r2", json!({}));
    assert_eq!(names(&[asks(), elsewhere]), ["br-0000_18_00.0"]);
}

#[test]
fn a_bridge_that_cannot_be_made_costs_only_itself() {
    let good = || bridged("20/a", json!("ens1f0"), &json!({}));
    for bad in [
        json!({"eSwitchMode": "legacy"}),
        json!({"linkType": "IB"}),
        json!({"externallyManaged": true}),
    ] {
        let bad = bridged("10/b", json!(["ens1f0", "ens1f1"]), &bad);
        assert_eq!(names(&[good(), bad.clone()]), ["br-0000_18_00.0"]);
        let plan = planned_on(&world(), "bm-0", &[bad], true);
        assert_eq!(plan.spec.interfaces.unwrap().len(), 2);
    }
}

#[test]
fn without_the_gate_there_is_none() {
    let asks = bridged("20/a", json!("ens1f0"), &json!({}));
    assert_eq!(bridges(&[asks], false), json!({}));
}
