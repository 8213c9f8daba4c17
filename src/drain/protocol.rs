//! The protocol between config daemon and operator: from the annotations of one node to the next step.

use super::{DRAIN_COMPLETE, DRAIN_REQUIRED, DRAINING, IDLE, REBOOT_REQUIRED};

/// What a config daemon asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// The pods that use virtual functions are to go.
    Drain,
    /// All pods are to go.
    Reboot,
}

/// A Node, cut down to the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeView<'a> {
    /// What its daemon asks for.
    pub wanted: Option<&'a str>,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// Whether it carries the record that we have cordoned it.
    pub cordoned_by_us: bool,
}

/// A node state, cut down to the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateView<'a> {
    /// How far the operator is.
    pub current: Option<&'a str>,
    /// Whether the daemon's request is there a second time.
    pub has_desired: bool,
    /// Whether somebody else drains the node.
    pub external: bool,
    /// Whether the drain that goes on was begun by us.
    pub started_by_us: bool,
}

/// The next step for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// None, until an annotation changes.
    Rest,
    /// Annotations are missing, and become Idle: the daemon waits until they are there.
    Initialise {
        /// That of the Node.
        wanted: bool,
        /// `current-state` of the node state.
        current: bool,
        /// `desired-state` of the node state.
        desired: bool,
    },
    /// The node is to be drained as soon as the budget allows.
    Begin(Request),
    /// The node is being drained.
    Drain(Request),
    /// The drain is over or called off.
    End {
        /// What becomes of the cordon.
        cordon: Cordon,
        /// Whether the node state is to say Idle.
        report: bool,
    },
    /// Our record of a cordon goes: somebody has lifted it, and the next one is theirs.
    Forget,
    /// What is asked for is not known, so nothing is done about it.
    Unknown(&'a str),
}

/// What becomes of a node's cordon at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cordon {
    /// It is not ours, or there is none.
    Keep,
    /// Lifted, with our record of it.
    Lift,
    /// Somebody has lifted it: our record goes.
    Forget,
}

/// Whether the operator drains the node or has drained it, so that it counts against the budget.
pub fn is_busy(current: Option<&str>) -> bool {
    matches!(current, Some(DRAINING | DRAIN_COMPLETE))
}

/// Whether a daemon is waiting for its node or working on it.
pub fn is_asking(wanted: Option<&str>) -> bool {
    wanted.is_some_and(|wanted| wanted != IDLE)
}

/// The next step for a node. A `current-state` that is no known word counts as Idle.
pub fn next<'a>(node: NodeView<'a>, state: Option<StateView<'a>>) -> Step<'a> {
    let Some(state) = state else {
        // Nobody is left to ask for the end of a drain.
        if !node.cordoned_by_us {
            return Step::Rest;
        }
        return Step::End {
            cordon: recorded(node),
            report: false,
        };
    };
    let (Some(wanted), Some(current), true) = (node.wanted, state.current, state.has_desired)
    else {
        return Step::Initialise {
            wanted: node.wanted.is_none(),
            current: state.current.is_none(),
            desired: !state.has_desired,
        };
    };
    let busy = is_busy(Some(current));
    let request = match wanted {
        IDLE if !busy && node.cordoned_by_us => {
            return Step::End {
                cordon: recorded(node),
                report: current != IDLE,
            };
        }
        _ if state.external => return Step::Rest,
        IDLE if current == IDLE => return Step::Rest,
        IDLE => {
            return Step::End {
                cordon: cordon_of(node, state, busy),
                report: true,
            };
        }
        DRAIN_REQUIRED => Request::Drain,
        REBOOT_REQUIRED => Request::Reboot,
        other => return Step::Unknown(other),
    };
    match current {
        DRAIN_COMPLETE if node.cordoned_by_us && !node.unschedulable => Step::Forget,
        DRAIN_COMPLETE => Step::Rest,
        DRAINING => Step::Drain(request),
        _ => Step::Begin(request),
    }
}

fn recorded(node: NodeView<'_>) -> Cordon {
    if node.unschedulable {
        Cordon::Lift
    } else {
        Cordon::Forget
    }
}

