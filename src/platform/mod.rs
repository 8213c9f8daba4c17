//! What the cluster is: Kubernetes, OpenShift, Hypershift, and OpenShift's TLS profile.
//!
//! Facts only, read once or watched; what follows from them is decided by `render` and `operator`. On Kubernetes
//! nothing is read. On OpenShift kinds that are missing are absent, never an error.

use std::{collections::BTreeMap, fmt};

use futures::future::join_all;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
    discovery::Scope,
};
use serde_json::{Value, json};
use tokio::sync::watch;
use tracing::warn;

use crate::lines::causes;
use crate::watching::{CustomKind, each_while_known, refusal, watch_object};

const GROUP: &str = "config.openshift.io";

/// What is known of the platform.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// The control plane runs outside the cluster (Infrastructure `cluster`, `controlPlaneTopology: External`).
    pub hypershift: bool,
    /// `APIServer` `cluster` with its `spec` only, which has OpenShift's TLS profile.
    pub api_server: Option<Value>,
    /// What has not been looked at yet, each with why, where that is known. What follows from facts has to wait for it.
    pub pending: BTreeMap<Source, Option<String>>,
}

/// An object that facts come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// Infrastructure `cluster`.
    Infrastructure,
    /// `APIServer` `cluster`.
    ApiServer,
}

impl Source {
    const ALL: [Self; 2] = [Self::Infrastructure, Self::ApiServer];

    const fn kind(self) -> &'static str {
        match self {
            Self::Infrastructure => "Infrastructure",
            Self::ApiServer => "APIServer",
        }
    }

    const fn plural(self) -> &'static str {
        match self {
            Self::Infrastructure => "infrastructures",
            Self::ApiServer => "apiservers",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cluster", self.kind())
    }
}

impl Facts {
    /// On OpenShift, before anything was looked at.
    pub fn openshift() -> Self {
        Self {
            pending: Source::ALL
                .into_iter()
                .map(|source| (source, None))
                .collect(),
            ..Self::default()
        }
    }

    fn learn(&mut self, source: Source, object: Option<&DynamicObject>) {
        self.pending.remove(&source);
        match source {
            Source::Infrastructure => {
                self.hypershift = object.is_some_and(|object| {
                    object
                        .data
                        .pointer("/status/controlPlaneTopology")
                        .is_some_and(|topology| topology == "External")
                });
            }
            Source::ApiServer => {
                self.api_server = object
                    .and_then(|object| object.data.get("spec"))
                    .map(|spec| json!({ "spec": spec }));
            }
        }
    }

    fn fail(&mut self, source: Source, why: String) {
        if let Some(pending) = self.pending.get_mut(&source) {
            *pending = Some(why);
        }
    }
}

/// Watches the platform's facts on OpenShift until dropped. The sender holds [`Facts::openshift`] at first.
pub async fn watch_openshift(client: Client, facts: watch::Sender<Facts>) {
    join_all(Source::ALL.map(|source| follow(&client, source, &facts))).await;
}

/// Follows the object `cluster` of a kind for ever; where the kind is unknown there is none.
async fn follow(client: &Client, source: Source, facts: &watch::Sender<Facts>) {
    let resource = ApiResource {
        group: GROUP.into(),
        version: "v1".into(),
        api_version: format!("{GROUP}/v1"),
        kind: source.kind().into(),
        plural: source.plural().into(),
    };
    let update = |change: &mut dyn FnMut(&mut Facts)| {
        facts.send_if_modified(|facts| {
            let before = facts.clone();
            change(facts);
            *facts != before
        });
    };
    let mut known = CustomKind::new(client.clone(), GROUP, source.plural());
    loop {
        let api: Api<DynamicObject> = Api::dynamic(client.clone(), &resource, &Scope::Cluster);
        each_while_known(watch_object(api, "cluster"), |look| match look {
            Ok(object) => {
                known.is_known();
                update(&mut |facts| facts.learn(source, object.as_ref()));
            }
            Err(error) => {
                warn!(object = %source, error = %causes(&error), "watch interrupted, it is tried again");
                let why = refusal(&error)
                    .map_or_else(|| causes(&error), |status| status.message.clone());
                update(&mut |facts| facts.fail(source, why.clone()));
            }
        })
        .await;
        update(&mut |facts| facts.learn(source, None));
        known.learned().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tls;

    fn object(value: Value) -> DynamicObject {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn nothing_is_known_before_both_objects_were_looked_at() {
        let mut facts = Facts::openshift();
        facts.fail(Source::ApiServer, "forbidden".into());
        facts.learn(
            Source::Infrastructure,
            Some(&object(
                json!({"metadata": {"name": "cluster"}, "status": {"controlPlaneTopology": "External"}}),
            )),
        );
        assert!(facts.hypershift);
        assert_eq!(
            facts.pending,
            BTreeMap::from([(Source::ApiServer, Some("forbidden".to_owned()))])
        );
        facts.learn(Source::ApiServer, None);
        assert!(facts.pending.is_empty() && facts.api_server.is_none());
    }

    #[test]
    fn what_is_gone_counts_no_longer_and_what_fails_later_stays() {
        let mut facts = Facts::openshift();
        let object = object(json!({"metadata": {"name": "cluster"}, "spec":
            {"tlsAdherence": "StrictAllComponents", "tlsSecurityProfile": {"type": "Modern"}}}));
        facts.learn(Source::ApiServer, Some(&object));
        facts.fail(Source::ApiServer, "away".into());
        let profile = facts.api_server.as_ref().and_then(tls::cluster_profile);
        assert!(profile.is_some(), "{facts:?}");
        facts.learn(Source::ApiServer, None);
        assert_eq!(facts.api_server, None);
    }
}
