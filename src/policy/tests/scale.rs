//! A verdict costs what it selects, not what there is: counted in nodes looked at, so that no clock is needed.

use serde_json::{Value, json};

use super::support::{Asked, assert_allowed, assert_refused, rules, world};
use crate::policy::{Cluster, Kind, Operation, cluster::work};

const SELECTED: usize = 125;

/// `size` nodes of which 125 are in pool `a`, four PFs each, and 20 stored policies for those.
fn cluster(size: usize) -> Cluster {
    let mut cluster = Cluster::default();
    cluster.set_nic_ids(world().nic_ids().clone());
    for i in 0..size {
        let name = format!("node-{i:05}");
        let pool = if i % (size / SELECTED) == 0 { "a" } else { "b" };
        cluster.insert_node(
            &name,
            [
                ("kubernetes.io/hostname", name.as_str()),
                ("kubernetes.io/os", "linux"),
                ("pool", pool),
            ],
            "",
        );
        let interfaces: Vec<_> = (0..4)
            .map(|pf| json!({"name": format!("ens1f{pf}"), "pciAddress": format!("0000:18:00.{pf}"), "vendor": "8086", "deviceID": "158b", "totalvfs": 64}))
            .collect();
        cluster.insert_state(
            &name,
            serde_json::from_value(json!({"interfaces": interfaces})).unwrap(),
        );
    }
    for i in 0..20 {
        let pf = format!("ens1f{}#{}-{}", i % 4, i, i);
        let spec = json!({"resourceName": format!("r{i}"), "nodeSelector": {"pool": "a"}, "numVfs": 40, "nicSelector": {"pfNames": [pf]}});
        let policy = Asked::create(Kind::NodePolicy, &format!("p{i}"), spec).object;
        assert_eq!(
            cluster.insert_object(&policy, super::support::NAMESPACE),
            []
        );
    }
    cluster
}

fn asked(nodes: Value, pf: &str) -> Asked {
    let mut spec = json!({"resourceName": "new", "numVfs": 40, "nicSelector": {"pfNames": [pf]}});
    spec["nodeSelector"] = nodes;
    Asked::create(Kind::NodePolicy, "new", spec)
}

#[test]
fn the_size_of_the_cluster_does_not_matter() {
    let looks = |size: usize| {
        let cluster = cluster(size);
        let rarest_decides = asked(
            json!({"kubernetes.io/os": "linux", "pool": "a"}),
            "ens1f0#30-39",
        );
        work::looks(|| assert_allowed(&rarest_decides.verdict(&cluster, &rules()), &[]))
    };
    let (small, large) = (looks(1_000), looks(10_000));
    assert_eq!(small, large);
    assert_eq!(
        large,
        SELECTED * (1 + 20),
        "each selected node once, and once for each policy"
    );
}

#[test]
fn what_is_selected_is_found_among_ten_thousand() {
    let cluster = cluster(10_000);
    let verdict = asked(json!({"pool": "a"}), "ens1f0#0-9").verdict(&cluster, &rules());
    assert_refused(
        &verdict,
        &[
            "overlaps policy \"p0\"",
            "overlaps policy \"p4\"",
            "and 122 more",
        ],
    );
}

#[test]
fn other_kinds_look_at_no_node() {
    let cluster = cluster(1_000);
    let mut config = Asked::create(
        Kind::OperatorConfig,
        "default",
        json!({"disableDrain": true}),
    );
    config.old = Some(Asked::create(Kind::OperatorConfig, "default", json!({})).object);
    config.operation = Operation::Update;
    assert_eq!(
        work::looks(|| assert_allowed(&config.verdict(&cluster, &rules()), &[])),
        0
    );
}

#[test]
fn a_hostile_policy_is_refused_without_comparing_every_pair() {
    let many: Vec<String> = (0..20_000)
        .map(|i| format!("ens1f0#{i}-{}", i + 20_000))
        .collect();
    let spec = json!({"resourceName": "new", "nodeSelector": {"pool": "a"}, "numVfs": 40_000, "nicSelector": {"pfNames": many}});
    let verdict = Asked::create(Kind::NodePolicy, "new", spec).verdict(&cluster(1_000), &rules());
    assert_refused(&verdict, &["overlap", "more faults"]);
    assert!(verdict.status_message().len() < 20_000);
}
