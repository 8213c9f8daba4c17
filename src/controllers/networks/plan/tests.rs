//! What a network needs, by what is there.

use std::{collections::BTreeMap, sync::Arc};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::networks::NetworkKind;

const NS: &str = "sriov-network-operator";
const MARK: &str = "SriovNetwork.sriovnetwork.openshift.io/sriov-network-operator/net";

/// A cluster around the network `net`.
#[derive(Default)]
struct World {
    network: Option<Network>,
    definitions: BTreeMap<String, Arc<Definition>>,
    namespaces: BTreeMap<String, Arc<Presence>>,
    leaves: bool,
}

fn network(namespace: &str) -> NetworkRef {
    NetworkRef {
        kind: NetworkKind::Sriov,
        namespace: namespace.into(),
        name: "net".into(),
    }
}

impl World {
    /// With these namespaces; the operator's is always there.
    fn new(namespaces: &[&str]) -> Self {
        let mut world = Self::default();
        for name in namespaces.iter().chain(&[NS]) {
            world.namespace(name, &json!({"metadata": {}}));
        }
        world
    }

    fn namespace(&mut self, name: &str, object: &Value) {
        let namespace = serde_json::from_value(object.clone()).unwrap();
        self.namespaces.insert(name.into(), Arc::new(namespace));
    }

    /// The network, for a namespace, with more metadata.
    fn network(mut self, target: &str, metadata: &Value) -> Self {
        let mut object = json!({
            "metadata": {"uid": "n", "finalizers": ["netattdef.finalizers.sriovnetwork.openshift.io"]},
            "spec": {"resourceName": "r"},
        });
        json_patch::merge(&mut object["metadata"], metadata);
        if !target.is_empty() {
            object["spec"]["networkNamespace"] = target.into();
        }
        self.network = Some(serde_json::from_value(object).unwrap());
        self
    }

    /// A definition that is as wanted, changed by a merge patch.
    fn definition(mut self, namespace: &str, uid: &str, change: &Value) -> Self {
        let spec = json!({"resourceName": "r", "networkNamespace": namespace});
        let wanted = attachment(&network(NS), Some("n"), &spec, &setting()).unwrap();
        let mut object = wanted.object();
        object["metadata"]["uid"] = uid.into();
        json_patch::merge(&mut object, change);
        let definition = serde_json::from_value(object).unwrap();
        self.definitions
            .insert(namespace.into(), Arc::new(definition));
        self
    }

    fn plan(&self) -> Plan {
        self.plan_in(NS)
    }

    fn plan_in(&self, namespace: &str) -> Plan {
        let network = network(namespace);
        let marked: Vec<String> = self
            .definitions
            .iter()
            .filter(|(_, definition)| definition.owner().as_ref() == Some(&network))
            .map(|(namespace, _)| namespace.clone())
            .collect();
        plan(&View {
            network: &network,
            object: self.network.as_ref(),
            setting: &setting(),
            definition: &|namespace| self.definitions.get(namespace).cloned(),
            marked: &marked,
            installed: !self.leaves,
            namespace: &|name| self.namespaces.get(name).cloned(),
        })
    }
}

fn setting() -> Setting {
    Setting {
        namespace: NS.into(),
        resource_prefix: "openshift.io".into(),
    }
}

fn doomed(namespace: &str, uid: &str) -> Doomed {
    Doomed {
        namespace: namespace.into(),
        uid: uid.into(),
    }
}

fn last(namespace: &str) -> Value {
    json!({"annotations": {"operator.sriovnetwork.openshift.io/last-network-namespace": namespace}})
}

fn by(manager: &str) -> Value {
    json!({"metadata": {"managedFields": [{"manager": manager, "operation": "Update"}]}})
}

fn going(mut metadata: Value) -> Value {
    metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    metadata
}

#[track_caller]
fn assert_ready(plan: &Plan, reason: &str, part: &str) {
    let ready = plan.ready.as_ref().unwrap();
    assert_eq!(ready.reason, reason, "{ready:?}");
    assert_eq!(ready.status, reason == "NetworkReady");
    assert!(ready.message.contains(part), "{ready:?}");
}

