//! Injection as a whole: the conformance cases, a table for each rule, and what holds for every pod.

mod conformance;
mod injections;
mod model;
mod networks;
mod properties;
mod resources;
mod volume;

use std::collections::BTreeMap;

use serde_json::{Value, json, value::to_raw_value};

use super::*;

/// A small cluster: what NADs and switches there are, and the namespace that pods are created in.
struct World {
    nads: Nads,
    switches: Switches,
    namespace: &'static str,
}

impl World {
    /// NADs `foo` and `foo2` (resource `example.com/foo`), `bar`, `plain` without a resource, `tenant/foo`
    /// (`example.com/tenant`) and `kube-system/cluster-wide` (`example.com/wide`); hugepages on.
    fn new() -> Self {
        let mut world = Self {
            nads: Nads::default(),
            switches: Switches {
                hugepages: true,
                ..Switches::default()
            },
            namespace: "default",
        };
        for (key, resource) in [
            ("default/foo", "example.com/foo"),
            ("default/foo2", "example.com/foo"),
            ("default/bar", "example.com/bar"),
            ("default/plain", ""),
            ("tenant/foo", "example.com/tenant"),
            ("kube-system/cluster-wide", "example.com/wide"),
        ] {
            world.nad(key, &[("k8s.v1.cni.cncf.io/resourceName", resource)]);
        }
        world
    }

    fn nad(&mut self, key: &str, annotations: &[(&'static str, &str)]) {
        let (namespace, name) = key.split_once('/').unwrap();
        let resource_keys = [
            "k8s.v1.cni.cncf.io/resourceName".to_owned(),
            "example.com/second".to_owned(),
        ];
        let nad = Nad::new(&resource_keys, |wanted| {
            let found = annotations.iter().find(|(key, _)| *key == wanted);
            found.map(|(_, value)| *value)
        });
        self.nads.insert(namespace, name, nad);
    }

    fn selecting(mut self, name: &str, selector: &str) -> Self {
        self.nad(&format!("default/{name}"), &[(NODE_SELECTOR, selector)]);
        self
    }

    fn honoring(mut self) -> Self {
        self.switches.honor_existing = true;
        self
    }

    fn injecting(mut self, label: &str, key: &str, value: &str) -> Self {
        let annotations = BTreeMap::from([(key.to_owned(), value.to_owned())]);
        self.switches
            .injections
            .insert(label.to_owned(), annotations);
        self
    }

    /// The first answer, by the index alone.
    fn ask(&self, pod: &Value) -> Outcome {
        let object = to_raw_value(pod).unwrap();
        let review = PodReview::new(self.namespace, &object).unwrap();
        decide(&review, &self.nads, &self.switches, &options())
    }

    /// The answer when the API server knows no more than the index.
    fn decide(&self, pod: &Value) -> Outcome {
        let object = to_raw_value(pod).unwrap();
        let review = PodReview::new(self.namespace, &object).unwrap();
        let live = Live {
            index: &self.nads,
            read: &Nads::default(),
        };
        decide(&review, &live, &self.switches, &options())
    }

    /// The pod as it is admitted, with the warnings that come with it.
    fn admit(&self, pod: &Value) -> (Value, Vec<String>) {
        match self.decide(pod) {
            Outcome::Unchanged { warnings } => (pod.clone(), warnings),
            Outcome::Patched { patch, warnings } => (patched(pod, &patch), warnings),
            other => panic!("{pod} is not admitted: {other:?}"),
        }
    }

    /// The pod as it is admitted, without a warning.
    fn admitted(&self, pod: &Value) -> Value {
        let (pod, warnings) = self.admit(pod);
        assert_eq!(warnings, Vec::<String>::new());
        pod
    }

    /// Why the pod is not admitted.
    fn denied(&self, pod: &Value) -> String {
        match self.decide(pod) {
            Outcome::Denied { message, .. } => message,
            other => panic!("{pod} is not denied: {other:?}"),
        }
    }
}

fn options() -> Options {
    Options {
        multus_namespace: "kube-system".to_owned(),
    }
}

fn patched(pod: &Value, patch: &[u8]) -> Value {
    let patch: json_patch::Patch = serde_json::from_slice(patch).unwrap();
    assert!(!patch.is_empty(), "an empty patch is none");
    let mut pod = pod.clone();
    json_patch::patch(&mut pod, &patch).unwrap();
    pod
}

/// A pod with these networks and one bare container `c`.
fn pod(networks: &str) -> Value {
    pod_with(networks, &json!({"containers": [{"name": "c"}]}))
}

/// A pod with these networks and this spec.
fn pod_with(networks: &str, spec: &Value) -> Value {
    json!({"metadata": {"annotations": {NETWORKS: networks}}, "spec": spec})
}

/// What is told of a pod that is admitted.
fn warnings(world: &World, pod: &Value) -> Vec<String> {
    world.admit(pod).1
}

/// Limits of the first container.
fn limits(pod: &Value) -> &Value {
    &pod["spec"]["containers"][0]["resources"]["limits"]
}

#[test]
fn a_list_where_an_object_belongs_is_no_pod() {
    let world = World::new();
    let spec = json!({"containers": [{"name": "c"}]});
    for (pod, readable) in [
        (json!([{"annotations": {NETWORKS: "foo"}}, spec]), false),
        (
            json!({"metadata": [null, null, {NETWORKS: "foo"}], "spec": spec}),
            false,
        ),
        (pod_with("foo", &json!([null, null, [{"name": "c"}]])), true),
        (pod_with("foo", &json!({"containers": [["c"]]})), true),
        (
            pod_with(
                "foo",
                &json!({"containers": [{"name": "c", "resources": [{}, {}]}]}),
            ),
            true,
        ),
        (
            pod_with(
                "foo",
                &json!({"containers": [{"name": "c", "volumeMounts": [["A"]]}]}),
            ),
            true,
        ),
    ] {
        let object = to_raw_value(&pod).unwrap();
        assert_eq!(
            PodReview::new("default", &object).is_ok(),
            readable,
            "{pod}"
        );
        if readable {
            assert!(world.denied(&pod).contains("cannot be read"), "{pod}");
        }
    }
}
