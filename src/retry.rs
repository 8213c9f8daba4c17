//! How long to wait before a watch that has failed is tried again. The same for all watches, so that everything is back a few
//! seconds after the API server is, however long that was away; nothing here watches.

use std::time::Duration;

use kube::runtime::utils::Backoff;
use kube::runtime::watcher::DefaultBackoff;

/// The longest pause, before jitter.
const LONGEST: Duration = Duration::from_secs(5);
/// What of the jitter above that is left: replicas that lost their watches at one moment still come back at different ones.
const JITTER_SHARE: u32 = 16;

/// The pauses of client-go's reflectors, which double from 0.8 s on, cut off at about 5 s: those grow to a minute, and as
/// long would repairs, renewed certificates and verdicts lag behind after an outage.
#[derive(Default)]
pub(crate) struct Pauses(DefaultBackoff);

impl Pauses {
    /// The next pause.
    pub(crate) fn next_pause(&mut self) -> Duration {
        capped(self.0.next().unwrap_or(LONGEST))
    }
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(self.next_pause())
    }
}

impl Backoff for Pauses {
    fn reset(&mut self) {
        self.0.reset();
    }
}

fn capped(pause: Duration) -> Duration {
    match pause.checked_sub(LONGEST) {
        Some(above) => LONGEST + above / JITTER_SHARE,
        None => pause,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_above_the_cap_still_differ() {
        assert_eq!(capped(Duration::from_secs(3)), Duration::from_secs(3));
        assert!(capped(Duration::from_secs(30)) < capped(Duration::from_secs(60)));
    }

    #[test]
    fn after_a_long_outage_everything_is_back_within_ten_seconds() {
        let mut pauses = Pauses::default();
        let first = pauses.next_pause();
        assert!(first < Duration::from_secs(2), "{first:?}");
        for _ in 0..1000 {
            let pause = pauses.next_pause();
            assert!(pause < Duration::from_secs(10), "{pause:?}");
        }
        assert!(pauses.next_pause() >= LONGEST);
        pauses.reset();
        assert!(pauses.next_pause() < Duration::from_secs(2));
    }
}
