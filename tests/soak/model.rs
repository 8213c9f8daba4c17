//! The questions that are asked, and what the pure model of the library says to each in a given state of the cluster: the
//! very rules that the product answers by, without stores, watches, certificates and processes around them.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use sriov_operator::features::Feature;
use sriov_operator::inject::{
    self, CONFIG_KEY, Live, Loaded, Nad, Nads, Outcome, PodReview, Switches,
};
use sriov_operator::policy::schema::Schema;
use sriov_operator::policy::{self, Cluster, Kind, Operation, Rules, Subject};

use crate::history::{Fact, State};
use crate::support::NAMESPACE;
use crate::support::kinds::{NAD, POLICY, text};
use crate::support::user::{Answer, Refuser};
use crate::support::world;

/// Nodes of the cluster.
pub(crate) const NODES: usize = 6;
/// Networks that come and go.
pub(crate) const NETWORKS: usize = 12;
const RESOURCE: &str = "k8s.v1.cni.cncf.io/resourceName";
/// The label that the injector's ConfigMap may give a meaning.
const LABEL: &str = "soak.example.com/second-network";

/// Something that admission is asked.
#[derive(Debug, Clone)]
pub(crate) enum Question {
    /// A pod with these networks; labelled ones may get another.
    Pod {
        networks: Vec<usize>,
        labelled: bool,
    },
    /// As many virtual functions as the larger of two NICs has, all of them.
    Large(usize),
    /// Some functions that another policy may hold.
    Overlapping(usize),
    /// A NIC that may not be supported.
    Unsupported(usize),
    /// Wrong in itself.
    Wrong(usize),
}

/// What an answer comes to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Verdict {
    /// Let through, with what became of it.
    Admitted {
        essence: Value,
        warnings: Vec<String>,
    },
    /// Refused, with everything that was said.
    Denied {
        said: Vec<String>,
        warnings: Vec<String>,
    },
}

impl Question {
    /// The object whose creation is tried.
    pub(crate) fn object(&self) -> Value {
        let (name, spec) = match self {
            Self::Pod { networks, labelled } => {
                let names: Vec<String> = networks.iter().map(|number| network(*number)).collect();
                let mut pod = world::pod("soak", &names.join(","));
                if *labelled {
                    pod["metadata"]["labels"] = json!({ LABEL: "true" });
                }
                return pod;
            }
            Self::Large(node) => (
                "soak-large",
                json!({
                    "resourceName": "large",
                    "nodeSelector": selector(*node),
                    "numVfs": 32,
                    "nicSelector": { "pfNames": ["ens1f0"] },
                }),
            ),
            Self::Overlapping(node) => (
                "soak-overlapping",
                json!({
                    "resourceName": "overlapping",
                    "nodeSelector": selector(*node),
                    "numVfs": 16,
                    "nicSelector": { "pfNames": ["ens1f0#0-7"] },
                }),
            ),
            Self::Unsupported(node) => (
                "soak-unsupported",
                json!({
                    "resourceName": "unsupported",
                    "nodeSelector": selector(*node),
                    "numVfs": 4,
                    "nicSelector": { "pfNames": ["ens2f0"] },
                }),
            ),
            Self::Wrong(node) => (
                "soak-wrong",
                json!({
                    "resourceName": "wrong",
                    "nodeSelector": selector(*node),
                    "numVfs": 4,
                    "deviceType": "vfio-pci",
                    "isRdma": true,
                    "nicSelector": { "pfNames": ["ens2f0#3-1"] },
                }),
            ),
        };
        world::custom(POLICY, name, &spec)
    }

    /// What the answer depends on.
    pub(crate) fn facts(&self) -> Vec<Fact> {
        match self {
            Self::Pod { networks, .. } => {
                let mut facts: Vec<Fact> = networks.iter().copied().map(Fact::Network).collect();
                // What a label may add.
                facts.extend([Fact::Network(0), Fact::Switches, Fact::Injector]);
                facts.sort_unstable();
                facts.dedup();
                facts
            }
            Self::Large(node)
            | Self::Overlapping(node)
            | Self::Unsupported(node)
            | Self::Wrong(node) => vec![
                Fact::State(*node),
                Fact::Held(*node),
                Fact::NicIds,
                Fact::Defaulting,
                Fact::Validation,
            ],
        }
    }

    /// What the answer comes to if nobody was asked.
    pub(crate) fn unjudged(&self) -> Verdict {
        let mut object = self.object();
        if !self.is_pod() {
            Schema::of(Kind::NodePolicy).complete(&mut object);
        }
        Verdict::Admitted {
            essence: self.essence(&object),
            warnings: Vec::new(),
        }
    }

