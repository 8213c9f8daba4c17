//! How often things are put right that somebody else keeps changing. Pure: the clock is passed in.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// How often one thing is repaired before repairs are spaced out.
const REPAIRS_AT_ONCE: u32 = 5;
/// The first pause once repairs are spaced out; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// A thing left alone for this long starts anew.
const FORGIVEN_AFTER: Duration = Duration::from_secs(600);

/// The repairs of things named by `K`.
#[derive(Debug)]
pub struct Repairs<K>(BTreeMap<K, Repaired>);

#[derive(Debug)]
struct Repaired {
    count: u32,
    last: Instant,
    manager: Option<String>,
}

/// Something that is fought over.
#[derive(Debug, PartialEq, Eq)]
pub struct Contested {
    /// The field manager that keeps changing it.
    pub manager: String,
    /// When it may be repaired again.
    pub retry_in: Duration,
}

impl<K> Default for Repairs<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Clone + Ord> Repairs<K> {
    /// Whether `what` may be repaired now.
    ///
    /// # Errors
    /// When it may be otherwise.
    pub fn may_repair(&self, what: &K, now: Instant) -> Result<(), Contested> {
        let Some(repaired) = self.0.get(what) else {
            return Ok(());
        };
        let passed = now.duration_since(repaired.last);
        if repaired.count < REPAIRS_AT_ONCE || passed > FORGIVEN_AFTER {
            return Ok(());
        }
        let doublings = (repaired.count - REPAIRS_AT_ONCE).min(16);
        let pause = FIRST_PAUSE
            .saturating_mul(1 << doublings)
            .min(LONGEST_PAUSE);
        if passed >= pause {
            return Ok(());
        }
        Err(Contested {
            manager: repaired
                .manager
                .clone()
                .unwrap_or_else(|| "somebody else".to_owned()),
            retry_in: pause.saturating_sub(passed),
        })
    }

    /// Counts a repair of `what` that was made, since `manager` had changed it, if that is known. An attempt that failed
    /// is none.
    pub fn repaired(&mut self, what: &K, manager: Option<String>, now: Instant) {
        let repaired = self.0.entry(what.clone()).or_insert_with(|| Repaired {
            count: 0,
            last: now,
            manager: None,
        });
        if now.duration_since(repaired.last) > FORGIVEN_AFTER {
            repaired.count = 0;
        }
        repaired.manager = manager.or(repaired.manager.take());
        repaired.count += 1;
        repaired.last = now;
    }

    /// Forgets what is gone.
    pub fn forget(&mut self, what: &K) {
        self.0.remove(what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_repairs_are_spaced_out_and_forgiven() {
        let mut repairs = Repairs::default();
        let start = Instant::now();
        for _ in 0..REPAIRS_AT_ONCE {
            assert_eq!(repairs.may_repair(&1, start), Ok(()));
            repairs.repaired(&1, Some("other".into()), start);
        }
        let contested = |retry_in| {
            Err(Contested {
                manager: "other".into(),
                retry_in,
            })
        };
        assert_eq!(repairs.may_repair(&1, start), contested(FIRST_PAUSE));
        assert_eq!(repairs.may_repair(&2, start), Ok(()));
        let later = start + FIRST_PAUSE;
        assert_eq!(repairs.may_repair(&1, later), Ok(()));
        repairs.repaired(&1, None, later);
        assert_eq!(repairs.may_repair(&1, later), contested(FIRST_PAUSE * 2));
        let forgiven = later + FORGIVEN_AFTER * 2;
        repairs.repaired(&1, None, forgiven);
        assert_eq!(repairs.may_repair(&1, forgiven), Ok(()));
        repairs.forget(&1);
        assert_eq!(repairs.may_repair(&1, later), Ok(()));
    }

    #[test]
    fn attempts_that_fail_are_no_repairs() {
        let repairs = Repairs::default();
        let start = Instant::now();
        for _ in 0..REPAIRS_AT_ONCE * 2 {
            assert_eq!(repairs.may_repair(&1, start), Ok(()));
        }
    }
}
