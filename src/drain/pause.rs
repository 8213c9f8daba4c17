//! OpenShift: the MachineConfigPool of a node is paused while the node is drained, so that its operator does not drain
//! another one or reboot this one meanwhile.
//!
//! Only what we have paused is resumed: the record of it and the pause are one write. A pool that its administrator has
//! paused is drained in and left as it is.

use super::IDLE;

/// The record of a pause of ours.
pub const PAUSED: &str = "Paused";

/// A MachineConfigPool, cut down to what decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolView<'a> {
    /// Its annotation [`super::STATE`].
    pub record: Option<&'a str>,
    /// `spec.paused`.
    pub paused: bool,
    /// `spec.configuration.name`: where its nodes are to be.
    pub target: Option<&'a str>,
    /// `status.configuration.name`: where all its nodes are.
    pub reached: Option<&'a str>,
}

/// What has to happen before one of its nodes is drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// Nothing.
    Go,
    /// It is paused, on record.
    Pause,
    /// Its nodes are being updated: that ends first.
    Wait,
}

/// What has to happen to a pool before one of its nodes is drained.
pub fn before(pool: PoolView<'_>) -> Before {
    let ours = pool.record == Some(PAUSED);
    if ours && pool.paused {
        Before::Go
    } else if pool.target != pool.reached || (ours && pool.target.is_none()) {
        Before::Wait
    } else if pool.paused {
        Before::Go
    } else {
        Before::Pause
    }
}

/// Whether a pool is resumed, given whether the daemon of one of its nodes still asks for something.
pub fn resumes(pool: PoolView<'_>, asking: bool) -> bool {
    pool.record == Some(PAUSED) && !asking
}

/// What is written with and without a pause: the annotation, and `spec.paused`.
pub const fn written(pause: bool) -> (&'static str, bool) {
    (if pause { PAUSED } else { IDLE }, pause)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Option<&str> = Some("rendered-a");
    const B: Option<&str> = Some("rendered-b");

    #[test]
    fn a_pool_is_paused_when_its_nodes_are_where_they_are_to_be() {
        for (record, paused, target, reached, expected) in [
            (None, false, None, None, Before::Pause),
            (None, false, A, A, Before::Pause),
            (Some(IDLE), false, A, A, Before::Pause),
            (None, false, A, B, Before::Wait),
            (None, false, A, None, Before::Wait),
            // Paused by us.
            (Some(PAUSED), true, A, A, Before::Go),
            (Some(PAUSED), true, A, B, Before::Go),
            (Some(PAUSED), true, None, None, Before::Go),
            // On record only: resumed by somebody, or a write that was cut short.
            (Some(PAUSED), false, A, A, Before::Pause),
            (Some(PAUSED), false, A, B, Before::Wait),
            (Some(PAUSED), false, None, None, Before::Wait),
            // Paused by its administrator.
            (None, true, A, A, Before::Go),
            (Some(IDLE), true, A, A, Before::Go),
            (None, true, A, B, Before::Wait),
        ] {
            let pool = PoolView {
                record,
                paused,
                target,
                reached,
            };
            assert_eq!(before(pool), expected, "{pool:?}");
        }
    }

    #[test]
    fn only_what_we_paused_is_resumed_and_by_the_last_node() {
        for (record, asking, expected) in [
            (Some(PAUSED), false, true),
            (Some(PAUSED), true, false),
            (Some(IDLE), false, false),
            (None, false, false),
            (Some("else"), false, false),
        ] {
            let pool = PoolView {
                record,
                paused: true,
                ..PoolView::default()
            };
            assert_eq!(resumes(pool, asking), expected, "{record:?} {asking}");
        }
    }
}
