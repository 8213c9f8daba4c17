//! The label that tells the device plugin's DaemonSet where to run. An operator that runs takes it away with the config;
//! without one it would stay on the nodes.

use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;

use super::{CallError, Cleanup, Fault, Step, call};
use crate::{api::DEVICE_PLUGIN_LABEL, apply::FIELD_MANAGER};

impl<T: FnMut(Step) + Send> Cleanup<'_, T> {
    /// Removes it from every node.
    pub(super) async fn release_nodes(&mut self) {
        let api: Api<Node> = Api::all(self.client.clone());
        let labelled = ListParams::default().labels(DEVICE_PLUGIN_LABEL);
        let nodes = match call(api.list_metadata(&labelled)).await {
            Ok(nodes) => nodes.items,
            Err(error) => {
                self.faults.push(Fault::of("labels of nodes", &error));
                return;
            }
        };
        for node in nodes {
            let name = node.name_any();
            if !self.options.dry_run {
                let params = PatchParams {
                    field_manager: Some(FIELD_MANAGER.into()),
                    ..PatchParams::default()
                };
                let patch = json!({ "metadata": { "labels": { DEVICE_PLUGIN_LABEL: null } } });
                match call(api.patch_metadata(&name, &params, &Patch::Merge(patch))).await {
                    Ok(_) => {}
                    Err(CallError::Api(kube::Error::Api(status))) if status.code == 404 => continue,
                    Err(error) => {
                        self.faults.push(Fault::of(format!("Node {name}"), &error));
                        continue;
                    }
                }
            }
            self.say_removed(format!("label {DEVICE_PLUGIN_LABEL} of Node {name}"));
        }
    }
}
