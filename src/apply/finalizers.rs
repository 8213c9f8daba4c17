//! The patches that add and remove one finalizer: they touch nothing else and are guarded by what was read. Pure.

use json_patch::Patch;
use serde_json::json;

/// Adds `finalizer` behind those that the object with that uid has. One that changed meanwhile refuses the patch.
pub fn addition(uid: Option<&str>, current: &[String], finalizer: &str) -> Option<Patch> {
    let uid = json!({"op": "test", "path": "/metadata/uid", "value": uid});
    let patch = if current.is_empty() {
        json!([uid, {"op": "add", "path": "/metadata/finalizers", "value": [finalizer]}])
    } else {
        json!([
            uid,
            {"op": "test", "path": "/metadata/finalizers", "value": current},
            {"op": "add", "path": "/metadata/finalizers/-", "value": finalizer},
        ])
    };
    serde_json::from_value(patch).ok()
}

/// Removes `finalizer`; nothing when the object does not have it.
pub fn removal(uid: Option<&str>, current: &[String], finalizer: &str) -> Option<Patch> {
    let index = current.iter().position(|known| known == finalizer)?;
    let entry = format!("/metadata/finalizers/{index}");
    let patch = json!([
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": entry, "value": finalizer},
        {"op": "remove", "path": entry},
    ]);
    serde_json::from_value(patch).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    const OURS: &str = "ours.example.com";

    fn owned(finalizers: &[&str]) -> Vec<String> {
        finalizers.iter().map(|name| (*name).to_owned()).collect()
    }

    fn patched(finalizers: &[&str], patch: &Patch) -> Result<Value, json_patch::PatchError> {
        let mut object = json!({"metadata": {"uid": "u"}, "spec": {"zero": 0, "no": false}});
        if !finalizers.is_empty() {
            object["metadata"]["finalizers"] = json!(finalizers);
        }
        json_patch::patch(&mut object, patch)?;
        assert_eq!(object["spec"], json!({"zero": 0, "no": false}));
        Ok(object["metadata"]["finalizers"].clone())
    }

    #[test]
    fn it_is_added_beside_others() {
        for (before, after) in [(vec![], vec![OURS]), (vec!["x/y"], vec!["x/y", OURS])] {
            let patch = addition(Some("u"), &owned(&before), OURS).unwrap();
            assert_eq!(patched(&before, &patch).unwrap(), json!(after));
        }
    }

    #[test]
    fn it_is_removed_from_among_others() {
        let before = ["a/b", OURS, "c/d"];
        let patch = removal(Some("u"), &owned(&before), OURS).unwrap();
        assert_eq!(patched(&before, &patch).unwrap(), json!(["a/b", "c/d"]));
        assert_eq!(removal(Some("u"), &owned(&["a/b"]), OURS), None);
    }

    #[test]
    fn an_object_that_changed_meanwhile_is_left_alone() {
        let patch = addition(Some("u"), &owned(&["a/b"]), OURS).unwrap();
        assert!(patched(&["c/d"], &patch).is_err());
        let patch = removal(Some("u"), &owned(&[OURS]), OURS).unwrap();
        assert!(patched(&["c/d", OURS], &patch).is_err());
        let patch = removal(Some("other"), &owned(&[OURS]), OURS).unwrap();
        assert!(patched(&[OURS], &patch).is_err());
    }
}
