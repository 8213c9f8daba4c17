//! Which networks a pod ends up with, where they are looked up, and what they say about nodes.

use super::*;

#[test]
fn a_pod_without_networks_is_left_alone() {
    let world = World::new();
    for pod in [
        json!({}),
        json!({"metadata": null, "spec": null}),
        json!({"metadata": {"annotations": null, "labels": null}}),
        json!({"metadata": {"annotations": {"a": "b"}, "labels": {"a": "true"}}, "spec": {"containers": [{"name": "c"}]}}),
        pod(""),
        pod("[]"),
        pod("plain"),
        json!({"metadata": {"annotations": {DEFAULT_NETWORK: ""}}}),
    ] {
        assert_eq!(
            world.ask(&pod),
            Outcome::Unchanged { warnings: vec![] },
            "{pod}"
        );
    }
}

#[test]
fn what_cannot_be_read_is_a_fault() {
    for text in [
        "5",
        "[]",
        r#"{"metadata":5}"#,
        r#"{"metadata":{"labels":{"a":5}}}"#,
    ] {
        let object = serde_json::from_str::<Box<serde_json::value::RawValue>>(text).unwrap();
        let error = PodReview::new("default", &object).unwrap_err();
        assert!(
            error.to_string().starts_with("the pod cannot be read: "),
            "{error}"
        );
    }
    let world = World::new();
    for pod in [
        json!({"metadata": {"annotations": {NETWORKS: 5}}}),
        pod_with("foo", &json!({"containers": 5})),
        pod_with("foo", &json!({"containers": [null]})),
    ] {
        assert!(world.denied(&pod).starts_with("the pod cannot be read: "));
    }
}

#[test]
fn pods_without_containers_are_for_the_api_server_to_refuse() {
    let world = World::new().selecting("sel", "a=b");
    for spec in [
        json!(null),
        json!({}),
        json!({"containers": null}),
        json!({"containers": []}),
    ] {
        world.admitted(&pod_with("foo,sel", &spec));
    }
}

#[test]
fn networks_are_looked_up_in_the_namespace_of_the_request() {
    let mut world = World::new();
    world.namespace = "tenant";
    assert_eq!(
        *limits(&world.admitted(&pod("foo"))),
        json!({"example.com/tenant": "1"})
    );
    assert_eq!(
        *limits(&world.admitted(&pod("default/foo"))),
        json!({"example.com/foo": "1"})
    );
    assert_eq!(
        world.denied(&pod("bar")),
        "annotation k8s.v1.cni.cncf.io/networks: network attachment definition tenant/bar does not exist"
    );
    // What offline callers hand in has a namespace of its own, or none.
    world.namespace = "";
    let mut own = pod("foo");
    own["metadata"]["namespace"] = json!("tenant");
    assert_eq!(
        *limits(&world.admitted(&own)),
        json!({"example.com/tenant": "1"})
    );
    assert_eq!(
        *limits(&world.admitted(&pod("foo"))),
        json!({"example.com/foo": "1"})
    );
}

