//! The finalizer of the config: added and removed by patches that touch nothing else and are guarded by what was read.

use json_patch::Patch as JsonPatch;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::Error;
use crate::{
    api::{DEFAULT_CONFIG_NAME, OPERATOR_CONFIG_FINALIZER, SriovOperatorConfig},
    apply::FIELD_MANAGER,
};

/// Whether the config carries our finalizer.
pub(super) fn is_present(config: &SriovOperatorConfig) -> bool {
    finalizers(config)
        .iter()
        .any(|finalizer| finalizer == OPERATOR_CONFIG_FINALIZER)
}

/// Adds our finalizer. A config that changed meanwhile is a conflict, which the next pass resolves.
pub(super) async fn add(
    api: &Api<SriovOperatorConfig>,
    config: &SriovOperatorConfig,
) -> Result<(), Error> {
    patch(api, addition(config)).await
}

/// Removes our finalizer.
pub(super) async fn remove(
    api: &Api<SriovOperatorConfig>,
    config: &SriovOperatorConfig,
) -> Result<(), Error> {
    match removal(config) {
        Some(removal) => patch(api, removal).await,
        None => Ok(()),
    }
}

async fn patch(api: &Api<SriovOperatorConfig>, patch: serde_json::Value) -> Result<(), Error> {
    let patch: JsonPatch = serde_json::from_value(patch)
        .map_err(|error| Error::Config(kube::Error::SerdeError(error).into()))?;
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.into()),
        ..PatchParams::default()
    };
    match api
        .patch(DEFAULT_CONFIG_NAME, &params, &Patch::Json::<()>(patch))
        .await
    {
        Ok(_) => Ok(()),
        // Gone meanwhile: the watch shows it.
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(error) => Err(Error::Config(error.into())),
    }
}

pub(super) fn finalizers(config: &SriovOperatorConfig) -> &[String] {
    config.metadata.finalizers.as_deref().unwrap_or_default()
}

fn addition(config: &SriovOperatorConfig) -> serde_json::Value {
    let uid = json!({"op": "test", "path": "/metadata/uid", "value": config.metadata.uid});
    let current = finalizers(config);
    if current.is_empty() {
        json!([uid, {"op": "add", "path": "/metadata/finalizers", "value": [OPERATOR_CONFIG_FINALIZER]}])
    } else {
        json!([
            uid,
            {"op": "test", "path": "/metadata/finalizers", "value": current},
            {"op": "add", "path": "/metadata/finalizers/-", "value": OPERATOR_CONFIG_FINALIZER},
        ])
    }
}

fn removal(config: &SriovOperatorConfig) -> Option<serde_json::Value> {
    let index = finalizers(config)
        .iter()
        .position(|finalizer| finalizer == OPERATOR_CONFIG_FINALIZER)?;
    let path = format!("/metadata/finalizers/{index}");
    Some(json!([
        {"op": "test", "path": "/metadata/uid", "value": config.metadata.uid},
        {"op": "test", "path": path, "value": OPERATOR_CONFIG_FINALIZER},
        {"op": "remove", "path": path},
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patched(
        finalizers: &[&str],
        patch: impl Fn(&SriovOperatorConfig) -> serde_json::Value,
    ) -> serde_json::Value {
        let mut object = json!({
            "apiVersion": "sriovnetwork.openshift.io/v1", "kind": "SriovOperatorConfig",
            "metadata": {"name": "default", "uid": "u"}, "spec": {"enableInjector": false, "logLevel": 0}
        });
        if !finalizers.is_empty() {
            object["metadata"]["finalizers"] = json!(finalizers);
        }
        let config = serde_json::from_value(object.clone()).unwrap();
        let patch: JsonPatch = serde_json::from_value(patch(&config)).unwrap();
        json_patch::patch(&mut object, &patch).unwrap();
        object
    }

    #[test]
    fn it_is_added_beside_others_and_nothing_else_changes() {
        let object = patched(&[], addition);
        assert_eq!(
            object["metadata"]["finalizers"],
            json!([OPERATOR_CONFIG_FINALIZER])
        );
        assert_eq!(
            object["spec"],
            json!({"enableInjector": false, "logLevel": 0})
        );
        assert_eq!(
            patched(&["x/y"], addition)["metadata"]["finalizers"],
            json!(["x/y", OPERATOR_CONFIG_FINALIZER])
        );
    }

    #[test]
    fn it_is_removed_from_among_others() {
        let object = patched(&["a/b", OPERATOR_CONFIG_FINALIZER, "c/d"], |config| {
            removal(config).unwrap()
        });
        assert_eq!(object["metadata"]["finalizers"], json!(["a/b", "c/d"]));
        let without: SriovOperatorConfig =
            serde_json::from_value(json!({"metadata": {"finalizers": ["a/b"]}})).unwrap();
        assert_eq!(removal(&without), None);
    }

    #[test]
    fn another_object_of_that_name_is_left_alone() {
        let config = serde_json::from_value(json!({"metadata": {"uid": "old"}})).unwrap();
        let patch: JsonPatch = serde_json::from_value(addition(&config)).unwrap();
        assert!(json_patch::patch(&mut json!({"metadata": {"uid": "new"}}), &patch).is_err());
    }
}