    /// What the API server's answer comes to; `Err` when nobody judged.
    pub(crate) fn observed(&self, answer: &Answer) -> Result<Verdict, String> {
        let warnings = sorted(answer.warnings.clone());
        match answer.refuser() {
            None => Ok(Verdict::Admitted {
                essence: self.essence(&answer.body),
                warnings,
            }),
            Some(Refuser::Webhook) if self.is_pod() => {
                let said = answer.message().split_once(" denied the request: ");
                Ok(Verdict::Denied {
                    said: said.map(|(_, said)| said.to_owned()).into_iter().collect(),
                    warnings,
                })
            }
            Some(Refuser::Webhook) => Ok(Verdict::Denied {
                said: sorted(answer.causes()),
                warnings,
            }),
            Some(Refuser::ApiServer | Refuser::Failure) => {
                Err(format!("{}: {}", answer.code, answer.message()))
            }
        }
    }

    fn is_pod(&self) -> bool {
        matches!(self, Self::Pod { .. })
    }

    /// What of the object is admission's doing.
    fn essence(&self, object: &Value) -> Value {
        if !self.is_pod() {
            return object["spec"].clone();
        }
        let spec = &object["spec"];
        let containers = spec["containers"].as_array().into_iter().flatten();
        let volumes = spec["volumes"].as_array().into_iter().flatten();
        let mounts = |container: &Value| -> Vec<Value> {
            let mounts = container["volumeMounts"].as_array().into_iter().flatten();
            mounts
                .map(|mount| json!([mount["name"], mount["mountPath"]]))
                .collect()
        };
        let files = |volume: &Value| -> Vec<Value> {
            let items = volume["downwardAPI"]["items"]
                .as_array()
                .into_iter()
                .flatten();
            items.map(|item| item["path"].clone()).collect()
        };
        json!({
            "annotations": object["metadata"]["annotations"],
            "nodeSelector": spec["nodeSelector"],
            "containers": containers.map(|container| json!({
                "name": container["name"],
                "env": container["env"],
                "limits": container["resources"]["limits"],
                "requests": container["resources"]["requests"],
                "mounts": mounts(container),
            })).collect::<Vec<_>>(),
            "volumes": volumes
                .map(|volume| json!([volume["name"], files(volume)]))
                .collect::<Vec<_>>(),
        })
    }
}

/// The rules, and what never changes.
pub(crate) struct Model {
    rules: Rules,
    options: inject::Options,
    nodes: Cluster,
}

impl Model {
    /// The model of a cluster with the nodes of [`node`].
    pub(crate) fn new() -> Self {
        let mut nodes = Cluster::default();
        for number in 0..NODES {
            nodes.insert_object(&node(number), NAMESPACE);
        }
        Self {
            rules: Rules {
                namespace: NAMESPACE.to_owned(),
                dev_mode: false,
                known_gates: Feature::KNOWN.iter().map(|one| one.name()).collect(),
            },
            options: inject::Options::default(),
            nodes,
        }
    }

    /// What the answer is in that state.
    pub(crate) fn verdict(&self, question: &Question, state: &State) -> Result<Verdict> {
        if !question.is_pod() {
            self.policy(question, state)
        } else if is_off(state, Fact::Injector) {
            Ok(question.unjudged())
        } else {
            self.pod(question, state)
        }
    }

    fn policy(&self, question: &Question, state: &State) -> Result<Verdict> {
        let mut cluster = self.nodes.clone();
        for value in state.values().filter(|value| value.is_object()) {
            cluster.insert_object(value, NAMESPACE);
        }
        let mut object = question.object();
        Schema::of(Kind::NodePolicy).complete(&mut object);
        let subject = |object| Subject {
            kind: Kind::NodePolicy,
            operation: Operation::Create,
            name: "",
            namespace: NAMESPACE,
            object: Some(object),
            old: None,
        };
        let submitted = object.to_string();
        let defaults = policy::default_node_policy(&subject(&submitted));
        if let Some(patch) = defaults.filter(|_| !is_off(state, Fact::Defaulting)) {
            let patch: json_patch::Patch = serde_json::from_slice(&patch)?;
            json_patch::patch(&mut object, &patch)?;
        }
        let verdict = if is_off(state, Fact::Validation) {
            policy::Verdict::default()
        } else {
            let object = object.to_string();
            policy::validate(&subject(&object), (&cluster).into(), &self.rules)
        };
        let warnings = sorted(verdict.warnings());
        if verdict.allowed() {
            let essence = question.essence(&object);
            return Ok(Verdict::Admitted { essence, warnings });
        }
        let causes = verdict.causes().into_iter();
        let said = causes.map(|cause| format!("{}: {}", cause.field, cause.message));
        Ok(Verdict::Denied {
            said: sorted(said.collect()),
            warnings,
        })
    }

