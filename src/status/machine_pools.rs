//! OpenShift: the MachineConfigPools, as far as drains and hardware offload touch them. Pure.

use kube::{ResourceExt, api::DynamicObject};
use serde::Serialize;
use serde_json::Value;

use super::{gather::Metadata, report::Part};
use crate::{
    drain::{STATE, pause::PAUSED},
    pools::machine_config_name,
};

/// A MachineConfigPool of OpenShift.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MachinePoolStatus {
    /// Its name.
    pub name: String,
    /// Whether it is paused.
    pub paused: bool,
    /// Whether the operator has paused it, for a drain.
    pub paused_for_drain: bool,
    /// Whether there is a MachineConfig that gives its nodes OVS hardware offload.
    pub hardware_offload: Part<bool>,
}

impl MachinePoolStatus {
    pub(super) fn new(pool: &DynamicObject, machine_configs: &Part<Vec<Metadata>>) -> Self {
        let name = pool.name_any();
        let offload = machine_config_name(&name);
        let record = pool.annotations().get(STATE);
        Self {
            paused: pool.data["spec"]["paused"] == Value::Bool(true),
            paused_for_drain: record.is_some_and(|record| record == PAUSED),
            hardware_offload: machine_configs
                .as_ref()
                .map(|configs| configs.iter().any(|config| config.name_any() == offload)),
            name,
        }
    }

    pub(super) fn row(&self) -> Vec<String> {
        let paused = match (self.paused, self.paused_for_drain) {
            (true, true) => "by the operator, for a drain",
            (true, false) => "by somebody else",
            (false, _) => "no",
        };
        let offload = match &self.hardware_offload {
            Part::Read(true) => "configured".to_owned(),
            Part::Read(false) => "no".to_owned(),
            Part::Unreadable { unreadable } => format!("not shown: {unreadable}"),
        };
        vec![self.name.clone(), paused.to_owned(), offload]
    }
}
