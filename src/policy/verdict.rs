//! What a review comes to: the faults, the warnings, and how both are told within the limits of the API server.

use std::{fmt::Write as _, sync::Arc};

use super::{
    fault::{Fault, FaultKind, one_line},
    node_policy::ParsedPolicy,
};

/// Faults told in `status.message`.
const MAX_IN_MESSAGE: usize = 20;
/// Faults told at all; an object with more of them is not made clearer by the rest.
const MAX_FAULTS: usize = 100;
/// Characters of a warning, beyond which the API server may cut or drop it.
const MAX_WARNING: usize = 256;
/// Warnings told.
const MAX_WARNINGS: usize = 10;

/// The outcome of judging an object. Without faults it is allowed.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    faults: Vec<Fault>,
    more_faults: usize,
    forbidden: bool,
    warnings: Vec<String>,
    admitted: Option<Arc<ParsedPolicy>>,
}

/// One item of `status.details.causes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Field path, never empty.
    pub field: String,
    /// `FieldValueInvalid` and its like.
    pub reason: &'static str,
    /// The fault on one line, without its field.
    pub message: String,
}

impl Verdict {
    pub(super) fn fault(&mut self, fault: Fault) {
        if self.faults.len() < MAX_FAULTS {
            self.faults.push(fault);
        } else {
            self.more_faults += 1;
        }
    }

    /// A fault that time mends: the answer must not be one that `kubectl apply --force` takes for a reason to delete
    /// the object and make it anew.
    pub(super) fn fault_of_the_moment(&mut self, fault: Fault) {
        self.forbidden = true;
        self.fault(fault);
    }

    pub(super) fn warn(&mut self, warning: impl Into<String>) {
        self.warnings.push(warning.into());
    }

    pub(super) fn admit(&mut self, policy: ParsedPolicy) {
        self.admitted = Some(Arc::new(policy));
    }

    /// Whether some fault was found at `field` or below it.
    pub(super) fn is_faulty(&self, field: &str) -> bool {
        self.faults.iter().any(|fault| {
            fault
                .field()
                .strip_prefix(field)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
    }

    /// Whether the object may be stored.
    pub fn allowed(&self) -> bool {
        self.faults.is_empty()
    }

    /// Whether a refusal is a matter of the moment: to be answered with 403 `Forbidden` instead of 422 `Invalid`.
    pub fn forbidden(&self) -> bool {
        self.forbidden
    }

    /// The faults, most important first. At most 100.
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// The policy that was judged and allowed, where it is one that later ones are to be judged against: what the
    /// stores remember until their watch shows it.
    pub fn admitted(&self) -> Option<&Arc<ParsedPolicy>> {
        self.admitted.as_ref().filter(|_| self.allowed())
    }

    /// `status.message` of a refusal: about 20 faults on one line, and a count of the rest.
    pub fn status_message(&self) -> String {
        let mut text = self
            .faults
            .iter()
            .take(MAX_IN_MESSAGE)
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("; ");
        let rest = self.faults.len().saturating_sub(MAX_IN_MESSAGE) + self.more_faults;
        if rest > 0 {
            let _ = write!(text, "; and {rest} more faults");
        }
        text
    }

    /// `status.details.causes` of a refusal: one a fault, and one that counts those beyond the first 100.
    pub fn causes(&self) -> Vec<Cause> {
        let mut causes: Vec<Cause> = self
            .faults
            .iter()
            .map(|fault| Cause {
                field: fault.field().to_owned(),
                reason: fault.kind().reason(),
                message: fault.message(),
            })
            .collect();
        if self.more_faults > 0 {
            causes.push(Cause {
                field: "spec".into(),
                reason: FaultKind::Invalid.reason(),
                message: format!("{} more faults", self.more_faults),
            });
        }
        causes
    }

    /// The warnings as the API server passes them on: each on one line of at most 256 characters, at most 10, then a
    /// count.
    pub fn warnings(&self) -> Vec<String> {
        let mut told: Vec<String> = self
            .warnings
            .iter()
            .take(MAX_WARNINGS)
            .map(|warning| shortened(&one_line(warning)))
            .collect();
        let rest = self.warnings.len().saturating_sub(MAX_WARNINGS);
        if rest > 0 {
            told.push(format!("and {rest} more warnings"));
        }
        told
    }
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= MAX_WARNING {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(MAX_WARNING - 3).collect();
    cut.push_str("...");
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_tells_everything_twice() {
        let mut verdict = Verdict::default();
        assert!(verdict.allowed());
        verdict.fault(Fault::invalid("spec.numVfs", 65, "too many"));
        verdict.fault(Fault::required("spec.resourceName", "names it"));
        assert!(!verdict.allowed() && !verdict.forbidden());
        assert_eq!(
            verdict.status_message(),
            "spec.numVfs: Invalid value: 65: too many; spec.resourceName: Required value: names it"
        );
        assert_eq!(
            verdict.causes(),
            [
                Cause {
                    field: "spec.numVfs".into(),
                    reason: "FieldValueInvalid",
                    message: "Invalid value: 65: too many".into()
                },
                Cause {
                    field: "spec.resourceName".into(),
                    reason: "FieldValueRequired",
                    message: "Required value: names it".into()
                },
            ]
        );
    }

    #[test]
    fn many_faults_are_counted() {
        let mut verdict = Verdict::default();
        for i in 0..150 {
            verdict.fault(Fault::invalid(format!("spec.x[{i}]"), i, "no"));
        }
        let message = verdict.status_message();
        assert!(message.contains("spec.x[19]") && !message.contains("spec.x[20]"));
        assert!(message.ends_with("; and 130 more faults"), "{message}");
        let causes = verdict.causes();
        assert_eq!(causes.len(), 101);
        assert!(causes.iter().all(|c| !c.field.is_empty()));
        assert_eq!(
            causes.last().map(|c| c.message.as_str()),
            Some("50 more faults")
        );
    }

    #[test]
    fn warnings_fit_the_api_server() {
        let mut verdict = Verdict::default();
        verdict.warn("a\nb");
        for _ in 0..14 {
            verdict.warn("ü".repeat(400));
        }
        let warnings = verdict.warnings();
        assert_eq!(warnings.len(), 11);
        assert_eq!(warnings.first().map(String::as_str), Some("a b"));
        assert_eq!(
            warnings.last().map(String::as_str),
            Some("and 5 more warnings")
        );
        assert!(warnings.iter().all(|w| w.chars().count() <= 256));
    }

    #[test]
    fn a_field_is_faulty_when_it_or_a_part_of_it_is() {
        let mut verdict = Verdict::default();
        verdict.fault(Fault::invalid("spec.nicSelector.pfNames[0]", "", "no"));
        assert!(verdict.is_faulty("spec.nicSelector"));
        assert!(verdict.is_faulty("spec.nicSelector.pfNames"));
        assert!(!verdict.is_faulty("spec.nic"));
        assert!(!verdict.is_faulty("spec.nodeSelector"));
    }
}
