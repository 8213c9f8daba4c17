//! What is decoded of the objects that a drain looks at.

use std::collections::BTreeMap;

use serde::{Deserialize, de::IgnoredAny};

use crate::{
    api::pool_config::LabelSelector,
    drain::{NodeView, StateView, budget::Labels, pause::PoolView, pods::PodView},
};

/// Who has cordoned a node, when it was us.
pub(super) const US: &str = "sriov-operator";

/// A Node.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Node {
    pub(super) metadata: NodeMeta,
    #[serde(default)]
    pub(super) spec: NodeSpec,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeMeta {
    pub(super) uid: Box<str>,
    pub(super) resource_version: Box<str>,
    /// Shared with the budget.
    #[serde(default)]
    pub(super) labels: Labels,
    #[serde(default)]
    pub(super) annotations: Option<NodeAnnotations>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct NodeAnnotations {
    #[serde(rename = "sriovnetwork.openshift.io/state")]
    wanted: Option<Box<str>>,
    #[serde(rename = "sriovnetwork.openshift.io/cordoned-by")]
    cordoned_by: Option<Box<str>>,
    #[serde(rename = "machineconfiguration.openshift.io/desiredConfig")]
    machine_config: Option<Box<str>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct NodeSpec {
    unschedulable: Option<bool>,
}

impl Node {
    pub(super) fn wanted(&self) -> Option<&str> {
        self.annotation(|annotations| &annotations.wanted)
    }

    /// OpenShift: the MachineConfig that the node is to have.
    pub(super) fn machine_config(&self) -> Option<&str> {
        self.annotation(|annotations| &annotations.machine_config)
    }

    pub(super) fn view(&self) -> NodeView<'_> {
        NodeView {
            wanted: self.wanted(),
            unschedulable: self.spec.unschedulable.unwrap_or_default(),
            cordoned_by_us: self.annotation(|annotations| &annotations.cordoned_by) == Some(US),
        }
    }

    /// Whether nothing differs that matters to a drain.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let of = |node: &Self| node.metadata.annotations.clone().unwrap_or_default();
        self.metadata.uid == other.metadata.uid
            && self.metadata.labels == other.metadata.labels
            && self.spec == other.spec
            && of(self) == of(other)
    }

    fn annotation(&self, of: impl Fn(&NodeAnnotations) -> &Option<Box<str>>) -> Option<&str> {
        of(self.metadata.annotations.as_ref()?).as_deref()
    }
}

/// A `SriovNetworkNodeState`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct State {
    pub(super) metadata: StateMeta,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StateMeta {
    pub(super) uid: Box<str>,
    pub(super) resource_version: Box<str>,
    #[serde(default)]
    annotations: Option<StateAnnotations>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
struct StateAnnotations {
    #[serde(rename = "sriovnetwork.openshift.io/current-state")]
    current: Option<Box<str>>,
    #[serde(rename = "sriovnetwork.openshift.io/desired-state")]
    desired: Option<Box<str>>,
    #[serde(rename = "sriovnetwork.openshift.io/use-external-drainer")]
    external: Option<Box<str>>,
    #[serde(rename = "sriovnetwork.openshift.io/drain-started")]
    started: Option<Box<str>>,
}

impl State {
    pub(super) fn current(&self) -> Option<&str> {
        self.metadata.annotations.as_ref()?.current.as_deref()
    }

    pub(super) fn view(&self) -> StateView<'_> {
        let annotations = self.metadata.annotations.as_ref();
        let has = |of: fn(&StateAnnotations) -> &Option<Box<str>>| {
            annotations.is_some_and(|annotations| of(annotations).is_some())
        };
        StateView {
            current: self.current(),
            has_desired: has(|annotations| &annotations.desired),
            external: annotations.and_then(|annotations| annotations.external.as_deref())
                == Some("true"),
            started_by_us: has(|annotations| &annotations.started),
        }
    }

    /// Whether nothing differs that matters to a drain. `desired-state` repeats what stands on the Node.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.metadata.uid == other.metadata.uid && self.view() == other.view()
    }
}

