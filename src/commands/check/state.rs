//! The state of a cluster that objects are judged against, from whole objects. It judges nothing and reads nothing.

use std::collections::HashMap;

use serde_json::Value;

use crate::{
    api::{self, DEFAULT_CONFIG_NAME, SriovNetworkNodeStateSpec, SriovOperatorConfig},
    inject::{CONFIG_KEY, Loaded, Nad, Nads, Switches},
    nodes::rdma::Pool,
    policy::{Cluster, Kind},
    stores::SWITCHES,
};

/// The annotation of a NAD that names its resource, unless an operator is told otherwise.
const RESOURCE_KEY: &str = "k8s.v1.cni.cncf.io/resourceName";

/// What admission knows of a cluster, and the stored custom resources as they are.
pub(super) struct State {
    /// The operator's namespace.
    namespace: String,
    /// What policies and configs are judged against.
    pub(super) cluster: Cluster,
    /// The network attachment definitions.
    pub(super) nads: Nads,
    /// The injector's runtime switches.
    pub(super) switches: Switches,
    stored: HashMap<Identity, Value>,
    /// The specs of the node states.
    specs: HashMap<String, SriovNetworkNodeStateSpec>,
    set_aside: Vec<String>,
}

/// Kind, namespace and name of a custom resource.
type Identity = (&'static str, String, String);

impl State {
    /// An empty cluster.
    pub(super) fn new(namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            cluster: Cluster::default(),
            nads: Nads::default(),
            // What the ConfigMap says that the operator creates.
            switches: Switches {
                hugepages: true,
                ..Switches::default()
            },
            stored: HashMap::new(),
            specs: HashMap::new(),
            set_aside: Vec::new(),
        }
    }

    /// Takes an object into the cluster, where it is of a kind that admission looks at. Returns whether it is.
    pub(super) fn insert(&mut self, object: &Value) -> bool {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let name = text("/metadata/name").unwrap_or_default();
        let namespace = text("/metadata/namespace").unwrap_or_default();
        match text("/kind").unwrap_or_default() {
            "NetworkAttachmentDefinition" => {
                let annotations = &object["metadata"]["annotations"];
                let nad = Nad::new(&[RESOURCE_KEY.to_owned()], |key| annotations[key].as_str());
                self.nads.insert(namespace, name, nad);
                return true;
            }
            "ConfigMap" if namespace == self.namespace && name == SWITCHES => {
                let loaded = Loaded::parse(object["data"][CONFIG_KEY].as_str(), &self.switches);
                self.switches = loaded.switches;
                self.set_aside.extend(loaded.set_aside);
                return true;
            }
            "SriovNetworkNodeState" if namespace == self.namespace => {
                // One that does not decode is set aside below.
                if let Ok(spec) = serde_json::from_value(object["spec"].clone()) {
                    self.specs.insert(name.to_owned(), spec);
                }
            }
            kind => {
                if let Some(identity) = identity(kind, object) {
                    self.stored.insert(identity, object.clone());
                }
            }
        }
        let aside = self.cluster.insert_object(object, &self.namespace);
        self.set_aside.extend(aside.iter().map(ToString::to_string));
        matches!(
            text("/kind"),
            Some("Node" | "SriovNetworkNodeState" | "ConfigMap")
        )
    }

    /// The stored version of a custom resource.
    pub(super) fn stored(&self, object: &Value) -> Option<&Value> {
        let kind = object["kind"].as_str().unwrap_or_default();
        self.stored.get(&identity(kind, object)?)
    }

    /// The stored spec of a node's state.
    pub(super) fn spec(&self, node: &str) -> Option<&SriovNetworkNodeStateSpec> {
        self.specs.get(node)
    }

    /// The operator's config; one without settings when there is none.
    pub(super) fn config(&self) -> SriovOperatorConfig {
        let config = Kind::OperatorConfig.as_str();
        let identity = (
            config,
            self.namespace.clone(),
            DEFAULT_CONFIG_NAME.to_owned(),
        );
        let stored = self.stored.get(&identity).cloned();
        let mut config: SriovOperatorConfig = stored
            .and_then(|stored| serde_json::from_value(stored).ok())
            .unwrap_or_default();
        // One in a file has none yet, and nothing is known of a config without.
        config.metadata.uid.get_or_insert_default();
        config
    }

    /// The pools, by name.
    pub(super) fn pools(&self) -> Vec<Pool> {
        let pools = self.stored.iter().filter(|((kind, namespace, _), _)| {
            *kind == Kind::PoolConfig.as_str() && *namespace == self.namespace
        });
        let mut pools: Vec<Pool> = pools
            .filter_map(|((_, _, name), pool)| {
                Pool::new(name, &serde_json::from_value(pool["spec"].clone()).ok()?)
            })
            .collect();
        pools.sort_by(|a, b| a.name.cmp(&b.name));
        pools
    }

    /// What could not be understood, one line each. It took part in nothing.
    pub(super) fn set_aside(&self) -> &[String] {
        &self.set_aside
    }
}

fn identity(kind: &str, object: &Value) -> Option<Identity> {
    let kind = Kind::parse(kind).filter(|_| object["apiVersion"] == api::API_VERSION)?;
    let text = |field: &str| object["metadata"][field].as_str();
    let namespace = text("namespace").unwrap_or_default().to_owned();
    Some((kind.as_str(), namespace, text("name")?.to_owned()))
}
