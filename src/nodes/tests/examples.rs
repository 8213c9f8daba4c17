//! Worked examples of merging, and what a node without NICs keeps.

use serde_json::{Value, json};

use super::{super::faults, *};

fn whole(id: &str, num_vfs: i64, resource: &str, change: Value) -> Value {
    policy(id, json!("ens1f0"), num_vfs, resource, change)
}

fn part(id: &str, range: &str, num_vfs: i64, resource: &str, change: Value) -> Value {
    policy(
        id,
        json!(format!("ens1f0#{range}")),
        num_vfs,
        resource,
        change,
    )
}

fn none() -> Value {
    json!({})
}

/// Fails unless the policies, in this order and in the reverse, make these interfaces.
#[track_caller]
fn assert_made(mut policies: Vec<Value>, expected: &[&str]) {
    assert_eq!(told(&planned(&policies)), expected);
    policies.reverse();
    assert_eq!(told(&planned(&policies)), expected, "in reverse order");
}

#[test]
fn one_policy_takes_its_nic() {
    assert_made(
        vec![whole("10/a", 4, "r1", none())],
        &["ens1f0 4; r1 0-3 a"],
    );
}

#[test]
fn policies_with_ranges_share_a_nic() {
    assert_made(
        vec![
            part("10/a", "0-1", 4, "r1", none()),
            part(
                "20/b",
                "2-3",
                4,
                "r2",
                json!({"mtu": 9000, "deviceType": "vfio-pci"}),
            ),
        ],
        &["ens1f0 4 mtu 9000; r1 0-1 a; r2 2-3 b mtu 9000"],
    );
    assert_made(
        vec![
            part("30/a", "0-1", 6, "r1", none()),
            part("20/b", "2-3", 6, "r2", none()),
            part("10/c", "4-5", 6, "r3", none()),
        ],
        &["ens1f0 6; r3 4-5 c; r2 2-3 b; r1 0-1 a"],
    );
}

#[test]
fn the_stronger_policy_takes_what_overlaps() {
    assert_made(
        vec![
            policy(
                "90/low",
                json!({"vendor": "8086"}),
                2,
                "r1",
                json!({"mtu": 1500}),
            ),
            whole("5/high", 6, "r2", json!({"mtu": 9000})),
        ],
        &[
            "ens1f0 6 mtu 9000; r2 0-5 high mtu 9000",
            "ens1f1 2 mtu 1500; r1 0-1 low mtu 1500",
        ],
    );
    assert_made(
        vec![
            whole("20/a", 4, "r1", json!({"mtu": 2000})),
            whole("10/b", 2, "r2", none()),
        ],
        &["ens1f0 2; r2 0-1 b"],
    );
    // b takes a's whole group, so that c finds 0-1 free.
    assert_made(
        vec![
            part("30/a", "0-3", 4, "r1", none()),
            part("20/b", "2-3", 4, "r2", none()),
            part("10/c", "0-1", 4, "r3", none()),
        ],
        &["ens1f0 4; r3 0-1 c; r2 2-3 b"],
    );
    // One new range takes two old groups.
    assert_made(
        vec![
            part("30/a", "0-1", 4, "r1", none()),
            part("20/b", "2-3", 4, "r2", none()),
            part("10/c", "1-2", 4, "r3", none()),
        ],
        &["ens1f0 4; r3 1-2 c"],
    );
}

#[test]
fn among_equals_the_later_name_is_the_stronger_and_they_share() {
    assert_made(
        vec![
            part("50/a", "0-1", 4, "r1", json!({"mtu": 1600})),
            part("50/b", "2-3", 8, "r2", json!({"mtu": 1700})),
        ],
        &["ens1f0 8 mtu 1700; r2 2-3 b mtu 1700; r1 0-1 a mtu 1600"],
    );
    assert_made(
        vec![
            whole("50/a", 4, "r1", json!({"mtu": 2000})),
            whole("50/b", 2, "r2", none()),
        ],
        &["ens1f0 4 mtu 2000; r2 0-1 b"],
    );
}

#[test]
fn groups_of_one_resource_stay_beside_each_other() {
    assert_made(
        vec![
            part("20/a", "2-3", 4, "r", none()),
            part("10/b", "0-1", 2, "r", none()),
        ],
        &["ens1f0 4; r 0-1 b; r 2-3 a"],
    );
}

#[test]
fn only_policies_of_the_nic_itself_are_its_equals() {
    assert_made(
        vec![
            whole("30/c", 8, "r3", none()),
            policy("20/a", json!("ens1f1"), 4, "r1", none()),
            whole("20/b", 4, "r2", none()),
        ],
        &["ens1f0 4; r2 0-3 b", "ens1f1 4; r1 0-3 a"],
    );
}

