//! What device plugins offer.

use serde_json::{Value, json};

use super::{
    super::plugin::{Spelling, text},
    *,
};

fn offered_on(node: &str, policies: &[Value]) -> Vec<Value> {
    let plan = planned_on(&world(), node, policies, false);
    let text = text(&plan.resources.unwrap(), Spelling::Full);
    let config: Value = serde_json::from_str(&text).unwrap();
    config["resourceList"]
        .as_array()
        .cloned()
        .unwrap_or_default()
}

fn offered(policies: &[Value]) -> Vec<Value> {
    offered_on("bm-0", policies)
}

/// The selectors of one resource without those words that are always there.
fn selectors(resource: &Value) -> Value {
    let mut selectors = resource["selectors"].clone();
    let fields = selectors.as_object_mut().unwrap();
    fields.retain(|_, value| *value != json!(false));
    selectors
}

#[test]
fn the_text_is_that_of_the_device_plugin() {
    let plan = planned(&[
        policy(
            "20/b",
            json!("ens1f0#0-9"),
            20,
            "r1",
            json!({"deviceType": "vfio-pci"}),
        ),
        policy(
            "10/a",
            json!("ens2f0"),
            4,
            "r2",
            json!({"isRdma": true, "needVhostNet": true, "excludeTopology": true, "linkType": "eth", "vdpaType": "vhost"}),
        ),
    ]);
    let resources = plan.resources.unwrap();
    assert_eq!(
        text(&resources, Spelling::Full),
        r#"{"resourceList":[{"resourceName":"r1","selectors":{"pfNames":["ens1f0#0-9"],"IsRdma":false,"NeedVhostNet":false},"SelectorObj":null},{"resourceName":"r2","excludeTopology":true,"selectors":{"pfNames":["ens2f0"],"linkTypes":["ether"],"IsRdma":true,"NeedVhostNet":true,"vdpaType":"vhost"},"SelectorObj":null}]}"#
    );
    assert_eq!(
        text(&resources[..1], Spelling::Terse),
        r#"{"resourceList":[{"resourceName":"r1","selectors":{"pfNames":["ens1f0#0-9"]}}]}"#
    );
    assert_eq!(text(&[], Spelling::Full), r#"{"resourceList":null}"#);
}

#[test]
fn a_resource_is_described_as_its_policy_describes_it() {
    let one = |nics: Value, change: Value| {
        selectors(&offered(&[policy("10/a", nics, 4, "r", change)])[0])
    };
    assert_eq!(
        one(json!("ens1f0"), json!({})),
        json!({"pfNames": ["ens1f0"]})
    );
    assert_eq!(
        one(
            json!({"vendor": "8086", "pfNames": ["ens1f0#0-1", "ens9"]}),
            json!({})
        ),
        json!({"vendors": ["8086"], "pfNames": ["ens1f0#0-1", "ens9"]})
    );
    assert_eq!(
        one(json!({"vendor": "15b3"}), json!({})),
        json!({"vendors": ["15b3"]})
    );
    assert_eq!(
        one(json!({"vendor": "15b3", "deviceID": "1017"}), json!({})),
        json!({"vendors": ["15b3"], "devices": ["1018"]})
    );
    assert_eq!(
        one(
            json!({"rootDevices": ["0000:18:00.0"]}),
            json!({"linkType": "ETH"})
        ),
        json!({"rootDevices": ["0000:18:00.0"], "linkTypes": ["ether"]})
    );
    assert_eq!(
        one(
            json!({"rootDevices": ["0000:18:00.0"]}),
            json!({"linkType": "ETH", "deviceType": "vfio-pci"})
        ),
        json!({"rootDevices": ["0000:18:00.0"]})
    );
    assert_eq!(
        one(json!("ens2f1"), json!({"linkType": "ib", "isRdma": true})),
        json!({"pfNames": ["ens2f1"], "linkTypes": ["infiniband"], "IsRdma": true})
    );
}

#[test]
fn names_are_those_that_the_nics_have() {
    let of = |names: Value| {
        selectors(&offered(&[policy("10/a", names, 20, "r", json!({}))])[0])["pfNames"].clone()
    };
    assert_eq!(of(json!("lan-a#0-1")), json!(["ens1f0#0-1"]));
    assert_eq!(of(json!("lan-a")), json!(["ens1f0"]));
    assert_eq!(
        of(json!(["enp24s0f0#10-19", "ens1f1"])),
        json!(["ens1f0#10-19", "ens1f1"])
    );
    assert_eq!(
        of(json!(["lan-a", "ens1f0", "ens1f1"])),
        json!(["ens1f0", "ens1f0", "ens1f1"])
    );
}

#[test]
fn several_ranges_of_a_nic_are_one_entry() {
    assert_eq!(
        selectors(
            &offered(&[policy(
                "10/a",
                json!(["ens1f0#0-1", "ens1f0#4-5"]),
                6,
                "r",
                json!({})
            )])[0]
        ),
        json!({"pfNames": ["ens1f0#0-1,4-5"]})
    );
    let disjoint = offered(&[
        policy("20/a", json!("ens1f0#2-3"), 6, "r", json!({})),
        policy("10/b", json!("ens1f0#0-1"), 6, "r", json!({})),
    ]);
    assert_eq!(disjoint.len(), 1);
    assert_eq!(selectors(&disjoint[0]), json!({"pfNames": ["ens1f0#0-3"]}));
}

#[test]
fn a_resource_has_no_device_of_another() {
    let offered = offered(&[
        policy("90/low", json!({"vendor": "8086"}), 2, "r1", json!({})),
        policy("5/high", json!("ens1f0"), 6, "r2", json!({})),
    ]);
    assert_eq!(offered[0]["resourceName"], "r1");
    assert_eq!(selectors(&offered[0]), json!({"pfNames": ["ens1f1"]}));
    assert_eq!(selectors(&offered[1]), json!({"pfNames": ["ens1f0"]}));
    // The whole of a weaker policy is a part once a stronger one wants more VFs.
    let shared = super::plugin::offered(&[
        policy("50/a", json!("ens1f0"), 4, "r1", json!({})),
        policy("50/b", json!("ens1f0#4-7"), 8, "r2", json!({})),
    ]);
    assert_eq!(selectors(&shared[0]), json!({"pfNames": ["ens1f0#0-3"]}));
}

#[test]
fn policies_of_one_resource_are_described_together() {
    let same_way = offered(&[
        policy("20/b", json!("ens1f1"), 4, "r", json!({})),
        policy("10/a", json!("ens1f0"), 4, "r", json!({})),
    ]);
    assert_eq!(
        selectors(&same_way[0]),
        json!({"pfNames": ["ens1f1", "ens1f0"]})
    );
    // Joined field by field these would select nothing.
    let mixed = offered(&[
        policy(
            "30/c",
            json!({"vendor": "15b3", "deviceID": "1017"}),
            4,
            "r",
            json!({"isRdma": true}),
        ),
        policy("20/b", json!("ens1f1"), 4, "r", json!({"isRdma": true})),
        policy(
            "10/a",
            json!("ens1f0"),
            4,
            "r",
            json!({"isRdma": true, "excludeTopology": true}),
        ),
    ]);
    assert_eq!(mixed.len(), 1);
    assert_eq!(mixed[0]["excludeTopology"], true);
    assert_eq!(
        selectors(&mixed[0]),
        json!({"pfNames": ["ens2f0", "ens2f1", "ens1f1", "ens1f0"], "IsRdma": true})
    );
}

#[test]
fn a_policy_without_a_nic_on_the_node_offers_nothing() {
    let nowhere = policy("10/a", json!("nope"), 4, "r", json!({}));
    assert_eq!(offered(std::slice::from_ref(&nowhere)), [json!(null); 0]);
    // Neither does one whose NICs are all a stronger one's, nor one whose resource has no legal name.
    let overruled = offered(&[
        policy("20/a", json!("ens1f0"), 4, "r1", json!({})),
        policy("10/b", json!("ens1f0"), 4, "r2", json!({})),
    ]);
    assert_eq!(overruled.len(), 1);
    assert_eq!(overruled[0]["resourceName"], "r2");
    let unnamed = planned(&[policy("10/a", json!("ens1f0"), 4, "", json!({}))]);
    assert!(unnamed.enabled);
    assert_eq!(unnamed.resources, Some(Vec::new()));
}

#[test]
fn the_nic_of_a_virtual_machine_is_the_device() {
    let network = json!({"netFilter": "openstack/NetworkID:11111111-2222-3333-4444-555555555555"});
    assert_eq!(
        selectors(&offered_on("os-0", &[policy("10/a", network, 1, "r", json!({}))])[0]),
        json!({"pciAddresses": ["0000:00:05.0"]})
    );
    let by_vendor = json!({"vendor": "1d0f"});
    assert_eq!(
        selectors(&offered_on("aws-0", &[policy("10/a", by_vendor, 1, "r", json!({}))])[0]),
        json!({"vendors": ["1d0f"]})
    );
}

#[test]
fn a_name_within_another_name_is_not_trusted() {
    let mut cluster = world();
    let nic = |name: &str, address: &str| json!({"name": name, "pciAddress": address, "vendor": "8086", "totalvfs": 8, "numVfs": 2});
    let state = json!({"kind": "SriovNetworkNodeState", "metadata": {"name": "n", "namespace": "sriov-network-operator"},
        "status": {"interfaces": [nic("eth1", "0000:01:00.0"), nic("eth10", "0000:02:00.0")]}});
    cluster.insert_object(&state, "sriov-network-operator");
    let of = |name: &str| {
        let plan = planned_on(
            &cluster,
            "n",
            &[policy("10/a", json!(name), 4, "r", json!({}))],
            false,
        );
        plan.resources.unwrap()[0].selectors.clone()
    };
    assert_eq!(of("eth10").pf_names, ["eth10"]);
    assert_eq!(of("eth1#0-1").pf_names, [""; 0]);
    assert_eq!(of("eth1#0-1").root_devices, ["0000:01:00.0#0-1"]);
}