/// A MachineConfigPool of OpenShift.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct MachinePool {
    pub(super) metadata: MachinePoolMeta,
    #[serde(default)]
    spec: MachinePoolSpec,
    #[serde(default)]
    status: Option<MachinePoolStatus>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MachinePoolMeta {
    pub(super) uid: Box<str>,
    pub(super) resource_version: Box<str>,
    #[serde(default)]
    annotations: Option<MachinePoolAnnotations>,
}

#[derive(Clone, Debug, Deserialize)]
struct MachinePoolAnnotations {
    #[serde(rename = "sriovnetwork.openshift.io/state")]
    record: Option<Box<str>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct MachinePoolSpec {
    paused: Option<bool>,
    configuration: Option<Configuration>,
    node_selector: Option<LabelSelector>,
}

#[derive(Clone, Debug, Deserialize)]
struct MachinePoolStatus {
    configuration: Option<Configuration>,
}

#[derive(Clone, Debug, Deserialize)]
struct Configuration {
    name: Option<Box<str>>,
}

impl MachinePool {
    pub(super) fn view(&self) -> PoolView<'_> {
        fn name(configuration: Option<&Configuration>) -> Option<&str> {
            configuration?
                .name
                .as_deref()
                .filter(|name| !name.is_empty())
        }
        PoolView {
            record: self
                .metadata
                .annotations
                .as_ref()
                .and_then(|annotations| annotations.record.as_deref()),
            paused: self.spec.paused.unwrap_or_default(),
            target: name(self.spec.configuration.as_ref()),
            reached: name(
                self.status
                    .as_ref()
                    .and_then(|status| status.configuration.as_ref()),
            ),
        }
    }

    pub(super) fn node_selector(&self) -> Option<&LabelSelector> {
        self.spec.node_selector.as_ref()
    }
}

/// A pod of a node that is drained.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Pod {
    pub(super) metadata: PodMeta,
    #[serde(default)]
    spec: PodSpec,
    #[serde(default)]
    status: Option<PodStatus>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodMeta {
    pub(super) uid: Box<str>,
    pub(super) namespace: Box<str>,
    pub(super) name: Box<str>,
    #[serde(default)]
    annotations: Option<PodAnnotations>,
    #[serde(default)]
    owner_references: Option<Vec<OwnerReference>>,
    #[serde(default)]
    deletion_timestamp: Option<IgnoredAny>,
}

