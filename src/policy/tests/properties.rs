//! What holds for every cluster and every object.

use proptest::{prelude::*, sample::Index};
use serde_json::{Value, json};

use super::support::{Asked, NAMESPACE, cluster_of, rules, world, world_objects};
use crate::policy::{Cluster, Kind, Operation, Subject, Verdict, validate};

fn told(verdict: &Verdict) -> (String, Vec<String>) {
    (verdict.status_message(), verdict.warnings())
}

const PF_NAMES: [&str; 6] = ["ens1f0", "ens1f1", "lan-a", "enp24s0f0", "ens2f0", "typo0"];
const ADDRESSES: [&str; 3] = ["0000:18:00.0", "0000:3b:00.0", "0000:ff:00.0"];

prop_compose! {
    fn any_pf_name()(name in prop::sample::select(&PF_NAMES[..]), range in prop::option::of((0u8..6, 0u8..6))) -> String {
        match range {
            Some((start, length)) => format!("{name}#{start}-{}", start + length),
            None => name.to_owned(),
        }
    }
}

prop_compose! {
    fn any_nic_selector()(
        pf_names in prop::collection::vec(any_pf_name(), 0..4),
        root_devices in prop::sample::subsequence(ADDRESSES.to_vec(), 0..3),
        vendor in prop::option::weighted(0.2, prop::sample::select(vec!["8086", "15b3", "15B3", "dead"])),
    ) -> Value {
        json!({"pfNames": pf_names, "rootDevices": root_devices, "vendor": vendor.unwrap_or_default()})
    }
}

prop_compose! {
    fn any_policy()(
        nic_selector in any_nic_selector(),
        node_selector in prop::sample::select(vec![json!({}), json!({"role": "bm"}), json!({"rack": "a"}), json!({"rack": "b"}), json!({"x": "y"})]),
        num_vfs in 0u8..20,
        resource in prop::sample::select(vec!["a", "b", "topo_res"]),
        flags in any::<(bool, bool)>(),
        mtu in prop::option::of(1000u16..9000),
    ) -> Value {
        let mut spec = json!({
            "resourceName": resource, "nodeSelector": node_selector, "numVfs": num_vfs, "nicSelector": nic_selector,
            "externallyManaged": flags.0, "excludeTopology": flags.1,
        });
        if let Some(mtu) = mtu {
            spec["mtu"] = mtu.into();
        }
        spec
    }
}

fn stored(policies: &[Value]) -> Vec<Value> {
    let named = policies.iter().enumerate().map(|(i, spec)| {
        Asked::create(Kind::NodePolicy, &format!("stored-{i}"), spec.clone()).object
    });
    world_objects().into_iter().chain(named).collect()
}

