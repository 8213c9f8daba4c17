//! Whose an object is, and taking over what the reference's operator left. Pure.
//!
//! Nothing without proof of ownership is touched. Proof is: our managed-by label; our own entry in `managedFields`; a
//! controller reference to our `SriovOperatorConfig`; or, under a name that templates make, either the reference
//! operator's field manager or a `clientConfig.service` in our namespace.
//!
//! What is cluster-wide carries these signs for every installation. There, the namespace that the object names (its
//! owner, the Service that it calls, the account that it binds) tells ours from those of another one.

use json_patch::Patch;
use serde_json::{Map, Value, json};

use super::{CREATOR, FIELD_MANAGER, INSTALLATION_ANNOTATION, MANAGED_BY, MANAGED_BY_LABEL};

/// Field manager of the reference's operator, which writes by full updates.
pub const LEGACY_FIELD_MANAGER: &str = "sriov-network-operator";

/// Who we are, as far as ownership goes.
#[derive(Clone, Debug, Default)]
pub struct Owner {
    /// Our namespace.
    pub namespace: String,
    /// The uid of our `SriovOperatorConfig`.
    pub config_uid: Option<String>,
}

/// Whose an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Provably ours.
    Ours,
    /// That of an operator in another namespace.
    Installation(String),
    /// Somebody else's.
    Foreign,
}

impl Owner {
    /// Whose a live object is.
    pub fn whose(&self, live: &Value) -> Whose {
        let signed = labelled(live)
            || entries(live).any(|entry| {
                [FIELD_MANAGER, LEGACY_FIELD_MANAGER, CREATOR]
                    .into_iter()
                    .any(|manager| is_manager(entry, manager))
            });
        match installation(live) {
            Some(namespace) if namespace != self.namespace => {
                if signed {
                    Whose::Installation(namespace.to_owned())
                } else {
                    Whose::Foreign
                }
            }
            _ if signed || self.controls(live) || self.serves(live) => Whose::Ours,
            _ => Whose::Foreign,
        }
    }

    /// Whether a live object is provably ours.
    pub fn owns(&self, live: &Value) -> bool {
        self.whose(live) == Whose::Ours
    }

    fn controls(&self, live: &Value) -> bool {
        let Some(uid) = self.config_uid.as_deref() else {
            return false;
        };
        list(live, "/metadata/ownerReferences")
            .any(|reference| reference["uid"] == uid && reference["controller"] == true)
    }

    fn serves(&self, live: &Value) -> bool {
        list(live, "/webhooks").any(|webhook| {
            webhook
                .pointer("/clientConfig/service/namespace")
                .is_some_and(|namespace| *namespace == self.namespace)
        })
    }
}

/// The namespace of the installation that a cluster-wide object names. What owns it comes first: the rest may have been
/// changed by hand.
fn installation(live: &Value) -> Option<&str> {
    if live.pointer("/metadata/namespace").is_some() {
        return None;
    }
    let owner = list(live, "/metadata/ownerReferences")
        .find(|reference| reference["apiVersion"] == "v1" && reference["kind"] == "Namespace")
        .and_then(|reference| reference["name"].as_str());
    let annotated = || {
        live.pointer("/metadata/annotations")?
            .get(INSTALLATION_ANNOTATION)?
            .as_str()
    };
    let called = || {
        list(live, "/webhooks")
            .find_map(|webhook| webhook.pointer("/clientConfig/service/namespace")?.as_str())
    };
    let bound = || list(live, "/subjects").find_map(|subject| subject["namespace"].as_str());
    owner.or_else(annotated).or_else(called).or_else(bound)
}

fn list<'a>(live: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    live.pointer(pointer)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

fn labelled(live: &Value) -> bool {
    live.pointer("/metadata/labels")
        .is_some_and(|labels| labels[MANAGED_BY_LABEL] == MANAGED_BY)
}

fn entries(live: &Value) -> impl Iterator<Item = &Value> {
    list(live, "/metadata/managedFields")
}

