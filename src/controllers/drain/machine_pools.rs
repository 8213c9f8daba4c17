//! OpenShift: pausing the MachineConfigPool of a node for its drain, and resuming it after the last one.
//!
//! The pools are read live, one after the other: that a pool is paused has to be true when the first pod is evicted.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use super::{
    calls::Calls,
    objects::{MachinePool, Node},
    stores::{OpenShift, Stores},
};
use crate::{
    controllers::{
        calls::{Answer, Error},
        openshift::Infrastructure,
    },
    drain::{
        pause::{self, Before},
        protocol::is_asking,
    },
    policy::label_selector::Selector,
    stores::Key,
};

/// Whether a node may be drained as far as its MachineConfigPool goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Paused {
    /// It is paused, or there is none.
    Yes,
    /// Its nodes are being updated, as the text says. A change of the pool wakes the node.
    NotYet(String),
    /// The node's pool cannot be found, as the text says.
    Unknown(String),
}

/// Pauses and resumes.
pub(super) struct MachinePools {
    stores: Arc<Stores>,
    calls: Calls,
    turn: tokio::sync::Mutex<()>,
    /// The pool of each MachineConfig that was asked for. It never changes.
    pools: Mutex<HashMap<Box<str>, Box<str>>>,
}

impl MachinePools {
    pub(super) fn new(stores: Arc<Stores>, calls: Calls) -> Self {
        Self {
            stores,
            calls,
            turn: tokio::sync::Mutex::default(),
            pools: Mutex::default(),
        }
    }

    /// What is watched, where there are MachineConfigPools.
    fn openshift(&self) -> Option<&OpenShift> {
        let openshift = self.stores.openshift.as_ref();
        openshift.filter(|openshift| !Infrastructure::is_hosted(&openshift.infrastructure))
    }

    /// Pauses the pool of a node that is about to be drained.
    pub(super) async fn pause(&self, name: &str, node: &Node) -> Result<Paused, Error> {
        let Some(openshift) = self.openshift() else {
            return Ok(Paused::Yes);
        };
        let pool = match self.pool_of(node).await? {
            Ok(pool) => pool,
            Err(why) => return Ok(Paused::Unknown(why)),
        };
        // Before the pool is read, so that a change after that wakes the node.
        openshift.waiting.lock().insert(name.into());
        let _turn = self.turn.lock().await;
        let live = match self.calls.machine_pool(&pool).await {
            Err(error @ (Error::Gone(_) | Error::NoKind(_))) => {
                return Ok(Paused::Unknown(error.to_string()));
            }
            live => live?.body,
        };
        match pause::before(live.view()) {
            Before::Go => {}
            Before::Pause => self.write(openshift, &pool, &live, true).await?,
            Before::Wait => {
                let view = live.view();
                return Ok(Paused::NotYet(format!(
                    "the nodes of MachineConfigPool {pool} are being updated: it is at {}, and is to be at {}",
                    view.reached.unwrap_or("nothing"),
                    view.target.unwrap_or("nothing"),
                )));
            }
        }
        openshift.waiting.lock().remove(name);
        Ok(Paused::Yes)
    }

    /// Resumes every pool that we have paused and of which no node's daemon asks for anything.
    pub(super) async fn resume(&self) -> Result<(), Error> {
        let Some(openshift) = self.openshift() else {
            return Ok(());
        };
        let ours: Vec<Box<str>> = openshift.machine_pools.look(|pools| {
            let paused = pools
                .iter()
                .filter(|(_, pool)| pause::resumes(pool.view(), false));
            paused.map(|(key, _)| key.name.clone()).collect()
        });
        for pool in ours {
            let _turn = self.turn.lock().await;
            let live = match self.calls.machine_pool(&pool).await {
                Err(Error::Gone(_)) => continue,
                live => live?.body,
            };
            if pause::resumes(live.view(), self.is_asked_for(&live)) {
                self.write(openshift, &pool, &live, false).await?;
            }
        }
        Ok(())
    }

    /// Whether the daemon of some node of a pool asks for something. A pool that does not say whose it is keeps waiting.
    fn is_asked_for(&self, pool: &MachinePool) -> bool {
        let Ok(selector) = Selector::parse(pool.node_selector()) else {
            return true;
        };
        self.stores.nodes.look(|nodes| {
            nodes.values().any(|node| {
                let labels = &node.metadata.labels;
                is_asking(node.wanted()) && selector.matches(|key| labels.get(key))
            })
        })
    }

    async fn write(
        &self,
        openshift: &OpenShift,
        name: &str,
        pool: &MachinePool,
        pause: bool,
    ) -> Result<(), Error> {
        let Answer { version, body } = self.calls.pause(name, pool, pause).await?;
        openshift
            .machine_pools
            .absorb(&Key::new("", name), &version, body);
        Ok(())
    }

    async fn pool_of(&self, node: &Node) -> Result<Result<Box<str>, String>, Error> {
        const ANNOTATION: &str = "machineconfiguration.openshift.io/desiredConfig";
        let Some(config) = node.machine_config() else {
            return Ok(Err(format!(
                "its annotation {ANNOTATION} is missing, which names its MachineConfig"
            )));
        };
        if let Some(known) = self.pools.lock().get(config) {
            return Ok(Ok(known.clone()));
        }
        match self.calls.machine_pool_of(config).await {
            Ok(Some(pool)) => {
                self.pools.lock().insert(config.into(), pool.clone());
                Ok(Ok(pool))
            }
            Ok(None) => Ok(Err(format!(
                "MachineConfig {config} is owned by no MachineConfigPool"
            ))),
            Err(error @ (Error::Gone(_) | Error::NoKind(_))) => Ok(Err(error.to_string())),
            Err(error) => Err(error),
        }
    }
}