#[test]
fn a_default_network_is_also_looked_up_where_multus_looks() {
    let world = World::new();
    let default = |network: &str| {
        let mut pod = pod("");
        pod["metadata"]["annotations"] = json!({DEFAULT_NETWORK: network});
        pod
    };
    assert_eq!(
        *limits(&world.admitted(&default("foo"))),
        json!({"example.com/foo": "1"})
    );
    assert_eq!(
        *limits(&world.admitted(&default("cluster-wide"))),
        json!({"example.com/wide": "1"})
    );
    assert_eq!(
        *limits(&world.admitted(&default(r#"[{"name":"cluster-wide"}]"#))),
        json!({"example.com/wide": "1"})
    );
    assert_eq!(
        world.denied(&default("nope")),
        "annotation v1.multus-cni.io/default-network: network attachment definition default/nope or kube-system/nope does not exist"
    );
    assert!(
        world
            .denied(&default("tenant/cluster-wide"))
            .contains("definition tenant/cluster-wide does")
    );
    assert!(
        world
            .denied(&pod("cluster-wide"))
            .contains("definition default/cluster-wide does")
    );
    // One that the index has in either place needs no read.
    assert!(matches!(
        world.ask(&default("cluster-wide")),
        Outcome::Patched { .. }
    ));
}

#[test]
fn a_pod_has_one_default_network() {
    let world = World::new();
    for (network, named) in [
        ("foo,bar", "2"),
        ("[]", "0"),
        (",", "0"),
        (r#"[{"name":"a"},{"name":"b"},{"name":"c"}]"#, "3"),
    ] {
        let mut pod = pod("plain");
        pod["metadata"]["annotations"][DEFAULT_NETWORK] = json!(network);
        let message = world.denied(&pod);
        assert!(
            message.starts_with("annotation v1.multus-cni.io/default-network: "),
            "{message}"
        );
        assert!(
            message.contains(&format!("names {named} networks")),
            "{message}"
        );
    }
}

#[test]
fn networks_and_default_network_count_together() {
    let world = World::new();
    let mut pod = pod("foo,foo2");
    pod["metadata"]["annotations"][DEFAULT_NETWORK] = json!("foo@eth0");
    assert_eq!(
        *limits(&world.admitted(&pod)),
        json!({"example.com/foo": "3"})
    );
}

#[test]
fn a_denial_names_annotations_elements_and_reasons() {
    let world = World::new();
    let mut faulty = pod("a/b/c,foo,Net_A");
    faulty["metadata"]["annotations"][DEFAULT_NETWORK] = json!("{\"name\":\"foo\"}");
    let message = world.denied(&faulty);
    for part in [
        "annotation k8s.v1.cni.cncf.io/networks: element 1 \"a/b/c\": more than one '/'",
        "annotation k8s.v1.cni.cncf.io/networks: element 3 \"Net_A\": name \"Net_A\" is not",
        "annotation v1.multus-cni.io/default-network: \"{\\\"name\\\":\\\"foo\\\"}\" is not a JSON array",
    ] {
        assert!(message.contains(part), "{message}");
    }
    let message = world.denied(&pod("nope,foo,nope,tenant/bar"));
    assert_eq!(message.matches("does not exist").count(), 2, "{message}");
    let message = world.denied(&pod(&"X,".repeat(10_000)));
    assert!(
        message.len() < 10_000 && message.ends_with("; and 9980 more"),
        "{message}"
    );
}

#[test]
fn a_denial_does_not_repeat_a_long_annotation() {
    let world = World::new();
    let long = "x".repeat(100_000);
    for networks in [
        long.clone(),
        format!("\"{long}\""),
        format!("[\"{long}\"]"),
        format!("[{{\"mac\":\"{long}\"}}]"),
    ] {
        assert!(world.denied(&pod(&networks)).len() < 1000);
    }
    let pod = json!({"metadata": {"annotations": {NETWORKS: "foo"}}, "spec": long});
    assert!(world.denied(&pod).len() < 1000);
}

#[test]
fn blank_elements_are_skipped_with_a_warning() {
    let world = World::new();
    for (networks, warned) in [
        ("", 0),
        ("foo", 0),
        ("foo,", 1),
        (",foo", 1),
        (" ", 1),
        ("foo,,bar, ", 1),
    ] {
        assert_eq!(
            warnings(&world, &pod(networks)).len(),
            warned,
            "{networks:?}"
        );
    }
}

#[test]
fn what_the_index_lacks_is_asked_for_once() {
    let world = World::new();
    let new = pod("foo,new,default/new,tenant/new");
    let Outcome::Unknown(keys) = world.ask(&new) else {
        panic!()
    };
    let names: Vec<String> = keys.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["default/new", "tenant/new"]);

    let mut read = Nads::default();
    for key in &keys {
        read.insert(
            &key.namespace,
            &key.name,
            Nad::new(&["r".to_owned()], |_| Some("example.com/new")),
        );
    }
    let object = to_raw_value(&new).unwrap();
    let review = PodReview::new("default", &object).unwrap();
    let view = Live {
        index: &world.nads,
        read: &read,
    };
    let Outcome::Patched { patch, .. } = decide(&review, &view, &world.switches, &options()) else {
        panic!()
    };
    assert_eq!(
        *limits(&patched(&new, &patch)),
        json!({"example.com/foo": "1", "example.com/new": "3"})
    );

    let mut default = pod("");
    default["metadata"]["annotations"][DEFAULT_NETWORK] = json!("new");
    let Outcome::Unknown(keys) = world.ask(&default) else {
        panic!()
    };
    assert_eq!(keys.len(), 2);
}

#[test]
fn a_pod_cannot_cause_reads_without_end() {
    let names: Vec<String> = (0..33).map(|number| format!("n{number}")).collect();
    let world = World::new();
    assert!(
        matches!(world.ask(&pod(&names[..32].join(","))), Outcome::Unknown(keys) if keys.len() == 32)
    );
    let Outcome::Denied { message, .. } = world.ask(&pod(&names.join(","))) else {
        panic!()
    };
    assert!(
        message.contains("network attachment definition default/n0 is not known"),
        "{message}"
    );
}

#[test]
fn node_selectors_of_networks_win_over_the_pods_own() {
    let world = World::new()
        .selecting("sel", "rack=a, zone = z ,gpu")
        .selecting("bad", "a=b=c")
        .selecting("other", "rack=b");
    let selector = |own: Value| {
        pod_with(
            "sel",
            &json!({"containers": [{"name": "c"}], "nodeSelector": own}),
        )
    };

    for own in [json!(null), json!({})] {
        assert_eq!(
            world.admitted(&selector(own))["spec"]["nodeSelector"],
            json!({"rack": "a", "zone": "z", "gpu": ""})
        );
    }
    let (admitted, warned) = world.admit(&selector(json!({"rack": "b", "zone": "z", "x/y": "1"})));
    assert_eq!(
        admitted["spec"]["nodeSelector"],
        json!({"rack": "a", "zone": "z", "gpu": "", "x/y": "1"})
    );
    assert_eq!(
        warned,
        [
            "spec.nodeSelector[rack]: \"b\" is replaced by \"a\", which network attachment definition default/sel wants"
        ]
    );
    let complete = selector(json!({"rack": "a", "zone": "z", "gpu": ""}));
    assert_eq!(
        world.ask(&complete),
        Outcome::Unchanged { warnings: vec![] }
    );

    assert!(
        world
            .denied(&pod("bad"))
            .contains("network attachment definition default/bad: \"a=b=c\" has more than one '='")
    );
    let conflict = world.denied(&pod("sel,other"));
    assert!(
        conflict
            .contains("default/sel and default/other want different values of the node label rack"),
        "{conflict}"
    );
    world.admitted(&pod("sel,sel"));
}