fn is_manager(entry: &Value, manager: &str) -> bool {
    entry["manager"] == manager && entry.get("subresource").is_none()
}

fn is_ours(entry: &Value) -> bool {
    is_manager(entry, FIELD_MANAGER) && entry["operation"] == "Apply"
}

/// The fields that our last apply of a live object left as ours, `None` when we own none.
pub(super) fn our_fields(live: &Value) -> Option<&Value> {
    entries(live)
        .find(|entry| is_ours(entry))
        .map(|entry| &entry["fieldsV1"])
}

/// The manager other than us that wrote last, for messages.
pub(super) fn last_other_manager(live: &Value) -> Option<String> {
    entries(live)
        .filter(|entry| entry["manager"] != FIELD_MANAGER && entry.get("subresource").is_none())
        .max_by_key(|entry| entry["time"].as_str().unwrap_or_default().to_owned())
        .and_then(|entry| entry["manager"].as_str())
        .map(str::to_owned)
}

/// The patch that makes the reference operator's fields ours, so that the apply that follows removes what is no
/// longer rendered. `None` when it owns none. Guarded by the resource version that was read.
pub fn take_over(live: &Value) -> Option<Patch> {
    let legacy =
        |entry: &Value| is_manager(entry, LEGACY_FIELD_MANAGER) && entry["operation"] == "Update";
    if !entries(live).any(legacy) {
        return None;
    }
    let mut fields = our_fields(live).cloned().unwrap_or_else(|| json!({}));
    let mut template = None;
    let mut kept = Vec::new();
    for entry in entries(live) {
        if legacy(entry) {
            merge(&mut fields, &entry["fieldsV1"]);
            template.get_or_insert(entry);
        } else if !is_ours(entry) {
            kept.push(entry.clone());
        }
    }
    let mut ours = template.cloned()?;
    ours["manager"] = json!(FIELD_MANAGER);
    ours["operation"] = json!("Apply");
    ours["fieldsV1"] = fields;
    kept.push(ours);
    let patch = json!([
        {"op": "test", "path": "/metadata/resourceVersion", "value": live.pointer("/metadata/resourceVersion")?},
        {"op": "replace", "path": "/metadata/managedFields", "value": kept},
    ]);
    serde_json::from_value(patch).ok()
}