fn cordon_of(node: NodeView<'_>, state: StateView<'_>, busy: bool) -> Cordon {
    if node.cordoned_by_us {
        recorded(node)
    } else if busy && !state.started_by_us && node.unschedulable {
        Cordon::Lift
    } else {
        Cordon::Keep
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(wanted: &str) -> NodeView<'_> {
        NodeView {
            wanted: Some(wanted),
            ..NodeView::default()
        }
    }

    fn ours(wanted: &str) -> NodeView<'_> {
        NodeView {
            unschedulable: true,
            cordoned_by_us: true,
            ..node(wanted)
        }
    }

    fn theirs(wanted: &str) -> NodeView<'_> {
        NodeView {
            unschedulable: true,
            ..node(wanted)
        }
    }

    fn lifted(wanted: &str) -> NodeView<'_> {
        NodeView {
            cordoned_by_us: true,
            ..node(wanted)
        }
    }

    fn state(current: &str) -> StateView<'_> {
        StateView {
            current: Some(current),
            has_desired: true,
            external: false,
            started_by_us: is_busy(Some(current)),
        }
    }

    const fn end(cordon: Cordon, report: bool) -> Step<'static> {
        Step::End { cordon, report }
    }

    #[test]
    fn every_pair_of_annotations_has_a_step() {
        use Cordon::{Forget, Keep, Lift};
        for (node, current, expected) in [
            (node(IDLE), IDLE, Step::Rest),
            (node(IDLE), DRAINING, end(Keep, true)),
            (node(IDLE), DRAIN_COMPLETE, end(Keep, true)),
            (node(IDLE), "", end(Keep, true)),
            (node(IDLE), "Paused", end(Keep, true)),
            (ours(IDLE), DRAINING, end(Lift, true)),
            (ours(IDLE), DRAIN_COMPLETE, end(Lift, true)),
            (ours(IDLE), IDLE, end(Lift, false)),
            (ours(IDLE), "Paused", end(Lift, true)),
            (lifted(IDLE), DRAIN_COMPLETE, end(Forget, true)),
            (lifted(IDLE), IDLE, end(Forget, false)),
            (theirs(IDLE), IDLE, Step::Rest),
            (theirs(IDLE), DRAIN_COMPLETE, end(Keep, true)),
            (node(DRAIN_REQUIRED), IDLE, Step::Begin(Request::Drain)),
            (node(DRAIN_REQUIRED), "", Step::Begin(Request::Drain)),
            (node(DRAIN_REQUIRED), "Paused", Step::Begin(Request::Drain)),
            (node(DRAIN_REQUIRED), DRAINING, Step::Drain(Request::Drain)),
            (node(DRAIN_REQUIRED), DRAIN_COMPLETE, Step::Rest),
            (ours(DRAIN_REQUIRED), DRAIN_COMPLETE, Step::Rest),
            (lifted(DRAIN_REQUIRED), DRAIN_COMPLETE, Step::Forget),
            (
                lifted(DRAIN_REQUIRED),
                DRAINING,
                Step::Drain(Request::Drain),
            ),
            (node(REBOOT_REQUIRED), IDLE, Step::Begin(Request::Reboot)),
            (
                node(REBOOT_REQUIRED),
                DRAINING,
                Step::Drain(Request::Reboot),
            ),
            (ours(REBOOT_REQUIRED), DRAIN_COMPLETE, Step::Rest),
            (node("Reboot"), IDLE, Step::Unknown("Reboot")),
            (node(""), DRAINING, Step::Unknown("")),
        ] {
            assert_eq!(
                next(node, Some(state(current))),
                expected,
                "{node:?} {current}"
            );
        }
    }

    #[test]
    fn what_is_missing_becomes_idle_whoever_drains() {
        for external in [false, true] {
            let bare = StateView {
                external,
                ..StateView::default()
            };
            let step = |wanted, current, desired| Step::Initialise {
                wanted,
                current,
                desired,
            };
            assert_eq!(
                next(NodeView::default(), Some(bare)),
                step(true, true, true)
            );
            assert_eq!(
                next(node(DRAIN_REQUIRED), Some(bare)),
                step(false, true, true)
            );
            let complete = StateView {
                external,
                ..state(IDLE)
            };
            assert_eq!(
                next(NodeView::default(), Some(complete)),
                step(true, false, false)
            );
            let no_desired = StateView {
                has_desired: false,
                ..complete
            };
            assert_eq!(next(node(IDLE), Some(no_desired)), step(false, false, true));
        }
    }

    #[test]
    fn a_node_that_somebody_else_drains_is_left_alone() {
        for wanted in [IDLE, DRAIN_REQUIRED, REBOOT_REQUIRED, "odd"] {
            for current in [IDLE, DRAINING, DRAIN_COMPLETE, ""] {
                let external = StateView {
                    external: true,
                    ..state(current)
                };
                assert_eq!(
                    next(node(wanted), Some(external)),
                    Step::Rest,
                    "{wanted} {current}"
                );
            }
        }
        let external = StateView {
            external: true,
            ..state(IDLE)
        };
        assert_eq!(
            next(ours(IDLE), Some(external)),
            end(Cordon::Lift, false),
            "but a cordon of ours is lifted"
        );
    }

    #[test]
    fn a_node_without_a_state_does_not_stay_cordoned_by_us() {
        for wanted in [IDLE, DRAIN_REQUIRED] {
            assert_eq!(next(ours(wanted), None), end(Cordon::Lift, false));
            assert_eq!(next(lifted(wanted), None), end(Cordon::Forget, false));
            assert_eq!(next(theirs(wanted), None), Step::Rest);
            assert_eq!(next(node(wanted), None), Step::Rest);
        }
    }

    #[test]
    fn a_drain_that_the_reference_began_ends_as_it_would() {
        for current in [DRAINING, DRAIN_COMPLETE] {
            let reference = StateView {
                started_by_us: false,
                ..state(current)
            };
            assert_eq!(next(theirs(IDLE), Some(reference)), end(Cordon::Lift, true));
            assert_eq!(next(node(IDLE), Some(reference)), end(Cordon::Keep, true));
        }
    }
}
