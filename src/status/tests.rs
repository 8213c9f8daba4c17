//! What is told of an installation, and what to do about what is wrong.

use std::{collections::BTreeMap, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Gathered, Part, Report, report::UNKNOWN_KIND};
use crate::{
    certs::{
        keeper::secrets::AUTHORITY_SECRET,
        lifetimes::after,
        published::Configuration,
        testing::{HOUR, authority, leaf, now},
    },
    networks::NetworkKind,
    settings::SecretNames,
};

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn denied<T>() -> Part<T> {
    Part::Unreadable {
        unreadable: "you have no right to read it".to_owned(),
    }
}

fn condition(type_: &str, status: &str, message: &str) -> Value {
    json!({
        "type": type_, "status": status, "reason": "R", "message": message,
        "lastTransitionTime": "2027-01-15T07:00:00Z", "observedGeneration": 3,
    })
}

fn config(conditions: &[Value]) -> Value {
    json!({
        "metadata": {"name": "default", "generation": 3, "finalizers": ["f"]},
        "spec": {"enableOperatorWebhook": true, "featureGates": {"metricsExporter": true}},
        "status": {"conditions": conditions},
    })
}

/// An installation in which all is well: the operator webhook served in process, the injector off.
fn world() -> Gathered {
    let authority = authority();
    let pair = leaf(&authority);
    let bundle = STANDARD.encode(authority.certificate().to_pem());
    let configuration = |name: &str| {
        json!({
            "metadata": {"name": name},
            "webhooks": [{
                "failurePolicy": "Fail", "timeoutSeconds": 10,
                "clientConfig": {"caBundle": bundle, "service": {"namespace": "sriov"}},
            }],
        })
    };
    let data = |entries: &[(&str, String)]| {
        let entries = entries
            .iter()
            .map(|(key, text)| ((*key).to_owned(), json!(STANDARD.encode(text))));
        json!({"metadata": {}, "data": Value::Object(entries.collect())})
    };
    let key = String::from_utf8(pair.key().expose().to_vec()).unwrap();
    let serving = data(&[("tls.crt", pair.certificate().to_pem()), ("tls.key", key)]);
    let pod = json!({
        "metadata": {"name": "operator-1", "labels": {"app.kubernetes.io/name": "sriov-operator"}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    });
    Gathered {
        now: now(),
        namespace: "sriov".to_owned(),
        secret_names: SecretNames {
            operator: "operator-webhook-cert".to_owned(),
            injector: "network-resources-injector-cert".to_owned(),
        },
        config: Part::Read(Some(object(config(&[condition("Ready", "True", "")])))),
        daemon_sets: Part::Read(vec![
            daemon_set("sriov-network-config-daemon"),
            daemon_set("sriov-device-plugin"),
        ]),
        deployments: Part::Read(vec![object(json!({
            "metadata": {"name": "op"},
            "spec": {
                "replicas": 2, "selector": {},
                "template": {"metadata": {"labels": {"app.kubernetes.io/name": "sriov-operator"}}},
            },
            "status": {"readyReplicas": 2},
        }))]),
        pods: Part::Read(vec![object(pod)]),
        services: Part::Read(vec![object(json!({
            "metadata": {"name": "operator-webhook-service"},
            "spec": {"selector": {"app.kubernetes.io/name": "sriov-operator"}},
        }))]),
        configurations: BTreeMap::from([
            (
                Configuration::OperatorMutating,
                Part::Read(Some(configuration("sriov-operator-webhook-config"))),
            ),
            (
                Configuration::OperatorValidating,
                Part::Read(Some(configuration("sriov-operator-webhook-config"))),
            ),
            (Configuration::Injector, Part::Read(None)),
        ]),
        secrets: BTreeMap::from([
            (
                "operator-webhook-cert".to_owned(),
                Part::Read(Some(object(serving))),
            ),
            (
                "network-resources-injector-cert".to_owned(),
                Part::Read(None),
            ),
            (
                AUTHORITY_SECRET.to_owned(),
                Part::Read(Some(object(data(&[(
                    "ca.crt",
                    authority.certificate().to_pem(),
                )])))),
            ),
        ]),
        lease: Part::Read(Some(Box::new(object(lease("operator-1_1_f", now()))))),
        policies: Part::Read(vec![
            policy("b", &json!(10)),
            policy("z", &json!(99)),
            policy("a", &json!(10)),
            policy("without", &Value::Null),
        ]),
        node_states: Part::Read(vec![
            object(json!({"metadata": {"name": "bm-0"}, "status": {"syncStatus": "Succeeded"}})),
            object(json!({"metadata": {"name": "bm-1"}})),
        ]),
        networks: NetworkKind::ALL
            .map(|kind| (kind, Part::Read(Vec::new())))
            .into(),
        definitions: Part::Read(Vec::new()),
        machine_pools: Part::Unreadable {
            unreadable: UNKNOWN_KIND.to_owned(),
        },
        machine_configs: denied(),
    }
}

fn network<T: DeserializeOwned>(name: &str, target: &str, conditions: &Value) -> T {
    object(json!({
        "metadata": {"name": name, "namespace": "sriov"},
        "spec": {"resourceName": "fast", "networkNamespace": target},
        "status": {"conditions": conditions},
    }))
}

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

fn daemon_set<T: DeserializeOwned>(name: &str) -> T {
    object(json!({
        "metadata": {"name": name},
        "status": {
            "desiredNumberScheduled": 3, "numberReady": 3,
            "currentNumberScheduled": 3, "numberMisscheduled": 0,
        },
    }))
}

fn policy<T: DeserializeOwned>(name: &str, priority: &Value) -> T {
    object(json!({
        "metadata": {"name": name},
        "spec": {
            "priority": priority, "resourceName": "r", "numVfs": 4,
            "nicSelector": {"pfNames": ["ens1f0#0-3"], "vendor": "8086"},
            "nodeSelector": {"node-role.kubernetes.io/worker": "", "zone": "a"},
        },
    }))
}

fn lease(holder: &str, renewed: Timestamp) -> Value {
    json!({
        "metadata": {},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": format!("{renewed:.6}")},
    })
}

/// What is wrong in the world after a change, problem and remedy on one line each.
fn problems(change: impl FnOnce(&mut Gathered)) -> Vec<String> {
    let mut world = world();
    change(&mut world);
    let problems = Report::new(&world).problems;
    let lines = problems.iter();
    lines
        .map(|problem| format!("{} -> {}", problem.what, problem.remedy))
        .collect()
}

/// Asserts that there is one problem, which says all of this.
fn one_problem(said: &[&str], change: impl FnOnce(&mut Gathered)) {
    let problems = problems(change);
    assert_eq!(problems.len(), 1, "{problems:#?}");
    for said in said {
        assert!(problems[0].contains(said), "{said} in {problems:#?}");
    }
}

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
fn the_config() {
    one_problem(
        &["not installed", "sriov-operator crds | kubectl apply"],
        |world| {
            world.config = Part::Unreadable {
                unreadable: "the API server does not know the kind".to_owned(),
            };
        },
    );
    one_problem(&["there is no SriovOperatorConfig default"], |world| {
        world.config = Part::Read(None);
        for part in world.configurations.values_mut() {
            *part = Part::Read(None);
        }
    });
    let with = |conditions: &[Value]| Part::Read(Some(object(config(conditions))));
    one_problem(&["has not been looked at", "get pods"], |world| {
        world.config = with(&[]);
    });
    one_problem(&["latest change has not been rolled out"], |world| {
        let mut old = condition("Ready", "True", "");
        old["observedGeneration"] = json!(2);
        world.config = with(&[old]);
    });
    one_problem(
        &["not everything is as the config wants: injector: x"],
        |world| {
            world.config = with(&[condition("Ready", "False", "injector: x")]);
        },
    );
    one_problem(&["wants attention: gate y"], |world| {
        let conditions = [
            condition("Ready", "True", ""),
            condition("Degraded", "True", "gate y"),
        ];
        world.config = with(&conditions);
    });
}

#[test]
fn a_config_that_is_stuck_in_deletion() {
    let going = |world: &mut Gathered| {
        let mut going = config(&[condition("Ready", "True", "")]);
        going["metadata"]["deletionTimestamp"] = json!("2027-01-15T07:30:00Z");
        world.config = Part::Read(Some(object(going)));
    };
    one_problem(&["kept by f", "wait for the operator"], going);
    let without_operator = problems(|world| {
        going(world);
        world.lease = Part::Read(None);
    });
    assert!(
        without_operator[0].contains("sriov-operator cleanup --namespace sriov"),
        "{without_operator:?}"
    );
}

#[test]
fn the_lease() {
    one_problem(&["no operator leads: there is no Lease"], |world| {
        world.lease = Part::Read(None);
    });
    one_problem(&["was released"], |world| {
        world.lease = Part::Read(Some(Box::new(object(lease("", now())))));
    });
    one_problem(
        &["has not renewed the Lease since 2027-01-15T07:"],
        |world| {
            let then = crate::certs::lifetimes::before(now(), HOUR);
            world.lease = Part::Read(Some(Box::new(object(lease("a", then)))));
        },
    );
}

#[test]
fn the_webhooks() {
    one_problem(&["is switched on and not registered"], |world| {
        world
            .configurations
            .insert(Configuration::OperatorValidating, Part::Read(None));
    });
    let unanswered = problems(|world| world.pods = Part::Read(Vec::new()));
    assert_eq!(unanswered.len(), 1, "{unanswered:?}");
    assert!(
        unanswered[0].contains("the API server refuses"),
        "{unanswered:?}"
    );
    let without_bundle = problems(|world| {
        if let Some(Part::Read(Some(live))) = world
            .configurations
            .get_mut(&Configuration::OperatorMutating)
        {
            live["webhooks"][0]["clientConfig"]["caBundle"] = json!("");
        }
    });
    assert!(
        without_bundle[0].contains("no usable caBundle"),
        "{without_bundle:?}"
    );
}

#[test]
fn the_certificates() {
    one_problem(&["Secret operator-webhook-cert", "is missing"], |world| {
        world
            .secrets
            .insert("operator-webhook-cert".to_owned(), Part::Read(None));
    });
    one_problem(
        &["the CA bundle does not verify", "delete secret"],
        |world| {
            let other = STANDARD.encode(authority().certificate().to_pem());
            if let Some(Part::Read(Some(live))) = world
                .configurations
                .get_mut(&Configuration::OperatorValidating)
            {
                live["webhooks"][0]["clientConfig"]["caBundle"] = json!(other);
            }
        },
    );
    let late = problems(|world| {
        world.now = after(now(), HOUR * 26);
        world.lease = Part::Read(Some(Box::new(object(lease("a", world.now)))));
    });
    assert!(
        late[0].contains("expires at") && late[0].contains("has not been renewed"),
        "{late:?}"
    );
    let expired = problems(|world| {
        world.now = after(now(), Duration::from_secs(3600 * 31));
        world.lease = Part::Read(Some(Box::new(object(lease("a", world.now)))));
    });
    assert!(
        expired[0].contains("the certificate expired at"),
        "{expired:?}"
    );
}

#[test]
fn workloads_and_nodes() {
    one_problem(
        &[
            "DaemonSet sriov-device-plugin: 1 of 3",
            "describe daemonset sriov-device-plugin",
        ],
        |world| {
            if let Part::Read(daemon_sets) = &mut world.daemon_sets {
                daemon_sets[1].status.as_mut().unwrap().number_ready = 1;
            }
        },
    );
    one_problem(&["node bm-1", "no firmware"], |world| {
        if let Part::Read(states) = &mut world.node_states {
            states[1] = object(json!({
                "metadata": {"name": "bm-1"},
                "status": {"syncStatus": "Failed", "lastSyncError": "no firmware"},
            }));
        }
    });
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