#[test]
fn what_the_stronger_leaves_open_is_the_weaker_ones_to_say_while_they_share() {
    let switchdev = || json!({"eSwitchMode": "switchdev", "linkType": "eth"});
    assert_made(
        vec![
            part("20/a", "0-1", 4, "r1", switchdev()),
            part("10/b", "2-3", 4, "r2", none()),
        ],
        &["ens1f0 4 eth switchdev; r2 2-3 b; r1 0-1 a"],
    );
    assert_made(
        vec![
            whole("20/a", 4, "r1", switchdev()),
            whole("10/b", 4, "r2", none()),
        ],
        &["ens1f0 4; r2 0-3 b"],
    );
    let plan = planned(&[
        part("20/a", "0-1", 4, "r1", switchdev()),
        part("10/b", "2-3", 4, "r2", json!({"eSwitchMode": "legacy"})),
    ]);
    assert_eq!(told(&plan), ["ens1f0 4 eth legacy; r2 2-3 b; r1 0-1 a"]);
    assert_eq!(plan.problems.len(), 1);
    assert_eq!(&*plan.problems[0].policy, "b");
    assert!(
        plan.problems[0]
            .text
            .starts_with("spec.eSwitchMode legacy of interface ens1f0 overrules switchdev")
    );
}

#[test]
fn a_nic_is_one_whatever_it_is_called() {
    assert_made(
        vec![policy("10/a", json!("lan-a#0-1"), 4, "r1", none())],
        &["ens1f0 4; r1 0-1 a"],
    );
    assert_made(
        vec![policy(
            "10/a",
            json!(["ens1f0#0-1", "lan-a#4-5"]),
            6,
            "r1",
            none(),
        )],
        &["ens1f0 6; r1 0-1 a; r1 4-5 a"],
    );
    assert_made(
        vec![
            policy("20/a", json!("enp24s0f0#0-3"), 4, "r1", none()),
            policy(
                "10/b",
                json!({"rootDevices": ["0000:18:00.0"]}),
                2,
                "r2",
                none(),
            ),
        ],
        &["ens1f0 2; r2 0-1 b"],
    );
    let plan = planned(&[policy(
        "10/a",
        json!(["lan-a#2-5", "ens1f0#0-3"]),
        6,
        "r1",
        none(),
    )]);
    assert_eq!(
        told(&plan),
        ["ens1f0 6; r1 2-5 a"],
        "the first entry counts"
    );
    assert!(
        plan.problems[0]
            .text
            .starts_with("spec.nicSelector.pfNames[1] names VFs 0-3")
    );
    let plan = planned(&[policy("10/a", json!(["lan-a", "ens1f0"]), 6, "r1", none())]);
    assert_eq!(told(&plan), ["ens1f0 6; r1 0-5 a"]);
}

#[test]
fn two_ranges_of_one_nic_are_two_groups() {
    assert_made(
        vec![policy(
            "10/a",
            json!(["ens1f0#0-1", "ens1f0#4-5"]),
            6,
            "r1",
            none(),
        )],
        &["ens1f0 6; r1 0-1 a; r1 4-5 a"],
    );
}

#[test]
fn interfaces_come_in_the_order_in_which_policies_mean_them() {
    assert_made(
        vec![
            policy(
                "30/c",
                json!({"vendor": "15b3", "deviceID": "1017"}),
                4,
                "r3",
                none(),
            ),
            policy("20/b", json!("ens1f1"), 4, "r2", none()),
            policy("10/a", json!("ens1f0"), 4, "r1", none()),
        ],
        &[
            "ens2f0 4; r3 0-3 c",
            "ens2f1 4; r3 0-3 c",
            "ens1f1 4; r2 0-3 b",
            "ens1f0 4; r1 0-3 a",
        ],
    );
}