fn move_to<T>(list: &mut [T], moves: &[(Index, Index)]) {
    if list.is_empty() {
        return;
    }
    for (a, b) in moves {
        list.swap(a.index(list.len()), b.index(list.len()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_verdict_does_not_depend_on_the_order_of_nodes_policies_and_interfaces(
        policies in prop::collection::vec(any_policy(), 0..5),
        new in any_policy(),
        moves in prop::collection::vec(any::<(Index, Index)>(), 0..20),
    ) {
        let mut objects = stored(&policies);
        let asked = Asked::create(Kind::NodePolicy, "new", new);
        let first = told(&asked.verdict(&cluster_of(&objects), &rules()));
        move_to(&mut objects, &moves);
        for object in &mut objects {
            if let Some(interfaces) = object["status"]["interfaces"].as_array_mut() {
                move_to(interfaces, &moves);
            }
        }
        prop_assert_eq!(first, told(&asked.verdict(&cluster_of(&objects), &rules())));
    }

    #[test]
    fn a_verdict_does_not_depend_on_the_order_of_pf_names(
        policies in prop::collection::vec(any_policy(), 0..4),
        mut new in any_policy(),
        moves in prop::collection::vec(any::<(Index, Index)>(), 0..6),
    ) {
        let cluster = cluster_of(&stored(&policies));
        let allowed = |spec: &Value| Asked::create(Kind::NodePolicy, "new", spec.clone()).verdict(&cluster, &rules()).allowed();
        let first = allowed(&new);
        for list in ["pfNames", "rootDevices"] {
            if let Some(list) = new["nicSelector"][list].as_array_mut() {
                move_to(list, &moves);
            }
        }
        prop_assert_eq!(first, allowed(&new));
    }

    #[test]
    fn two_policies_get_along_whichever_comes_first(a in any_policy(), b in any_policy()) {
        let conflict = |first: &Value, second: &Value| {
            let mut cluster = world();
            cluster.retain_policies(|_| false);
            let _ = cluster.insert_object(&Asked::create(Kind::NodePolicy, "first", first.clone()).object, NAMESPACE);
            Asked::create(Kind::NodePolicy, "second", second.clone())
                .verdict(&cluster, &rules())
                .status_message()
                .contains("policy \"first\"")
        };
        prop_assert_eq!(conflict(&a, &b), conflict(&b, &a));
    }

    #[test]
    fn asking_changes_nothing(new in any_policy(), other in any_policy()) {
        let cluster = world();
        let ask = |spec: &Value| told(&Asked::create(Kind::NodePolicy, "new", spec.clone()).verdict(&cluster, &rules()));
        let first = ask(&new);
        ask(&other);
        prop_assert_eq!(first, ask(&new));
    }

    #[test]
    fn a_cluster_that_changed_answers_like_one_made_anew(
        objects in prop::collection::vec(any::<Index>(), 0..12),
        new in any_policy(),
    ) {
        let all = world_objects();
        let gone: Vec<String> = objects.iter().map(|i| i.get(&all)["metadata"]["name"].as_str().unwrap().to_owned()).collect();
        let kept = |object: &&Value| !gone.iter().any(|name| object["metadata"]["name"] == name.as_str());
        let mut changed = world();
        for name in &gone {
            changed.insert_node(name, [("role", "bm"), ("extra", "label")], "x");
            changed.remove_node(name);
            changed.remove_state(name);
            changed.remove_policy(name);
            if name == "supported-nic-ids" {
                changed.set_nic_ids(crate::policy::NicIds::default());
            }
        }
        let anew = cluster_of(all.iter().filter(kept));
        let asked = Asked::create(Kind::NodePolicy, "new", new);
        prop_assert_eq!(told(&asked.verdict(&changed, &rules())), told(&asked.verdict(&anew, &rules())));
    }

    #[test]
    fn any_text_gets_a_verdict_within_the_limits(
        kind in prop::sample::select(Kind::ALL.to_vec()),
        text in "\\PC{0,40}",
        value in any_json(),
        update in any::<bool>(),
    ) {
        let spec = json!({
            "resourceName": text, "nodeSelector": {&text: &text}, "numVfs": 1, "nicSelector": {"pfNames": [&text], "netFilter": &text},
            "configDaemonEnvVars": {&text: &text}, "featureGates": {&text: true}, "maxUnavailable": &text, "networkNamespace": &text,
        });
        for spec in [spec, value] {
            let object = json!({"metadata": {"name": &text}, "spec": spec}).to_string();
            for object in [object.as_str(), &text] {
                let subject = Subject {
                    kind,
                    operation: if update { Operation::Update } else { Operation::Create },
                    name: &text,
                    namespace: &text,
                    object: Some(object),
                    old: Some(&text),
                };
                let verdict = validate(&subject, (&world()).into(), &rules());
                prop_assert!(!verdict.status_message().contains(char::is_control));
                for cause in verdict.causes() {
                    prop_assert!(!cause.field.is_empty() && !cause.message.contains(char::is_control));
                }
                for warning in verdict.warnings() {
                    prop_assert!(warning.chars().count() <= 256 && !warning.contains(char::is_control));
                }
            }
        }
    }

    #[test]
    fn any_object_is_taken_in_without_panic(mut value in any_json(), kind in prop::sample::select(vec![
        "Node", "SriovNetworkNodeState", "SriovNetworkNodePolicy", "ConfigMap",
    ])) {
        if let Some(object) = value.as_object_mut() {
            object.insert("kind".into(), kind.into());
            object.insert("metadata".into(), json!({"name": "supported-nic-ids", "namespace": NAMESPACE}));
        }
        Cluster::default().insert_object(&value, NAMESPACE);
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let keys = prop::sample::select(vec![
        "spec",
        "status",
        "data",
        "interfaces",
        "syncStatus",
        "name",
        "altNames",
        "pciAddress",
        "vendor",
        "deviceID",
        "totalvfs",
        "netFilter",
        "pfNames",
        "rootDevices",
        "numVfs",
        "nodeSelector",
        "nicSelector",
        "resourceName",
        "maxUnavailable",
        "matchExpressions",
        "bridge",
        "ovs",
        "mtu",
        "labels",
        "providerID",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((keys.clone(), inner), 0..6).prop_map(|fields| fields
                .into_iter()
                .map(|(k, v)| (k.to_owned(), v))
                .collect::<serde_json::Map<_, _>>()
                .into()),
        ]
    })
}
