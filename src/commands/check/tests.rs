//! `check` from its input to its findings.

use std::path::{Path, PathBuf};

use clap::Parser;
use proptest::{collection::vec, option, prelude::*, sample::select};
use serde_json::{Value, json};

use super::{
    judge::{Finding, Judgement},
    *,
};
use crate::policy::{self, Cluster, Kind, Operation, Subject};

const NAMESPACE: &str = "sriov-network-operator";

fn data(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(file)
}

fn recorded(file: &str) -> Value {
    let path = data("conformance").join(file);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// A judge of what is created or changed in the recorded cluster.
fn judge() -> Judge {
    let mut state = State::new(NAMESPACE);
    for object in recorded("world.json")["objects"].as_array().unwrap() {
        state.insert(object);
    }
    Judge::new(rules(), "openshift.io", inject::Options::default(), state)
}

fn judged(judge: &mut Judge, object: &Value) -> Judgement {
    judge.judge(&Document {
        source: "test".to_owned(),
        object: object.clone(),
    })
}

fn policy(name: &str, pf_name: &str) -> Value {
    json!({
        "apiVersion": "sriovnetwork.openshift.io/v1", "kind": "SriovNetworkNodePolicy",
        "metadata": {"name": name},
        "spec": {
            "resourceName": "fast", "nodeSelector": {"node-role.kubernetes.io/worker": ""}, "numVfs": 8,
            "nicSelector": {"pfNames": [pf_name]},
        },
    })
}

/// Runs `check` with a file of these documents against the seed of the tests.
fn run(documents: &[Value], arguments: &[&str]) -> Result<bool> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("objects.yaml");
    let texts = documents
        .iter()
        .map(|it| serde_saphyr::to_string(it).unwrap());
    std::fs::write(&file, texts.collect::<Vec<_>>().join("---\n"))?;
    let seed = format!("--cluster-state={}", data("seed.yaml").display());
    let file = file.display().to_string();
    let mut line = vec!["check", &seed, &file];
    line.extend(arguments);
    command(&line).report()
}

fn command(line: &[&str]) -> Check {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        check: Check,
    }
    Line::try_parse_from(line).unwrap().check
}

