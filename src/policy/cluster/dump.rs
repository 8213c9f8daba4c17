//! Filling a [`Cluster`] from whole objects, as `kubectl get -o yaml` prints them.

use std::collections::BTreeMap;

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use super::{Cluster, ReportedState};
use crate::policy::{
    SetAside,
    nic_ids::{CONFIG_MAP, NicIds},
};

#[derive(Default, Deserialize)]
#[serde(default)]
struct Head {
    kind: String,
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    name: String,
    namespace: String,
    labels: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Node {
    metadata: Metadata,
    spec: NodeSpec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeSpec {
    #[serde(rename = "providerID")]
    provider_id: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeState {
    status: ReportedState,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ConfigMap {
    data: BTreeMap<String, String>,
}

impl Cluster {
    /// Takes in an object of a dump: nodes, and of the operator's `namespace` node states, policies and the `ConfigMap`
    /// of supported NICs. Others are passed over. What cannot be understood is returned, and takes part in nothing.
    pub fn insert_object(&mut self, object: &Value, namespace: &str) -> Vec<SetAside> {
        let head = match read::<Head>("object", "", object) {
            Ok(head) => head,
            Err(aside) => return vec![aside],
        };
        let name = head.metadata.name.as_str();
        let ours = head.metadata.namespace == namespace;
        let outcome = match head.kind.as_str() {
            "Node" => read::<Node>("Node", name, object).map(|node| {
                let labels = node.metadata.labels.iter();
                let labels = labels.map(|(key, value)| (key.as_str(), value.as_str()));
                self.insert_node(name, labels, &node.spec.provider_id);
            }),
            "SriovNetworkNodeState" if ours => {
                read::<NodeState>("SriovNetworkNodeState", name, object).map(|state| {
                    self.insert_state(name, state.status);
                })
            }
            "SriovNetworkNodePolicy" if ours => read("SriovNetworkNodePolicy", name, object)
                .and_then(|policy| self.insert_policy(&policy)),
            "ConfigMap" if ours && name == CONFIG_MAP => {
                match read::<ConfigMap>("ConfigMap", name, object) {
                    Ok(map) => {
                        let (ids, aside) = NicIds::parse(&map.data);
                        self.set_nic_ids(ids);
                        return aside;
                    }
                    Err(aside) => Err(aside),
                }
            }
            _ => Ok(()),
        };
        outcome.err().into_iter().collect()
    }
}

fn read<T: DeserializeOwned>(
    what: &'static str,
    name: &str,
    object: &Value,
) -> Result<T, SetAside> {
    serde_path_to_error::deserialize(object).map_err(|error| SetAside {
        what,
        name: name.to_owned(),
        reason: error.to_string(),
    })
}
