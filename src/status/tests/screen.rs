//! The one screen: what it shows, and what it keeps to itself.

use super::*;

#[test]
fn an_installation_that_is_well_has_no_problems_and_one_screen() {
    let report = Report::new(&world());
    assert_eq!(report.problems, []);
    let screen = report.to_string();
    for line in [
        "SR-IOV operator in namespace sriov, 2027-01-15T08:00:00Z",
        "Config     SriovOperatorConfig default, generation 3, log level 0",
        "Ready      True since 2027-01-15T07:00:00Z",
        "Leader     operator-1_1_f, renewed 0 s ago",
        "operator          yes      Deployment op                          2/2",
        "operator-webhook  yes      -                                      -",
        "config-daemon     yes      DaemonSet sriov-network-config-daemon  3/3",
        "injector          no       -                                      -",
        "Certificates: self-signed",
        "Nodes      2 with a node state: 1 Succeeded, 1 Unknown",
        "No problems found.",
    ] {
        assert!(
            screen.lines().any(|shown| shown == line),
            "{line:?} is not a line of\n{screen}"
        );
    }
    assert!(screen.contains("in-process, 1 of 1 pods ready"), "{screen}");
    assert!(
        screen.contains("metricsExporter"),
        "gates are shown:\n{screen}"
    );
    assert!(screen.lines().all(|line| line == line.trim_end()));
}

#[test]
fn policies_stand_in_the_order_in_which_they_apply() {
    let report = Report::new(&world());
    let policies = report.policies.read().unwrap();
    let names: Vec<&str> = policies.iter().map(|policy| policy.name.as_str()).collect();
    assert_eq!(names, ["z", "a", "b", "without"]);
    assert_eq!(policies[0].nics, "ens1f0#0-3 vendor=8086");
    assert_eq!(policies[0].nodes, "node-role.kubernetes.io/worker,zone=a");
}

#[test]
fn what_may_not_be_read_is_shown_as_such_and_is_no_problem() {
    let mut world = world();
    world.config = denied();
    world.daemon_sets = denied();
    world.deployments = denied();
    world.pods = denied();
    world.services = denied();
    world.lease = denied();
    world.policies = denied();
    world.node_states = denied();
    for part in world.configurations.values_mut() {
        *part = denied();
    }
    for part in world.secrets.values_mut() {
        *part = denied();
    }
    let report = Report::new(&world);
    assert_eq!(report.problems, []);
    let screen = report.to_string();
    assert!(
        screen.matches("you have no right to read it").count() > 10,
        "{screen}"
    );
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(
        json["policies"]["unreadable"],
        "you have no right to read it"
    );
}

#[test]
fn nothing_of_a_key_is_told() {
    let world = world();
    let report = Report::new(&world);
    let told = format!("{report} {}", serde_json::to_string(&report).unwrap());
    assert!(!told.contains("PRIVATE"), "{told}");
}

#[test]
fn a_later_look_at_the_same_says_the_same() {
    let first = Report::new(&world());
    let mut later = world();
    later.configurations = BTreeMap::new();
    assert!(!first.says_the_same(&Report::new(&later)));
    let mut again = first.clone();
    again.observed_at = after(again.observed_at, Duration::from_secs(2));
    assert!(first.says_the_same(&again));
}

#[test]
fn what_the_cluster_says_steers_no_terminal_and_breaks_no_line() {
    let mut world = world();
    let quiet = Report::new(&world).to_string();
    world.node_states = Part::Read(vec![object(json!({
        "metadata": {"name": "a"},
        "spec": {"interfaces": [{"name": "ens1\u{1b}[2J", "pciAddress": "0000:18:00.0", "numVfs": 4}]},
        "status": {"syncStatus": "Fail\ned", "lastSyncError": "first\n\u{1b}]0;second"},
    }))]);
    world.config = Part::Read(Some(object(config(&[condition("Ready", "True", "x\ny")]))));
    let report = Report::new(&world);
    let shown = report.to_string();
    assert!(!quiet.contains(|c: char| c.is_control() && c != '\n'));
    assert!(!shown.contains(|c: char| c.is_control() && c != '\n'));
    for line in [
        "a     ens1\\u{1b}[2J 4:   ens1\\u{1b}[2J not listed  Fail\\ned  -",
        "Ready      True since 2027-01-15T07:00:00Z: x\\ny",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line}\n{shown}");
    }
    assert!(shown.contains("first\\n\\u{1b}]0;second"), "{shown}");
    let told = serde_json::to_value(&report).unwrap();
    assert_eq!(told["nodes"]["states"][0]["syncStatus"], "Fail\ned");
}
