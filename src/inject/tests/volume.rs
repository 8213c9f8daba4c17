//! The volume `podnetinfo`, its mounts, the files about hugepages and the variable `CONTAINER_NAME`.

use super::*;

fn mount() -> Value {
    json!({"name": "podnetinfo", "readOnly": true, "mountPath": "/etc/podnetinfo"})
}

/// Paths of the items of the volume, in their order.
fn files(pod: &Value) -> Vec<&str> {
    let volumes = pod["spec"]["volumes"].as_array().unwrap();
    let volume = volumes
        .iter()
        .find(|volume| volume["name"] == "podnetinfo")
        .unwrap();
    let items = volume["downwardAPI"]["items"].as_array().unwrap();
    items
        .iter()
        .map(|item| item["path"].as_str().unwrap())
        .collect()
}

fn container(name: &str, requests: &Value, limits: &Value) -> Value {
    json!({"name": name, "resources": {"requests": requests, "limits": limits}})
}

#[test]
fn each_running_container_gets_the_mount() {
    let world = World::new();
    let admitted = world.admitted(&pod_with(
        "foo",
        &json!({
            "containers": [
                {"name": "a"},
                {"name": "b", "volumeMounts": [{"name": "x", "mountPath": "/x"}]},
                {"name": "c", "volumeMounts": []},
            ],
            "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}],
            "volumes": [{"name": "x", "emptyDir": {}}],
        }),
    ));
    let spec = &admitted["spec"];
    assert_eq!(spec["containers"][0]["volumeMounts"], json!([mount()]));
    assert_eq!(
        spec["containers"][1]["volumeMounts"],
        json!([{"name": "x", "mountPath": "/x"}, mount()])
    );
    assert_eq!(spec["containers"][2]["volumeMounts"], json!([mount()]));
    assert_eq!(spec["initContainers"][0], json!({"name": "i"}));
    assert_eq!(spec["initContainers"][1]["volumeMounts"], json!([mount()]));
    assert_eq!(spec["volumes"][0], json!({"name": "x", "emptyDir": {}}));
    assert_eq!(files(&admitted), ["annotations"]);
}

#[test]
fn networks_without_resources_need_no_files() {
    let world = World::new().selecting("sel", "a=b");
    let admitted = world.admitted(&pod("sel,plain"));
    assert_eq!(
        admitted["spec"],
        json!({"containers": [{"name": "c"}], "nodeSelector": {"a": "b"}})
    );
}

#[test]
fn what_is_mounted_already_stays_as_it_is() {
    let world = World::new();
    for field in [
        json!({"volumeMounts": [{"name": "podnetinfo", "mountPath": "/elsewhere"}]}),
        json!({"volumeMounts": [{"name": "other", "mountPath": "/etc/podnetinfo"}]}),
        json!({"volumeMounts": [{"name": "other", "mountPath": "/etc/podnetinfo/"}]}),
        json!({"volumeMounts": [{"name": "other", "mountPath": "//etc/./podnetinfo"}]}),
        json!({"volumeDevices": [{"name": "other", "devicePath": "/etc/podnetinfo"}]}),
        json!({"volumeDevices": [{"name": "podnetinfo", "devicePath": "/dev/x"}]}),
    ] {
        let mut spec = json!({"containers": [{"name": "a"}, field.clone()]});
        spec["containers"][1]["name"] = json!("b");
        let admitted = world.admitted(&pod_with("foo", &spec));
        assert_eq!(
            admitted["spec"]["containers"][1], spec["containers"][1],
            "{field}"
        );
        assert_eq!(
            admitted["spec"]["containers"][0]["volumeMounts"],
            json!([mount()])
        );
    }
    let near = json!([{"name": "other", "mountPath": "/etc/podnetinfo/x"}]);
    let admitted = world.admitted(&pod_with(
        "foo",
        &json!({"containers": [{"name": "a", "volumeMounts": near}]}),
    ));
    assert_eq!(
        admitted["spec"]["containers"][0]["volumeMounts"][1],
        mount()
    );
}

#[test]
fn a_volume_of_the_name_stays_as_it_is() {
    let volumes = json!([{"name": "podnetinfo", "emptyDir": {}}]);
    let pod = pod_with(
        "foo",
        &json!({"containers": [{"name": "a"}], "volumes": volumes}),
    );
    let admitted = World::new().admitted(&pod);
    assert_eq!(admitted["spec"]["volumes"], volumes);
    assert_eq!(
        admitted["spec"]["containers"][0]["volumeMounts"],
        json!([mount()])
    );
}