#[test]
fn check_and_server_agree_on_every_recorded_case() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for file in [
        "config.json",
        "net-ib.json",
        "net-ovs.json",
        "net-sn.json",
        "pod.json",
        "policy.json",
        "pool.json",
    ] {
        for case in recorded(file).as_array().unwrap() {
            let (object, expect) = (&case["object"], &case["expect"]);
            let is_pod = object["kind"] == "Pod";
            // Deletions are not asked about; whether a pod is one at all is not ours to tell.
            if case["operation"] == "DELETE" || (is_pod && expect["by"] == "apiserver") {
                continue;
            }
            count += 1;
            let judgement = judged(&mut judge(), object);
            if json!(judgement.allowed) != expect["allowed"] {
                wrong.push(format!("{}: {:?}", case["id"], judgement.faults));
            }
            if expect["warns"] == true && judgement.warnings.is_empty() {
                wrong.push(format!("{}: no warning", case["id"]));
            }
            if !is_pod && judgement.faults.iter().any(|fault| fault.field.is_empty()) {
                wrong.push(format!("{}: no field", case["id"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 200, "{count} cases");
}

prop_compose! {
    /// Policies for the recorded cluster, most of them with something wrong.
    fn any_policy()(
        pf_names in vec(select(vec!["ens1f0", "ens1f1#0-3", "lan-a#2-5", "ens2f0#0-1", "ens1f0#3", "typo0"]), 0..3),
        vendor in option::weighted(0.3, select(vec!["8086", "15b3", "15B3", "dead"])),
        rack in select(vec!["a", "b", "z"]),
        resource in select(vec!["res", "a.b", "topo_res"]),
        num_vfs in 0..70_i64,
        flags in any::<[bool; 2]>(),
        link_type in option::of(select(vec!["eth", "IB"])),
    ) -> Value {
        let mut spec = json!({
            "resourceName": resource, "nodeSelector": {"rack": rack}, "numVfs": num_vfs,
            "nicSelector": {"pfNames": pf_names, "vendor": vendor.unwrap_or_default()},
            "externallyManaged": flags[0], "excludeTopology": flags[1],
        });
        if let Some(link_type) = link_type {
            spec["linkType"] = json!(link_type);
        }
        spec
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn check_finds_what_the_server_finds(spec in any_policy()) {
        let mut object = policy("new", "x");
        object["spec"] = spec;
        object["metadata"]["namespace"] = json!(NAMESPACE);
        let judgement = judged(&mut judge(), &object);

        let mut cluster = Cluster::default();
        for object in recorded("world.json")["objects"].as_array().unwrap() {
            cluster.insert_object(object, NAMESPACE);
        }
        let subject = Subject {
            kind: Kind::NodePolicy,
            operation: Operation::Create,
            name: "new",
            namespace: NAMESPACE,
            object: Some(&object.to_string()),
            old: None,
        };
        let verdict = policy::validate(&subject, (&cluster).into(), &rules());
        prop_assert_eq!(judgement.allowed, verdict.allowed());
        let served: Vec<Finding> = verdict.causes().into_iter().map(Finding::from).collect();
        prop_assert_eq!(judgement.faults, served);
        prop_assert_eq!(judgement.warnings, verdict.warnings());
    }
}

#[test]
fn the_stored_version_counts_only_when_the_file_has_another() {
    let mut judge = judge();
    let stored = recorded("world.json")["objects"]
        .as_array()
        .unwrap()
        .iter()
        .find(|object| object["kind"] == "SriovNetworkNodePolicy")
        .unwrap()
        .clone();
    assert!(
        judged(&mut judge, &stored).allowed,
        "what is stored is not judged again"
    );
    let mut changed = stored;
    changed["spec"]["numVfs"] = json!(0);
    assert!(!judged(&mut judge, &changed).allowed);
}

#[test]
fn faults_of_the_schema_and_of_the_rules_are_told_together_and_once() {
    let mut object = policy("p", "ens1f0");
    object["spec"]["priority"] = json!(100);
    object["spec"]["numVfs"] = json!("8");
    object["spec"]["resourceName"] = json!("a.b");
    object["spec"]["nicSelektor"] = json!({});
    let judgement = judged(&mut judge(), &object);
    let fields: Vec<&str> = judgement
        .faults
        .iter()
        .map(|fault| fault.field.as_str())
        .collect();
    assert_eq!(fields, ["spec.numVfs", "spec.priority"]);
    assert_eq!(
        judgement.warnings,
        ["spec.nicSelektor: unknown, and has no effect"]
    );

    object["spec"]["numVfs"] = json!(8);
    let judgement = judged(&mut judge(), &object);
    assert!(
        judgement
            .faults
            .iter()
            .any(|it| it.field == "spec.resourceName")
    );
    assert!(
        judgement
            .faults
            .iter()
            .any(|it| it.field == "spec.priority")
    );
}

#[test]
fn an_object_without_a_name_or_of_another_version_is_refused() {
    let mut judge = judge();
    let mut object = policy("p", "ens1f0");
    object["apiVersion"] = json!("sriovnetwork.openshift.io/v2");
    assert_eq!(judged(&mut judge, &object).faults[0].field, "apiVersion");
    for name in [json!(""), json!("Upper"), json!("-a"), Value::Null] {
        let mut object = policy("p", "ens1f0");
        object["metadata"]["name"] = name;
        assert_eq!(judged(&mut judge, &object).faults[0].field, "metadata.name");
    }
    for metadata in [Value::Null, json!([]), json!("p")] {
        let mut object = policy("p", "ens1f0");
        object["metadata"] = metadata;
        assert!(!judged(&mut judge, &object).allowed);
    }
}

#[test]
fn policies_of_one_run_are_judged_against_each_other() {
    let run =
        |first: &str, second: &str| run(&[policy("a", first), policy("b", second)], &[]).unwrap();
    assert!(run("ens1f0#0-3", "ens1f0#4-7"));
    assert!(!run("ens1f0#0-3", "ens1f0#3-7"));
}

#[test]
fn what_a_policy_would_take_is_a_table() {
    let report = |output| {
        let (judgements, _) = made_of(&[policy("nics", "ens1f0#2-5")]);
        let aside = ["Node x is set aside".to_owned()];
        printed(&Report::new(judgements, Vec::new(), 3, &aside), output)
    };
    assert_eq!(
        report(Format::Table),
        "test: SriovNetworkNodePolicy sriov-network-operator/nics: ok\n  \
           NODE      NIC     PCI ADDRESS   VFS\n  \
           worker-0  ens1f0  0000:18:00.0  2-5\n  \
           worker-1  ens1f0  0000:18:00.0  2-5\n\
         cluster: Node x is set aside\n\
         1 judged, 0 refused, 2 of other kinds\n"
    );
    let json: Value = serde_json::from_str(&report(Format::Json)).unwrap();
    assert_eq!(json["allowed"], true);
    assert_eq!(
        json["objects"][0]["claims"][1],
        json!({"node": "worker-1", "interface": "ens1f0", "pciAddress": "0000:18:00.0", "vfs": ["2-5"], "named": true})
    );
    let yaml: Value = serde_saphyr::from_str(&report(Format::Yaml)).unwrap();
    assert_eq!(yaml, json);
}

/// What is said of these documents in the seed of the tests, and the node states that they make.
fn made_of(documents: &[Value]) -> (Vec<Judgement>, Vec<made::NodeState>) {
    let mut state = State::new(NAMESPACE);
    for document in input::read(&[data("seed.yaml")], Limit::Dump).unwrap() {
        state.insert(&document.object);
    }
    let mut judge = Judge::new(rules(), "example.com", inject::Options::default(), state);
    let documents: Vec<Document> = documents
        .iter()
        .map(|object| Document {
            source: "test".to_owned(),
            object: object.clone(),
        })
        .collect();
    let judgements = judge.all(&documents);
    let states = judge.node_states(&judgements);
    (judgements, states)
}

fn printed(report: &Report<'_>, format: Format) -> String {
    let mut out = Vec::new();
    report.print(&mut out, format).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn the_node_states_that_policies_and_pools_make_are_shown() {
    let other = json!({
        "apiVersion": "sriovnetwork.openshift.io/v1", "kind": "SriovNetworkPoolConfig",
        "metadata": {"name": "pool"},
        "spec": {
            "rdmaMode": "exclusive",
            "nodeSelector": {"matchLabels": {"kubernetes.io/hostname": "worker-0"}},
        },
    });
    let (judgements, states) = made_of(&[
        policy("a", "ens1f0#0-3"),
        policy("b", "ens1f0#4-7"),
        other.clone(),
    ]);
    let report = Report::new(judgements, states, 3, &[]);
    let table = printed(&report, Format::Table);
    let expected = "node states:\n  \
        NODE      NIC     VFS  GROUPS              STATE\n  \
        worker-0  ens1f0  8    fast 4-7, fast 0-3  changes\n  \
        worker-1  ens1f0  8    fast 4-7, fast 0-3  changes\n";
    assert!(table.contains(expected), "{table}");
    let json: Value = serde_json::from_str(&printed(&report, Format::Json)).unwrap();
    let node = &json["nodeStates"][0];
    assert_eq!(node["node"], "worker-0");
    assert_eq!(node["spec"]["system"], json!({"rdmaMode": "exclusive"}));
    assert_eq!(
        node["spec"]["interfaces"][0]["vfGroups"][1]["policyName"],
        "a"
    );
    let offered = &node["devicePlugin"]["resourceList"][0];
    assert_eq!(offered["resourceName"], "fast");
    assert_eq!(offered["selectors"]["pfNames"], json!(["ens1f0"]));
    assert_eq!(json["nodeStates"][1]["spec"]["system"], json!({}));

    // A pool alone touches only the nodes that it changes; what is refused makes nothing.
    let names = |documents: &[Value]| -> Vec<String> {
        let (_, states) = made_of(documents);
        states.into_iter().map(|state| state.node).collect()
    };
    assert_eq!(names(&[other]), ["worker-0"]);
    assert_eq!(names(&[policy("a", "ens9f9")]), [""; 0]);
}

#[test]
fn the_definition_that_a_network_makes_is_shown() {
    let network = json!({
        "apiVersion": "sriovnetwork.openshift.io/v1", "kind": "SriovNetwork",
        "metadata": {"name": "net"},
        "spec": {"resourceName": "fast", "networkNamespace": "apps", "vlan": 7},
    });
    let mut refused = network.clone();
    refused["spec"]["ipam"] = "{".into();
    let (judgements, states) = made_of(&[network, refused]);
    assert!(states.is_empty());
    assert!(judgements[1].definition.is_none());
    let report = Report::new(judgements, states, 2, &[]);
    let table = printed(&report, Format::Table);
    let head = "  NetworkAttachmentDefinition apps/net, resource example.com/fast\n    {\n        \"cniVersion\": \"1.0.0\",\n";
    assert!(table.contains(head), "{table}");
    let json: Value = serde_json::from_str(&printed(&report, Format::Json)).unwrap();
    let definition = &json["objects"][0]["definition"];
    assert_eq!(definition["metadata"]["namespace"], "apps");
    assert!(
        definition["spec"]["config"]
            .as_str()
            .unwrap()
            .contains("\"vlan\": 7")
    );
}

fn rules() -> Rules {
    command(&["check", "x"]).rules()
}

#[test]
fn pods_are_told_what_they_would_get_from_networks_of_the_same_files() {
    let nad = json!({
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": "own", "namespace": "default", "annotations": {"k8s.v1.cni.cncf.io/resourceName": "a/b"}},
    });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "annotations": {"k8s.v1.cni.cncf.io/networks": "own"}},
        "spec": {"containers": [{"name": "c"}]},
    });
    assert!(run(&[pod.clone(), nad], &[]).unwrap());
    assert!(
        !run(std::slice::from_ref(&pod), &[]).unwrap(),
        "a network that does not exist"
    );
}

#[test]
fn dev_mode_takes_nics_that_are_not_listed() {
    let empty = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {},
        "metadata": {"name": "supported-nic-ids", "namespace": NAMESPACE},
    });
    let documents = [empty, policy("p", "ens1f0")];
    assert!(!run(&documents, &[]).unwrap());
    assert!(run(&documents, &["--dev-mode"]).unwrap());
}

#[test]
fn input_that_cannot_be_used_is_an_error() {
    assert!(run(&[], &[]).is_err(), "nothing in it");
    assert!(
        run(&[json!({"kind": "Deployment"})], &[]).is_err(),
        "nothing to judge"
    );
    assert!(run(&[policy("p", "ens1f0")], &["/nowhere.yaml"]).is_err());
    assert!(run(&[json!({"no": "kind"})], &[]).is_err());
    let state = data("seed.yaml").display().to_string();
    assert!(
        command(&["check", &state, "--cluster-state=/nowhere.yaml"])
            .report()
            .is_err()
    );
}

#[test]
fn a_report_for_people_steers_no_terminal() {
    let mut judge = judge();
    let document = Document {
        source: "a\rb.yaml".to_owned(),
        object: policy("p\u{1b}[31m\nq", "ens1f0"),
    };
    let judgements = judge.all(&[document]);
    let states = judge.node_states(&judgements);
    let aside = ["node \u{9b}2J".to_owned()];
    let report = Report::new(judgements, states, 1, &aside);
    let mut out = Vec::new();
    report.print(&mut out, Format::Table).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(
        text.starts_with(
            "a\\rb.yaml: SriovNetworkNodePolicy sriov-network-operator/p\\u{1b}[31m\\nq: "
        ),
        "{text}"
    );
    assert!(
        !text.contains(|c: char| c.is_control() && c != '\n'),
        "{text:?}"
    );
}

#[test]
fn input_that_never_ends_is_refused_and_a_dump_may_be_larger() {
    let zeros = ["/dev/zero".into()];
    let error = input::read(&zeros, Limit::Objects).unwrap_err();
    assert_eq!(
        error.to_string(),
        "/dev/zero is larger than 64 MiB, the most that is read"
    );
    let large = tempfile::NamedTempFile::new().unwrap();
    large.as_file().set_len((1 << 30) + 1).unwrap();
    let large = large.path().to_str().unwrap();
    let seed = data("seed.yaml").display().to_string();
    for (arguments, limit) in [
        (["check", large, "--cluster-state", &seed], "64 MiB"),
        (["check", &seed, "--cluster-state", large], "1024 MiB"),
    ] {
        let error = command(&arguments).report().unwrap_err().to_string();
        assert!(error.contains(large) && error.contains(limit), "{error}");
    }
}
