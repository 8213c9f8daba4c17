//! What the injection of pods depends on: network attachment definitions and the runtime switches.

use std::sync::Arc;

use futures::future::try_join_all;
use tokio::sync::watch;
use tokio::time::Instant;

use super::cluster::config_map;
use super::mirror::{Mirror, NotReady, Status, Watched, mirror};
use super::nads::{ALL, NadStore, ReadError};
use super::sinks::SwitchSink;
use super::source::Source;
use crate::inject::{Loaded, NadKey, Nads, Switches};

/// The `ConfigMap` with the runtime switches, in the operator's namespace.
pub const SWITCHES: &str = "nri-control-switches";

/// The stores behind the injector.
pub struct PodStores {
    nads: Arc<NadStore>,
    switches: Arc<SwitchSink>,
    watched: [Watched; 2],
}

impl PodStores {
    /// The stores, and the tasks that fill them. `resource_keys` are the annotations of a NAD that name resources;
    /// `start_up` is what holds where the `ConfigMap` in `namespace` says nothing.
    #[must_use]
    pub fn start(
        client: &kube::Client,
        namespace: &str,
        resource_keys: &[String],
        start_up: Switches,
    ) -> (Arc<Self>, Vec<Mirror>) {
        let nads = Arc::new(NadStore::new(client.clone(), resource_keys));
        let switches = Arc::new(SwitchSink::new(start_up));
        let all = Source::all("network-attachment-definitions", ALL.to_owned()).of_metadata();
        let (nad_watch, nad_mirror) = mirror(client, all, &nads);
        let (switch_watch, switch_mirror) =
            mirror(client, config_map(SWITCHES, namespace), &switches);
        let stores = Self {
            nads,
            switches,
            watched: [nad_watch, switch_watch],
        };
        (Arc::new(stores), vec![nad_mirror, switch_mirror])
    }

    /// Looks at the NADs that the watch has shown. Refused while they are not listed.
    pub fn look<R>(&self, look: impl FnOnce(&Nads) -> R) -> Result<R, NotReady> {
        self.filled()?;
        Ok(self.nads.look(look))
    }

    /// Reads NADs from the API server that the watch has not shown. Those that do not exist are not in the result.
    pub async fn read(&self, keys: &[NadKey]) -> Result<Nads, ReadError> {
        let found = try_join_all(keys.iter().map(|key| self.nads.read(key))).await?;
        let mut nads = Nads::default();
        for (key, nad) in keys.iter().zip(found) {
            if let Some(nad) = nad {
                nads.insert(&key.namespace, &key.name, nad);
            }
        }
        Ok(nads)
    }

    /// The switches in force.
    #[must_use]
    pub fn switches(&self) -> Arc<Loaded> {
        self.switches.now()
    }

    /// The switches in force and the entries that were set aside, whenever they change.
    #[must_use]
    pub fn watch_switches(&self) -> watch::Receiver<Arc<Loaded>> {
        self.switches.loaded()
    }

    /// Whether every store has ended its first list.
    pub fn filled(&self) -> Result<(), NotReady> {
        self.watched.iter().try_for_each(Watched::filled)
    }

    /// Returns once every store has ended its first list.
    pub async fn wait_filled(&self) {
        for watched in &self.watched {
            watched.health().wait_filled().await;
        }
    }

    /// Whether every store is filled and fresh.
    pub fn ready(&self) -> Result<(), NotReady> {
        let now = Instant::now();
        self.watched
            .iter()
            .try_for_each(|watched| watched.ready(now))
    }

    /// How each store fares.
    #[must_use]
    pub fn status(&self) -> Vec<Status> {
        let now = Instant::now();
        self.watched
            .iter()
            .map(|watched| watched.status(now))
            .collect()
    }
}

#[cfg(test)]
mod tests;
