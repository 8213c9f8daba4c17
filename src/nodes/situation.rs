//! How things stand with one node of a cluster: whether the config daemon runs on it, and what is wanted of it then.

use std::collections::BTreeMap;

use super::{
    NodeView, Plan, plan,
    rdma::{self, Mode, Pool},
};
use crate::{
    api::{DEVICE_PLUGIN_LABEL, SriovNetworkNodeStateSpec, SriovOperatorConfig},
    features::{Feature, Features},
    policy::{
        Cluster,
        cluster::{Node, Nodes},
        labels,
    },
};

/// How things stand with a node.
#[derive(Debug)]
pub enum Situation {
    /// There is no config: nobody runs a config daemon or a device plugin.
    NoConfig {
        /// Whether the node carries the label.
        labelled: bool,
    },
    /// Nobody knows whether the config daemon is to run on it, since the config's node selector is malformed.
    Unclear,
    /// The config daemon does not run on it, or it is gone.
    Unselected {
        /// Whether it is there and carries the label.
        labelled: bool,
    },
    /// The config daemon runs on it.
    Selected(Box<Wanted>),
}

/// What is wanted of a node.
#[derive(Debug)]
pub struct Wanted {
    /// What it is to be.
    pub plan: Plan,
    /// The value of its label.
    pub label: Option<Box<str>>,
    /// Why the RDMA mode stays as it is.
    pub rdma_note: Option<String>,
    /// The uid of the config.
    pub owner: Box<str>,
}

/// How things stand with the node called `name`. `rdma_mode` is what its state says now; `stored` is the spec of its
/// state, of which a node without NICs keeps something.
pub fn of<'a>(
    name: &str,
    cluster: &Cluster,
    config: Option<&SriovOperatorConfig>,
    pools: impl IntoIterator<Item = &'a Pool>,
    rdma_mode: Option<&str>,
    stored: Option<&SriovNetworkNodeStateSpec>,
) -> Situation {
    let nodes = cluster.nodes();
    let node = nodes.get(name);
    let label = node.and_then(|node| nodes.value_of(node, DEVICE_PLUGIN_LABEL));
    let labelled = label.is_some();
    let Some((config, owner)) = config.and_then(|c| Some((c, c.metadata.uid.as_deref()?))) else {
        return Situation::NoConfig { labelled };
    };
    let Ok(selector) = daemon_selector(config) else {
        return Situation::Unclear;
    };
    let Some(node) = node.filter(|node| selects(&selector, nodes, node)) else {
        return Situation::Unselected { labelled };
    };
    let (rdma_mode, rdma_note) = match rdma::mode(pools, |key| nodes.value_of(node, key)) {
        Mode::Decided(mode) => (mode, None),
        Mode::Kept(why) => (rdma_mode, Some(why)),
    };
    let plan = plan(&NodeView {
        nics: cluster.nics(name).unwrap_or_default(),
        policies: &cluster.policies_of(node),
        nic_ids: cluster.nic_ids(),
        bridges: manages_bridges(config),
        rdma_mode,
        stored,
    });
    Situation::Selected(Box::new(Wanted {
        plan,
        label: label.map(Box::from),
        rdma_note,
        owner: owner.into(),
    }))
}

/// The labels of the nodes that the config daemon runs on: the config's, if it names any, else those of Linux workers. A
/// malformed one is an error: it would select no node, and every node state would be stale.
///
/// # Errors
/// The field with its fault.
pub fn daemon_selector(config: &SriovOperatorConfig) -> Result<BTreeMap<String, String>, String> {
    let selector = config.spec.config_daemon_node_selector.as_ref();
    let Some(selector) = selector.filter(|selector| !selector.is_empty()) else {
        return Ok([
            ("kubernetes.io/os", "linux"),
            ("node-role.kubernetes.io/worker", ""),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into());
    };
    for (key, value) in selector {
        if let Some(fault) = labels::key_fault(key).or_else(|| labels::value_fault(value)) {
            return Err(format!(
                "spec.configDaemonNodeSelector[{key:?}]: {value:?}: {fault}"
            ));
        }
    }
    Ok(selector.clone())
}

/// Whether software bridges are managed.
pub fn manages_bridges(config: &SriovOperatorConfig) -> bool {
    Features::new(config.spec.feature_gates.iter().flatten())
        .is_enabled(Feature::ManageSoftwareBridges)
}

fn selects(selector: &BTreeMap<String, String>, nodes: &Nodes, node: &Node) -> bool {
    let selection = nodes.selection(selector);
    selection.is_some_and(|selection| Nodes::selects(&selection, node))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn config(spec: &Value) -> SriovOperatorConfig {
        serde_json::from_value(json!({"metadata": {"name": "default", "uid": "c"}, "spec": spec}))
            .unwrap()
    }

    fn cluster() -> Cluster {
        let mut cluster = Cluster::default();
        let worker = [
            ("kubernetes.io/os", "linux"),
            ("node-role.kubernetes.io/worker", ""),
        ];
        cluster.insert_node("worker", worker, "");
        cluster.insert_node(
            "other",
            [("special", "yes"), (DEVICE_PLUGIN_LABEL, "Enabled")],
            "",
        );
        cluster
    }

    fn situation(name: &str, config: Option<&SriovOperatorConfig>) -> Situation {
        of(name, &cluster(), config, &[], None, None)
    }

    #[test]
    fn workers_are_selected_unless_the_config_names_labels() {
        let plain = config(&json!({}));
        assert!(matches!(
            situation("worker", Some(&plain)),
            Situation::Selected(_)
        ));
        assert!(matches!(
            situation("other", Some(&plain)),
            Situation::Unselected { labelled: true }
        ));
        assert!(matches!(
            situation("gone", Some(&plain)),
            Situation::Unselected { labelled: false }
        ));
        let special = config(&json!({"configDaemonNodeSelector": {"special": "yes"}}));
        assert!(matches!(
            situation("worker", Some(&special)),
            Situation::Unselected { labelled: false }
        ));
        assert!(matches!(
            situation("other", Some(&special)),
            Situation::Selected(_)
        ));
    }

    #[test]
    fn a_malformed_selector_changes_nothing() {
        let malformed = config(&json!({"configDaemonNodeSelector": {"special": "not legal"}}));
        assert!(matches!(
            situation("other", Some(&malformed)),
            Situation::Unclear
        ));
        let fault = daemon_selector(&malformed).unwrap_err();
        assert!(fault.starts_with(r#"spec.configDaemonNodeSelector["special"]: "not legal""#));
    }

    #[test]
    fn without_a_config_only_the_label_matters() {
        assert!(matches!(
            situation("other", None),
            Situation::NoConfig { labelled: true }
        ));
    }
}