#[derive(Clone, Debug, Deserialize)]
struct PodAnnotations {
    #[serde(rename = "kubernetes.io/config.mirror")]
    mirror: Option<IgnoredAny>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OwnerReference {
    api_version: Box<str>,
    kind: Box<str>,
    name: Box<str>,
    #[serde(default)]
    controller: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec {
    #[serde(default)]
    containers: Vec<Container>,
    #[serde(default)]
    init_containers: Vec<Container>,
}

#[derive(Clone, Debug, Deserialize)]
struct Container {
    #[serde(default)]
    resources: Option<Resources>,
}

#[derive(Clone, Debug, Deserialize)]
struct Resources {
    #[serde(default)]
    requests: Option<BTreeMap<Box<str>, serde_json::Value>>,
}

#[derive(Clone, Debug, Deserialize)]
struct PodStatus {
    phase: Option<Box<str>>,
}

impl Pod {
    /// Whether it is on its way out.
    pub(super) fn is_ending(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// The name of the DaemonSet that controls it.
    pub(super) fn daemon_set(&self) -> Option<&str> {
        self.metadata
            .owner_references
            .iter()
            .flatten()
            .find(|owner| owner.controller == Some(true))
            .filter(|owner| &*owner.kind == "DaemonSet" && owner.api_version.starts_with("apps/"))
            .map(|owner| &*owner.name)
    }

    /// The names of the resources that its containers request.
    pub(super) fn requests(&self) -> Vec<Box<str>> {
        let containers = self
            .spec
            .containers
            .iter()
            .chain(&self.spec.init_containers);
        containers
            .filter_map(|container| container.resources.as_ref()?.requests.as_ref())
            .flat_map(|requests| requests.keys().cloned())
            .collect()
    }

    pub(super) fn view<'a>(&self, requests: &'a [Box<str>], has_daemon_set: bool) -> PodView<'a> {
        let annotations = self.metadata.annotations.as_ref();
        let phase = self
            .status
            .as_ref()
            .and_then(|status| status.phase.as_deref());
        PodView {
            is_mirror: annotations.is_some_and(|annotations| annotations.mirror.is_some()),
            is_finished: matches!(phase, Some("Succeeded" | "Failed")),
            has_daemon_set,
            requests,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(value: Value) -> Pod {
        serde_json::from_value(value).unwrap()
    }

    fn meta(more: &Value) -> Value {
        let mut meta = json!({"uid": "u", "namespace": "ns", "name": "pod"});
        let fields = meta.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        meta
    }

    #[test]
    fn a_pod_says_what_it_uses_and_whose_it_is() {
        let sidecar = pod(json!({
            "metadata": meta(&json!({})),
            "spec": {
                "containers": [{"name": "app"}, {"resources": {"limits": {"cpu": "1"}}}],
                "initContainers": [{"restartPolicy": "Always", "resources": {"requests": {"openshift.io/x": "1"}}}],
            },
            "status": {"phase": "Running"},
        }));
        let requests = sidecar.requests();
        assert_eq!(requests, ["openshift.io/x".into()]);
        let view = sidecar.view(&requests, false);
        assert!(!view.is_finished && !view.is_mirror && !sidecar.is_ending());

        let owned = |api_version: &str, kind: &str, controller: bool| {
            let owners = json!([{"apiVersion": api_version, "kind": kind, "name": "agent", "uid": "o", "controller": controller}]);
            pod(json!({"metadata": meta(&json!({"ownerReferences": owners}))}))
        };
        assert_eq!(
            owned("apps/v1", "DaemonSet", true).daemon_set(),
            Some("agent")
        );
        assert_eq!(owned("apps/v1", "DaemonSet", false).daemon_set(), None);
        assert_eq!(owned("apps/v1", "ReplicaSet", true).daemon_set(), None);
        assert_eq!(
            owned("apps.kruise.io/v1", "DaemonSet", true).daemon_set(),
            None
        );

        let mirror = pod(json!({"metadata": meta(&json!({
            "annotations": {"kubernetes.io/config.mirror": "hash"}, "deletionTimestamp": "2026-01-01T00:00:00Z",
        })), "status": {"phase": "Failed"}}));
        assert!(mirror.is_ending());
        let view = mirror.view(&[], false);
        assert!(view.is_mirror && view.is_finished);
    }

    #[test]
    fn nodes_and_states_are_read_from_their_annotations() {
        let node: Node = serde_json::from_value(json!({
            "metadata": {"uid": "u", "resourceVersion": "1", "annotations": {
                "sriovnetwork.openshift.io/state": "Drain_Required",
                "sriovnetwork.openshift.io/cordoned-by": "sriov-operator",
                "other": "x",
            }},
            "spec": {"unschedulable": true},
        }))
        .unwrap();
        let expected = NodeView {
            wanted: Some("Drain_Required"),
            unschedulable: true,
            cordoned_by_us: true,
        };
        assert_eq!(node.view(), expected);
        let bare: Node =
            serde_json::from_value(json!({"metadata": {"uid": "u", "resourceVersion": "2"}}))
                .unwrap();
        assert_eq!(bare.view(), NodeView::default());
        assert!(!bare.is_like(&node));
        let state: State = serde_json::from_value(json!({
            "metadata": {"uid": "u", "resourceVersion": "1", "annotations": {
                "sriovnetwork.openshift.io/current-state": "Draining",
                "sriovnetwork.openshift.io/desired-state": "Drain_Required",
                "sriovnetwork.openshift.io/use-external-drainer": "True",
            }},
        }))
        .unwrap();
        let expected = StateView {
            current: Some("Draining"),
            has_desired: true,
            external: false,
            started_by_us: false,
        };
        assert_eq!(state.view(), expected);
    }
}