#[test]
fn a_new_network_gets_finalizer_definition_and_note() {
    let world = World::new(&["a"]).network("a", &json!({"finalizers": null}));
    let plan = world.plan();
    assert_eq!(plan.finalizer, Finalizer::Add);
    assert_eq!(plan.make, Some(Make::Create));
    assert_eq!(plan.note, Note::Write("a".into()));
    assert_ready(
        &plan,
        "NetworkReady",
        "NetworkAttachmentDefinition is provisioned",
    );
    assert!(plan.delete.is_empty());
}

#[test]
fn an_operator_that_is_taken_away_adds_no_finalizer() {
    let mut world = World::new(&["a"]).network("a", &json!({"finalizers": null}));
    world.leaves = true;
    let plan = world.plan();
    assert_eq!(plan.finalizer, Finalizer::Leave);
    assert_eq!(plan.make, Some(Make::Create));
}

#[test]
fn what_is_as_wanted_needs_nothing() {
    let world = World::new(&["a"])
        .network("a", &last("a"))
        .definition("a", "d", &json!({"metadata": {
            "labels": {"user": "x"}, "annotations": {"k8s.v1.cni.cncf.io/nodeSelector": "a=b"},
            "finalizers": ["x/y"], "managedFields": [{"manager": "sriov-network-operator", "operation": "Update"}],
        }}));
    let plan = world.plan();
    assert_eq!(
        (plan.finalizer, plan.make, plan.note),
        (Finalizer::Leave, None, Note::Leave)
    );
    assert!(plan.delete.is_empty());
}

#[test]
fn what_differs_is_changed() {
    for change in [
        json!({"spec": {"config": "{}"}}),
        json!({"spec": null}),
        json!({"metadata": {"annotations": {"k8s.v1.cni.cncf.io/resourceName": "openshift.io/x"}}}),
        json!({"metadata": {"annotations": {"k8s.v1.cni.cncf.io/resourceName": null}}}),
        json!({"metadata": {"annotations": null}}),
        json!({"metadata": {"annotations": {"sriovnetwork.openshift.io/owner-ref": ""}}}),
    ] {
        let world = World::new(&["a"])
            .network("a", &last("a"))
            .definition("a", "d", &change);
        let plan = world.plan();
        assert!(matches!(plan.make, Some(Make::Change(_))), "{change}");
        assert_ready(&plan, "NetworkReady", "");
    }
    // In its own namespace it is owned as well.
    let world = World::new(&[]).network("", &last(NS));
    let own = world.definition(NS, "d", &json!({"metadata": {"ownerReferences": null}}));
    assert!(matches!(own.plan().make, Some(Make::Change(_))));
}

#[test]
fn a_definition_of_somebody_else_is_left_alone() {
    let others = [
        (
            json!({"metadata": {"annotations": {"sriovnetwork.openshift.io/owner-ref": "SriovIBNetwork.sriovnetwork.openshift.io/x/net"}}}),
            "SriovIBNetwork.sriovnetwork.openshift.io/x/net",
        ),
        (
            json!({"metadata": {"annotations": null, "ownerReferences": [{"kind": "Foo", "name": "f", "uid": "f", "controller": true}]}}),
            "Foo f",
        ),
    ];
    for (change, owner) in others {
        let world = World::new(&["a"])
            .network("a", &json!({}))
            .definition("a", "d", &change);
        let plan = world.plan();
        assert_eq!((plan.make.as_ref(), &plan.note), (None, &Note::Leave));
        assert_ready(&plan, "NetworkAttachmentDefinitionInvalid", owner);
        // Nor does it go with the network.
        let world = world.network("a", &going(last("a")));
        let plan = world.plan();
        assert_eq!((plan.finalizer, plan.delete), (Finalizer::Remove, vec![]));
    }
}

#[test]
fn it_waits_for_its_namespace() {
    let world = World::new(&[]).network("a", &json!({}));
    let plan = world.plan();
    assert_eq!((plan.make.as_ref(), &plan.note), (None, &Note::Leave));
    assert_ready(&plan, "NamespaceNotFound", "namespace a does not exist");

    let mut world = World::new(&[]).network("a", &json!({}));
    world.namespace("a", &json!({"metadata": {"deletionTimestamp": "x"}}));
    let plan = world.plan();
    assert_eq!(plan.make, None);
    assert_ready(&plan, "NamespaceNotFound", "namespace a is being deleted");
}

