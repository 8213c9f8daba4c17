//! Which pods of a node are evicted, and when they are gone.
//!
//! A pod of a DaemonSet that uses virtual functions is left, as every pod of a DaemonSet is: it would come back at once.
//! It has to stand the reconfiguration of its device.

use std::collections::BTreeSet;

use super::Request;

/// How often the pods that are there are looked at anew: the scheduler may still place a pod that it had decided on
/// before the cordon. What comes back time and again, since it is no matter of the scheduler, does not count.
const ROUNDS: u32 = 3;

/// A pod, cut down to what decides whether it is evicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodView<'a> {
    /// Whether it stands for a static pod of the kubelet, which no eviction ends.
    pub is_mirror: bool,
    /// Whether it is over: Succeeded or Failed.
    pub is_finished: bool,
    /// Whether its controller is a DaemonSet of `apps` that exists.
    pub has_daemon_set: bool,
    /// The names of all resources that its containers request, init containers among them.
    pub requests: &'a [Box<str>],
}

/// Whether a pod is evicted. `prefix` is that of the resources of virtual functions, without its slash.
pub fn is_evicted(pod: PodView<'_>, request: Request, prefix: &str) -> bool {
    let leaves = !pod.is_mirror && (pod.is_finished || !pod.has_daemon_set);
    let uses = |resource: &str| {
        resource
            .strip_prefix(prefix)
            .is_some_and(|rest| rest.starts_with('/'))
    };
    leaves
        && match request {
            Request::Reboot => true,
            Request::Drain => pod.requests.iter().any(|resource| uses(resource)),
        }
}

/// Follows the pods that are to go, by uid.
#[derive(Clone, Debug, Default)]
pub struct Rounds {
    round: u32,
    waiting: BTreeSet<Box<str>>,
}

impl Rounds {
    /// Those that still have to go, of the ones that are evicted and `present`. None: the node is drained.
    pub fn left(&mut self, present: &BTreeSet<Box<str>>) -> &BTreeSet<Box<str>> {
        self.waiting.retain(|pod| present.contains(pod));
        if self.waiting.is_empty() && self.round < ROUNDS {
            self.round += 1;
            self.waiting.clone_from(present);
        }
        &self.waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_evicted() {
        let resources =
            |names: &[&str]| -> Vec<Box<str>> { names.iter().map(|&n| n.into()).collect() };
        let vf = resources(&["cpu", "openshift.io/fast"]);
        let none = resources(&["cpu", "memory"]);
        let similar = resources(&[
            "openshift.iox/y",
            "openshift.io",
            "example.com/openshift.io/y",
        ]);
        let pod = |requests| PodView {
            requests,
            ..PodView::default()
        };
        let vf_pod = pod(&vf);
        for (what, pod, drain, reboot) in [
            ("a pod with a virtual function", vf_pod, true, true),
            ("one without", pod(&none), false, true),
            (
                "one with a resource of a similar name",
                pod(&similar),
                false,
                true,
            ),
            ("one without requests", pod(&[]), false, true),
            (
                "a static pod",
                PodView {
                    is_mirror: true,
                    ..vf_pod
                },
                false,
                false,
            ),
            (
                "a pod of a DaemonSet",
                PodView {
                    has_daemon_set: true,
                    ..vf_pod
                },
                false,
                false,
            ),
            (
                "a finished pod of a DaemonSet",
                PodView {
                    has_daemon_set: true,
                    is_finished: true,
                    ..vf_pod
                },
                true,
                true,
            ),
            (
                "a finished static pod",
                PodView {
                    is_mirror: true,
                    is_finished: true,
                    ..vf_pod
                },
                false,
                false,
            ),
        ] {
            let evicted = |request| is_evicted(pod, request, "openshift.io");
            assert_eq!(
                (evicted(Request::Drain), evicted(Request::Reboot)),
                (drain, reboot),
                "{what}"
            );
        }
    }

    fn pods(names: &[&str]) -> BTreeSet<Box<str>> {
        names.iter().map(|&name| name.into()).collect()
    }

    #[test]
    fn the_node_is_drained_when_all_that_were_there_are_gone() {
        let mut rounds = Rounds::default();
        assert_eq!(rounds.left(&pods(&["a", "b"])), &pods(&["a", "b"]));
        assert_eq!(rounds.left(&pods(&["b", "late"])), &pods(&["b"]));
        assert_eq!(rounds.left(&pods(&["late"])), &pods(&["late"]));
        assert_eq!(rounds.left(&pods(&[])), &pods(&[]));
        assert_eq!(Rounds::default().left(&pods(&[])), &pods(&[]));
    }

    #[test]
    fn what_comes_back_every_time_does_not_hold_a_drain_up_for_ever() {
        let mut rounds = Rounds::default();
        let drained =
            (0..10).find(|time| rounds.left(&pods(&[&format!("again-{time}")])).is_empty());
        assert_eq!(drained, Some(3));
    }
}
