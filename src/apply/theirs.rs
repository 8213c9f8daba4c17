//! What others have under names of ours: watched by name, until it is gone or may be ours.

use std::collections::BTreeSet;

use futures::{StreamExt, stream::FuturesUnordered};
use kube::{
    Api, Resource,
    api::{DynamicObject, PartialObjectMeta},
};
use serde_json::{Value, json};

use super::{Applier, ObjectRef};
use crate::watching::watch_object;

/// What decides whose an object is, and changes with its content. Status and the times of others' writes are not in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Signs(Value);

impl Signs {
    pub(super) fn of(live: &Value) -> Self {
        let metadata = &live["metadata"];
        let managers: Vec<&Value> = metadata["managedFields"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|entry| entry.get("subresource").is_none())
            .map(|entry| &entry["manager"])
            .collect();
        Self(json!([
            metadata["uid"],
            metadata["generation"],
            metadata["labels"],
            metadata["annotations"],
            metadata["ownerReferences"],
            managers,
        ]))
    }
}

/// Watches what others have until dropped, and calls `wake` when it is to be looked at again.
pub(super) async fn watch(applier: &Applier, wake: &(impl Fn() + Sync)) {
    let mut theirs = applier.theirs();
    let mut watched = BTreeSet::new();
    let mut changes = FuturesUnordered::new();
    loop {
        for (object, signs) in theirs.borrow_and_update().iter() {
            if watched.insert(object.clone()) {
                changes.push(changed(applier, object.clone(), signs.clone()));
            }
        }
        tokio::select! {
            // It cannot end before the applier does.
            _ = theirs.changed() => {}
            Some(object) = changes.next() => {
                watched.remove(&object);
                applier.reconsider(&object);
                wake();
            }
        }
    }
}

/// Waits until an object is gone, or bears other signs.
async fn changed(applier: &Applier, object: ObjectRef, signs: Signs) -> ObjectRef {
    let api: Api<PartialObjectMeta<DynamicObject>> = applier.api(object.kind);
    let mut shown = std::pin::pin!(watch_object(api, &object.name));
    while let Some(shown) = shown.next().await {
        let Ok(now) = shown else { continue };
        let same = now.is_some_and(|now| Signs::of(&json!({ "metadata": now.meta() })) == signs);
        if !same {
            break;
        }
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_whose_it_is_changes_the_signs_and_status_does_not() {
        let was = json!({"metadata": {"uid": "u", "generation": 1, "resourceVersion": "1", "managedFields": [
            {"manager": "kubectl", "operation": "Update", "time": "t1"}]}});
        let with = |change: &dyn Fn(&mut Value)| {
            let mut live = was.clone();
            change(&mut live);
            Signs::of(&live)
        };
        let status = with(&|live| {
            live["metadata"]["resourceVersion"] = "2".into();
            live["metadata"]["managedFields"] = json!([
                {"manager": "kubectl", "operation": "Update", "time": "t1"},
                {"manager": "controller", "operation": "Update", "subresource": "status"},
            ]);
            live["status"] = json!({"ready": 1});
        });
        assert_eq!(status, Signs::of(&was));
        for other in [
            with(&|live| live["metadata"]["uid"] = "v".into()),
            with(&|live| live["metadata"]["generation"] = 2.into()),
            with(&|live| live["metadata"]["labels"] = json!({"a": "b"})),
            with(&|live| live["metadata"]["ownerReferences"] = json!([{"uid": "x"}])),
            with(&|live| live["metadata"]["managedFields"] = json!([])),
        ] {
            assert_ne!(other, Signs::of(&was));
        }
    }
}
