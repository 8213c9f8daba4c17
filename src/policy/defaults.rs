//! Defaulting: what a policy lacks, as a JSON patch, and what any spec means once its defaults are filled in.

use serde_json::{Map, Value, json};

use super::{Kind, Operation, Subject, decode::Object, node_policy::DEFAULT_POLICY_NAME};

/// Priority of a policy that sets none: the weakest.
const DEFAULT_PRIORITY: i64 = 99;

/// The JSON patch (RFC 6902) that gives a policy its defaults: `priority` 99, `isRdma` true on InfiniBand links unless
/// the driver is `vfio-pci`, else false. Nothing when there is nothing to do: every default is there, the policy is
/// under deletion or called `default`, its spec did not change, or it is so malformed that its schema refuses it.
pub fn default_node_policy(subject: &Subject<'_>) -> Option<Vec<u8>> {
    if subject.kind != Kind::NodePolicy || subject.operation == Operation::Delete {
        return None;
    }
    let object = Object::read(subject.object).ok()?;
    let name = object.name().unwrap_or(subject.name);
    if object.under_deletion() || name == DEFAULT_POLICY_NAME {
        return None;
    }
    let spec = object.spec()?;
    // Compared as written: a spec that lost a default that is stored has changed, and gets it again.
    if subject.operation == Operation::Update
        && Object::read(subject.old).is_ok_and(|old| old.spec() == Some(spec))
    {
        return None;
    }
    let patch: Vec<Value> = policy_defaults(spec.as_object()?)
        .into_iter()
        .map(|(key, value)| json!({"op": "add", "path": format!("/spec/{key}"), "value": value}))
        .collect();
    if patch.is_empty() {
        return None;
    }
    serde_json::to_vec(&patch).ok()
}

/// A spec with the defaults of its kind: those of the schema and ours.
pub(super) fn complete(kind: Kind, spec: Option<Value>) -> Option<Value> {
    let mut spec = spec?;
    if let Some(fields) = spec.as_object_mut() {
        match kind {
            Kind::NodePolicy => {
                fields
                    .entry("deviceType")
                    .or_insert_with(|| "netdevice".into());
                fields.extend(
                    policy_defaults(fields)
                        .into_iter()
                        .map(|(k, v)| (k.to_owned(), v)),
                );
            }
            Kind::Network => {
                fields.entry("logLevel").or_insert_with(|| "info".into());
            }
            Kind::OperatorConfig | Kind::PoolConfig | Kind::IbNetwork | Kind::OvsNetwork => {}
        }
    }
    Some(spec)
}

