//! How many nodes are drained at a time, pool by pool.

use serde_json::{Value, json};

use super::*;

fn pools(pools: &[(&str, Value)]) -> Vec<Pool> {
    pools
        .iter()
        .filter_map(|(name, spec)| Pool::new(name, &serde_json::from_value(spec.clone()).unwrap()))
        .collect()
}

fn role(role: &str) -> Labels {
    serde_json::from_value(json!({"role": role})).unwrap()
}

#[test]
fn labels_are_told_apart_by_their_whole_key() {
    let labels: Labels = serde_json::from_str(
        r#"{"role": "bm", "ro": "", "example.com/role": "vm", "r\u006flle": "x"}"#,
    )
    .unwrap();
    for (key, value) in [
        ("role", Some("bm")),
        ("ro", Some("")),
        ("example.com/role", Some("vm")),
        ("rolle", Some("x")),
        ("rol", None),
        ("", None),
    ] {
        assert_eq!(labels.get(key), value, "{key}");
    }
    let in_another_order: Labels =
        serde_json::from_str(r#"{"example.com/role": "vm", "rolle": "x", "role": "bm", "ro": ""}"#)
            .unwrap();
    assert_eq!(labels, in_another_order);
    let none: Labels = serde_json::from_str("null").unwrap();
    assert_eq!(none, Labels::default());
    assert_eq!(none.get("role"), None);
}

fn of(role: &str, most: Value) -> Value {
    let mut spec = json!({"nodeSelector": {"matchLabels": {"role": role}}});
    if !most.is_null() {
        spec["maxUnavailable"] = most;
    }
    spec
}

/// `count` nodes of each role: `bm-0`, `vm-0` and so on.
fn budget(all: &[(&str, Value)], count: usize) -> Budget {
    let mut budget = Budget::default();
    for index in 0..count {
        for name in ["bm", "vm"] {
            budget.set_node(&format!("{name}-{index}"), Some(&role(name)));
        }
    }
    budget.set_pools(pools(all));
    budget
}

/// How many of the nodes of a role get a place when all ask.
fn granted(budget: &mut Budget, role: &str, count: usize) -> usize {
    (0..count)
        .filter(|index| budget.claim(&format!("{role}-{index}")).is_ok())
        .count()
}

#[test]
fn the_pool_of_a_node_limits_how_many_are_drained() {
    let broken = json!({"nodeSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}});
    for (what, all, bm, vm) in [
        ("no pool: one of all", vec![], 1, 0),
        ("two", vec![("p", of("bm", json!(2)))], 2, 1),
        ("none", vec![("p", of("bm", json!(0)))], 0, 1),
        (
            "as many as there are",
            vec![("p", of("bm", Value::Null))],
            10,
            1,
        ),
        (
            "a third, rounded down",
            vec![("p", of("bm", json!("33%")))],
            3,
            1,
        ),
        (
            "a hundredth is one",
            vec![("p", of("bm", json!("1%")))],
            1,
            1,
        ),
        ("not legal", vec![("p", of("bm", json!("ten")))], 0, 1),
        ("negative", vec![("p", of("bm", json!(-1)))], 0, 1),
        (
            "every node",
            vec![("p", json!({"maxUnavailable": 12}))],
            10,
            2,
        ),
        (
            "an empty selector",
            vec![("p", json!({"maxUnavailable": 3, "nodeSelector": {}}))],
            3,
            0,
        ),
        (
            "one for hardware offload chooses no nodes",
            vec![("p", json!({"ovsHardwareOffloadConfig": {"name": "worker"}}))],
            1,
            0,
        ),
        (
            "a malformed one harms only itself",
            vec![("p", of("bm", json!(2))), ("q", broken)],
            2,
            1,
        ),
        (
            "two that overlap",
            vec![("p", of("bm", json!(2))), ("q", json!({}))],
            0,
            10,
        ),
    ] {
        let mut budget = budget(&all, 10);
        let got = (
            granted(&mut budget, "bm", 10),
            granted(&mut budget, "vm", 10),
        );
        assert_eq!(got, (bm, vm), "{what}");
    }
}

#[test]
fn a_refusal_says_what_it_is_about() {
    for (all, says, lasting) in [
        (
            vec![],
            "1 of the nodes without a pool may be drained at a time, and now that is bm-1",
            false,
        ),
        (
            vec![("p", of("bm", json!(1)))],
            "pool p lets 1 of its nodes be drained at a time, and now that is bm-1",
            false,
        ),
        (
            vec![("p", of("bm", json!(0)))],
            "spec.maxUnavailable of pool p is 0",
            true,
        ),
        (
            vec![("p", of("bm", json!("x")))],
            r#"spec.maxUnavailable of pool p is "x": it must be"#,
            true,
        ),
        (
            vec![("q", json!({})), ("p", json!({}))],
            "pools p, q all select the node",
            true,
        ),
    ] {
        let mut budget = budget(&all, 2);
        budget.set_busy("bm-1", true);
        let refusal = budget.claim("bm-0").unwrap_err();
        assert!(refusal.to_string().contains(says), "{refusal}");
        assert_eq!(refusal.is_lasting(), lasting, "{refusal}");
    }
}

#[test]
fn a_place_that_becomes_free_wakes_who_gets_it() {
    let mut budget = budget(&[("p", of("bm", json!(2)))], 5);
    assert_eq!(granted(&mut budget, "bm", 5), 2);
    assert_eq!(budget.set_busy("bm-0", true), Vec::<Name>::new());
    let woken = budget.set_busy("bm-0", false);
    assert_eq!(woken, [Name::from("bm-2")]);
    assert_eq!(budget.claim("bm-2"), Ok(()));
    assert_eq!(
        budget.give_back("bm-1"),
        [Name::from("bm-3")],
        "the write failed"
    );
    budget.claim("bm-3").unwrap();
    assert_eq!(
        budget.set_node("bm-2", None),
        [Name::from("bm-4")],
        "it vanished"
    );
    assert!(budget.give_back("bm-4").is_empty(), "it asks no longer");
    assert!(budget.set_busy("bm-3", false).is_empty());
}

#[test]
fn who_cannot_take_a_place_is_not_woken_for_it() {
    let all = [
        ("p", of("bm", json!(1))),
        ("q", json!({"nodeSelector": {"matchLabels": {"both": ""}}})),
    ];
    let mut budget = budget(&all, 3);
    let both = serde_json::from_value(json!({"role": "bm", "both": ""})).unwrap();
    budget.set_node("a-first", Some(&both));
    assert!(matches!(
        budget.claim("a-first"),
        Err(Refusal::SeveralPools(_))
    ));
    assert_eq!(granted(&mut budget, "bm", 2), 1);
    assert_eq!(budget.give_back("bm-0"), [Name::from("bm-1")]);
    assert_eq!(
        budget.set_pools(pools(&all)).len(),
        2,
        "a change of pools wakes all"
    );
}

#[test]
fn a_changed_pool_wakes_those_who_wait() {
    let mut budget = budget(&[("p", of("bm", json!(0)))], 3);
    assert_eq!(granted(&mut budget, "bm", 3), 0);
    let woken = budget.set_pools(pools(&[("p", of("bm", json!(1)))]));
    assert_eq!(woken.len(), 3);
    assert_eq!(granted(&mut budget, "bm", 3), 1);
    let other = Arc::default();
    assert_eq!(
        budget.set_node("bm-0", Some(&other)).len(),
        1,
        "it left the pool"
    );
}

#[test]
fn what_is_being_drained_counts_where_the_node_belongs_now() {
    let mut budget = budget(&[("p", of("bm", json!(1)))], 2);
    budget.set_busy("vm-0", true);
    budget.set_busy("unknown", true);
    assert!(budget.claim("bm-0").is_ok());
    budget.give_back("bm-0");
    budget.set_node("vm-0", Some(&role("bm")));
    assert!(budget.claim("bm-0").is_err());
    assert_eq!(budget.claim("unknown"), Err(Refusal::NoNode));
    budget.set_node("unknown", Some(&role("vm")));
    assert!(budget.claim("vm-1").is_err());
}