#[test]
fn the_volume_shows_the_pod_as_it_ends_up() {
    let world = World::new().injecting("inject", NETWORKS, "foo");
    let spec = json!({"containers": [{"name": "c"}]});
    for (metadata, shown) in [
        (
            json!({"labels": {"inject": "true"}}),
            vec!["labels", "annotations"],
        ),
        (
            json!({"labels": {"a": "b"}, "annotations": {NETWORKS: "foo"}}),
            vec!["labels", "annotations"],
        ),
        (
            json!({"labels": {}, "annotations": {NETWORKS: "foo"}}),
            vec!["annotations"],
        ),
        (
            json!({"labels": null, "annotations": {NETWORKS: "foo"}}),
            vec!["annotations"],
        ),
    ] {
        let admitted = world.admitted(&json!({"metadata": metadata, "spec": spec}));
        assert_eq!(files(&admitted), shown, "{metadata}");
    }
}

#[test]
fn hugepages_of_each_container_get_their_files() {
    let world = World::new();
    let pages = json!({"hugepages-1Gi": "2Gi", "hugepages-64Ki": "1Mi", "cpu": "1"});
    let pod = pod_with(
        "foo",
        &json!({
            "containers": [
                container("a", &json!({"hugepages-2Mi": "4Mi"}), &json!({"hugepages-2Mi": "4Mi"})),
                container("b", &pages, &pages),
                container("c", &json!({"hugepages-1Gi": "0", "hugepages-": "1", "hugepage-1Gi": "1"}), &json!(null)),
            ],
            "initContainers": [
                {"name": "i", "resources": {"limits": {"hugepages-1Gi": "1Gi"}}},
                {"name": "s", "restartPolicy": "Always", "resources": {"limits": {"hugepages-1Gi": "1Gi"}}},
            ],
        }),
    );
    let admitted = world.admitted(&pod);
    assert_eq!(
        files(&admitted),
        [
            "annotations",
            "hugepages_2M_request_a",
            "hugepages_2M_limit_a",
            "hugepages_1G_request_b",
            "hugepages_64K_request_b",
            "hugepages_1G_limit_b",
            "hugepages_64K_limit_b",
            "hugepages_1G_limit_s",
        ]
    );
    let items = &admitted["spec"]["volumes"][0]["downwardAPI"]["items"];
    assert_eq!(
        items[4],
        json!({
            "path": "hugepages_64K_request_b",
            "resourceFieldRef": {"containerName": "b", "resource": "requests.hugepages-64Ki", "divisor": "1Ki"},
        })
    );
    let spec = &admitted["spec"];
    let named = |name: &str| json!([{"name": "CONTAINER_NAME", "value": name}]);
    assert_eq!(spec["containers"][0]["env"], named("a"));
    assert_eq!(spec["containers"][1]["env"], named("b"));
    assert_eq!(spec["containers"][2]["env"], json!(null));
    assert_eq!(spec["initContainers"][0]["env"], json!(null));
    assert_eq!(spec["initContainers"][1]["env"], named("s"));
}

#[test]
fn a_variable_of_the_name_stays_as_it_is() {
    let world = World::new();
    for (before, after) in [
        (json!([]), json!([{"name": "CONTAINER_NAME", "value": "c"}])),
        (
            json!([{"name": "A"}]),
            json!([{"name": "A"}, {"name": "CONTAINER_NAME", "value": "c"}]),
        ),
        (
            json!([{"name": "CONTAINER_NAME", "value": "x"}]),
            json!([{"name": "CONTAINER_NAME", "value": "x"}]),
        ),
    ] {
        let mut with_env = container("c", &json!({"hugepages-1Gi": "1Gi"}), &json!(null));
        with_env["env"] = before;
        let admitted = world.admitted(&pod_with("foo", &json!({"containers": [with_env]})));
        assert_eq!(admitted["spec"]["containers"][0]["env"], after);
    }
}

#[test]
fn the_switch_turns_hugepages_off() {
    let mut world = World::new();
    world.switches.hugepages = false;
    let pages = container("c", &json!({"hugepages-1Gi": "1Gi"}), &json!(null));
    let admitted = world.admitted(&pod_with("foo", &json!({"containers": [pages]})));
    assert_eq!(files(&admitted), ["annotations"]);
    assert_eq!(admitted["spec"]["containers"][0]["env"], json!(null));
}
