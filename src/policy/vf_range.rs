//! Ranges of virtual functions and the `pfNames` notation `<PF>#<first>-<last>`. Knows nothing of nodes or policies.

use std::fmt;

/// Virtual functions `start` to `end` of one NIC, both included. Never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VfRange {
    start: u32,
    end: u32,
}

impl VfRange {
    /// The range from `start` to `end`, or nothing when it ends before it starts.
    pub fn new(start: u32, end: u32) -> Option<Self> {
        (start <= end).then_some(Self { start, end })
    }

    /// All of a NIC's `num_vfs` virtual functions: what an entry without a range means. Nothing when there are none.
    pub fn whole(num_vfs: u32) -> Option<Self> {
        let end = num_vfs.checked_sub(1)?;
        Some(Self { start: 0, end })
    }

    /// The first virtual function.
    pub fn start(self) -> u32 {
        self.start
    }

    /// The last virtual function.
    pub fn end(self) -> u32 {
        self.end
    }

    /// Whether some virtual function is in both ranges.
    pub fn overlaps(self, other: Self) -> bool {
        self.start <= other.end && other.start <= self.end
    }
}

impl fmt::Display for VfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.start, self.end)
    }
}

/// One entry of `pfNames`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PfName<'a> {
    /// Name or alternative name of the physical function, never empty.
    pub name: &'a str,
    /// The range after `#`; nothing means all virtual functions.
    pub range: Option<VfRange>,
}

/// Why a text is no entry of `pfNames`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PfNameError {
    /// Empty, or nothing before `#`.
    #[error("names no PF")]
    NoName,
    /// `#` more than once.
    #[error("has more than one '#'; a second range is a second entry")]
    ManyHashes,
    /// One number after `#`.
    #[error("has no range after '#'; for one VF write {name}#{number}-{number}")]
    OneNumber {
        /// The PF name.
        name: String,
        /// The number.
        number: u32,
    },
    /// Neither a number nor two joined by `-` after `#`.
    #[error("must have <first VF>-<last VF> after '#', such as {name}#0-3")]
    NotARange {
        /// The PF name.
        name: String,
    },
    /// The last virtual function comes before the first.
    #[error("has a range whose last VF {end} is before its first {start}")]
    Reversed {
        /// First virtual function.
        start: u32,
        /// Last virtual function.
        end: u32,
    },
}

impl<'a> PfName<'a> {
    /// Reads `ens1f0` or `ens1f0#0-3`. Numbers are decimal; leading zeros and a plus sign are accepted, as the config
    /// daemon accepts them.
    pub fn parse(text: &'a str) -> Result<Self, PfNameError> {
        let Some((name, rest)) = text.split_once('#') else {
            return if text.is_empty() {
                Err(PfNameError::NoName)
            } else {
                Ok(Self {
                    name: text,
                    range: None,
                })
            };
        };
        if rest.contains('#') {
            return Err(PfNameError::ManyHashes);
        }
        if name.is_empty() {
            return Err(PfNameError::NoName);
        }
        let not_a_range = || PfNameError::NotARange { name: name.into() };
        let Some((start, end)) = rest.split_once('-') else {
            return Err(rest.parse().map_or_else(
                |_| not_a_range(),
                |number| PfNameError::OneNumber {
                    name: name.into(),
                    number,
                },
            ));
        };
        let start: u32 = start.parse().map_err(|_| not_a_range())?;
        let end: u32 = end.parse().map_err(|_| not_a_range())?;
        let range = VfRange::new(start, end).ok_or(PfNameError::Reversed { start, end })?;
        Ok(Self {
            name,
            range: Some(range),
        })
    }
}

/// The entry of a NIC selector that names a NIC, by its index in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Entry {
    /// `pfNames[i]`
    PfName(usize),
    /// `rootDevices[i]`
    RootDevice(usize),
}

impl Entry {
    /// The entry's field path.
    pub fn path(self) -> String {
        match self {
            Self::PfName(i) => format!("spec.nicSelector.pfNames[{i}]"),
            Self::RootDevice(i) => format!("spec.nicSelector.rootDevices[{i}]"),
        }
    }
}

/// Virtual functions that one entry of a policy names on a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claim {
    /// Which virtual functions.
    pub range: VfRange,
    /// By which entry.
    pub entry: Entry,
}

/// All virtual functions that one policy names on one NIC, ordered by the first one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    claims: Vec<Claim>,
    /// `reach[i]` is the place of the claim, among the first `i + 1`, that ends last. It keeps searches short
    /// however many claims there are.
    reach: Vec<usize>,
}

impl FromIterator<Claim> for Claims {
    fn from_iter<I: IntoIterator<Item = Claim>>(claims: I) -> Self {
        let mut claims: Vec<Claim> = claims.into_iter().collect();
        claims.sort_unstable();
        let mut furthest = (0, 0);
        let reach = claims
            .iter()
            .enumerate()
            .map(|(place, claim)| {
                if place == 0 || claim.range.end > furthest.1 {
                    furthest = (place, claim.range.end);
                }
                furthest.0
            })
            .collect();
        Self { claims, reach }
    }
}

