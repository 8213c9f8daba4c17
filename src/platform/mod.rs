//! What the cluster is: Kubernetes, OpenShift, Hypershift, and OpenShift's TLS profile.
//!
//! Facts only, read once or watched; what follows from them is decided by `render` and `operator`. On Kubernetes
//! nothing is read. On OpenShift kinds that are missing are absent, never an error.

use futures::StreamExt;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
    discovery::Scope,
    runtime::{WatchStreamExt, watcher},
};
use serde_json::Value;
use tokio::sync::watch;
use tracing::warn;

/// What is known of the platform.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// The control plane runs outside the cluster (Infrastructure `cluster`, `controlPlaneTopology: External`).
    pub hypershift: bool,
    /// The `spec` of `APIServer` `cluster`, with OpenShift's TLS profile.
    pub api_server: Option<Value>,
}

/// Watches the platform's facts on OpenShift until dropped. The sender holds the defaults until they are read.
pub async fn watch_openshift(client: Client, facts: watch::Sender<Facts>) {
    let mut events = Box::pin(futures::stream::select(
        singleton(&client, "Infrastructure", "infrastructures").map(|object| (true, object)),
        singleton(&client, "APIServer", "apiservers").map(|object| (false, object)),
    ));
    while let Some((is_infrastructure, object)) = events.next().await {
        facts.send_if_modified(|facts| {
            let before = facts.clone();
            if is_infrastructure {
                facts.hypershift = object.as_ref().is_some_and(|object| {
                    object
                        .data
                        .pointer("/status/controlPlaneTopology")
                        .is_some_and(|topology| topology == "External")
                });
            } else {
                facts.api_server = object.and_then(|object| object.data.get("spec").cloned());
            }
            *facts != before
        });
    }
}

/// The object `cluster` of a kind of group `config.openshift.io/v1`, each time it changes; `None` when it is not there.
fn singleton(
    client: &Client,
    kind: &str,
    plural: &str,
) -> impl futures::Stream<Item = Option<DynamicObject>> + Send + use<> {
    let resource = ApiResource {
        group: "config.openshift.io".into(),
        version: "v1".into(),
        api_version: "config.openshift.io/v1".into(),
        kind: kind.into(),
        plural: plural.into(),
    };
    let api: Api<DynamicObject> = Api::dynamic(client.clone(), &resource, &Scope::Cluster);
    let kind = kind.to_owned();
    watcher(
        api,
        watcher::Config::default().fields("metadata.name=cluster"),
    )
    .default_backoff()
    .filter_map(move |event| {
        let object = match event {
            Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => {
                Some(Some(object))
            }
            Ok(watcher::Event::Delete(_)) => Some(None),
            Ok(watcher::Event::Init | watcher::Event::InitDone) => None,
            Err(error) if is_unknown_kind(&error) => Some(None),
            Err(error) => {
                warn!(kind, %error, "watch interrupted, it is tried again");
                None
            }
        };
        futures::future::ready(object)
    })
}

fn is_unknown_kind(error: &watcher::Error) -> bool {
    let (watcher::Error::InitialListFailed(kube::Error::Api(status))
    | watcher::Error::WatchStartFailed(kube::Error::Api(status))) = error
    else {
        return false;
    };
    status.code == 404
}
