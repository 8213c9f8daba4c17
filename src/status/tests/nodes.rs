//! What is told of nodes, networks, MachineConfigPools and drains.

use super::*;

#[test]
fn nodes_show_what_is_wanted_what_is_reported_and_their_drains() {
    let mut world = world();
    let groups = json!([
        {"resourceName": "fast", "vfRange": "0-1", "policyName": "a"},
        {"resourceName": "slow", "vfRange": "2-3", "policyName": "b"},
    ]);
    let nic = |name: &str, address: &str| json!({"name": name, "pciAddress": address, "numVfs": 4, "vfGroups": groups});
    world.node_states = Part::Read(vec![
        object(json!({"metadata": {"name": "a-idle"}, "status": {"syncStatus": "Succeeded"}})),
        object(json!({
            "metadata": {"name": "b-busy", "annotations": {
                "sriovnetwork.openshift.io/desired-state": "Drain_Required",
                "sriovnetwork.openshift.io/current-state": "Draining",
                "sriovnetwork.openshift.io/drain-started": "2027-01-15T07:00:00Z",
            }},
            "spec": {"interfaces": [nic("ens1f0", "0000:18:00.0"), nic("ens1f1", "0000:18:00.1")]},
            "status": {
                "syncStatus": "InProgress",
                "interfaces": [{"name": "ens1f0", "pciAddress": "0000:18:00.0", "numVfs": 2}],
            },
        })),
    ]);
    let report = Report::new(&world);
    let shown = report.to_string();
    let lines: Vec<&str> = shown.lines().collect();
    let head = lines
        .iter()
        .position(|line| line.starts_with("NODE "))
        .unwrap();
    let busy = lines[head + 1];
    for part in [
        "b-busy",
        "ens1f0 4: fast 0-1, slow 2-3; ens1f1 4: fast 0-1, slow 2-3",
        "ens1f0 2; ens1f1 not listed",
        "InProgress",
        "Draining, asked for Drain_Required, since 2027-01-15T07:00:00Z",
    ] {
        assert!(busy.contains(part), "{busy}");
    }
    assert!(lines[head + 2].starts_with("a-idle"), "{shown}");
    let told = serde_json::to_value(&report).unwrap();
    let node = &told["nodes"]["states"][1];
    assert_eq!(node["interfaces"][0]["reportedVfs"], 2);
    assert_eq!(node["interfaces"][1]["reportedVfs"], Value::Null);
    assert_eq!(node["interfaces"][0]["vfGroups"][1]["policyName"], "b");
    assert_eq!(node["drain"]["current"], "Draining");
    assert_eq!(told["nodes"]["states"][0]["name"], "a-idle");
    assert!(told["nodes"]["states"][0].get("drain").is_none());
}

#[test]
fn networks_show_their_definitions_and_what_is_wrong() {
    let mut world = world();
    let ready = json!([{"type": "Ready", "status": "True", "message": "fine"}]);
    let missing =
        json!([{"type": "Ready", "status": "False", "message": "namespace b does not exist"}]);
    let networks = vec![
        network("good", "a", &ready),
        network("waiting", "b", &missing),
        network("new", "", &json!([])),
    ];
    world
        .networks
        .insert(NetworkKind::Sriov, Part::Read(networks));
    world.definitions = Part::Read(vec![object(json!({"metadata": {
        "name": "good", "namespace": "a",
        "annotations": {"sriovnetwork.openshift.io/owner-ref": "SriovNetwork.sriovnetwork.openshift.io/sriov/good"},
    }}))]);
    let report = Report::new(&world);
    let shown = report.to_string();
    for line in [
        "SriovNetwork sriov/good     fast      a/good         True",
        "SriovNetwork sriov/waiting  fast      none in b      False: namespace b does not exist",
        "SriovNetwork sriov/new      fast      none in sriov  nobody has looked at it",
    ] {
        assert!(shown.contains(line), "{line}\n{shown}");
    }
    let problems: Vec<&str> = report
        .problems
        .iter()
        .map(|problem| problem.what.as_str())
        .collect();
    assert_eq!(
        problems,
        ["SriovNetwork sriov/waiting is not ready: namespace b does not exist"]
    );
    let told = serde_json::to_value(&report).unwrap();
    assert_eq!(told["networks"][0]["definitions"], json!(["a/good"]));
    assert!(
        told.get("machineConfigPools").is_none(),
        "it is no OpenShift"
    );
}

#[test]
fn on_openshift_the_machine_config_pools_are_shown() {
    let mut world = world();
    let pool = |name: &str, record: &str, paused: bool| {
        object(json!({
            "metadata": {"name": name, "annotations": {"sriovnetwork.openshift.io/state": record}},
            "spec": {"paused": paused},
        }))
    };
    world.machine_pools = Part::Read(vec![
        pool("workers", "Paused", true),
        pool("theirs", "Idle", true),
        pool("other", "Idle", false),
    ]);
    world.machine_configs = Part::Read(vec![object(
        json!({"metadata": {"name": "00-other-ovs-hw-offload"}}),
    )]);
    let shown = Report::new(&world).to_string();
    for line in [
        "workers            by the operator, for a drain  no",
        "theirs             by somebody else              no",
        "other              no                            configured",
    ] {
        assert!(shown.contains(line), "{line}\n{shown}");
    }
}

#[test]
fn drains_that_are_held_up_are_a_problem() {
    one_problem(&["nodes are not drained: n: pod x stays"], |world| {
        let mut draining = condition("Draining", "True", "n: pod x stays");
        draining["reason"] = "DrainBlocked".into();
        let conditions = [condition("Ready", "True", ""), draining];
        world.config = Part::Read(Some(object(config(&conditions))));
    });
}