#[test]
fn groups_carry_what_their_policy_says_of_them() {
    assert_made(
        vec![
            policy(
                "20/v",
                json!("ens2f0#2-3"),
                4,
                "r2",
                json!({"vdpaType": "virtio", "eSwitchMode": "switchdev"}),
            ),
            policy(
                "10/h",
                json!("ens2f0#0-1"),
                4,
                "r1",
                json!({"vdpaType": "vhost", "eSwitchMode": "switchdev"}),
            ),
        ],
        &["ens2f0 4 switchdev; r1 0-1 h vhost; r2 2-3 v virtio"],
    );
    let plan = planned(&[whole(
        "10/a",
        4,
        "r",
        json!({"isRdma": true, "externallyManaged": true, "mtu": 9000}),
    )]);
    assert_eq!(
        serde_json::to_value(&plan.spec).unwrap(),
        json!({
            "bridges": {}, "system": {},
            "interfaces": [{
                "name": "ens1f0", "pciAddress": "0000:18:00.0", "numVfs": 4, "mtu": 9000, "externallyManaged": true,
                "vfGroups": [{
                    "resourceName": "r", "policyName": "a", "deviceType": "netdevice", "vfRange": "0-3",
                    "isRdma": true, "mtu": 9000,
                }],
            }],
        })
    );
}

#[test]
fn what_means_nothing_does_nothing() {
    for nothing in [
        policy("10/a", json!("nope"), 4, "r", none()),
        policy("10/a", json!({}), 4, "r", none()),
        policy("10/default", json!("ens1f0"), 4, "r", none()),
        policy("10/a", json!("ens1f0"), 0, "r", none()),
    ] {
        let plan = planned(std::slice::from_ref(&nothing));
        assert_eq!(told(&plan), [""; 0], "{nothing}");
        assert!(!plan.enabled);
        assert_eq!(plan.resources, Some(Vec::new()));
    }
    // A strong policy without VFs takes nothing away either.
    assert_made(
        vec![
            whole("20/a", 4, "r", none()),
            whole("10/b", 0, "r2", none()),
        ],
        &["ens1f0 4; r 0-3 a"],
    );
}

#[test]
fn a_policy_is_told_what_of_it_is_not_done() {
    let bridge = |change: Value| {
        let mut fields = json!({"bridge": {"ovs": {}}, "eSwitchMode": "switchdev"});
        fields
            .as_object_mut()
            .unwrap()
            .extend(change.as_object().unwrap().clone());
        whole("10/a", 4, "r", fields)
    };
    for (policy, gate, says) in [
        (whole("10/a", 4, "r", none()), true, None),
        (
            whole("10/a", 0, "r", none()),
            false,
            Some("spec.numVfs is 0"),
        ),
        (
            policy("10/a", json!({}), 4, "r", none()),
            false,
            Some("spec.nicSelector"),
        ),
        (
            whole("10/a", 4, "", none()),
            false,
            Some("spec.resourceName \"\" is empty"),
        ),
        (
            whole("10/a", 4, "a.b", none()),
            false,
            Some("spec.resourceName \"a.b\""),
        ),
        (bridge(none()), true, None),
        (
            bridge(json!({"eSwitchMode": "legacy"})),
            true,
            Some("spec.eSwitchMode"),
        ),
        (
            bridge(json!({"linkType": "ib"})),
            true,
            Some("spec.linkType"),
        ),
        (
            bridge(json!({"externallyManaged": true})),
            true,
            Some("spec.bridge.ovs"),
        ),
        (bridge(json!({"externallyManaged": true})), false, None),
    ] {
        let found = faults(&parsed(std::slice::from_ref(&policy))[0], gate);
        assert_eq!(
            found.len(),
            usize::from(says.is_some()),
            "{policy}: {found:?}"
        );
        assert!(
            says.is_none_or(|says| found[0].starts_with(says)),
            "{found:?}"
        );
    }
}

#[test]
fn a_node_without_nics_keeps_what_still_selects_it() {
    let stored = planned(&[
        part("10/a", "0-1", 4, "r1", none()),
        part("20/b", "2-3", 4, "r2", none()),
        policy("20/c", json!("ens1f1"), 4, "r3", none()),
    ])
    .spec;
    let again = |policies: &[Value]| {
        let policies = parsed(policies);
        let policies: Vec<&ParsedPolicy> = policies.iter().collect();
        plan(&NodeView {
            nics: &[],
            policies: &policies,
            nic_ids: &no_ids(),
            bridges: false,
            rdma_mode: Some("exclusive"),
            stored: Some(&stored),
        })
    };
    let kept = again(&[part("10/a", "0-1", 4, "r1", none())]);
    assert_eq!(told(&kept), ["ens1f0 4; r1 0-1 a"]);
    assert!(kept.enabled && kept.resources.is_none());
    assert_eq!(
        kept.spec.system.unwrap().rdma_mode.as_deref(),
        Some("exclusive")
    );
    let cleared = again(&[]);
    assert_eq!(told(&cleared), [""; 0]);
    assert!(!cleared.enabled);
    assert_eq!(cleared.resources, Some(Vec::new()));
}
