//! When what is killed, decided beforehand.

use std::time::Duration;

/// Between two kills of a replica.
const KILL_EVERY: Duration = Duration::from_secs(30);
/// Until the first of them.
const FIRST_KILL: Duration = Duration::from_secs(12);
/// Until a killed one is started again, as a kubelet does.
const RESTARTED_AFTER: Duration = Duration::from_secs(2);
/// The longest time that the API server stays away.
const LONGEST_AWAY: Duration = Duration::from_secs(60);

/// How long the API server stays away the second time, in a run of that length.
pub(crate) fn away(length: Duration) -> Duration {
    (length / 20).min(LONGEST_AWAY)
}

/// How long a CA lasts, in seconds. Whatever is due for renewal while the API server is away has to last until it is
/// back: that is a third of it, the time that the server takes to come up included.
pub(crate) fn authority_lifetime(length: Duration) -> u64 {
    60 + 3 * away(length).as_secs()
}

/// Something that is done at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deed {
    /// A replica is killed.
    Kill(usize),
    /// It is started again.
    Start(usize),
    /// The API server is killed, and started again after that time.
    RestartApiServer(Duration),
}

/// Everything that is done in a run of that length, in its order. In the first half the replicas are killed in turn; in
/// the second half one is left alone, so that there is a process old enough to show whether it grows.
pub(crate) fn deeds(length: Duration) -> Vec<(Duration, Deed)> {
    let mut deeds = Vec::new();
    let mut at = FIRST_KILL;
    for turn in 0.. {
        if at + RESTARTED_AFTER > length {
            break;
        }
        let replica = if at < length / 2 { turn % 2 } else { 1 };
        deeds.push((at, Deed::Kill(replica)));
        deeds.push((at + RESTARTED_AFTER, Deed::Start(replica)));
        at += KILL_EVERY;
    }
    // Once for a moment, once for long enough that everything that waits has to wait.
    deeds.push((length * 3 / 10, Deed::RestartApiServer(Duration::ZERO)));
    deeds.push((length * 6 / 10, Deed::RestartApiServer(away(length))));
    deeds.sort_by_key(|(at, _)| *at);
    deeds
}