/// The union of two field sets.
fn merge(into: &mut Value, from: &Value) {
    let Value::Object(from) = from else { return };
    if !into.is_object() {
        *into = Value::Object(Map::new());
    }
    if let Value::Object(into) = into {
        for (key, value) in from {
            merge(into.entry(key.clone()).or_insert_with(|| json!({})), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(managed_fields: &Value) -> Value {
        json!({"metadata": {"name": "x", "resourceVersion": "7", "managedFields": managed_fields}})
    }

    fn owner() -> Owner {
        Owner {
            namespace: "ns".into(),
            config_uid: Some("u1".into()),
        }
    }

    #[test]
    fn proof_of_ownership() {
        let ours = [
            json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": "sriov-operator"}}}),
            json!({"metadata": {"ownerReferences": [{"uid": "u1", "controller": true}]}}),
            json!({"webhooks": [{"clientConfig": {"service": {"namespace": "ns", "name": "s"}}}]}),
            live(
                &json!([{"manager": "sriov-network-operator", "operation": "Update", "fieldsV1": {}}]),
            ),
            live(&json!([{"manager": "sriov-operator", "operation": "Apply", "fieldsV1": {}}])),
        ];
        for object in ours {
            assert!(owner().owns(&object), "{object}");
        }
        let foreign = [
            json!({"metadata": {}}),
            json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": "Helm"}}}),
            json!({"metadata": {"ownerReferences": [{"uid": "u2", "controller": true}, {"uid": "u1"}]}}),
            json!({"webhooks": [{"clientConfig": {"service": {"namespace": "other"}}}]}),
            live(
                &json!([{"manager": "sriov-network-operator", "operation": "Update", "subresource": "status", "fieldsV1": {}}]),
            ),
        ];
        for object in foreign {
            assert!(!owner().owns(&object), "{object}");
        }
    }

    #[test]
    fn what_another_installation_made_is_not_ours_though_it_is_signed_alike() {
        let label = json!({"app.kubernetes.io/managed-by": "sriov-operator"});
        let legacy =
            json!([{"manager": "sriov-network-operator", "operation": "Update", "fieldsV1": {}}]);
        let of = |namespace: &str| {
            [
                json!({"metadata": {"labels": label, "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Namespace", "name": namespace, "uid": "n"}]}}),
                json!({"metadata": {"labels": label, "annotations": {INSTALLATION_ANNOTATION: namespace}}}),
                json!({"metadata": {"managedFields": legacy},
                       "webhooks": [{"clientConfig": {"service": {"namespace": namespace, "name": "s"}}}]}),
                json!({"metadata": {"managedFields": legacy},
                       "subjects": [{"kind": "ServiceAccount", "name": "a", "namespace": namespace}]}),
            ]
        };
        for object in of("other") {
            assert_eq!(
                owner().whose(&object),
                Whose::Installation("other".into()),
                "{object}"
            );
        }
        for object in of("ns") {
            assert_eq!(owner().whose(&object), Whose::Ours, "{object}");
        }
        let in_a_namespace = json!({"metadata": {"namespace": "ns", "labels": label},
            "subjects": [{"kind": "ServiceAccount", "name": "prometheus-k8s", "namespace": "monitoring"}]});
        assert_eq!(owner().whose(&in_a_namespace), Whose::Ours);
        let led_elsewhere = json!({"metadata": {"labels": label, "ownerReferences": [
                {"apiVersion": "v1", "kind": "Namespace", "name": "ns", "uid": "n"}]},
            "webhooks": [{"clientConfig": {"service": {"namespace": "other", "name": "s"}}}]});
        assert_eq!(
            owner().whose(&led_elsewhere),
            Whose::Ours,
            "its owner counts"
        );
    }

    #[test]
    fn without_an_entry_of_the_reference_there_is_nothing_to_take_over() {
        assert_eq!(
            take_over(&live(
                &json!([{"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:a": {}}}])
            )),
            None
        );
        assert_eq!(take_over(&live(&json!([]))), None);
    }

    #[test]
    fn the_references_fields_become_ours_and_others_keep_theirs() {
        let object = live(&json!([
            {"manager": "sriov-network-operator", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
             "fieldsV1": {"f:spec": {"f:a": {}, "f:b": {"f:c": {}}}}},
            {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:x": {}}},
            {"manager": "kube-controller-manager", "operation": "Update", "subresource": "status", "fieldsV1": {"f:status": {}}},
            {"manager": "sriov-operator", "operation": "Apply", "fieldsV1": {"f:spec": {"f:b": {"f:d": {}}}}},
        ]));
        let patch = serde_json::to_value(take_over(&object).unwrap()).unwrap();
        assert_eq!(
            patch[0],
            json!({"op": "test", "path": "/metadata/resourceVersion", "value": "7"})
        );
        let entries = patch[1]["value"].as_array().unwrap();
        assert_eq!(entries.len(), 3);
        assert_eq!(entries[0]["manager"], "kubectl");
        assert_eq!(entries[1]["subresource"], "status");
        assert_eq!(
            entries[2],
            json!({"manager": "sriov-operator", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
                   "fieldsV1": {"f:spec": {"f:a": {}, "f:b": {"f:c": {}, "f:d": {}}}}})
        );
    }

    #[test]
    fn the_last_other_manager_is_named() {
        let object = live(&json!([
            {"manager": "a", "operation": "Update", "time": "2026-01-02T00:00:00Z"},
            {"manager": "b", "operation": "Update", "time": "2026-01-03T00:00:00Z"},
            {"manager": "sriov-operator", "operation": "Apply", "time": "2026-01-04T00:00:00Z"},
        ]));
        assert_eq!(last_other_manager(&object).as_deref(), Some("b"));
    }
}
