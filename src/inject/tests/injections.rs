//! What labels of a pod add to its annotations, and that its networks follow.

use super::*;

#[test]
fn injections_come_before_networks_are_read() {
    let world = World::new().injecting("inject", NETWORKS, "foo");
    let labelled = |value: &str, annotations: Value| {
        json!({
            "metadata": {"labels": {"inject": value}, "annotations": annotations},
            "spec": {"containers": [{"name": "c"}]},
        })
    };
    for value in ["true", "TRUE", "True"] {
        for own in [
            json!(null),
            json!({}),
            json!({NETWORKS: "bar"}),
            json!({NETWORKS: "not/a/network", "x": "y"}),
        ] {
            let admitted = world.admitted(&labelled(value, own));
            assert_eq!(admitted["metadata"]["annotations"][NETWORKS], "foo");
            assert_eq!(*limits(&admitted), json!({"example.com/foo": "1"}));
        }
    }
    for value in ["", "false", "yes", "true "] {
        let pod = labelled(value, json!({"x": "y"}));
        assert_eq!(world.ask(&pod), Outcome::Unchanged { warnings: vec![] });
    }
}

#[test]
fn injections_apply_without_networks_too_and_the_last_one_wins() {
    let world = World::new()
        .injecting("a", "team", "one")
        .injecting("b", "team", "two")
        .injecting("c", "x/y", "z");
    let pod =
        |labels: Value| json!({"metadata": {"labels": labels, "annotations": {"team": "own"}}});
    for (labels, annotations) in [
        (json!({"a": "true"}), json!({"team": "one"})),
        (json!({"b": "true", "a": "true"}), json!({"team": "two"})),
        (
            json!({"b": "false", "a": "true", "c": "true"}),
            json!({"team": "one", "x/y": "z"}),
        ),
        (json!({"d": "true"}), json!({"team": "own"})),
    ] {
        assert_eq!(
            world.admitted(&pod(labels))["metadata"]["annotations"],
            annotations
        );
    }
    let done = json!({"metadata": {"labels": {"a": "true"}, "annotations": {"team": "one"}}});
    assert_eq!(world.ask(&done), Outcome::Unchanged { warnings: vec![] });
}

#[test]
fn an_injection_can_take_networks_away() {
    let world = World::new().injecting("none", NETWORKS, "");
    let mut pod = pod("foo");
    pod["metadata"]["labels"] = json!({"none": "true"});
    let admitted = world.admitted(&pod);
    assert_eq!(admitted["metadata"]["annotations"][NETWORKS], "");
    assert_eq!(admitted["spec"], pod["spec"]);
}

#[test]
fn what_a_library_cannot_hold_elsewhere_in_the_pod_is_no_obstacle() {
    let world = World::new();
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for (annotation, field) in [
        (r#""\ud800""#, "0"),
        (r#""""#, "1e999"),
        (r#""""#, deep.as_str()),
    ] {
        let metadata = format!(r#"{{"annotations":{{"{NETWORKS}":"foo","other":{annotation}}}}}"#);
        let spec = format!(r#"{{"containers":[{{"name":"c"}}],"other":{field}}}"#);
        let pod = PodReview::of("default", Some(&metadata), Some(&spec)).unwrap();
        let outcome = decide(&pod, &world.nads, &world.switches, &options());
        assert!(matches!(outcome, Outcome::Patched { .. }), "{outcome:?}");
    }
}
