//! How much is measured: everything, or enough to see within minutes whether something broke.

use std::time::Duration;

/// How large and how long.
#[derive(Clone, Copy)]
pub(crate) struct Extent {
    /// Nodes of the cluster behind the API server, as it grows.
    pub(crate) sizes: &'static [usize],
    /// Nodes of the cluster that follows its policies.
    pub(crate) fleet: usize,
    /// Networks in the end.
    pub(crate) networks: usize,
    /// Rounds of the product and of the floor, by turns.
    pub(crate) rounds: usize,
    /// How long one round is.
    pub(crate) round: Duration,
    /// How long calls at rest are counted.
    pub(crate) rest: Duration,
}

/// Everything that has a bar.
pub(crate) const WHOLE: Extent = Extent {
    sizes: &[100, 1_000, 5_000, 10_000],
    fleet: 5_000,
    networks: 10_000,
    rounds: 9,
    round: Duration::from_millis(600),
    rest: Duration::from_secs(20),
};

/// The same figures but for those of large clusters.
pub(crate) const QUICK: Extent = Extent {
    sizes: &[100, 1_000],
    fleet: 500,
    networks: 1_000,
    rounds: 5,
    round: Duration::from_millis(300),
    rest: Duration::from_secs(5),
};
