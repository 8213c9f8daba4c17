//! Metadata watches over what is applied: they find drift and deletions, and wake the reconciler.

use std::{collections::BTreeMap, sync::Arc};

use futures::{StreamExt, stream::FuturesUnordered};
use kube::{
    Resource,
    api::{DynamicObject, PartialObjectMeta},
    runtime::watcher::{self, Event},
};
use serde_json::Value;
use tracing::warn;

use super::{
    Applier, Kind, MANAGED_BY, MANAGED_BY_LABEL, ObjectRef, Watched, kinds::KINDS, theirs,
    tracker::Remembered,
};
use crate::lines::causes;
use crate::watching::{self, CustomKind, each_while_known};

type Metadata = PartialObjectMeta<DynamicObject>;

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

    fn selected(&self) -> watcher::Config {
        match &self.name {
            Some(name) => watcher::Config::default().fields(&format!("metadata.name={name}")),
            None => watcher::Config::default().labels(&format!("{MANAGED_BY_LABEL}={MANAGED_BY}")),
        }
    }
}

/// Watches the kinds of these objects until dropped, and calls `wake` when something needs a reconcile. Of kinds that are
/// watched by name, it watches these objects; and what others have under our names.
pub async fn watch(applier: Arc<Applier>, objects: &[ObjectRef], wake: impl Fn() + Send + Sync) {
    let mut scans: FuturesUnordered<_> = scans(objects)
        .into_iter()
        .map(|scan| follow(&applier, scan, &wake))
        .collect();
    tokio::join!(
        async { while scans.next().await.is_some() {} },
        theirs::watch(&applier, &wake)
    );
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

/// Takes in what a watch shows, for ever.
async fn follow(applier: &Applier, scan: Scan, wake: &(impl Fn() + Sync)) {
    let Kind { group, plural, .. } = scan.kind;
    let mut known = CustomKind::new(applier.client(), group, plural);
    loop {
        let events = watching::watch(applier.api::<Metadata>(scan.kind), scan.selected());
        let mut view = View::default();
        each_while_known(events, |event| match event {
            Ok(event) => {
                if matches!(event, Event::InitDone) {
                    known.is_known();
                }
                if view.take_in(applier, &scan, event) {
                    wake();
                }
            }
            Err(error) => {
                warn!(kind = scan.kind.kind, error = %causes(&error), "watch interrupted, it is tried again");
            }
        })
        .await;
        known.learned().await;
    }
}

/// What one watch has shown so far.
#[derive(Default)]
struct View {
    /// What was there before the list that is under way, and has not been listed yet.
    missing: BTreeMap<ObjectRef, Remembered>,
}

impl View {
    /// Takes in an event. Whether it needs a reconcile.
    fn take_in(&mut self, applier: &Applier, scan: &Scan, event: Event<Metadata>) -> bool {
        match event {
            // Comes before the request for the list is sent.
            Event::Init => {
                self.missing =
                    applier.observe(|tracker| tracker.before_list(|object| scan.covers(object)));
                false
            }
            Event::InitApply(meta) => {
                let object = object(scan.kind, &meta);
                self.missing.remove(&object);
                applier.observe(|tracker| tracker.seen(&object, &value(&meta)))
            }
            Event::InitDone => {
                let missing = std::mem::take(&mut self.missing);
                applier.observe(|tracker| {
                    // Neither may be left out.
                    tracker.known(scan.kind) | tracker.not_listed(missing)
                })
            }
            Event::Apply(meta) => {
                let object = object(scan.kind, &meta);
                applier.observe(|tracker| tracker.seen(&object, &value(&meta)))
            }
            Event::Delete(meta) => {
                let object = object(scan.kind, &meta);
                applier.observe(|tracker| tracker.deleted(&object, &value(&meta)))
            }
        }
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
