//! What one pass found: faults by component, warnings, and when to look again.

use std::time::Duration;

use super::status::Outcome;

/// Collects what a pass finds. The first faults are kept in order; the same text is told once.
#[derive(Debug, Default)]
pub(super) struct Report {
    faults: Vec<String>,
    unsupported: Option<String>,
    warnings: Vec<String>,
    look_again: Option<Duration>,
    retry: bool,
}

impl Report {
    /// Something failed that may work when tried again.
    pub(super) fn fault(&mut self, of: impl std::fmt::Display, error: impl std::fmt::Display) {
        self.retry = true;
        push(&mut self.faults, format!("{of}: {error}"));
    }

    /// Something is wrong that no repetition changes: somebody has to change something first.
    pub(super) fn lasting_fault(
        &mut self,
        of: impl std::fmt::Display,
        error: impl std::fmt::Display,
    ) {
        push(&mut self.faults, format!("{of}: {error}"));
    }

    /// Something is not there yet and is waited for: looked for again soon, in case no watch tells of it.
    pub(super) fn waiting(
        &mut self,
        of: impl std::fmt::Display,
        what: impl std::fmt::Display,
        look_again: Duration,
    ) {
        push(&mut self.faults, format!("{of}: waiting for {what}"));
        self.look_again_in(look_again);
    }

    /// The platform cannot do what the config asks for.
    pub(super) fn unsupported(&mut self, what: impl Into<String>) {
        self.unsupported.get_or_insert(what.into());
    }

    /// Something works and wants attention.
    pub(super) fn warning(&mut self, warning: impl Into<String>) {
        push(&mut self.warnings, warning.into());
    }

    /// A pass is due then, whatever happens.
    pub(super) fn look_again_in(&mut self, pause: Duration) {
        self.look_again = Some(self.look_again.map_or(pause, |before| before.min(pause)));
    }

    /// How many faults were found so far, the unsupported one included.
    pub(super) fn fault_count(&self) -> usize {
        self.faults.len() + usize::from(self.unsupported.is_some())
    }

    /// The outcome for the status.
    pub(super) fn outcome(&self) -> Outcome {
        match (&self.unsupported, self.faults.as_slice()) {
            (Some(unsupported), []) => Outcome::Unsupported(unsupported.clone()),
            (Some(unsupported), faults) => {
                Outcome::Unsupported(format!("{unsupported}; {}", faults.join("; ")))
            }
            (None, []) => Outcome::Ready,
            (None, faults) => Outcome::Failed(faults.join("; ")),
        }
    }

    pub(super) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Whether the pass is to be made again, after growing pauses.
    pub(super) fn is_to_be_retried(&self) -> bool {
        self.retry
    }

    pub(super) fn look_again(&self) -> Option<Duration> {
        self.look_again
    }
}

fn push(list: &mut Vec<String>, text: String) {
    if !list.contains(&text) {
        list.push(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_faults_are_told_and_the_unsupported_one_first() {
        let mut report = Report::default();
        assert_eq!(report.outcome(), Outcome::Ready);
        report.fault("injector", "a");
        report.fault("injector", "a");
        report.lasting_fault("config-daemon", "b");
        assert_eq!(
            report.outcome(),
            Outcome::Failed("injector: a; config-daemon: b".into())
        );
        report.unsupported("no systemd mode here");
        assert_eq!(
            report.outcome(),
            Outcome::Unsupported("no systemd mode here; injector: a; config-daemon: b".into())
        );
    }

    #[test]
    fn only_what_may_work_again_is_retried() {
        let mut report = Report::default();
        report.unsupported("x");
        report.lasting_fault("a", "b");
        report.waiting("a", "c", Duration::from_secs(2));
        report.look_again_in(Duration::from_secs(5));
        assert!(!report.is_to_be_retried());
        assert_eq!(report.look_again(), Some(Duration::from_secs(2)));
        report.fault("a", "d");
        assert!(report.is_to_be_retried());
    }
}
