//! The calls about one node: its state, its label, the pod of its device plugin. Each writes only what it is told to, and
//! to no other object than the one that was seen.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, ObjectMeta, Patch, Preconditions},
};
use serde_json::{Value, json};
use tracing::{debug, info};

use crate::{
    api::{
        API_VERSION, DEFAULT_CONFIG_NAME, DEVICE_PLUGIN_LABEL, SriovNetworkNodeState,
        SriovNetworkNodeStateSpec,
    },
    apply::{by_us, made_by_us},
    controllers::calls::{Error, call, that_very, undecodable, unless_gone},
    drain::{CURRENT_STATE, DESIRED_STATE, IDLE},
    stores::{KEEP_UNTIL, StateHead},
};

/// The label of the device plugin's pods.
const PLUGIN_PODS: &str = "app=sriov-device-plugin";
/// Why a node is not what it is to be.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error(transparent)]
    Call(#[from] Error),
    #[error("the ConfigMap device-plugin-config has no room left for node {0}")]
    Full(Box<str>),
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
    ) -> Result<Option<SriovNetworkNodeStateSpec>, Error> {
        let state = call("read", &state_of(node), self.states.get_opt(node)).await?;
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
    ) -> Result<Option<StateHead>, Error> {
        let written = match head {
            None => self.create_state(node, spec, owner).await?,
            Some(head) => match state_patch(head, spec, meaning, owner) {
                None => return Ok(None),
                Some(patch) => {
                    debug!(node, "writing the node state");
                    let meta = self.patch_state(node, &patch).await?;
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
        }))
    }

    async fn create_state(
        &self,
        node: &str,
        spec: &SriovNetworkNodeStateSpec,
        owner: &str,
    ) -> Result<(Option<String>, Option<String>), Error> {
        info!(node, "making the node state");
        let object = json!({
            "apiVersion": API_VERSION,
            "kind": "SriovNetworkNodeState",
            "metadata": {
                "name": node,
                "ownerReferences": [owner_reference(owner)],
                // The config daemon waits until both are there.
                "annotations": { DESIRED_STATE: IDLE, CURRENT_STATE: IDLE },
            },
            "spec": spec,
        });
        let name = state_of(node);
        let object: SriovNetworkNodeState =
            serde_json::from_value(object).map_err(|error| undecodable(&name, error))?;
        let made = call("make", &name, self.states.create(&made_by_us(), &object)).await?;
        Ok((made.metadata.uid, made.metadata.resource_version))
    }

    /// Sets the time until which the state of a node is kept.
    pub(super) async fn keep_state_until(
        &self,
        node: &str,
        head: &StateHead,
        until: Timestamp,
    ) -> Result<(), Error> {
        info!(node, %until, "the config daemon does not run there: its state is kept for a while");
        let until = until.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let patch = json!({
            "metadata": {
                "uid": head.uid, "resourceVersion": head.version, "annotations": { KEEP_UNTIL: until },
            },
        });
        self.patch_state(node, &patch).await.map(drop)
    }

    /// The metadata is all that is sent back.
    async fn patch_state(&self, node: &str, patch: &Value) -> Result<ObjectMeta, Error> {
        let (params, patch) = (by_us(), Patch::Merge(patch));
        let written = self.states.patch_metadata(node, &params, &patch);
        Ok(call("write", &state_of(node), written).await?.metadata)
    }

    /// Removes the state of a node, if it is still the one that was seen.
    pub(super) async fn remove_state(&self, node: &str, head: &StateHead) -> Result<(), Error> {
        info!(node, "removing the node state");
        let params = DeleteParams::default().preconditions(Preconditions {
            uid: Some(head.uid.to_string()),
            resource_version: Some(head.version.to_string()),
        });
        let removed = self.states.delete(node, &params);
        unless_gone(call("remove", &state_of(node), removed).await)
    }

    /// Sets or removes a node's label.
    pub(super) async fn label(&self, node: &str, value: Option<&str>) -> Result<(), Error> {
        debug!(node, value, "labelling the node");
        let patch = json!({ "metadata": { "labels": { DEVICE_PLUGIN_LABEL: value } } });
        let (params, patch) = (by_us(), Patch::Merge(&patch));
        let labelled = self.nodes.patch_metadata(node, &params, &patch);
        unless_gone(call("label", &format!("Node {node}"), labelled).await)
    }

    /// Ends the device plugin's pods on a node; their `DaemonSet` makes new ones, which read the configuration anew.
    pub(super) async fn restart_plugin(&self, node: &str) -> Result<(), Error> {
        let params = ListParams::default()
            .labels(PLUGIN_PODS)
            .fields(&format!("spec.nodeName={node}"));
        let what = format!("the device plugin's pods on node {node}");
        let pods = call("list", &what, self.pods.list_metadata(&params)).await?;
        for pod in pods {
            if pod.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let name = pod.name_any();
            info!(node, pod = name, "restarting the device plugin");
            let params = that_very(pod.metadata.uid.as_deref().unwrap_or_default());
            let delete = self.pods.delete(&name, &params);
            unless_gone(call("delete", &format!("Pod {name}"), delete).await)?;
        }
        Ok(())
    }
}

/// In messages.
fn state_of(node: &str) -> String {
    format!("SriovNetworkNodeState {node}")
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
}