fn policy_defaults(spec: &Map<String, Value>) -> Vec<(&'static str, Value)> {
    let is = |key: &str, word: &str| {
        spec.get(key)
            .and_then(Value::as_str)
            .is_some_and(|value| value.eq_ignore_ascii_case(word))
    };
    let needs_rdma = is("linkType", "ib") && !is("deviceType", "vfio-pci");
    let mut defaults = Vec::new();
    if !spec.contains_key("priority") {
        defaults.push(("priority", DEFAULT_PRIORITY.into()));
    }
    match spec.get("isRdma") {
        None => defaults.push(("isRdma", needs_rdma.into())),
        Some(Value::Bool(false)) if needs_rdma => defaults.push(("isRdma", true.into())),
        Some(_) => {}
    }
    defaults
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn patch_of(
        operation: Operation,
        name: &str,
        object: &str,
        old: Option<&str>,
    ) -> Option<Value> {
        let subject = Subject {
            kind: Kind::NodePolicy,
            operation,
            name,
            namespace: "sriov-network-operator",
            object: Some(object),
            old,
        };
        default_node_policy(&subject).map(|patch| serde_json::from_slice(&patch).unwrap())
    }

    fn add(path: &str, value: impl Into<Value>) -> Value {
        json!({"op": "add", "path": path, "value": value.into()})
    }

    #[test]
    fn what_is_absent_is_added() {
        let priority = || add("/spec/priority", 99);
        let rdma = |value: bool| add("/spec/isRdma", value);
        for (spec, expected) in [
            (json!({}), vec![priority(), rdma(false)]),
            (json!({"priority": 0}), vec![rdma(false)]),
            (json!({"priority": null, "isRdma": null}), vec![]),
            (json!({"priority": 7, "isRdma": false}), vec![]),
            (json!({"priority": 7, "isRdma": true}), vec![]),
            (json!({"linkType": "IB"}), vec![priority(), rdma(true)]),
            (
                json!({"linkType": "ib", "isRdma": false}),
                vec![priority(), rdma(true)],
            ),
            (
                json!({"linkType": "Ib", "priority": 1, "isRdma": true}),
                vec![],
            ),
            (
                json!({"linkType": "IB", "isRdma": "yes", "priority": 1}),
                vec![],
            ),
            (
                json!({"linkType": "IB", "deviceType": "netdevice"}),
                vec![priority(), rdma(true)],
            ),
            (
                json!({"linkType": "IB", "deviceType": "VFIO-PCI"}),
                vec![priority(), rdma(false)],
            ),
            (
                json!({"linkType": "ib", "deviceType": "vfio-pci", "isRdma": false}),
                vec![priority()],
            ),
            (json!({"linkType": "eth"}), vec![priority(), rdma(false)]),
            (
                json!({"linkType": 5, "deviceType": {}}),
                vec![priority(), rdma(false)],
            ),
        ] {
            let object = json!({"metadata": {"name": "p"}, "spec": spec}).to_string();
            let expected = (!expected.is_empty()).then_some(Value::Array(expected));
            assert_eq!(
                patch_of(Operation::Create, "p", &object, None),
                expected,
                "{spec}"
            );
        }
    }

    #[test]
    fn what_is_not_to_be_touched() {
        for object in [
            json!({"metadata": {"name": "default"}, "spec": {}}),
            json!({"metadata": {"name": "p"}}),
            json!({"metadata": {"name": "p"}, "spec": null}),
            json!({"metadata": {"name": "p"}, "spec": "text"}),
            json!({"metadata": {"name": "p"}, "spec": []}),
            json!({"metadata": {"name": "p", "deletionTimestamp": "2025-01-01T00:00:00Z"}, "spec": {}}),
            json!({"metadata": 5, "spec": {}}),
            json!([]),
            json!(null),
        ] {
            assert_eq!(
                patch_of(Operation::Create, "p", &object.to_string(), None),
                None,
                "{object}"
            );
        }
        let object = json!({"spec": {}}).to_string();
        assert_eq!(patch_of(Operation::Create, "default", &object, None), None);
        assert!(
            patch_of(Operation::Create, "", &object, None).is_some(),
            "a generated name, no metadata"
        );
        assert_eq!(patch_of(Operation::Create, "p", "{", None), None);
    }

    #[test]
    fn an_unchanged_spec_is_left_and_a_changed_one_completed() {
        let bare = json!({"metadata": {"name": "p"}, "spec": {"numVfs": 1}}).to_string();
        let full = json!({"metadata": {"name": "p"}, "spec": {"numVfs": 1, "priority": 50, "isRdma": false}}).to_string();
        assert_eq!(patch_of(Operation::Update, "p", &bare, Some(&bare)), None);
        assert_eq!(
            patch_of(Operation::Update, "p", &bare, Some(&full)),
            Some(json!([
                add("/spec/priority", 99),
                add("/spec/isRdma", false)
            ])),
            "without its priority it would become the strongest"
        );
        assert_eq!(patch_of(Operation::Update, "p", &full, Some(&bare)), None);
        assert_eq!(patch_of(Operation::Delete, "p", &bare, Some(&bare)), None);
    }

    #[test]
    fn specs_are_compared_with_their_defaults() {
        let node_policy = |spec: Value| complete(Kind::NodePolicy, Some(spec));
        assert_eq!(
            node_policy(json!({"numVfs": 1})),
            node_policy(
                json!({"numVfs": 1, "priority": 99, "isRdma": false, "deviceType": "netdevice"})
            )
        );
        assert_ne!(node_policy(json!({})), node_policy(json!({"priority": 1})));
        assert_eq!(
            complete(Kind::Network, Some(json!({}))),
            complete(Kind::Network, Some(json!({"logLevel": "info"})))
        );
        assert_ne!(
            complete(Kind::IbNetwork, Some(json!({}))),
            complete(Kind::IbNetwork, Some(json!({"logLevel": "info"})))
        );
        assert_eq!(complete(Kind::NodePolicy, None), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(object in ".{0,200}", old in prop::option::of(".{0,200}")) {
            patch_of(Operation::Update, "p", &object, old.as_deref());
        }
    }
}