#[test]
fn it_moves_and_takes_what_is_left_behind() {
    // The place that the annotation names.
    let world = World::new(&["a", "b"])
        .network("b", &last("a"))
        .definition("a", "d", &json!({}));
    let plan = world.plan();
    assert_eq!(plan.delete, [doomed("a", "d")]);
    assert_eq!(
        (plan.make.as_ref(), &plan.note),
        (Some(&Make::Create), &Note::Write("b".into()))
    );

    // Also when the new namespace is not there yet; then the note goes, so that nothing is looked for there again.
    let world = World::new(&["a"])
        .network("b", &last("a"))
        .definition("a", "d", &json!({}));
    let plan = world.plan();
    assert_eq!(plan.delete, [doomed("a", "d")]);
    assert_eq!((plan.make.as_ref(), &plan.note), (None, &Note::Remove));

    // A place that the annotation has forgotten, if an operator wrote there; a copy by a user stays.
    for (manager, delete) in [
        ("sriov-operator", vec![doomed("c", "d")]),
        ("sriov-network-operator", vec![doomed("c", "d")]),
        ("kubectl", vec![]),
    ] {
        let world =
            World::new(&["a", "c"])
                .network("a", &last(""))
                .definition("c", "d", &by(manager));
        assert_eq!(world.plan().delete, delete, "{manager}");
    }

    // What an older version of the reference made carries no mark.
    for (manager, delete) in [
        ("sriov-network-operator", vec![doomed("a", "d")]),
        ("kubectl", vec![]),
    ] {
        let mut unmarked = by(manager);
        unmarked["metadata"]["annotations"] = Value::Null;
        let world = World::new(&["a", "b"])
            .network("b", &last("a"))
            .definition("a", "d", &unmarked);
        assert_eq!(world.plan().delete, delete, "{manager}");
    }
}

#[test]
fn it_goes_with_all_that_is_marked_as_its_own() {
    let world = World::new(&["a", "b"])
        .network("b", &going(last("a")))
        .definition("a", "d1", &json!({}))
        .definition("b", "d2", &json!({}));
    let plan = world.plan();
    assert_eq!(plan.finalizer, Finalizer::Remove);
    assert_eq!(plan.delete, [doomed("a", "d1"), doomed("b", "d2")]);
    assert_eq!((plan.make, plan.ready), (None, None));

    // One that goes already is not asked to go again.
    let world = world.definition("b", "d2", &json!({"metadata": {"deletionTimestamp": "x"}}));
    assert_eq!(world.plan().delete, [doomed("a", "d1")]);

    // Without our finalizer the garbage collector does it.
    let world = world.network("b", &going(json!({"finalizers": null})));
    assert_eq!(world.plan(), Plan::nothing());
}

#[test]
fn deletion_comes_first_whatever_the_spec_says() {
    // A network of an earlier operator namespace, which may not be for another namespace any more.
    let world = World::new(&["a"]).network("a", &going(last("a")));
    let moved = json!({"metadata": {"annotations": {
        "sriovnetwork.openshift.io/owner-ref": "SriovNetwork.sriovnetwork.openshift.io/old/net"}}});
    let world = world.definition("a", "d", &moved);
    let plan = world.plan_in("old");
    assert_eq!(plan.finalizer, Finalizer::Remove);
    assert_eq!(plan.delete, [doomed("a", "d")]);
}

#[test]
fn when_its_namespace_goes_a_network_goes_while_there_is_an_operator() {
    let mut world = World::new(&["a"])
        .network("a", &last("a"))
        .definition("a", "d", &json!({}));
    world.namespace(NS, &json!({"metadata": {"deletionTimestamp": "x"}}));
    let plan = world.plan();
    assert_eq!(plan.finalizer, Finalizer::Remove);
    assert_eq!(plan.delete, [doomed("a", "d")]);

    let mut world = World::new(&[]).network("", &json!({"finalizers": null}));
    world.namespace("team", &json!({"metadata": {"deletionTimestamp": "x"}}));
    assert_eq!(world.plan_in("team"), Plan::nothing());
}

