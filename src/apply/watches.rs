//! Metadata watches over what was applied: they find drift and deletions, and hand them to the reconciler.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures::{Stream, StreamExt, stream::SelectAll};
use kube::{
    Api, Client, Resource,
    api::{ApiResource, DynamicObject, PartialObjectMeta},
    discovery::Scope,
    runtime::{WatchStreamExt, watcher},
};
use serde_json::Value;
use tracing::warn;

use super::{Applier, Drift, Kind, MANAGED_BY, MANAGED_BY_LABEL, ObjectRef, Watched, kinds::KINDS};

type Metadata = PartialObjectMeta<DynamicObject>;
type Events = std::pin::Pin<
    Box<dyn Stream<Item = (Scan, Result<watcher::Event<Metadata>, watcher::Error>)> + Send>,
>;

/// What one watch covers.
#[derive(Clone, Debug)]
struct Scan {
    kind: &'static Kind,
    /// The one object it covers, where the kind is watched by name.
    name: Option<String>,
}

impl Scan {
    fn covers(&self, object: &ObjectRef) -> bool {
        object.kind == self.kind && self.name.as_ref().is_none_or(|name| *name == object.name)
    }
}

/// Watches everything that is applied until dropped, and calls `drifted` for what needs a reconcile. `named` are the
/// objects of kinds that are watched by name.
pub async fn watch(
    client: Client,
    applier: Arc<Applier>,
    named: &[ObjectRef],
    drifted: impl Fn(Vec<Drift>) + Send,
) {
    let mut streams: SelectAll<Events> = SelectAll::new();
    for scan in scans(named) {
        streams.push(events(&client, &applier.namespace(), scan));
    }
    let mut listed: BTreeMap<String, BTreeSet<ObjectRef>> = BTreeMap::new();
    while let Some((scan, event)) = streams.next().await {
        let key = format!(
            "{}/{}",
            scan.kind.plural,
            scan.name.as_deref().unwrap_or_default()
        );
        let found = match event {
            Ok(watcher::Event::Init) => {
                listed.insert(key, BTreeSet::new());
                Vec::new()
            }
            Ok(watcher::Event::InitApply(meta)) => {
                let object = object(scan.kind, &meta);
                listed.entry(key).or_default().insert(object.clone());
                applier
                    .observe(|tracker| tracker.seen(&object, &value(&meta)).into_iter().collect())
            }
            Ok(watcher::Event::InitDone) => {
                let seen = listed.remove(&key).unwrap_or_default();
                applier.observe(|tracker| tracker.listed(&seen, |object| scan.covers(object)))
            }
            Ok(watcher::Event::Apply(meta)) => {
                let object = object(scan.kind, &meta);
                applier
                    .observe(|tracker| tracker.seen(&object, &value(&meta)).into_iter().collect())
            }
            Ok(watcher::Event::Delete(meta)) => {
                let object = object(scan.kind, &meta);
                let uid = meta.meta().uid.clone().unwrap_or_default();
                applier.observe(|tracker| tracker.deleted(&object, &uid).into_iter().collect())
            }
            Err(error) if is_unknown_kind(&error) => Vec::new(),
            Err(error) => {
                warn!(kind = scan.kind.kind, %error, "watch interrupted, it is tried again");
                Vec::new()
            }
        };
        if !found.is_empty() {
            drifted(found);
        }
    }
}

fn scans(named: &[ObjectRef]) -> Vec<Scan> {
    KINDS
        .iter()
        .flat_map(|kind| match kind.watched() {
            Watched::ByName => named
                .iter()
                .filter(|object| object.kind == kind)
                .map(|object| Scan {
                    kind,
                    name: Some(object.name.clone()),
                })
                .collect(),
            Watched::LabelledInNamespace | Watched::LabelledInCluster => {
                vec![Scan { kind, name: None }]
            }
        })
        .collect()
}

fn events(client: &Client, namespace: &str, scan: Scan) -> Events {
    let resource: ApiResource = scan.kind.api_resource();
    let api: Api<Metadata> = if scan.kind.namespaced {
        Api::dynamic(client.clone(), &resource, &Scope::Namespaced).constrain(namespace)
    } else {
        Api::dynamic(client.clone(), &resource, &Scope::Cluster)
    };
    let config = match &scan.name {
        Some(name) => watcher::Config::default().fields(&format!("metadata.name={name}")),
        None => watcher::Config::default().labels(&format!("{MANAGED_BY_LABEL}={MANAGED_BY}")),
    };
    Box::pin(
        watcher(api, config)
            .default_backoff()
            .map(move |event| (scan.clone(), event)),
    )
}

fn object(kind: &'static Kind, meta: &Metadata) -> ObjectRef {
    ObjectRef {
        kind,
        name: meta.meta().name.clone().unwrap_or_default(),
    }
}

fn value(meta: &Metadata) -> Value {
    serde_json::json!({ "metadata": meta.meta() })
}

fn is_unknown_kind(error: &watcher::Error) -> bool {
    let (watcher::Error::InitialListFailed(kube::Error::Api(status))
    | watcher::Error::WatchStartFailed(kube::Error::Api(status))) = error
    else {
        return false;
    };
    status.code == 404
}
