//! What is shown of what would be made.

use super::*;

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
