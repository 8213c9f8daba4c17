//! What users are told by Events, each thing once for each leadership, or until the object changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Api, Client, Resource, core::NamespaceResourceScope};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tracing::{debug, warn};

use crate::{
    api::{
        API_VERSION, SriovNetworkNodePolicy, SriovNetworkNodeState, SriovNetworkPoolConfig,
        SriovOperatorConfig,
    },
    controllers::calls::call,
    nodes::Problem,
    operator::{Events, Reason},
    stores::StateHead,
};

/// The most that is told about one policy on the nodes that it selects.
const MOST_PROBLEMS: usize = 8;

/// Tells, and remembers what it told.
pub(super) struct Told {
    client: Client,
    namespace: String,
    events: Events,
    before: Mutex<BTreeMap<(&'static str, String), BTreeSet<String>>>,
}

impl Told {
    pub(super) fn new(client: &Client, namespace: &str, events: Events) -> Self {
        Self {
            client: client.clone(),
            namespace: namespace.to_owned(),
            events,
            before: Mutex::default(),
        }
    }

    /// What of a policy is not done on any node. Called whenever the policy changes: what was told before is past.
    pub(super) async fn policy(&self, name: &str, faults: Vec<String>) {
        let faults: BTreeSet<String> = faults.into_iter().collect();
        let key = ("SriovNetworkNodePolicy", name.to_owned());
        let news: Vec<String> = {
            let mut told = self.before.lock();
            let before = told.insert(key, faults.clone()).unwrap_or_default();
            faults.difference(&before).cloned().collect()
        };
        for note in news {
            self.about::<SriovNetworkNodePolicy>(name, Reason::InvalidPolicy, &note)
                .await;
        }
    }

    /// What of a policy is not done on one node.
    pub(super) async fn problem(&self, node: &str, problem: &Problem) {
        let key = ("problems of policy", problem.policy.to_string());
        if self.is_news(key, &problem.text, MOST_PROBLEMS) {
            let text = format!("node {node}: {}", problem.text);
            self.about::<SriovNetworkNodePolicy>(&problem.policy, Reason::PolicyConflict, &text)
                .await;
        }
    }

    /// What is wrong with a pool.
    pub(super) async fn pool(&self, name: &str, fault: &str) {
        if self.is_news(("SriovNetworkPoolConfig", name.to_owned()), fault, 1) {
            self.about::<SriovNetworkPoolConfig>(name, Reason::InvalidPool, fault)
                .await;
        }
    }

    /// Why a node's RDMA mode stays as it is.
    pub(super) fn rdma(&self, node: &str, why: &str) {
        if self.is_news(("SriovNetworkNodeState", node.to_owned()), why, 1) {
            let text = format!("the RDMA mode stays as it is: {why}");
            let about = self.reference::<SriovNetworkNodeState>(node, None);
            self.events.publish(&about, Reason::AmbiguousPools, &text);
        }
    }

    /// A node's state was changed by others and is brought back.
    pub(super) fn repaired(&self, node: &str, head: &StateHead) {
        let about = self.reference::<SriovNetworkNodeState>(node, Some(head.uid.to_string()));
        let text = format!("SriovNetworkNodeState {node} was changed and is repaired");
        self.events.publish(&about, Reason::DriftRepaired, &text);
    }

    /// Others keep changing a node's state.
    pub(super) fn contested(&self, node: &str, head: Option<&StateHead>) {
        let text = format!(
            "SriovNetworkNodeState {node} is changed again and again, and repaired after a while"
        );
        if self.is_news(("contested", node.to_owned()), &text, 1) {
            let uid = head.map(|head| head.uid.to_string());
            let about = self.reference::<SriovNetworkNodeState>(node, uid);
            self.events.publish(&about, Reason::RepairsSpacedOut, &text);
        }
    }

    /// What is wrong with the config's node selector.
    pub(super) fn selector(&self, config: &SriovOperatorConfig, fault: &str) {
        if self.is_news(("selector", String::new()), fault, 1) {
            let note = format!("{fault}; the nodes are left as they are");
            warn!(note, "the config daemon's nodes are not known");
            self.events
                .publish(&config.object_ref(&()), Reason::InvalidNodeSelector, &note);
        }
    }

    /// There is no room for the device plugin configuration of nodes, such as this one.
    pub(super) fn full(&self, config: &SriovOperatorConfig, note: &str) {
        if self.is_news(("room", String::new()), "", 1) {
            self.events.publish(
                &config.object_ref(&()),
                Reason::DevicePluginConfigFull,
                note,
            );
        }
    }

    /// Whether this was not told yet; what was told about the same is forgotten once there is more than `most` of it.
    fn is_news(&self, key: (&'static str, String), text: &str, most: usize) -> bool {
        let mut told = self.before.lock();
        let before = told.entry(key).or_default();
        if most == 1 && !before.contains(text) {
            before.clear();
        }
        before.len() < most && before.insert(text.to_owned())
    }

    /// Publishes an Event about an object of ours, with its uid, without which it would not be shown.
    async fn about<K>(&self, name: &str, reason: Reason, note: &str)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &self.namespace);
        let object = format!("{} {name}", K::kind(&()));
        let uid = match call("read", &object, api.get_metadata_opt(name)).await {
            Ok(object) => object.and_then(|object| object.metadata.uid),
            Err(failure) => {
                debug!(name, %failure, "an Event goes without uid");
                None
            }
        };
        warn!(kind = %K::kind(&()), name, note, "a part of it is not done");
        self.events
            .publish(&self.reference::<K>(name, uid), reason, note);
    }

    fn reference<K: Resource<DynamicType = ()>>(
        &self,
        name: &str,
        uid: Option<String>,
    ) -> ObjectReference {
        ObjectReference {
            api_version: Some(API_VERSION.into()),
            kind: Some(K::kind(&()).into()),
            name: Some(name.to_owned()),
            namespace: Some(self.namespace.clone()),
            uid,
            ..ObjectReference::default()
        }
    }
}
