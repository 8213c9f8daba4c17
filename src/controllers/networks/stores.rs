//! The stores of one leadership, and which networks a change of an object concerns.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock},
};

use kube::{Client, Resource};
use parking_lot::Mutex;

use super::objects::{Definition, Network, Presence};
use crate::{
    api::{API_VERSION, DEFAULT_CONFIG_NAME, SriovOperatorConfig},
    controllers::Queue,
    networks::{NetworkKind, NetworkRef, Setting},
    stores::{Change, Key, Mirror, Objects},
};

/// Networks of the three kinds, definitions, namespaces, the operator's config.
pub(super) struct Stores {
    networks: [Arc<Objects<Network>>; 3],
    pub(super) definitions: Arc<Objects<Definition>>,
    pub(super) namespaces: Arc<Objects<Presence>>,
    configs: Arc<Objects<Presence>>,
    /// Where the definitions are that say that they come of a network of their name.
    marked: Arc<Mutex<BTreeMap<NetworkRef, BTreeSet<String>>>>,
}

impl Stores {
    /// Empty stores that will add to the queue, and the tasks that fill them.
    pub(super) fn start(
        client: &Client,
        setting: &Setting,
        queue: &Queue<NetworkRef>,
    ) -> (Arc<Self>, Vec<Mirror>) {
        let late: Arc<OnceLock<Arc<Self>>> = Arc::default();
        let marked: Arc<Mutex<BTreeMap<NetworkRef, BTreeSet<String>>>> = Arc::default();
        let mut mirrors = Vec::new();
        let networks = NetworkKind::ALL.map(|kind| {
            let queue = queue.clone();
            let path = format!("/apis/{API_VERSION}/{}", kind.plural());
            let changed = move |change: &Change<'_, Network>| {
                if change.before.map(|before| &**before) != change.after.map(|after| &**after) {
                    queue.add(network(kind, &change.key.namespace, &change.key.name));
                }
            };
            let (objects, mirror) = Objects::mirror(client, kind.plural(), path, changed);
            mirrors.push(mirror);
            objects
        });
        let (definitions, mirror) = Objects::mirror(
            client,
            "network-attachment-definitions",
            "/apis/k8s.cni.cncf.io/v1/network-attachment-definitions".into(),
            {
                let (late, marked, queue) = (Arc::clone(&late), Arc::clone(&marked), queue.clone());
                let operator = setting.namespace.clone();
                move |change: &Change<'_, Definition>| {
                    if change.before.map(|before| &**before) == change.after.map(|after| &**after) {
                        return;
                    }
                    let mut concerned = BTreeSet::new();
                    if let Some(stores) = late.get() {
                        concerned.extend(stores.named(&change.key.namespace, &change.key.name));
                        concerned.extend(stores.named(&operator, &change.key.name));
                    }
                    concerned.extend(remark(&mut marked.lock(), change));
                    for network in concerned {
                        queue.add(network);
                    }
                }
            },
        );
        mirrors.push(mirror);
        let concerned = |in_namespace: Option<String>| {
            let (late, queue) = (Arc::clone(&late), queue.clone());
            move |change: &Change<'_, Presence>| {
                let goes = |presence: Option<&Arc<Presence>>| presence.map(|it| it.goes());
                if goes(change.before) == goes(change.after) {
                    return;
                }
                let namespace = in_namespace.as_deref().unwrap_or(&change.key.name);
                let stores = late.get().into_iter();
                for network in stores.flat_map(|stores| stores.reaching_into(namespace)) {
                    queue.add(network);
                }
            }
        };
        let (namespaces, mirror) = Objects::mirror(
            client,
            "namespaces",
            "/api/v1/namespaces".into(),
            concerned(None),
        );
        mirrors.push(mirror);
        let operator = &setting.namespace;
        let (configs, mirror) = Objects::mirror(
            client,
            "sriovoperatorconfigs",
            SriovOperatorConfig::url_path(&(), Some(operator)),
            concerned(Some(operator.clone())),
        );
        mirrors.push(mirror);
        let stores = Arc::new(Self {
            networks,
            definitions,
            namespaces,
            configs,
            marked,
        });
        // Nothing changes before the mirrors run.
        let _ = late.set(Arc::clone(&stores));
        (stores, mirrors)
    }

    /// Whether the operator's config is there and not being deleted.
    pub(super) fn installed(&self, namespace: &str) -> bool {
        let config = self.configs.get(namespace, DEFAULT_CONFIG_NAME);
        config.is_some_and(|config| !config.goes())
    }

    /// The networks of a kind.
    pub(super) fn networks(&self, kind: NetworkKind) -> &Arc<Objects<Network>> {
        let [sriov, ib, ovs] = &self.networks;
        match kind {
            NetworkKind::Sriov => sriov,
            NetworkKind::Ib => ib,
            NetworkKind::Ovs => ovs,
        }
    }

    /// The namespaces with a definition of the network's name that says that it comes of the network.
    pub(super) fn marked(&self, network: &NetworkRef) -> Vec<String> {
        let marked = self.marked.lock();
        marked.get(network).into_iter().flatten().cloned().collect()
    }

    /// The networks of that name, of any kind.
    fn named(&self, namespace: &str, name: &str) -> Vec<NetworkRef> {
        NetworkKind::ALL
            .into_iter()
            .filter(|kind| self.networks(*kind).get(namespace, name).is_some())
            .map(|kind| network(kind, namespace, name))
            .collect()
    }

    /// The networks that live in a namespace or have their definition there.
    fn reaching_into(&self, namespace: &str) -> Vec<NetworkRef> {
        let mut found = Vec::new();
        for kind in NetworkKind::ALL {
            self.networks(kind).look(|held| {
                let concerned = held.iter().filter(|(key, object)| {
                    *key.namespace == *namespace || object.reaches_into(namespace)
                });
                found.extend(concerned.map(|(key, _)| network(kind, &key.namespace, &key.name)));
            });
        }
        found
    }
}

/// Brings the index to a changed definition. Returns the networks that it says or said it comes of.
fn remark(
    marked: &mut BTreeMap<NetworkRef, BTreeSet<String>>,
    change: &Change<'_, Definition>,
) -> Vec<NetworkRef> {
    let Key { namespace, name } = change.key;
    let owner = |definition: Option<&Arc<Definition>>| {
        let owner = definition.and_then(|definition| definition.owner());
        owner.filter(|network| *network.name == **name)
    };
    let (before, after) = (owner(change.before), owner(change.after));
    if let Some(network) = &before
        && let Some(namespaces) = marked.get_mut(network)
    {
        namespaces.remove(&**namespace);
        if namespaces.is_empty() {
            marked.remove(network);
        }
    }
    if let Some(network) = &after {
        let namespaces = marked.entry(network.clone()).or_default();
        namespaces.insert(namespace.to_string());
    }
    before.into_iter().chain(after).collect()
}

fn network(kind: NetworkKind, namespace: &str, name: &str) -> NetworkRef {
    NetworkRef {
        kind,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}
