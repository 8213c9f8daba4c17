//! The rules of node states and device plugins, told as worked examples on two recorded nodes:
//!
//! ```text
//! bm-0  ens1f0 8086:158b, also enp24s0f0 and lan-a   0000:18:00.0      bm-1  ens1f0 8086:1572   0000:18:00.0
//!       ens1f1 8086:158b                             0000:18:00.1            ens2f0 15b3:101d   0000:3b:00.0
//!       ens2f0 15b3:1017                             0000:3b:00.0            ens3f0 8086:158b   0000:5e:00.0
//!       ens2f1 15b3:1017, InfiniBand                 0000:3b:00.1            ens4f0 14e4:16d7   0000:86:00.0
//!       eno1   14e4:16ff                             0000:01:00.0      os-0, aws-0: virtual machines
//! ```

mod bridges;
mod examples;
mod plugin;
mod properties;

use serde_json::{Value, json};

use super::{NodeView, Plan, plan};
use crate::policy::{Cluster, NicIds, ParsedPolicy};

const NAMESPACE: &str = "sriov-network-operator";

/// The recorded nodes.
fn world() -> Cluster {
    cluster_of(&recorded())
}

fn recorded() -> Vec<Value> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/data/conformance/world.json"
    );
    let world: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    world["objects"].as_array().unwrap().clone()
}

fn cluster_of(objects: &[Value]) -> Cluster {
    let mut cluster = Cluster::default();
    for object in objects {
        cluster.insert_object(object, NAMESPACE);
    }
    cluster
}

/// A policy `priority/name` with `numVfs`, for NICs by name where `nics` is a text or a list, else by selector; with the
/// fields of `change` on top.
fn policy(id: &str, nics: Value, num_vfs: i64, resource: &str, change: Value) -> Value {
    let (priority, name) = id.split_once('/').unwrap();
    let selector = match nics {
        Value::String(name) => json!({"pfNames": [name]}),
        Value::Array(names) => json!({"pfNames": names}),
        selector => selector,
    };
    let mut spec = json!({
        "priority": priority.parse::<i64>().unwrap(),
        "resourceName": resource,
        "nodeSelector": {},
        "numVfs": num_vfs,
        "nicSelector": selector,
        "deviceType": "netdevice",
    });
    if let Value::Object(fields) = change {
        spec.as_object_mut().unwrap().extend(fields);
    }
    json!({"metadata": {"name": name}, "spec": spec})
}

fn parsed(policies: &[Value]) -> Vec<ParsedPolicy> {
    policies
        .iter()
        .map(|policy| ParsedPolicy::new(&serde_json::from_value(policy.clone()).unwrap()).unwrap())
        .collect()
}

fn planned_on(cluster: &Cluster, node: &str, policies: &[Value], bridges: bool) -> Plan {
    let policies = parsed(policies);
    let policies: Vec<&ParsedPolicy> = policies.iter().collect();
    plan(&NodeView {
        nics: cluster.nics(node).unwrap_or_default(),
        policies: &policies,
        nic_ids: cluster.nic_ids(),
        bridges,
        rdma_mode: None,
        stored: None,
    })
}

fn planned(policies: &[Value]) -> Plan {
    planned_on(&world(), "bm-0", policies, false)
}

/// The interfaces as JSON, each in one line: `ens1f0 numVfs 4 mtu 9000; r1 0-1 a; r2 2-3 b mtu 9000`.
fn told(plan: &Plan) -> Vec<String> {
    let interfaces = plan.spec.interfaces.as_deref().unwrap_or_default();
    interfaces
        .iter()
        .map(|interface| {
            let name = interface.name.as_deref().unwrap_or_default();
            let mtu = |mtu: Option<i64>| mtu.map(|mtu| format!("mtu {mtu}"));
            let external = interface.externally_managed == Some(true);
            let vfs = interface.num_vfs.unwrap_or_default();
            let head = [
                Some(format!("{name} {vfs}")),
                mtu(interface.mtu),
                interface.link_type.clone(),
                interface.e_switch_mode.clone(),
                external.then(|| "external".into()),
            ];
            let groups = interface.vf_groups.iter().flatten().map(|group| {
                let parts = [
                    group.resource_name.clone(),
                    group.vf_range.clone(),
                    group.policy_name.clone(),
                    mtu(group.mtu),
                    group.vdpa_type.clone(),
                ];
                joined(parts)
            });
            let mut line = vec![joined(head)];
            line.extend(groups);
            line.join("; ")
        })
        .collect()
}

fn joined(parts: impl IntoIterator<Item = Option<String>>) -> String {
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.join(" ")
}

fn no_ids() -> NicIds {
    NicIds::default()
}
