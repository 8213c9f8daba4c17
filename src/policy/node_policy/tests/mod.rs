//! The rules of policies, a table for each rule and its neighbours, on the recorded cluster:
//!
//! ```text
//! bm-0  role=bm rack=a  ens1f0 8086:158b 64 VFs, also lan-a    stored: intel-a   role=bm ens1f1#0-3, numVfs 8
//!                       ens1f1 8086:158b 64 VFs                        mlx-ext   rack=a  ens2f0#0-1, externally managed
//!                       ens2f0 15b3:1017, has 6, MTU 9000              root-dev  rack=a  0000:3b:00.1
//!                       ens2f1 15b3:1017, IB                           root-part rack=b  ens3f0#0-3 at 0000:5e:00.0
//!                       eno1   14e4:16ff, not listed                   topo      role=bm topo_res without topology
//! bm-1  role=bm rack=b  ens1f0 8086:1572 16 VFs, ens2f0 15b3:101d, ens3f0 8086:158b, ens4f0 14e4:16d7 8 VFs
//! os-0  role=vm         ens4 15b3:1018 (a VF), ens5 1af4:1000      aws-0 role=ec2  ens6 1d0f:ec20
//! cp-0  role=cp         eth0 9999:0001, not listed                 bare-0 role=nostate  no node state
//! ```

mod conflicts;
mod decoding;
mod placement;
mod statics;

use serde_json::{Value, json};

use crate::policy::{
    Cluster, Kind, ReportedState, Rules, Verdict,
    tests::support::{Asked, NAMESPACE, rules, world},
};

/// A legal policy for one PF of `bm-0`, with the fields of `change` in place of its own; null takes a field away.
fn spec(change: Value) -> Value {
    let spec = json!({
        "resourceName": "res",
        "nodeSelector": {"rack": "a"},
        "numVfs": 4,
        "nicSelector": {"pfNames": ["ens1f0"]},
    });
    replace_fields(spec, change)
}

fn replace_fields(mut object: Value, change: Value) -> Value {
    let Value::Object(fields) = change else {
        panic!("{change} is no object")
    };
    for (field, value) in fields {
        if value.is_null() {
            object.as_object_mut().unwrap().remove(&field);
        } else {
            object[field] = value;
        }
    }
    object
}

fn ask(change: Value) -> Asked {
    Asked::create(Kind::NodePolicy, "new", spec(change))
}

fn judged(change: Value) -> Verdict {
    judged_in(&world(), change)
}

fn judged_in(cluster: &Cluster, change: Value) -> Verdict {
    ask(change).verdict(cluster, &rules())
}

fn judged_in_dev_mode(change: Value) -> Verdict {
    let rules = Rules {
        dev_mode: true,
        ..rules()
    };
    ask(change).verdict(&world(), &rules)
}

/// The recorded cluster with one more stored policy.
fn world_with(name: &str, change: Value) -> Cluster {
    let mut cluster = world();
    store(&mut cluster, name, change);
    cluster
}

fn store(cluster: &mut Cluster, name: &str, change: Value) {
    let policy = Asked::create(Kind::NodePolicy, name, spec(change)).object;
    assert_eq!(cluster.insert_object(&policy, NAMESPACE), []);
}

/// Adds a node with labels `pool=new` whose node state lists these interfaces.
fn add_node(cluster: &mut Cluster, name: &str, interfaces: Option<Value>) {
    cluster.insert_node(
        name,
        [("pool", "new"), ("kubernetes.io/hostname", name)],
        "",
    );
    if let Some(interfaces) = interfaces {
        let state: ReportedState =
            serde_json::from_value(json!({"interfaces": interfaces})).unwrap();
        cluster.insert_state(name, state);
    }
}
