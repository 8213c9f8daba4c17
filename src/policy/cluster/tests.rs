//! The index of labels, and updates piece by piece.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn selector(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect()
}

fn selected(cluster: &Cluster, pairs: &[(&str, &str)]) -> Vec<String> {
    let nodes = cluster.nodes();
    nodes
        .selection(&selector(pairs))
        .map(|selection| {
            nodes
                .selected(&selection)
                .iter()
                .map(|n| n.name().to_owned())
                .collect()
        })
        .unwrap_or_default()
}

#[test]
fn nodes_are_selected_by_all_labels() {
    let mut cluster = Cluster::default();
    cluster.insert_node("b", [("role", "bm"), ("empty", "")], "p://b");
    cluster.insert_node("a", [("role", "bm"), ("rack", "1")], "");
    cluster.insert_node("c", [], "");
    assert_eq!(selected(&cluster, &[]), ["a", "b", "c"]);
    assert_eq!(selected(&cluster, &[("role", "bm")]), ["a", "b"]);
    assert_eq!(selected(&cluster, &[("role", "bm"), ("rack", "1")]), ["a"]);
    assert_eq!(selected(&cluster, &[("empty", "")]), ["b"]);
    assert_eq!(selected(&cluster, &[("role", "b")]), [""; 0]);
    assert_eq!(selected(&cluster, &[("rack", "1"), ("empty", "")]), [""; 0]);
    assert_eq!(cluster.nodes().with_label("role", "bm"), 2);
    assert_eq!(
        cluster.nodes().values_of("role").collect::<Vec<_>>(),
        ["bm"]
    );

    cluster.insert_node("b", [("role", "vm")], "");
    assert_eq!(selected(&cluster, &[("role", "bm")]), ["a"]);
    assert_eq!(selected(&cluster, &[("empty", "")]), [""; 0]);
    cluster.remove_node("a");
    cluster.remove_node("unknown");
    assert_eq!(selected(&cluster, &[]), ["b", "c"]);
    assert_eq!(
        cluster.nodes().values_of("role").collect::<Vec<_>>(),
        ["vm"]
    );
    cluster.retain_nodes(|name| name == "c");
    assert_eq!(selected(&cluster, &[]), ["c"]);
}

#[test]
fn a_fresh_list_replaces_what_was_known() {
    let mut cluster = Cluster::default();
    let busy =
        || serde_json::from_value::<ReportedState>(json!({"syncStatus": "InProgress"})).unwrap();
    cluster.insert_state("a", busy());
    cluster.insert_state("b", busy());
    cluster.retain_states(|name| name == "b");
    assert!(cluster.nics("a").is_none());
    assert_eq!(cluster.nics("b"), Some(&[][..]));
    assert_eq!(cluster.in_progress().collect::<Vec<_>>(), ["b"]);
    cluster.insert_state("b", ReportedState::default());
    assert_eq!(cluster.in_progress().len(), 0);
}

#[test]
fn node_states_are_cut_down_when_they_are_decoded() {
    let state: ReportedState = serde_json::from_value(json!({
        "lastSyncError": "", "syncStatus": "Succeeded", "bridges": {},
        "interfaces": [
            {"pciAddress": "0000:02:00.0", "Vfs": [{"vfID": 0, "pciAddress": "0000:02:00.1"}], "unknown": {}},
            {"pciAddress": "0000:01:00.0", "name": "e0", "netFilter": "aws/NetworkID: x", "mac": "00"},
        ],
    }))
    .unwrap();
    let mut cluster = Cluster::default();
    cluster.insert_state("a", state);
    let nics = cluster.nics("a").unwrap();
    assert_eq!(
        nics.iter().map(Nic::label).collect::<Vec<_>>(),
        ["e0", "0000:02:00.0"]
    );
    assert_eq!(
        nics[0].net_filter.as_ref().unwrap().to_string(),
        "aws/NetworkID:x"
    );
}

