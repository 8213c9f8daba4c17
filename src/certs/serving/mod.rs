//! What this replica serves: the pairs from the Secrets, checked, swapped without dropping a connection.
//!
//! Each endpoint has a [`slot::Slot`] that decides; the listener reads one atomically replaced table, so a swap is seen
//! by the next handshake and by no open connection. A pair that is refused changes nothing: the one before stays, and
//! [`ServingStore::status`] says what is wrong with the new one and until when the old one lasts.

pub mod slot;
pub mod watch;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use parking_lot::Mutex;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::watch as signal;

use super::bundle::Bundle;
use super::names::{Endpoint, ServiceName};
use super::pair::{PairContents, PairError, ServingPair};
use slot::{Outcome, Slot, Trust};

/// The serving pairs of this replica.
pub struct ServingStore {
    slots: Mutex<Vec<Slot>>,
    table: ArcSwap<Table>,
    changed: signal::Sender<u64>,
}

/// How one endpoint stands, for conditions, metrics and readiness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The Service and its Secret.
    pub endpoint: Endpoint,
    /// When the pair in use expires, if one is in use.
    pub serves_until: Option<Timestamp>,
    /// Why the Secret's present content is not used, if it is not.
    pub refused: Option<PairError>,
    /// How often that came to pass since the start.
    pub reloads: Reloads,
}

/// How often an endpoint's pair was swapped, and one refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reloads {
    /// Pairs taken into use.
    pub taken: u64,
    /// Pairs refused.
    pub refused: u64,
}

/// What the listener picks from: keys are lower-case DNS names.
#[derive(Default)]
struct Table {
    by_name: HashMap<String, Option<Arc<CertifiedKey>>>,
    first: Option<Arc<CertifiedKey>>,
}

impl ServingStore {
    /// A store for `endpoints`, each with what its pair is verified against.
    pub fn new(endpoints: impl IntoIterator<Item = (Endpoint, Trust)>) -> Self {
        let slots = endpoints
            .into_iter()
            .map(|(endpoint, trust)| Slot::new(endpoint, trust));
        Self {
            slots: Mutex::new(slots.collect()),
            table: ArcSwap::default(),
            changed: signal::Sender::new(0),
        }
    }

    /// Takes in what the Secret `name` holds now; `None` when there is no such Secret.
    pub fn update_secret(&self, name: &str, contents: Option<&PairContents>, now: Timestamp) {
        self.change(now, |slot| {
            if slot.endpoint().secret == name {
                slot.set_secret(contents.cloned());
            }
        });
    }

    /// Takes in the `caBundle` of the live configuration that calls `service`; `None` when it has none or there is no
    /// such configuration. Where several configurations call one Service, hand in what all of them carry.
    pub fn update_live_bundle(&self, service: &ServiceName, live: Option<&Bundle>, now: Timestamp) {
        self.change(now, |slot| {
            if slot.endpoint().service == *service {
                slot.set_live(live.cloned());
            }
        });
    }

    /// Looks at the dates again.
    pub fn reconsider(&self, now: Timestamp) {
        self.change(now, |_| {});
    }

    /// How each endpoint stands.
    pub fn status(&self) -> Vec<Status> {
        self.slots.lock().iter().map(Slot::status).collect()
    }

    /// The pair in use for `service`.
    pub fn pair(&self, service: &ServiceName) -> Option<ServingPair> {
        let slots = self.slots.lock();
        let slot = slots
            .iter()
            .find(|slot| slot.endpoint().service == *service)?;
        slot.current().cloned()
    }

    /// Whether every Secret has been looked up once.
    pub fn is_filled(&self) -> bool {
        self.slots.lock().iter().all(Slot::is_filled)
    }

    /// The endpoints, in the order in which they were given.
    pub fn endpoints(&self) -> Vec<Endpoint> {
        let slots = self.slots.lock();
        slots.iter().map(|slot| slot.endpoint().clone()).collect()
    }

    /// Wakes whenever a pair is taken, refused, or no longer refused.
    pub fn changes(&self) -> signal::Receiver<u64> {
        self.changed.subscribe()
    }

    /// The certificate for a name of SNI: that Service's, or the first one for no name or one that is nobody's.
    pub fn pick(&self, name: Option<&str>) -> Option<Arc<CertifiedKey>> {
        let table = self.table.load();
        match name.and_then(|name| table.by_name.get(&name.to_ascii_lowercase())) {
            Some(known) => known.clone(),
            None => table.first.clone(),
        }
    }

    fn change(&self, now: Timestamp, mut edit: impl FnMut(&mut Slot)) {
        let mut slots = self.slots.lock();
        let mut woken = false;
        for slot in slots.iter_mut() {
            edit(slot);
            woken |= slot.reconsider(now) != Outcome::Same;
        }
        if woken {
            self.table.store(Arc::new(Table::of(&slots)));
            self.changed.send_modify(|count| *count += 1);
        }
    }
}

impl Table {
    fn of(slots: &[Slot]) -> Self {
        let mut table = Self::default();
        for slot in slots {
            let certified = slot.current().map(|pair| Arc::clone(pair.certified()));
            for name in slot.endpoint().service.dns_names() {
                table
                    .by_name
                    .insert(name.to_ascii_lowercase(), certified.clone());
            }
            table.first = table.first.or(certified);
        }
        table
    }
}

impl ResolvesServerCert for ServingStore {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.pick(hello.server_name())
    }
}

impl fmt::Debug for ServingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServingStore").field(&self.status()).finish()
    }
}

#[cfg(test)]
mod tests;
