//! The calls about one node: its state, its label, the pod of its device plugin. Each writes only what it is told to, and
//! to no other object than the one that was seen.

use std::{future::Future, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::{Value, json};
use tracing::{debug, info};

use super::PLUGIN_LABEL;
use crate::{
    api::{API_VERSION, DEFAULT_CONFIG_NAME, SriovNetworkNodeState, SriovNetworkNodeStateSpec},
    apply::FIELD_MANAGER,
    stores::{CURRENT_STATE, DESIRED_STATE, KEEP_UNTIL, StateHead},
};

/// How long one call may take.
const CALL_WITHIN: Duration = Duration::from_secs(20);
/// The label of the device plugin's pods.
const PLUGIN_PODS: &str = "app=sriov-device-plugin";
/// The drain annotations of a node that nothing is asked of. The config daemon waits until both are there.
const IDLE: &str = "Idle";

/// Why a call did not do what it was to do.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("failed to {0}: {1}")]
    Call(&'static str, #[source] kube::Error),
    #[error("failed to {0}: no answer within {CALL_WITHIN:?}")]
    Silent(&'static str),
    /// Told by whoever made the call for several.
    #[error("{0}")]
    Shared(std::sync::Arc<Failure>),
    #[error("the ConfigMap device-plugin-config has no room left for node {0}")]
    Full(Box<str>),
}

impl Failure {
    /// Whether the object is another one than was seen: the watch will show it.
    pub(super) fn is_outdated(&self) -> bool {
        match self {
            Self::Call(_, kube::Error::Api(status)) => {
                status.is_conflict() || status.is_not_found() || status.is_already_exists()
            }
            Self::Shared(failure) => failure.is_outdated(),
            _ => false,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        matches!(self, Self::Full(_))
    }
}

/// A call with a time limit, called `what` in messages.
pub(super) async fn call<T>(
    what: &'static str,
    call: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Failure> {
    match tokio::time::timeout(CALL_WITHIN, call).await {
        Ok(result) => result.map_err(|error| Failure::Call(what, error)),
        Err(_) => Err(Failure::Silent(what)),
    }
}

/// What is there already, or gone already, is as wanted.
fn unless_gone<T>(result: Result<T, Failure>) -> Result<(), Failure> {
    match result {
        Err(Failure::Call(_, kube::Error::Api(status))) if status.is_not_found() => Ok(()),
        other => other.map(drop),
    }
}

pub(super) fn patched() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.into()),
        ..PatchParams::default()
    }
}

/// The owner reference to the config of that uid.
pub(super) fn owner_reference(uid: &str) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": "SriovOperatorConfig",
        "name": DEFAULT_CONFIG_NAME,
        "uid": uid,
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// Makes the calls.
pub(super) struct Writer {
    states: Api<SriovNetworkNodeState>,
    nodes: Api<Node>,
    pods: Api<Pod>,
}

impl Writer {
    pub(super) fn new(client: &Client, namespace: &str) -> Self {
        Self {
            states: Api::namespaced(client.clone(), namespace),
            nodes: Api::all(client.clone()),
            pods: Api::namespaced(client.clone(), namespace),
        }
    }

    /// The spec of a node's state, read live.
    pub(super) async fn spec(
        &self,
        node: &str,
    ) -> Result<Option<SriovNetworkNodeStateSpec>, Failure> {
        let state = call("read the node state", self.states.get_opt(node)).await?;
        Ok(state.map(|state| state.spec))
    }

    /// Makes a node's state, or brings it to `spec`, which means `meaning`. Returns what it is afterwards, if it was
    /// written.
    pub(super) async fn state(
        &self,
        node: &str,
        head: Option<&StateHead>,
        spec: &SriovNetworkNodeStateSpec,
        meaning: u64,
        owner: &str,
    ) -> Result<Option<StateHead>, Failure> {
        let written = match head {
            None => self.create_state(node, spec, owner).await?,
            Some(head) => match state_patch(head, spec, meaning, owner) {
                None => return Ok(None),
                Some(patch) => {
                    debug!(node, "writing the node state");
                    let meta = self
                        .patch_state("write the node state", node, &patch)
                        .await?;
                    (meta.uid, meta.resource_version)
                }
            },
        };
        let (Some(uid), Some(version)) = written else {
            return Ok(None);
        };
        Ok(Some(StateHead {
            uid: uid.into(),
            version: version.into(),
            spec: meaning,
            configures: spec.interfaces.as_ref().is_some_and(|i| !i.is_empty()),
            rdma_mode: spec
                .system
                .as_ref()
                .and_then(|system| system.rdma_mode.as_deref())
                .map(Box::from),
            owner: Some(owner.into()),
            keep_until: None,
            has_desired: true,
            has_current: true,
        }))
    }

    async fn create_state(
        &self,
        node: &str,
        spec: &SriovNetworkNodeStateSpec,
        owner: &str,
    ) -> Result<(Option<String>, Option<String>), Failure> {
        info!(node, "making the node state");
        let object = json!({
            "apiVersion": API_VERSION,
            "kind": "SriovNetworkNodeState",
            "metadata": {
                "name": node,
                "ownerReferences": [owner_reference(owner)],
                "annotations": { DESIRED_STATE: IDLE, CURRENT_STATE: IDLE },
            },
            "spec": spec,
        });
        let object: SriovNetworkNodeState = serde_json::from_value(object)
            .map_err(|e| Failure::Call("make the node state", kube::Error::SerdeError(e)))?;
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.into()),
            ..PostParams::default()
        };
        let made = call("make the node state", self.states.create(&params, &object)).await?;
        Ok((made.metadata.uid, made.metadata.resource_version))
    }

    /// Sets the time until which the state of a node is kept.
    pub(super) async fn keep_state_until(
        &self,
        node: &str,
        head: &StateHead,
        until: Timestamp,
    ) -> Result<(), Failure> {
        info!(node, %until, "the config daemon does not run there: its state is kept for a while");
        let until = until.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let patch = json!({
            "metadata": {
                "uid": head.uid, "resourceVersion": head.version, "annotations": { KEEP_UNTIL: until },
            },
        });
        self.patch_state("mark the node state", node, &patch)
            .await
            .map(drop)
    }

    /// The metadata is all that is sent back.
    async fn patch_state(
        &self,
        what: &'static str,
        node: &str,
        patch: &Value,
    ) -> Result<ObjectMeta, Failure> {
        let (params, patch) = (patched(), Patch::Merge(patch));
        let state = call(what, self.states.patch_metadata(node, &params, &patch)).await?;
        Ok(state.metadata)
    }

    /// Removes the state of a node, if it is still the one that was seen.
    pub(super) async fn remove_state(&self, node: &str, head: &StateHead) -> Result<(), Failure> {
        info!(node, "removing the node state");
        let params = DeleteParams::default().preconditions(Preconditions {
            uid: Some(head.uid.to_string()),
            resource_version: Some(head.version.to_string()),
        });
        unless_gone(call("remove the node state", self.states.delete(node, &params)).await)
    }

    /// Sets or removes a node's label.
    pub(super) async fn label(&self, node: &str, value: Option<&str>) -> Result<(), Failure> {
        debug!(node, value, "labelling the node");
        let patch = json!({ "metadata": { "labels": { PLUGIN_LABEL: value } } });
        let (params, patch) = (patched(), Patch::Merge(&patch));
        unless_gone(
            call(
                "label the node",
                self.nodes.patch_metadata(node, &params, &patch),
            )
            .await,
        )
    }

    /// Ends the device plugin's pods on a node; their `DaemonSet` makes new ones, which read the configuration anew.
    pub(super) async fn restart_plugin(&self, node: &str) -> Result<(), Failure> {
        let params = ListParams::default()
            .labels(PLUGIN_PODS)
            .fields(&format!("spec.nodeName={node}"));
        let pods = call(
            "list the device plugin's pods",
            self.pods.list_metadata(&params),
        )
        .await?;
        for pod in pods {
            if pod.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let name = pod.name_any();
            info!(node, pod = name, "restarting the device plugin");
            let params = DeleteParams::default().preconditions(Preconditions {
                uid: pod.metadata.uid.clone(),
                resource_version: None,
            });
            let delete = self.pods.delete(&name, &params);
            unless_gone(call("restart the device plugin", delete).await)?;
        }
        Ok(())
    }
}