#[test]
fn what_a_vanished_network_left_goes() {
    let world = World::new(&["a"]).definition("a", "d", &json!({}));
    assert_eq!(world.plan().delete, [doomed("a", "d")]);
}

#[test]
fn a_network_outside_the_operators_namespace_has_its_own_definition_and_no_finalizer() {
    let world = World::new(&["team"]).network("", &json!({"finalizers": null}));
    let plan = world.plan_in("team");
    assert_eq!(plan.finalizer, Finalizer::Leave);
    assert_eq!(plan.make, Some(Make::Create));
    let wanted = plan.wanted.unwrap();
    assert_eq!(
        (wanted.namespace.as_str(), wanted.owner_uid.as_deref()),
        ("team", Some("n"))
    );

    let plan = world
        .network("a", &json!({"finalizers": null}))
        .plan_in("team");
    assert_eq!(
        (plan.make.as_ref(), plan.delete.as_slice()),
        (None, [].as_slice())
    );
    assert_ready(
        &plan,
        "NetworkAttachmentDefinitionInvalid",
        "networkNamespace cannot be set",
    );
}

#[test]
fn a_malformed_field_leaves_everything_as_it_is_and_is_told() {
    let mut world =
        World::new(&["a", "b"])
            .network("b", &last("a"))
            .definition("a", "d", &json!({}));
    if let Some(network) = &mut world.network {
        network.spec["ipam"] = "{".into();
    }
    let plan = world.plan();
    assert_eq!(
        (plan.make.as_ref(), plan.delete.as_slice()),
        (None, [].as_slice())
    );
    assert_ready(
        &plan,
        "NetworkAttachmentDefinitionInvalid",
        "spec.ipam: Invalid value: \"{\": line 1",
    );
}

#[test]
fn the_marks_of_the_fixture_are_those_of_the_product() {
    let world = World::new(&["a"]).definition("a", "d", &json!({}));
    assert_eq!(world.definitions["a"].owner().unwrap().to_string(), MARK);
}

/// What a definition may look like.
fn changes() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({})),
        Just(json!({"spec": {"config": "x"}})),
        Just(json!({"metadata": {"annotations": null}})),
        Just(by("sriov-network-operator")),
        Just(
            json!({"metadata": {"annotations": {"sriovnetwork.openshift.io/owner-ref": "a/b/c"}}})
        ),
        Just(json!({"metadata": {"deletionTimestamp": "x"}})),
    ]
}

proptest! {
    /// After what was planned is done, nothing more is planned: the plan converges in one step.
    #[test]
    fn doing_it_once_is_enough(
        target in prop_oneof![Just(""), Just("a"), Just("b")],
        noted in prop_oneof![Just(""), Just("a"), Just("b"), Just(NS)],
        goes in any::<bool>(),
        there in proptest::collection::btree_map(prop_oneof![Just("a"), Just("b"), Just(NS)], changes(), 0..3),
        namespaces in proptest::sample::subsequence(vec!["a", "b"], 0..=2),
    ) {
        let metadata = if goes { going(last(noted)) } else { last(noted) };
        let mut world = World::new(&namespaces).network(target, &metadata);
        for (namespace, change) in &there {
            world = world.definition(namespace, "d", change);
        }
        let plan = world.plan();
        for doomed in &plan.delete {
            let gone = world.definitions.remove(&doomed.namespace).unwrap();
            prop_assert!(gone.owner().is_none_or(|owner| owner == network(NS)), "not ours");
        }
        if plan.finalizer == Finalizer::Remove {
            return Ok(());
        }
        if plan.make.is_some() {
            let namespace = plan.wanted.unwrap().namespace;
            world = world.definition(&namespace, "made", &by("sriov-operator"));
        }
        let noted = match plan.note {
            Note::Leave => noted.to_owned(),
            Note::Write(namespace) => namespace,
            Note::Remove => String::new(),
        };
        let again = world.network(target, &last(&noted)).plan();
        prop_assert_eq!((again.make, again.note, again.finalizer), (None, Note::Leave, Finalizer::Leave));
        prop_assert_eq!(again.delete, vec![]);
        prop_assert_eq!(again.ready, plan.ready);
    }
}
