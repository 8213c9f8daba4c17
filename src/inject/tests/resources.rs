//! What the first container asks for in the end.

use super::*;

const FOO: &str = "example.com/foo";

/// A pod that asks for two of `example.com/foo` by its networks, with these resources of its containers.
fn asking(resources: &[Value]) -> Value {
    let containers = resources
        .iter()
        .enumerate()
        .map(|(index, resources)| json!({"name": format!("c{index}"), "resources": resources}));
    pod_with(
        "foo,foo2",
        &json!({"containers": containers.collect::<Vec<_>>()}),
    )
}

fn resources(pod: &Value, container: usize) -> Value {
    pod["spec"]["containers"][container]["resources"].clone()
}

fn both(amount: &str) -> Value {
    json!({"requests": {FOO: amount}, "limits": {FOO: amount}})
}

#[test]
fn the_first_container_is_topped_up() {
    let world = World::new();
    for (before, after) in [
        (json!(null), both("2")),
        (json!({}), both("2")),
        (json!({"limits": {}, "requests": null}), both("2")),
        (both("0"), both("2")),
        (both("1"), both("2")),
        (both("1000m"), both("2")),
        (both("0.5"), both("2")),
        (both("2"), both("2")),
        (both("2e0"), both("2e0")),
        (both("1k"), both("1k")),
        (both("0.001Mi"), both("0.001Mi")),
        (json!({"limits": {FOO: "1"}}), both("2")),
        (json!({"requests": {FOO: 1}}), both("2")),
        (json!({"limits": {FOO: "2"}}), json!({"limits": {FOO: "2"}})),
        (
            json!({"limits": {"cpu": "1"}}),
            json!({"limits": {"cpu": "1", FOO: "2"}, "requests": {FOO: "2"}}),
        ),
        // Requests and limits that disagree are for the API server to refuse; they are not made to agree here.
        (
            json!({"requests": {FOO: "1"}, "limits": {FOO: "3"}}),
            json!({"requests": {FOO: "2"}, "limits": {FOO: "4"}}),
        ),
    ] {
        let admitted = world.admitted(&asking(std::slice::from_ref(&before)));
        assert_eq!(resources(&admitted, 0), after, "{before}");
    }
}

#[test]
fn all_containers_count_and_only_the_first_is_changed() {
    let world = World::new();
    for (second, first) in [
        (both("1"), both("1")),
        (json!({"limits": {FOO: "1"}}), both("1")),
        (both("1500m"), both("500m")),
        (both("2"), json!(null)),
        (both("5"), json!(null)),
        (json!({"limits": {"example.com/bar": "2"}}), both("2")),
    ] {
        let admitted = world.admitted(&asking(&[json!(null), second.clone()]));
        assert_eq!(resources(&admitted, 0), first, "{second}");
        assert_eq!(resources(&admitted, 1), second);
    }
}

#[test]
fn sidecars_count_and_plain_init_containers_do_not() {
    let world = World::new();
    for (policy, first) in [
        (json!("Always"), both("1")),
        (json!(null), both("2")),
        (json!("Never"), both("2")),
    ] {
        let mut pod = asking(&[json!({})]);
        pod["spec"]["initContainers"] =
            json!([{"name": "i", "restartPolicy": policy, "resources": both("1")}]);
        let admitted = world.admitted(&pod);
        assert_eq!(resources(&admitted, 0), first, "{policy}");
        assert_eq!(
            admitted["spec"]["initContainers"][0]["resources"],
            both("1")
        );
    }
}

#[test]
fn each_key_of_a_network_counts() {
    let mut world = World::new();
    world.nad(
        "default/two",
        &[
            ("k8s.v1.cni.cncf.io/resourceName", "a~b/c"),
            ("example.com/second", "d"),
        ],
    );
    let admitted = world.admitted(&pod("two,two"));
    assert_eq!(
        resources(&admitted, 0)["limits"],
        json!({"a~b/c": "2", "d": "2"})
    );
    let mut some = pod("two");
    some["spec"]["containers"][0]["resources"] = json!({"limits": {"a~b/c": "0"}, "requests": {}});
    let admitted = world.admitted(&some);
    assert_eq!(
        resources(&admitted, 0),
        json!({"limits": {"a~b/c": "1", "d": "1"}, "requests": {"a~b/c": "1", "d": "1"}})
    );
}