/// The merge patch that brings a state to what it should be; nothing when it is.
fn state_patch(
    head: &StateHead,
    spec: &SriovNetworkNodeStateSpec,
    meaning: u64,
    owner: &str,
) -> Option<Value> {
    let mut metadata = json!({ "uid": head.uid });
    let mut annotations = json!({});
    if head.keep_until.is_some() {
        annotations[KEEP_UNTIL] = Value::Null;
    }
    for (annotation, there) in [
        (DESIRED_STATE, head.has_desired),
        (CURRENT_STATE, head.has_current),
    ] {
        if !there {
            annotations[annotation] = IDLE.into();
            // Others write these annotations, too: what they wrote meanwhile stays.
            metadata["resourceVersion"] = (&*head.version).into();
        }
    }
    let annotate = annotations.as_object().is_some_and(|a| !a.is_empty());
    let adopt = head.owner.as_deref() != Some(owner);
    let rewrite = head.spec != meaning;
    if !annotate && !adopt && !rewrite {
        return None;
    }
    if annotate {
        metadata["annotations"] = annotations;
    }
    if adopt {
        metadata["ownerReferences"] = json!([owner_reference(owner)]);
    }
    let mut patch = json!({ "metadata": metadata });
    if rewrite {
        let bridges = spec.bridges.as_ref().and_then(|b| b.ovs.as_ref());
        let mode = spec.system.as_ref().and_then(|s| s.rdma_mode.as_ref());
        let interfaces = spec.interfaces.as_ref().filter(|i| !i.is_empty());
        patch["spec"] = json!({
            "bridges": { "ovs": bridges },
            "interfaces": interfaces,
            "system": { "rdmaMode": mode },
        });
    }
    Some(patch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::meaning;

    fn head() -> StateHead {
        StateHead {
            uid: "u".into(),
            version: "7".into(),
            spec: meaning::of_spec(&SriovNetworkNodeStateSpec::default()),
            configures: false,
            rdma_mode: None,
            owner: Some("c".into()),
            keep_until: None,
            has_desired: true,
            has_current: true,
        }
    }

    fn patch(head: &StateHead, spec: Value) -> Option<Value> {
        let spec = serde_json::from_value(spec).unwrap();
        state_patch(head, &spec, meaning::of_spec(&spec), "c")
    }

    #[test]
    fn what_is_as_wanted_is_not_written() {
        assert_eq!(patch(&head(), json!({"bridges": {}, "system": {}})), None);
    }

    #[test]
    fn only_what_differs_is_written() {
        let spec = patch(&head(), json!({"system": {"rdmaMode": "shared"}})).unwrap();
        assert_eq!(
            spec,
            json!({
                "metadata": {"uid": "u"},
                "spec": {"bridges": {"ovs": null}, "interfaces": null, "system": {"rdmaMode": "shared"}},
            })
        );
        let mut stale = head();
        stale.keep_until = Some("x".into());
        assert_eq!(
            patch(&stale, json!({})).unwrap(),
            json!({"metadata": {"uid": "u", "annotations": {KEEP_UNTIL: null}}})
        );
        let mut foreign = head();
        foreign.owner = None;
        assert_eq!(
            patch(&foreign, json!({})).unwrap(),
            json!({"metadata": {"uid": "u", "ownerReferences": [owner_reference("c")]}})
        );
    }

    #[test]
    fn drain_annotations_are_added_only_to_what_was_seen() {
        let mut fresh = head();
        fresh.has_current = false;
        assert_eq!(
            patch(&fresh, json!({})).unwrap(),
            json!({"metadata": {"uid": "u", "resourceVersion": "7", "annotations": {CURRENT_STATE: "Idle"}}})
        );
    }
}
