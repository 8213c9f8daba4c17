//! Metadata watches over what is applied: they find drift and deletions, and wake the reconciler.

use std::{collections::BTreeMap, sync::Arc};

use futures::{Stream, StreamExt, stream::SelectAll};
use kube::{
    Api, Client, Resource,
    api::{ApiResource, DynamicObject, PartialObjectMeta},
    discovery::Scope,
    runtime::{WatchStreamExt, watcher},
};
use serde_json::Value;
use tracing::warn;

use super::{
    Applier, Kind, MANAGED_BY, MANAGED_BY_LABEL, ObjectRef, Watched, kinds::KINDS,
    tracker::Remembered,
};
use crate::retry::Pauses;

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
    fn key(&self) -> String {
        let name = self.name.as_deref().unwrap_or_default();
        format!("{}/{name}", self.kind.plural)
    }

    fn covers(&self, object: &ObjectRef) -> bool {
        object.kind == self.kind && self.name.as_ref().is_none_or(|name| *name == object.name)
    }
}

/// Watches the kinds of these objects until dropped, and calls `wake` when something needs a reconcile. Of kinds that are
/// watched by name, it watches these objects.
pub async fn watch(
    client: Client,
    applier: Arc<Applier>,
    objects: &[ObjectRef],
    wake: impl Fn() + Send,
) {
    let mut streams: SelectAll<Events> = SelectAll::new();
    for scan in scans(objects) {
        streams.push(events(&client, &applier.namespace(), scan));
    }
    // What was there before each list that is under way, and has not been listed yet.
    let mut missing: BTreeMap<String, BTreeMap<ObjectRef, Remembered>> = BTreeMap::new();
    while let Some((scan, event)) = streams.next().await {
        let wakes = match event {
            // Comes before the request for the list is sent.
            Ok(watcher::Event::Init) => {
                let before =
                    applier.observe(|tracker| tracker.before_list(|object| scan.covers(object)));
                missing.insert(scan.key(), before);
                false
            }
            Ok(watcher::Event::InitApply(meta)) => {
                let object = object(scan.kind, &meta);
                if let Some(missing) = missing.get_mut(&scan.key()) {
                    missing.remove(&object);
                }
                applier.observe(|tracker| tracker.seen(&object, &value(&meta)))
            }
            Ok(watcher::Event::InitDone) => {
                let missing = missing.remove(&scan.key()).unwrap_or_default();
                applier.observe(|tracker| {
                    // Neither may be left out.
                    tracker.known(scan.kind) | tracker.not_listed(missing)
                })
            }
            Ok(watcher::Event::Apply(meta)) => {
                let object = object(scan.kind, &meta);
                applier.observe(|tracker| tracker.seen(&object, &value(&meta)))
            }
            Ok(watcher::Event::Delete(meta)) => {
                let object = object(scan.kind, &meta);
                applier.observe(|tracker| tracker.deleted(&object, &value(&meta)))
            }
            Err(error) if is_unknown_kind(&error) => false,
            Err(error) => {
                warn!(kind = scan.kind.kind, %error, "watch interrupted, it is tried again");
                false
            }
        };
        if wakes {
            wake();
        }
    }
}

fn scans(objects: &[ObjectRef]) -> Vec<Scan> {
    let of = |kind: &'static Kind| objects.iter().filter(move |object| object.kind == kind);
    KINDS
        .iter()
        .filter(|kind| of(kind).next().is_some())
        .flat_map(|kind| match kind.watched() {
            Watched::ByName => of(kind)
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
    let events = watcher(api, config);
    if scan.kind.is_optional() {
        // Where nobody has the kind, it is asked for again and again, for ever: seldom, then.
        let events = events.default_backoff();
        Box::pin(events.map(move |event| (scan.clone(), event)))
    } else {
        let events = events.backoff(Pauses::default());
        Box::pin(events.map(move |event| (scan.clone(), event)))
    }
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
