//! What holds whatever the policies say.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    super::{
        meaning,
        merge::merge,
        plugin::{means_its_groups, resources},
        situation::{self, Situation},
    },
    *,
};

use crate::api::SriovNetworkNodeStateSpec;

static WORLD: LazyLock<Cluster> = LazyLock::new(world);

fn nic_selector() -> impl Strategy<Value = Value> {
    let name = prop::sample::select(vec!["ens1f0", "lan-a", "enp24s0f0", "ens1f1", "ens2f0"]);
    let range = prop::option::of((0u32..6, 0u32..3));
    let entry = (name, range).prop_map(|(name, range)| match range {
        Some((start, length)) => format!("{name}#{start}-{}", start + length),
        None => name.to_owned(),
    });
    prop_oneof![
        4 => prop::collection::vec(entry, 1..4).prop_map(|names| json!({"pfNames": names})),
        1 => Just(json!({"vendor": "8086"})),
        1 => Just(json!({"vendor": "15b3", "deviceID": "1017"})),
        1 => Just(json!({"rootDevices": ["0000:18:00.0", "0000:3b:00.0"]})),
    ]
}

fn some_policies() -> impl Strategy<Value = Vec<Value>> {
    let one = (
        nic_selector(),
        0u8..3,
        0i64..10,
        0u8..3,
        prop::option::of(1500i64..1503),
        prop::option::of(prop::sample::select(vec!["legacy", "switchdev"])),
        any::<bool>(),
    );
    prop::collection::vec(one, 0..6).prop_map(|policies| {
        policies
            .into_iter()
            .enumerate()
            .map(
                |(i, (nics, priority, num_vfs, resource, mtu, mode, bridge))| {
                    let mut fields = json!({"mtu": mtu, "eSwitchMode": mode});
                    if bridge {
                        fields["bridge"] = json!({"ovs": {}});
                    }
                    policy(
                        &format!("{priority}/p{i}"),
                        nics,
                        num_vfs,
                        &format!("r{resource}"),
                        fields,
                    )
                },
            )
            .collect()
    })
}

/// The specs of the states of all nodes that the config daemon runs on.
fn states_of(cluster: &Cluster) -> Vec<(String, SriovNetworkNodeStateSpec)> {
    let selector = json!({"kubernetes.io/os": "linux"});
    let config = json!({"metadata": {"uid": "c"}, "spec": {"configDaemonNodeSelector": selector}});
    let config = serde_json::from_value(config).unwrap();
    let mut names: Vec<&str> = cluster.nodes().names().collect();
    names.sort_unstable();
    let states = names.into_iter().filter_map(|name| {
        match situation::of(name, cluster, Some(&config), &[], None, None) {
            Situation::Selected(wanted) => Some((name.to_owned(), wanted.plan.spec)),
            _ => None,
        }
    });
    states.collect()
}

fn range(text: &str) -> (u32, u32) {
    let (start, end) = text.split_once('-').unwrap();
    (start.parse().unwrap(), end.parse().unwrap())
}