impl Claims {
    /// The claims in order of their first virtual function.
    pub fn iter(&self) -> std::slice::Iter<'_, Claim> {
        self.claims.iter()
    }

    /// Claims that share a virtual function with `range`.
    pub fn overlapping(&self, range: VfRange) -> impl Iterator<Item = &Claim> {
        let candidates = self
            .claims
            .partition_point(|claim| claim.range.start <= range.end);
        (0..candidates)
            .rev()
            .take_while(move |place| {
                self.furthest(*place)
                    .is_some_and(|claim| claim.range.end >= range.start)
            })
            .filter_map(|place| self.claims.get(place))
            .filter(move |claim| claim.range.overlaps(range))
    }

    /// Claims that overlap one before them, each with that one: at most one pair a claim.
    pub fn clashes(&self) -> impl Iterator<Item = (&Claim, &Claim)> {
        self.claims
            .iter()
            .skip(1)
            .zip(0..)
            .filter_map(|(claim, before)| {
                let earlier = self.furthest(before)?;
                claim
                    .range
                    .overlaps(earlier.range)
                    .then_some((earlier, claim))
            })
    }

    fn furthest(&self, place: usize) -> Option<&Claim> {
        self.claims.get(*self.reach.get(place)?)
    }
}

impl<'a> IntoIterator for &'a Claims {
    type Item = &'a Claim;
    type IntoIter = std::slice::Iter<'a, Claim>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn range(start: u32, end: u32) -> VfRange {
        VfRange::new(start, end).unwrap()
    }

    #[test]
    fn entries_of_pf_names() {
        for (text, name, expected) in [
            ("ens1f0", "ens1f0", None),
            ("ens1f0#0-3", "ens1f0", Some((0, 3))),
            ("ens1f0#2-2", "ens1f0", Some((2, 2))),
            ("ens1f0#00-03", "ens1f0", Some((0, 3))),
            ("ens1f0#+0-+3", "ens1f0", Some((0, 3))),
            ("enp59s0f0np0", "enp59s0f0np0", None),
            ("a b", "a b", None),
        ] {
            let parsed = PfName::parse(text).unwrap();
            assert_eq!(parsed.name, name, "{text}");
            assert_eq!(parsed.range.map(|r| (r.start, r.end)), expected, "{text}");
        }
    }

    #[test]
    fn malformed_entries_of_pf_names_say_what_is_wrong() {
        for (text, says) in [
            ("", "names no PF"),
            ("#0-1", "names no PF"),
            ("e#0-1#2-3", "more than one '#'"),
            ("##", "more than one '#'"),
            ("e#", "such as e#0-3"),
            ("e#-", "such as e#0-3"),
            ("e#3", "for one VF write e#3-3"),
            ("e#a-2", "such as e#0-3"),
            ("e#0-b", "such as e#0-3"),
            ("e#-2", "such as e#0-3"),
            ("e#1-", "such as e#0-3"),
            ("e#0--1", "such as e#0-3"),
            ("e#0-1-2", "such as e#0-3"),
            ("e# 0-1", "such as e#0-3"),
            ("e#0-1 ", "such as e#0-3"),
            ("e#0-1_0", "such as e#0-3"),
            ("e#0-99999999999999999999", "such as e#0-3"),
            ("e#3-1", "last VF 1 is before its first 3"),
        ] {
            let error = PfName::parse(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn no_range_is_every_vf() {
        assert_eq!(VfRange::whole(8), Some(range(0, 7)));
        assert_eq!(VfRange::whole(1), Some(range(0, 0)));
        assert_eq!(VfRange::whole(0), None);
    }

    prop_compose! {
        fn any_range()(start in 0u32..40, length in 0u32..8) -> VfRange {
            range(start, start + length)
        }
    }

    proptest! {
        #[test]
        fn parsing_never_panics_and_keeps_the_name(text in ".{0,20}") {
            if let Ok(parsed) = PfName::parse(&text) {
                prop_assert!(!parsed.name.is_empty() && text.starts_with(parsed.name));
            }
        }

        #[test]
        fn overlap_is_symmetric_and_means_a_common_vf(a in any_range(), b in any_range()) {
            let common = (0..60).any(|vf| a.start <= vf && vf <= a.end && b.start <= vf && vf <= b.end);
            prop_assert_eq!(a.overlaps(b), common);
            prop_assert_eq!(b.overlaps(a), common);
        }

        #[test]
        fn searches_find_what_comparing_every_pair_finds(ranges in prop::collection::vec(any_range(), 0..12), asked in any_range()) {
            let claims: Claims = ranges.iter().enumerate()
                .map(|(i, range)| Claim { range: *range, entry: Entry::PfName(i) })
                .collect();
            let mut found: Vec<Claim> = claims.overlapping(asked).copied().collect();
            found.sort_unstable();
            let expected: Vec<Claim> = claims.iter().filter(|c| c.range.overlaps(asked)).copied().collect();
            prop_assert_eq!(found, expected);

            let clash = ranges.iter().enumerate()
                .any(|(i, a)| ranges.iter().skip(i + 1).any(|b| a.overlaps(*b)));
            prop_assert_eq!(claims.clashes().next().is_some(), clash);
            for (a, b) in claims.clashes() {
                prop_assert!(a.range.overlaps(b.range) && a.entry != b.entry);
            }
        }
    }
}
