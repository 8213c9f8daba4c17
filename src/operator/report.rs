//! What one pass found: faults by component, warnings, and when to look again.

use std::time::Duration;

use super::status::Outcome;

/// Collects what a pass finds. The first faults are kept in order; the same text is told once.
#[derive(Debug, Default)]
pub(super) struct Report {
    faults: Vec<String>,
    unsupported: Option<String>,
    warnings: Vec<String>,
    contests: Vec<String>,
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

    /// Somebody keeps changing an object: it is repaired again after that pause.
    pub(super) fn contested(
        &mut self,
        of: impl std::fmt::Display,
        error: impl std::fmt::Display,
        retry_in: Duration,
    ) {
        let text = format!("{of}: {error}");
        push(&mut self.contests, text.clone());
        push(&mut self.faults, text);
        self.look_again_in(retry_in);
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

    /// Adds what another report of the same pass holds.
    pub(super) fn merge(&mut self, other: Self) {
        let Self {
            faults,
            unsupported,
            warnings,
            contests,
            look_again,
            retry,
        } = other;
        for (into, from) in [
            (&mut self.faults, faults),
            (&mut self.warnings, warnings),
            (&mut self.contests, contests),
        ] {
            for text in from {
                push(into, text);
            }
        }
        self.unsupported = self.unsupported.take().or(unsupported);
        if let Some(look_again) = look_again {
            self.look_again_in(look_again);
        }
        self.retry |= retry;
    }

    /// Whether nothing is wrong and nothing is waited for.
    pub(super) fn is_fine(&self) -> bool {
        self.outcome() == Outcome::Ready
    }

    /// The objects that are fought over, one text each.
    pub(super) fn contests(&self) -> &[String] {
        &self.contests
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
    fn reports_of_components_add_up() {
        let mut report = Report::default();
        report.lasting_fault("a", "x");
        report.look_again_in(Duration::from_secs(9));
        let mut other = Report::default();
        assert!(other.is_fine());
        other.contested("b", "y", Duration::from_secs(3));
        other.warning("w");
        report.merge(other);
        assert_eq!(report.outcome(), Outcome::Failed("a: x; b: y".into()));
        assert_eq!(report.contests(), ["b: y"]);
        assert_eq!(report.warnings(), ["w"]);
        assert_eq!(report.look_again(), Some(Duration::from_secs(3)));
        assert!(!report.is_to_be_retried());
        let mut failed = Report::default();
        failed.fault("c", "z");
        report.merge(failed);
        assert!(report.is_to_be_retried());
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