    fn pod(&self, question: &Question, state: &State) -> Result<Verdict> {
        let mut nads = Nads::default();
        for (fact, value) in state {
            if let Fact::Network(number) = fact
                && value.is_object()
            {
                let annotations = &value["metadata"]["annotations"];
                let nad = Nad::new(&[RESOURCE.to_owned()], |key| annotations[key].as_str());
                nads.insert("default", &network(*number), nad);
            }
        }
        let text = state.get(&Fact::Switches).and_then(Value::as_str);
        let switches = Loaded::parse(text, &Switches::default()).switches;
        let mut object = question.object();
        let raw = to_raw_value(&object)?;
        let pod = PodReview::new("default", &raw).context("the pod is unreadable")?;
        let view = Live {
            index: &nads,
            read: &Nads::default(),
        };
        Ok(
            match inject::decide(&pod, &view, &switches, &self.options) {
                Outcome::Unchanged { warnings } => Verdict::Admitted {
                    essence: question.essence(&object),
                    warnings: sorted(warnings),
                },
                Outcome::Patched { patch, warnings } => {
                    let patch: json_patch::Patch = serde_json::from_slice(&patch)?;
                    json_patch::patch(&mut object, &patch)?;
                    Verdict::Admitted {
                        essence: question.essence(&object),
                        warnings: sorted(warnings),
                    }
                }
                Outcome::Denied { message, warnings } => Verdict::Denied {
                    said: vec![message],
                    warnings: sorted(warnings),
                },
                Outcome::Unknown(keys) => anyhow::bail!("the model does not know {keys:?}"),
                Outcome::Fault { message, .. } => {
                    anyhow::bail!("{message}")
                }
            },
        )
    }
}

fn is_off(state: &State, fact: Fact) -> bool {
    state.get(&fact) == Some(&json!(false))
}

/// The name of a network.
pub(crate) fn network(number: usize) -> String {
    format!("net-{number}")
}

/// The name of a node and of its node state.
pub(crate) fn node_name(number: usize) -> String {
    format!("soak-{number}")
}

fn selector(node: usize) -> Value {
    json!({ "kubernetes.io/hostname": node_name(node) })
}

/// A node.
pub(crate) fn node(number: usize) -> Value {
    let name = node_name(number);
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": name, "labels": {
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "node-role.kubernetes.io/worker": "",
        } },
    })
}

/// A network with that resource.
pub(crate) fn nad(number: usize, resource: &str) -> Value {
    json!({
        "apiVersion": NAD.api_version,
        "kind": NAD.name,
        "metadata": {
            "name": network(number),
            "namespace": "default",
            "annotations": { RESOURCE: format!("openshift.io/{resource}") },
        },
        "spec": { "config": "{}" },
    })
}

/// What a config daemon reports of a node whose first NIC has so many virtual functions.
pub(crate) fn reported(functions: u32) -> Value {
    json!({ "syncStatus": "Succeeded", "interfaces": [
        { "name": "ens1f0", "pciAddress": "0000:18:00.0", "vendor": "8086", "deviceID": "158b",
          "driver": "i40e", "totalvfs": functions, "mtu": 1500, "linkType": "ETH" },
        { "name": "ens2f0", "pciAddress": "0000:3b:00.0", "vendor": "15b3", "deviceID": "1017",
          "driver": "mlx5_core", "totalvfs": 8, "mtu": 1500, "linkType": "ETH" },
    ] })
}

/// The policy that others on the node may be in conflict with.
pub(crate) fn held(node: usize) -> Value {
    let spec = json!({
        "resourceName": format!("held_{node}"),
        "nodeSelector": selector(node),
        "numVfs": 16,
        "nicSelector": { "pfNames": ["ens1f0#4-9"] },
    });
    world::custom(POLICY, &format!("held-{node}"), &spec)
}

/// The data of the injector's ConfigMap.
pub(crate) fn switches(hugepages: bool, injects: bool) -> Value {
    let mut config = json!({ "features": { "enableHugePageDownApi": hugepages } });
    if injects {
        config["user-defined-injections"] = json!({ LABEL: {
            "op": "add",
            "path": "/metadata/annotations",
            "value": { "k8s.v1.cni.cncf.io/networks": network(0) },
        } });
    }
    let data: BTreeMap<&str, String> = [(CONFIG_KEY, config.to_string())].into();
    json!(data)
}

/// The text of the injector's ConfigMap.
pub(crate) fn switches_text(map: &Value) -> Value {
    match text(map, &format!("/data/{CONFIG_KEY}")) {
        "" => Value::Null,
        text => text.into(),
    }
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}
