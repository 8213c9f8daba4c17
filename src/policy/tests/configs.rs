//! The rules of configs.

use serde_json::{Value, json};

use super::support::{Asked, assert_allowed, assert_no_warnings, assert_refused, rules, world};
use crate::policy::{Cluster, Kind, ReportedState};

fn config(spec: Value) -> Asked {
    Asked::create(Kind::OperatorConfig, "default", spec)
}

#[test]
fn only_one_config_counts() {
    assert_allowed(&config(json!({})).verdict(&world(), &rules()), &[]);
    let mut bare = config(json!({}));
    bare.object.as_object_mut().unwrap().remove("spec");
    assert_allowed(&bare.verdict(&world(), &rules()), &[]);
    let second = Asked::create(Kind::OperatorConfig, "second", json!({}));
    assert_refused(
        &second.verdict(&world(), &rules()),
        &[
            "metadata.name: Invalid value: \"second\": only the SriovOperatorConfig \"default\" in namespace \"sriov-network-operator\" counts",
        ],
    );
    let elsewhere = config(json!({})).in_namespace("tenant-a");
    assert_refused(
        &elsewhere.verdict(&world(), &rules()),
        &["metadata.namespace: Invalid value: \"tenant-a\""],
    );
    let both = second.in_namespace("tenant-a").verdict(&world(), &rules());
    assert_refused(&both, &["metadata.name", "metadata.namespace"]);
}

/// The recorded cluster with nodes that are being configured.
fn busy(nodes: &[&str]) -> Cluster {
    let mut cluster = world();
    for node in nodes {
        let state = json!({"syncStatus": "InProgress"});
        cluster.insert_state(node, serde_json::from_value(state).unwrap());
    }
    cluster
}

#[test]
fn drains_are_not_cut_off() {
    let switch = |cluster: &Cluster, from: Value, to: Value| {
        Asked::update(Kind::OperatorConfig, "default", from, to).verdict(cluster, &rules())
    };
    let on = || json!({"disableDrain": true});
    let off = || json!({"disableDrain": false});
    let warning = "spec.disableDrain: nodes are configured without being drained";
    for from in [off(), json!({})] {
        let verdict = switch(&busy(&["bm-1"]), from, on());
        assert_refused(
            &verdict,
            &[
                "spec.disableDrain: Forbidden: cannot be switched on now: node bm-1 is being configured",
            ],
        );
        assert!(verdict.forbidden(), "a matter of the moment");
        assert_eq!(verdict.warnings().len(), 1);
    }
    let many = switch(&busy(&["a", "b", "c", "d", "e"]), off(), on());
    assert_refused(&many, &["nodes a, b, c, and 2 more are being configured"]);

    assert_allowed(&switch(&world(), off(), on()), &[warning]);
    assert_allowed(
        &switch(
            &busy(&["bm-1"]),
            on(),
            json!({"disableDrain": true, "logLevel": 1}),
        ),
        &[warning],
    );
    assert_allowed(&switch(&busy(&["bm-1"]), on(), off()), &[]);
    assert_allowed(
        &config(on()).verdict(&busy(&["bm-1"]), &rules()),
        &[warning],
    );

    let mut cluster = busy(&["bm-1"]);
    cluster.insert_state("bm-1", ReportedState::default());
    assert_allowed(&switch(&cluster, off(), on()), &[]);
    let mut cluster = busy(&["bm-1"]);
    cluster.remove_state("bm-1");
    assert_allowed(&switch(&cluster, off(), on()), &[]);
}

#[test]
fn variables_of_the_config_daemon() {
    let with = |name: &str| {
        config(json!({"configDaemonEnvVars": {name: "x"}})).verdict(&world(), &rules())
    };
    for legal in [
        "A",
        "A_B",
        "a.b",
        "a-b",
        "-a",
        ".a",
        "_",
        "NAMESPACE_",
        "node_name",
    ] {
        let verdict = with(legal);
        assert_allowed(&verdict, &[]);
        assert_no_warnings(&verdict);
    }
    for newer in ["A B", "1A", "a/b", "a:b", "..", ".", "..a", "a\"b"] {
        assert_allowed(
            &with(newer),
            &["spec.configDaemonEnvVars: only newer API servers accept the name"],
        );
    }
    for illegal in ["", "A=B", "é", "a\tb", "a\nb", "\u{7f}"] {
        assert_refused(
            &with(illegal),
            &["spec.configDaemonEnvVars[", "Invalid value"],
        );
    }
    for reserved in [
        "NODE_NAME",
        "NAMESPACE",
        "CLUSTER_TYPE",
        "DEV_MODE",
        "USE_EXTERNAL_DRAINER",
    ] {
        assert_refused(
            &with(reserved),
            &[&format!("spec.configDaemonEnvVars[{reserved}]: Forbidden")],
        );
    }
}

#[test]
fn node_selector_of_the_config_daemon() {
    let with = |selector: Value| {
        config(json!({"configDaemonNodeSelector": selector})).verdict(&world(), &rules())
    };
    assert_allowed(
        &with(json!({"node-role.kubernetes.io/worker": "", "a": "b"})),
        &[],
    );
    assert_refused(
        &with(json!({"a b": "c"})),
        &["spec.configDaemonNodeSelector[a b]: Invalid value"],
    );
    assert_refused(
        &with(json!({"a": "x y", "b": "z/"})),
        &["configDaemonNodeSelector[a]", "configDaemonNodeSelector[b]"],
    );
}

#[test]
fn unknown_gates_are_warned_of() {
    let with = |gates: Value| config(json!({"featureGates": gates})).verdict(&world(), &rules());
    let known = with(json!({"parallelNicConfig": true, "metricsExporter": false}));
    assert_allowed(&known, &[]);
    assert_no_warnings(&known);
    assert_allowed(
        &with(json!({"ParallelNicConfig": true})),
        &[
            "spec.featureGates: \"ParallelNicConfig\" is unknown and has no effect; known are parallelNicConfig, ",
        ],
    );
    assert_eq!(with(json!({"a\nb": true, "c": true})).warnings().len(), 2);
}
