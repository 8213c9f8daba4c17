//! Whether one watch can be believed: a state that is told what happened and asked with a time. No I/O.
//!
//! A sign of life is anything that the API server sends for the watch: a page of the list, an event, a bookmark, the
//! head of the answer.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

/// How long a silent watch counts as fresh: longer than a watch lasts before it is renewed.
pub(super) const FRESH_FOR: Duration = Duration::from_secs(90);

/// How long after a reconnection the events that were missed may still be on their way.
const SETTLES_WITHIN: Duration = Duration::from_secs(1);

/// The state of one watch.
#[derive(Debug)]
pub(super) struct Health {
    state: Mutex<State>,
    filled: watch::Sender<bool>,
}

#[derive(Debug)]
struct State {
    connected_since: Option<Instant>,
    last_sign: Option<Instant>,
}

impl Health {
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::new(State {
                connected_since: None,
                last_sign: None,
            }),
            filled: watch::Sender::new(false),
        }
    }

    /// The API server has sent something.
    pub(super) fn sign_of_life(&self, now: Instant) {
        let mut state = self.state.lock();
        state.connected_since.get_or_insert(now);
        state.last_sign = Some(now);
    }

    /// The connection is lost or refused, until the next sign of life.
    pub(super) fn lost(&self) {
        self.state.lock().connected_since = None;
    }

    /// The first list has ended (a kind that the server does not know is an empty list).
    pub(super) fn fill(&self) {
        self.filled.send_replace(true);
    }

    /// Whether the first list has ended.
    pub(super) fn filled(&self) -> bool {
        *self.filled.borrow()
    }

    /// Returns once the first list has ended.
    pub(super) async fn wait_filled(&self) {
        // Fails only when the sender is gone, and `self` holds it.
        let _ = self.filled.subscribe().wait_for(|filled| *filled).await;
    }

    /// Whether what is held is recent enough to be judged by.
    pub(super) fn fresh(&self, now: Instant) -> bool {
        let last_sign = self.state.lock().last_sign;
        self.filled() && last_sign.is_some_and(|sign| now.duration_since(sign) < FRESH_FOR)
    }

    /// Whether a change is seen as soon as it is made.
    pub(super) fn live(&self, now: Instant) -> bool {
        let connected_since = self.state.lock().connected_since;
        let settled =
            connected_since.is_some_and(|since| now.duration_since(since) >= SETTLES_WITHIN);
        settled && self.fresh(now)
    }

    /// The time since the last sign of life. None when there was none.
    pub(super) fn silence(&self, now: Instant) -> Option<Duration> {
        let last_sign = self.state.lock().last_sign?;
        Some(now.duration_since(last_sign))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_was_never_filled_is_neither_fresh_nor_live() {
        let health = Health::new();
        health.sign_of_life(Instant::now());
        assert!(!health.fresh(Instant::now()) && !health.live(Instant::now()));
    }

    #[tokio::test(start_paused = true)]
    async fn silence_makes_stale_and_a_sign_makes_fresh() {
        let health = Health::new();
        let start = Instant::now();
        health.sign_of_life(start);
        health.fill();
        assert!(health.live(start + FRESH_FOR.checked_sub(Duration::from_millis(1)).unwrap()));
        assert!(!health.fresh(start + FRESH_FOR));
        health.sign_of_life(start + FRESH_FOR);
        assert!(health.live(start + FRESH_FOR));
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_connection_is_still_fresh_but_not_live() {
        let health = Health::new();
        let start = Instant::now();
        health.sign_of_life(start);
        health.fill();
        assert!(health.live(start + SETTLES_WITHIN));
        health.lost();
        let later = start + SETTLES_WITHIN * 2;
        assert!(health.fresh(later) && !health.live(later));
        health.sign_of_life(later);
        assert!(!health.live(later), "missed events are still on their way");
        assert!(health.live(later + SETTLES_WITHIN));
    }
}
