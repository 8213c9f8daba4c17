//! What is found, which is what the server finds.

use super::*;

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
