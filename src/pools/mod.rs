//! OVS hardware offload on OpenShift: the MachineConfig of each MachineConfigPool that a `SriovNetworkPoolConfig` names.
//! Pure: pools and what exists go in, a [`Plan`] comes out.
//!
//! What exists decides, not what was written last: a MachineConfig goes when no pool names its MachineConfigPool any
//! longer, however that came about, and stays while one does. It is never needed for a pool to be deleted that its
//! MachineConfigPool still exists.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::{
    api::pool_config::CONTROL_PLANE_POOL,
    render::objects::{MANAGED_BY, MANAGED_BY_LABEL},
};

/// The group of MachineConfigs and their pools.
pub const MACHINES: &str = "machineconfiguration.openshift.io";
/// The label that says whose nodes a MachineConfig is for.
pub const ROLE: &str = "machineconfiguration.openshift.io/role";
/// The unit's drop-in. The directive is that of the reference, character by character: another would reboot nodes.
const DROP_IN: &str = "[Service]\nExecStartPre=/bin/ovs-vsctl --no-wait set Open_vSwitch . other_config:hw-offload=true\n";

/// A `SriovNetworkPoolConfig`, cut down to hardware offload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolView<'a> {
    /// Its name.
    pub name: &'a str,
    /// The MachineConfigPool that it names.
    pub offload: Option<&'a str>,
    /// Whether it is being deleted.
    pub is_deleted: bool,
    /// Whether it carries our finalizer.
    pub has_finalizer: bool,
}

/// What is known of the cluster.
#[derive(Clone, Debug, Default)]
pub struct View<'a> {
    /// The pools of the operator's namespace.
    pub pools: Vec<PoolView<'a>>,
    /// The MachineConfigPools; none where MachineConfigs are not the operator's matter: on plain Kubernetes, and where
    /// the control plane is hosted.
    pub machine_pools: Option<BTreeSet<&'a str>>,
    /// The MachineConfigs that are ours, by name, with whether each [`is_current`].
    pub machine_configs: BTreeMap<&'a str, bool>,
}

/// What is to be done, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The pools that get the finalizer.
    pub add_finalizer: Vec<String>,
    /// The MachineConfigPools whose MachineConfig is made or changed.
    pub apply: Vec<String>,
    /// The MachineConfigs that go, by name.
    pub delete: Vec<String>,
    /// The pools that lose the finalizer, once all of the above is done.
    pub remove_finalizer: Vec<String>,
    /// The pools whose MachineConfigPool does not exist, with its name. Nothing is made for them until it does.
    pub missing: Vec<(String, String)>,
}

/// Makes the plan.
pub fn plan(view: &View<'_>) -> Plan {
    let mut plan = Plan::default();
    let mut wanted = BTreeSet::new();
    for pool in &view.pools {
        let offload = pool.offload.filter(|_| !pool.is_deleted);
        match (offload, pool.has_finalizer) {
            (Some(_), false) => plan.add_finalizer.push(pool.name.to_owned()),
            (None, true) => plan.remove_finalizer.push(pool.name.to_owned()),
            _ => {}
        }
        let Some(machine_pool) = offload.filter(|machine_pool| *machine_pool != CONTROL_PLANE_POOL)
        else {
            continue;
        };
        match &view.machine_pools {
            Some(existing) if !existing.contains(machine_pool) => {
                plan.missing
                    .push((pool.name.to_owned(), machine_pool.to_owned()));
            }
            _ => {}
        }
        wanted.insert(machine_pool);
    }
    let Some(machine_pools) = &view.machine_pools else {
        plan.missing.clear();
        return plan;
    };
    for machine_pool in &wanted {
        let live = view
            .machine_configs
            .get(machine_config_name(machine_pool).as_str());
        if machine_pools.contains(machine_pool) && live.is_none_or(|is_current| !is_current) {
            plan.apply.push((*machine_pool).to_owned());
        }
    }
    let names: BTreeSet<String> = wanted
        .iter()
        .map(|machine_pool| machine_config_name(machine_pool))
        .collect();
    let gone = view
        .machine_configs
        .keys()
        .filter(|name| !names.contains(**name));
    plan.delete = gone.map(|name| (*name).to_owned()).collect();
    plan
}

/// The name of a MachineConfigPool's MachineConfig.
pub fn machine_config_name(machine_pool: &str) -> String {
    format!("00-{machine_pool}-ovs-hw-offload")
}

/// The MachineConfigPool that a MachineConfig of that name is for, if the name is one of ours.
pub fn machine_pool_of(machine_config: &str) -> Option<&str> {
    machine_config
        .strip_prefix("00-")?
        .strip_suffix("-ovs-hw-offload")
        .filter(|machine_pool| !machine_pool.is_empty())
}

/// The MachineConfig that switches hardware offload on for a MachineConfigPool.
pub fn machine_config(machine_pool: &str) -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfig",
        "metadata": {
            "name": machine_config_name(machine_pool),
            "labels": { MANAGED_BY_LABEL: MANAGED_BY, ROLE: machine_pool },
        },
        "spec": { "config": config() },
    })
}

/// Whether a live MachineConfig does what [`machine_config`] would. Labels and fields beside that may differ, so that one
/// that the reference's operator made is left as it is.
pub fn is_current(live: &Value, machine_pool: &str) -> bool {
    let role = live.pointer("/metadata/labels").map(|labels| &labels[ROLE]);
    role == Some(&json!(machine_pool)) && live.pointer("/spec/config") == Some(&config())
}

/// Ignition, with its empty parts spelled out as the reference does.
fn config() -> Value {
    json!({
        "ignition": {
            "config": { "replace": { "verification": {} } },
            "proxy": {},
            "security": { "tls": {} },
            "timeouts": {},
            "version": "3.2.0",
        },
        "passwd": {},
        "storage": {},
        "systemd": { "units": [{
            "name": "ovs-vswitchd.service",
            "dropins": [{ "name": "10-hw-offload.conf", "contents": DROP_IN }],
        }] },
    })
}

#[cfg(test)]
mod tests;