#[test]
fn a_policy_that_became_malformed_is_forgotten() {
    let mut cluster = Cluster::default();
    let policy = |pf: &str| -> SriovNetworkNodePolicy {
        serde_json::from_value(json!({
            "metadata": {"name": "p"},
            "spec": {"resourceName": "r", "nodeSelector": {}, "numVfs": 1, "nicSelector": {"pfNames": [pf]}},
        }))
        .unwrap()
    };
    assert_eq!(cluster.insert_policy(&policy("ens1")), Ok(()));
    assert_eq!(cluster.policy("p").map(|p| p.name()), Some("p"));
    let aside = cluster.insert_policy(&policy("ens1#3")).unwrap_err();
    assert_eq!(
        aside.to_string(),
        "SriovNetworkNodePolicy p is set aside: spec.nicSelector.pfNames[0] has no range after '#'; for one VF write ens1#3-3"
    );
    assert!(cluster.policy("p").is_none());
}

#[test]
fn a_dump_is_taken_in_object_by_object() {
    let mut cluster = Cluster::default();
    for (object, aside) in [
        (
            json!({"kind": "Node", "metadata": {"name": "n", "labels": {"a": "b"}}, "spec": {"providerID": "aws://1"}}),
            0,
        ),
        (json!({"kind": "Node", "metadata": {"name": "m"}}), 0),
        (
            json!({"kind": "SriovNetworkNodeState", "metadata": {"name": "n", "namespace": "ns"}}),
            0,
        ),
        (
            json!({"kind": "SriovNetworkNodeState", "metadata": {"name": "x", "namespace": "other"}}),
            0,
        ),
        (
            json!({"kind": "SriovNetworkNodeState", "metadata": {"name": "y", "namespace": "ns"}, "status": {"interfaces": 5}}),
            1,
        ),
        (
            json!({"kind": "ConfigMap", "metadata": {"name": "supported-nic-ids", "namespace": "ns"}, "data": {"a": "8086 158b 154c", "b": "x"}}),
            1,
        ),
        (
            json!({"kind": "ConfigMap", "metadata": {"name": "another", "namespace": "ns"}, "data": {"a": "x"}}),
            0,
        ),
        (json!({"kind": "Pod", "metadata": {"name": "p"}}), 0),
        (json!(5), 1),
    ] {
        assert_eq!(
            cluster.insert_object(&object, "ns").len(),
            aside,
            "{object}"
        );
    }
    assert_eq!(selected(&cluster, &[]), ["m", "n"]);
    assert_eq!(cluster.nics("n"), Some(&[][..]));
    assert!(cluster.nics("x").is_none() && cluster.nics("y").is_none());
    assert!(cluster.nic_ids().has_pf("8086", "158b"));
}

type Labels = BTreeSet<(u8, u8)>;

proptest! {
    #[test]
    fn the_index_answers_like_a_scan(
        steps in prop::collection::vec((0u8..6, prop::option::of(prop::collection::btree_set((0u8..3, 0u8..3), 0..4))), 0..30),
        asked in prop::collection::btree_set((0u8..3, 0u8..3), 0..3),
    ) {
        let text = |labels: &Labels| -> Vec<(String, String)> {
            let map: BTreeMap<u8, u8> = labels.iter().copied().collect();
            map.iter().map(|(k, v)| (format!("k{k}"), format!("v{v}"))).collect()
        };
        let mut plain: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
        let mut cluster = Cluster::default();
        for (node, labels) in &steps {
            let name = format!("node-{node}");
            if let Some(labels) = labels {
                let labels = text(labels);
                cluster.insert_node(&name, labels.iter().map(|(k, v)| (k.as_str(), v.as_str())), "");
                plain.insert(name, labels);
            } else {
                cluster.remove_node(&name);
                plain.remove(&name);
            }
        }
        let asked = text(&asked);
        let expected: Vec<String> = plain
            .iter()
            .filter(|(_, labels)| asked.iter().all(|pair| labels.contains(pair)))
            .map(|(name, _)| name.clone())
            .collect();
        let asked: Vec<(&str, &str)> = asked.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        prop_assert_eq!(selected(&cluster, &asked), expected);
    }
}
