//! What is written on nodes and their pools: the label that the device plugin's DaemonSet selects by, and what drains
//! leave when they cannot end. An operator that runs takes it away with the config; without one it would stay.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, ListParams, Patch},
    core::{GroupVersionKind, ObjectMeta},
};
use serde_json::{Value, json};

use super::{Cleanup, Fault, Step, call};
use crate::{
    api::DEVICE_PLUGIN_LABEL,
    drain::{
        CORDONED_BY, STATE,
        pause::{PAUSED, written},
    },
    pools::MACHINES,
};

impl<T: FnMut(Step) + Send> Cleanup<'_, T> {
    /// Removes the label from every node, lifts the cordons that are on record as ours, and resumes the
    /// MachineConfigPools that are on record as paused by us.
    pub(super) async fn release_nodes(&mut self) {
        let nodes: Api<Node> = Api::all(self.client.clone());
        match call(nodes.list_metadata(&ListParams::default())).await {
            Ok(list) => {
                for node in list.items {
                    self.release_node(&nodes, &node.metadata).await;
                }
            }
            Err(error) => self.faults.push(Fault::of("nodes", &error)),
        }
        let version = format!("{MACHINES}/v1");
        match call(self.client.list_api_group_resources(&version)).await {
            Ok(_) => self.resume_all().await,
            // Asked before the pools are: for a kind that is not there, a right is missing, too.
            Err(error) if error.is_missing() => {}
            Err(error) => self.faults.push(Fault::of(version, &error)),
        }
    }

    async fn resume_all(&mut self) {
        let kind = GroupVersionKind::gvk(MACHINES, "v1", "MachineConfigPool");
        let pools: Api<DynamicObject> =
            Api::all_with(self.client.clone(), &ApiResource::from_gvk(&kind));
        match call(pools.list_metadata(&ListParams::default())).await {
            Ok(list) => {
                for pool in list.items {
                    self.resume(&pools, &pool.metadata).await;
                }
            }
            // An operator without that right has paused none.
            Err(error) if error.is_forbidden() => {}
            Err(error) => self.faults.push(Fault::of("MachineConfigPools", &error)),
        }
    }

    async fn release_node(&mut self, nodes: &Api<Node>, node: &ObjectMeta) {
        let has = |map: &Option<BTreeMap<String, String>>, key| {
            map.as_ref().is_some_and(|map| map.contains_key(key))
        };
        let name = node.name.clone().unwrap_or_default();
        if has(&node.labels, DEVICE_PLUGIN_LABEL) {
            let patch = json!({ "metadata": { "labels": { DEVICE_PLUGIN_LABEL: null } } });
            let told = format!("label {DEVICE_PLUGIN_LABEL} of Node {name}");
            self.take_away(nodes, &name, patch, told).await;
        }
        if has(&node.annotations, CORDONED_BY) {
            let patch = json!({
                "metadata": { "annotations": { CORDONED_BY: null } },
                "spec": { "unschedulable": false },
            });
            let told = format!("cordon of Node {name}");
            self.take_away(nodes, &name, patch, told).await;
        }
    }

    async fn resume(&mut self, pools: &Api<DynamicObject>, pool: &ObjectMeta) {
        let state = pool.annotations.as_ref().and_then(|all| all.get(STATE));
        if state.is_none_or(|state| state != PAUSED) {
            return;
        }
        let name = pool.name.clone().unwrap_or_default();
        let (record, paused) = written(false);
        let patch = json!({
            "metadata": { "annotations": { STATE: record } },
            "spec": { "paused": paused },
        });
        let told = format!("pause of MachineConfigPool {name}");
        self.take_away(pools, &name, patch, told).await;
    }

    async fn take_away<K>(&mut self, api: &Api<K>, name: &str, patch: Value, what: String)
    where
        K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    {
        let told = Step::Removed(what);
        match self.patch(api, name, &Patch::Merge(patch)).await {
            Ok(true) => self.say(told),
            Ok(false) => {}
            Err(error) => self.faults.push(Fault::of(told, &error)),
        }
    }
}
