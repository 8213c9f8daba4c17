//! Policies that apply to one NIC, merged: settings of the physical function, and groups of virtual functions.

use super::Problem;
use crate::policy::{
    ParsedPolicy,
    nic::Nic,
    vf_range::{Claim, VfRange},
};

/// A NIC that some policy means.
#[derive(Clone, Debug)]
pub(super) struct Merged<'a> {
    pub(super) nic: &'a Nic,
    pub(super) num_vfs: i64,
    pub(super) mtu: Option<i64>,
    pub(super) link_type: Option<&'a str>,
    pub(super) e_switch_mode: Option<&'a str>,
    pub(super) externally_managed: bool,
    /// The strongest policy's first; their ranges do not overlap.
    pub(super) groups: Vec<Group<'a>>,
    /// Priority of the policy that was applied last.
    priority: i64,
}

/// Virtual functions that belong to one policy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group<'a> {
    pub(super) policy: &'a ParsedPolicy,
    pub(super) range: VfRange,
}

/// Applies policies, the weakest first. The NICs come in the order in which the policies mean them, those of one policy
/// in their own order.
pub(super) fn merge<'a>(
    nics: &'a [Nic],
    policies: &[&'a ParsedPolicy],
    problems: &mut Vec<Problem>,
) -> Vec<Merged<'a>> {
    let mut merged: Vec<Merged<'a>> = Vec::new();
    for policy in policies {
        for nic in nics.iter().filter(|nic| policy.nics().selects(nic)) {
            let groups = groups(policy, nic, problems);
            match merged.iter_mut().find(|m| std::ptr::eq(m.nic, nic)) {
                Some(weaker) => weaker.apply(policy, groups, problems),
                None => merged.push(Merged::new(nic, policy, groups)),
            }
        }
    }
    merged
}

/// What a policy takes of a NIC, by first virtual function.
fn groups<'a>(policy: &'a ParsedPolicy, nic: &Nic, problems: &mut Vec<Problem>) -> Vec<Group<'a>> {
    let mut ranges: Vec<VfRange> = Vec::new();
    match policy.nics().named(nic) {
        None => ranges.extend(VfRange::whole(policy.vf_count())),
        Some(claims) => {
            let mut claims: Vec<&Claim> = claims.iter().collect();
            claims.sort_unstable_by_key(|claim| claim.entry);
            for claim in claims {
                if ranges.iter().any(|range| range.overlaps(claim.range)) {
                    problems.push(Problem {
                        policy: policy.name().into(),
                        text: format!(
                            "{} names VFs {} of interface {}, which an entry before it names too: it is left out",
                            claim.entry.path(),
                            claim.range,
                            nic.label()
                        ),
                    });
                } else {
                    ranges.push(claim.range);
                }
            }
            ranges.sort_unstable();
        }
    }
    ranges
        .into_iter()
        .map(|range| Group { policy, range })
        .collect()
}

impl<'a> Merged<'a> {
    fn new(nic: &'a Nic, policy: &'a ParsedPolicy, groups: Vec<Group<'a>>) -> Self {
        let spec = policy.spec();
        Self {
            nic,
            num_vfs: spec.num_vfs,
            mtu: spec.mtu.filter(|mtu| *mtu != 0),
            link_type: set(spec.link_type.as_ref()),
            e_switch_mode: set(spec.e_switch_mode.as_ref()),
            externally_managed: spec.externally_managed.unwrap_or_default(),
            groups,
            priority: policy.priority(),
        }
    }

    /// Puts a stronger policy over what is there.
    fn apply(
        &mut self,
        policy: &'a ParsedPolicy,
        mut groups: Vec<Group<'a>>,
        problems: &mut Vec<Problem>,
    ) {
        let taken: Vec<VfRange> = groups.iter().map(|group| group.range).collect();
        self.groups
            .retain(|old| !taken.iter().any(|range| range.overlaps(old.range)));
        let shares = !self.groups.is_empty() || self.priority == policy.priority();
        let mut next = Self::new(self.nic, policy, Vec::new());
        if shares {
            let nic = self.nic;
            let mut inherit = |field: &str, own: &mut Option<&'a str>, other: Option<&'a str>| {
                if let (Some(own), Some(other)) = (*own, other)
                    && !own.eq_ignore_ascii_case(other)
                {
                    problems.push(Problem {
                        policy: policy.name().into(),
                        text: format!(
                            "spec.{field} {own} of interface {} overrules {other} of a weaker policy that shares it",
                            nic.label()
                        ),
                    });
                }
                *own = own.or(other);
            };
            inherit("linkType", &mut next.link_type, self.link_type);
            inherit("eSwitchMode", &mut next.e_switch_mode, self.e_switch_mode);
            next.num_vfs = next.num_vfs.max(self.num_vfs);
            next.mtu = next.mtu.max(self.mtu);
        }
        groups.append(&mut self.groups);
        next.groups = groups;
        *self = next;
    }
}

fn set(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|t| !t.is_empty())
}