#[test]
fn amounts_that_are_none_are_denied_by_place() {
    let world = World::new();
    for (amount, message) in [
        (
            json!("x"),
            "spec.containers[1].resources.limits[\"example.com/foo\"]: \"x\" is not a quantity",
        ),
        (
            json!("1e30"),
            "spec.containers[1].resources.limits[\"example.com/foo\"]: \"1e30\" is out of range",
        ),
        (json!([]), "\"[]\" is not a quantity"),
    ] {
        let found = world.denied(&asking(&[json!({}), json!({"limits": {FOO: amount}})]));
        assert!(found.contains(message), "{found}");
    }
    let found = world.denied(&asking(&[both("1e29"), both("1e29")]));
    assert!(
        found.contains(
            "spec.containers[1].resources: the sum of \"example.com/foo\" is out of range"
        ),
        "{found}"
    );
    // Others' amounts are not ours to judge.
    world.admitted(&asking(&[json!({"limits": {"cpu": "x"}})]));
}

#[test]
fn honoring_what_exists_adds_the_count_once() {
    let world = World::new().honoring();
    for (before, after) in [
        (json!(null), both("2")),
        (both("1"), both("3")),
        (both("5"), both("7")),
        (both("1k"), both("1002")),
        (json!({"limits": {FOO: "1"}}), both("3")),
    ] {
        let once = world.admitted(&asking(std::slice::from_ref(&before)));
        assert_eq!(resources(&once, 0), after, "{before}");
        assert_eq!(
            once["metadata"]["annotations"][INJECTED_RESOURCES],
            r#"{"example.com/foo":2}"#
        );
        assert_eq!(
            world.ask(&once),
            Outcome::Unchanged { warnings: vec![] },
            "{before}"
        );
    }
    // What other containers ask for is theirs.
    let admitted = world.admitted(&asking(&[json!(null), both("9")]));
    assert_eq!(resources(&admitted, 0), both("2"));
}

#[test]
fn the_record_grows_with_the_networks_and_never_shrinks() {
    let world = World::new().honoring();
    for (record, added, after) in [
        ("", 2, r#"{"example.com/foo":2}"#),
        ("{}", 2, r#"{"example.com/foo":2}"#),
        (
            r#"{"example.com/foo":1,"z":7}"#,
            1,
            r#"{"example.com/foo":2,"z":7}"#,
        ),
        (r#"{"example.com/foo":2}"#, 0, r#"{"example.com/foo":2}"#),
        (r#"{"example.com/foo":3}"#, 0, r#"{"example.com/foo":3}"#),
    ] {
        let mut pod = asking(&[both("10")]);
        pod["metadata"]["annotations"][INJECTED_RESOURCES] = json!(record);
        let admitted = world.admitted(&pod);
        assert_eq!(
            resources(&admitted, 0),
            both(&(10 + added).to_string()),
            "{record}"
        );
        assert_eq!(
            admitted["metadata"]["annotations"][INJECTED_RESOURCES],
            after
        );
    }
    for record in ["x", "[]", r#"{"a":-1}"#, r#"{"a":"1"}"#, r#"{"a":1.5}"#] {
        let mut pod = asking(&[both("10")]);
        pod["metadata"]["annotations"][INJECTED_RESOURCES] = json!(record);
        let found = world.denied(&pod);
        assert!(found.contains("injected-resources: "), "{found}");
        // Without the switch there is no record, and nobody reads one.
        World::new().admitted(&pod);
    }
}

#[test]
fn without_the_switch_there_is_no_record() {
    let admitted = World::new().admitted(&pod("foo"));
    assert_eq!(
        admitted["metadata"]["annotations"],
        json!({NETWORKS: "foo"})
    );
}