proptest! {
    #[test]
    fn the_order_of_policies_says_nothing(policies in some_policies(), turn in 0usize..6) {
        let plan = planned_on(&WORLD, "bm-0", &policies, true);
        let mut turned = policies.clone();
        turned.rotate_left(turn.min(policies.len()));
        prop_assert_eq!(&planned_on(&WORLD, "bm-0", &turned, true), &plan);
        turned.reverse();
        prop_assert_eq!(&planned_on(&WORLD, "bm-0", &turned, true), &plan);
    }

    #[test]
    fn the_order_in_which_the_cluster_was_learnt_says_nothing(policies in some_policies(), turn in 0usize..20) {
        let learnt = |turn: usize, reversed: bool| {
            let mut objects = recorded();
            objects.extend(policies.iter().map(|policy| {
                let mut policy = policy.clone();
                policy["kind"] = "SriovNetworkNodePolicy".into();
                policy["metadata"]["namespace"] = NAMESPACE.into();
                policy
            }));
            let turn = turn % objects.len();
            objects.rotate_left(turn);
            if reversed {
                objects.reverse();
            }
            states_of(&cluster_of(&objects))
        };
        let first = learnt(0, false);
        prop_assert!(first.len() > 1);
        prop_assert_eq!(&learnt(turn, false), &first);
        prop_assert_eq!(&learnt(turn, true), &first);
    }

    #[test]
    fn a_node_whose_daemon_starts_anew_keeps_all_it_has(policies in some_policies()) {
        let plan = planned_on(&WORLD, "bm-0", &policies, true);
        let policies = parsed(&policies);
        let policies: Vec<&ParsedPolicy> = policies.iter().collect();
        let silent = crate::nodes::plan(&NodeView {
            nics: &[],
            policies: &policies,
            nic_ids: WORLD.nic_ids(),
            bridges: true,
            rdma_mode: None,
            stored: Some(&plan.spec),
        });
        prop_assert_eq!(silent.enabled, plan.enabled);
        prop_assert_eq!(silent.spec.interfaces, plan.spec.interfaces);
    }

    #[test]
    fn ranges_of_a_nic_never_overlap_and_every_nic_is_there_once(policies in some_policies()) {
        let plan = planned_on(&WORLD, "bm-0", &policies, true);
        let interfaces = plan.spec.interfaces.unwrap();
        let mut seen = std::collections::BTreeSet::new();
        prop_assert_eq!(plan.enabled, !interfaces.is_empty());
        for interface in &interfaces {
            prop_assert!(seen.insert(interface.pci_address.clone()));
            let mut ranges: Vec<(u32, u32)> = interface.vf_groups.iter().flatten()
                .map(|group| range(group.vf_range.as_deref().unwrap()))
                .collect();
            ranges.sort_unstable();
            prop_assert!(!ranges.is_empty());
            prop_assert!(ranges.windows(2).all(|pair| pair[0].1 < pair[1].0), "{:?}", ranges);
        }
    }

    #[test]
    fn every_resource_of_a_group_is_offered_once(policies in some_policies()) {
        let plan = planned_on(&WORLD, "bm-0", &policies, true);
        let mut offered: Vec<String> = plan.resources.unwrap().into_iter().map(|r| r.resource_name).collect();
        let interfaces = plan.spec.interfaces.unwrap();
        let mut wanted: Vec<String> = interfaces.iter().flat_map(|i| i.vf_groups.iter().flatten())
            .map(|group| group.resource_name.clone().unwrap())
            .collect();
        wanted.sort();
        wanted.dedup();
        offered.sort();
        prop_assert_eq!(offered, wanted);
    }

    #[test]
    fn a_resource_means_exactly_its_groups(policies in some_policies()) {
        let nics = WORLD.nics("bm-0").unwrap();
        let parsed = parsed(&policies);
        let mut sorted: Vec<&ParsedPolicy> = parsed.iter().filter(|p| p.vf_count() > 0).collect();
        sorted.sort_by(|a, b| b.priority().cmp(&a.priority()).then_with(|| a.name().cmp(b.name())));
        let merged = merge(nics, &sorted, &mut Vec::new());
        for resource in resources(nics, &merged, WORLD.nic_ids()) {
            prop_assert!(means_its_groups(&resource, nics, &merged, WORLD.nic_ids()), "{:?}", resource);
        }
    }

    #[test]
    fn what_was_stored_means_the_same_when_it_is_read_back(policies in some_policies()) {
        let spec = planned_on(&WORLD, "bm-0", &policies, true).spec;
        let stored = serde_json::to_value(&spec).unwrap();
        let read = serde_json::from_value(stored).unwrap();
        prop_assert_eq!(meaning::of_spec(&read), meaning::of_spec(&spec));
    }
}
