//! The cap on connections. A stranger who opens thousands of them must not keep the API server out, so when all places are
//! taken, the connection that has waited longest without sending a single request makes room; those that have sent one
//! stay. Only when every connection has is a new one turned away.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// All places of a listener.
#[derive(Clone)]
pub(super) struct Places(Arc<Inner>);

struct Inner {
    most: usize,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    /// Places taken, by silent connections and others.
    count: usize,
    /// Number of the next connection.
    next: u64,
    /// Connections that have sent no request yet, oldest first.
    silent: BTreeMap<u64, CancellationToken>,
}

/// One connection's place, given back when it is dropped.
pub(super) struct Place {
    inner: Arc<Inner>,
    number: u64,
    spoken: AtomicBool,
    evicted: CancellationToken,
}

/// A place, and whether another connection had to go for it.
pub(super) struct Admitted {
    pub(super) place: Place,
    pub(super) evicting: bool,
}

impl Places {
    pub(super) fn new(most: usize) -> Self {
        Self(Arc::new(Inner {
            most,
            taken: Mutex::default(),
        }))
    }

    /// A place for a new connection, unless all are taken by connections that have sent a request.
    pub(super) fn admit(&self) -> Option<Admitted> {
        let mut taken = self.0.taken.lock();
        let evicting = taken.count >= self.0.most;
        if evicting && !taken.evict() {
            return None;
        }
        taken.count += 1;
        let number = taken.next;
        taken.next += 1;
        let evicted = CancellationToken::new();
        taken.silent.insert(number, evicted.clone());
        let place = Place {
            inner: Arc::clone(&self.0),
            number,
            spoken: AtomicBool::new(false),
            evicted,
        };
        Some(Admitted { place, evicting })
    }

    /// Evicts the connection that has been silent longest, if any: something else than places is running out.
    pub(super) fn make_room(&self) -> bool {
        self.0.taken.lock().evict()
    }
}

impl Taken {
    fn evict(&mut self) -> bool {
        let Some((_, oldest)) = self.silent.pop_first() else {
            return false;
        };
        oldest.cancel();
        self.count -= 1;
        true
    }
}

impl Place {
    /// The connection has sent a request: it is not evicted any more.
    pub(super) fn speak(&self) {
        if !self.spoken.load(Ordering::Relaxed)
            && self
                .inner
                .taken
                .lock()
                .silent
                .remove(&self.number)
                .is_some()
        {
            self.spoken.store(true, Ordering::Relaxed);
        }
    }

    /// Ends when the connection is to make room.
    pub(super) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.inner.taken.lock();
        // An evicted connection's place went to another one.
        if taken.silent.remove(&self.number).is_some() || self.spoken.load(Ordering::Relaxed) {
            taken.count -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_oldest_silent_connection_makes_room() {
        let places = Places::new(2);
        let first = places.admit().unwrap().place;
        let second = places.admit().unwrap().place;
        first.speak();
        let third = places.admit().unwrap();
        assert!(third.evicting);
        assert!(second.evicted.is_cancelled());
        assert!(!first.evicted.is_cancelled());
        third.place.speak();
        assert!(places.admit().is_none(), "both have spoken");
        drop(second);
        assert!(places.admit().is_none(), "its place was given away before");
        drop(first);
        let fourth = places.admit().unwrap().place;
        assert!(places.make_room(), "the fourth is silent");
        assert!(fourth.evicted.is_cancelled());
        assert!(!places.make_room(), "the third has spoken");
    }

    proptest! {
        #[test]
        fn the_count_never_drifts(steps in prop::collection::vec((0u8..3, 0usize..8), 1..80)) {
            let places = Places::new(4);
            let mut held: Vec<Place> = Vec::new();
            for (step, which) in steps {
                match step {
                    0 => held.extend(places.admit().map(|admitted| admitted.place)),
                    1 if which < held.len() => held[which].speak(),
                    2 if which < held.len() => { held.swap_remove(which); }
                    _ => {}
                }
                let alive = held.iter().filter(|place| !place.evicted.is_cancelled()).count();
                prop_assert_eq!(places.0.taken.lock().count, alive);
                prop_assert!(alive <= 4);
            }
            drop(held);
            let taken = places.0.taken.lock();
            prop_assert_eq!((taken.count, taken.silent.len()), (0, 0));
        }
    }
}
