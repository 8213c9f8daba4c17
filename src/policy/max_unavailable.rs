//! `maxUnavailable` of a pool: what is legal, and how many nodes it lets be drained. Read here by admission and by the
//! drain, so that what is admitted is what is done.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// What a legal value is.
pub const LEGAL: &str = "must be a number from 0, or a percentage from 1% to 100%";

/// How many nodes of a pool may be drained at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxUnavailable {
    /// So many; 0 is none, ever.
    Nodes(usize),
    /// So many of a hundred, 1 to 100.
    Percent(usize),
}

impl MaxUnavailable {
    /// Reads it. `None` when it is not legal.
    pub fn parse(value: &IntOrString) -> Option<Self> {
        match value {
            IntOrString::Int(number) => usize::try_from(*number).ok().map(Self::Nodes),
            IntOrString::String(text) => {
                let percent = text.strip_suffix('%')?.parse().ok()?;
                (1..=100)
                    .contains(&percent)
                    .then_some(Self::Percent(percent))
            }
        }
    }

    /// How many nodes that is in a pool of `size`. A percentage is rounded down, but never to none: a small pool would
    /// wait for ever.
    pub fn of(self, size: usize) -> usize {
        match self {
            Self::Nodes(number) => number,
            Self::Percent(percent) => (size.saturating_mul(percent) / 100).max(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_percentages() {
        let text = |text: &str| IntOrString::String(text.into());
        for (value, size, expected) in [
            (IntOrString::Int(0), 10, Some(0)),
            (IntOrString::Int(1), 1, Some(1)),
            (IntOrString::Int(7), 3, Some(7)),
            (IntOrString::Int(-1), 10, None),
            (text("33%"), 10, Some(3)),
            (text("30%"), 1, Some(1)),
            (text("1%"), 0, Some(1)),
            (text("100%"), 5, Some(5)),
            (text("0%"), 10, None),
            (text("101%"), 10, None),
            (text("10000%"), 10, None),
            (text("3"), 10, None),
            (text("bla"), 10, None),
            (text("%"), 10, None),
            (text("-5%"), 10, None),
            (text("99999999999999999."), 10, None),
            (text(""), 10, None),
        ] {
            let nodes = MaxUnavailable::parse(&value).map(|most| most.of(size));
            assert_eq!(nodes, expected, "{value:?} of {size}");
        }
    }
}
