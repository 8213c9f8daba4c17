//! Rules of `SriovNetworkNodePolicy`: what it says must be consistent, the nodes and NICs it selects must be there and
//! able to do what it asks, and no two policies may name one virtual function.

mod claims;
mod conflicts;
mod near_miss;
mod placement;
mod statics;

use std::{collections::BTreeMap, fmt};

pub use self::{
    claims::{NicClaim, claims},
    statics::{bridge_fault, resource_name_fault},
};
use super::{
    Rules, Verdict, View,
    decode::Review,
    nic::{Nic, NicQuery, NicQueryError},
    vf_range::Entry,
};
use crate::api::{SriovNetworkNodePolicy, SriovNetworkNodePolicySpec};

/// Name of the policy that older versions made themselves. It has no effect and is not judged.
pub(crate) const DEFAULT_POLICY_NAME: &str = "default";

/// What an absent spec lacks, with what each field is for.
const REQUIRED: [(&str, &str); 4] = [
    (
        "resourceName",
        "names the resource that the virtual functions are offered as",
    ),
    (
        "nodeSelector",
        "selects nodes by their labels; {} means every node",
    ),
    ("numVfs", "is the number of virtual functions of each NIC"),
    (
        "nicSelector",
        "selects NICs by vendor, deviceID, pfNames, rootDevices or netFilter",
    ),
];

pub(super) fn validate(review: &Review<'_>, view: View<'_>, rules: &Rules, verdict: &mut Verdict) {
    let ours = review.namespace == rules.namespace;
    if ours && review.name == DEFAULT_POLICY_NAME {
        return;
    }
    if !ours {
        verdict.warn(format!(
            "metadata.namespace: policies outside namespace {:?} are stored but have no effect",
            rules.namespace
        ));
    }
    let Some(spec) = review.decode::<SriovNetworkNodePolicySpec>(&REQUIRED, verdict) else {
        return;
    };
    let (policy, errors) = ParsedPolicy::read(review.name, &spec);
    statics::check(
        &spec,
        &policy,
        &errors,
        view.cluster.nic_ids(),
        rules,
        verdict,
    );
    placement::check(&spec, &policy, view, rules, verdict);
    if ours && !policy.name.is_empty() {
        verdict.admit(policy);
    }
}

/// A policy made ready for asking which nodes and NICs it means, and which virtual functions it takes there.
#[derive(Clone, Debug, PartialEq)]
pub struct ParsedPolicy {
    name: Box<str>,
    node_selector: BTreeMap<String, String>,
    nics: NicQuery,
    num_vfs: i64,
    resource_name: Box<str>,
    exclude_topology: bool,
    externally_managed: bool,
    mtu: Option<i64>,
    link_type: Option<Box<str>>,
    e_switch_mode: Box<str>,
    spec: Box<SriovNetworkNodePolicySpec>,
}

/// Why a stored policy cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub String);

impl ParsedPolicy {
    /// Reads a stored policy. Only what keeps it from being understood is an error: it may break any rule.
    pub fn new(policy: &SriovNetworkNodePolicy) -> Result<Self, Malformed> {
        let spec = policy
            .spec
            .as_ref()
            .ok_or_else(|| Malformed("it has no spec".into()))?;
        let name = policy.metadata.name.as_deref().unwrap_or_default();
        let (parsed, errors) = Self::read(name, spec);
        match errors.first() {
            None => Ok(parsed),
            Some(error) => Err(Malformed(error.to_string())),
        }
    }

    fn read(name: &str, spec: &SriovNetworkNodePolicySpec) -> (Self, Vec<NicQueryError>) {
        let num_vfs = u32::try_from(spec.num_vfs.max(0)).unwrap_or(u32::MAX);
        let (nics, errors) = NicQuery::new(&spec.nic_selector, num_vfs);
        let set = |text: &Option<String>| text.as_deref().filter(|t| !t.is_empty()).map(Box::from);
        let parsed = Self {
            name: name.into(),
            node_selector: spec.node_selector.clone(),
            nics,
            num_vfs: spec.num_vfs,
            resource_name: spec.resource_name.as_str().into(),
            exclude_topology: spec.exclude_topology.unwrap_or_default(),
            externally_managed: spec.externally_managed.unwrap_or_default(),
            mtu: spec.mtu.filter(|mtu| *mtu != 0),
            link_type: set(&spec.link_type),
            e_switch_mode: set(&spec.e_switch_mode).unwrap_or_else(|| LEGACY.into()),
            spec: Box::new(spec.clone()),
        };
        (parsed, errors)
    }

    /// The policy's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Labels of the nodes it selects.
    pub fn node_selector(&self) -> &BTreeMap<String, String> {
        &self.node_selector
    }

    /// The NICs it selects.
    pub fn nics(&self) -> &NicQuery {
        &self.nics
    }

    /// What the user wrote.
    pub fn spec(&self) -> &SriovNetworkNodePolicySpec {
        &self.spec
    }

    /// Its place among policies: 0 is the strongest. Admission fills in 99 where a policy sets none; one that nobody
    /// admitted counts as 0, which is what clients that drop zeroes mean by it.
    pub fn priority(&self) -> i64 {
        self.spec.priority.unwrap_or_default()
    }

    /// `numVfs` as a count of virtual functions.
    pub fn vf_count(&self) -> u32 {
        u32::try_from(self.num_vfs.max(0)).unwrap_or(u32::MAX)
    }
}

/// Mode of an embedded switch when none is set.
pub(crate) const LEGACY: &str = "legacy";
/// Mode of an embedded switch that vDPA and software bridges need.
pub(crate) const SWITCHDEV: &str = "switchdev";

/// A NIC of a node in words: `node bm-0, interface ens1f0`.
struct Place<'a> {
    node: &'a str,
    nic: &'a Nic,
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}, interface {}", self.node, self.nic.label())
    }
}

/// The text of an entry as the user wrote it.
fn entry_text(spec: &SriovNetworkNodePolicySpec, entry: Entry) -> &str {
    let (list, index) = match entry {
        Entry::PfName(index) => (&spec.nic_selector.pf_names, index),
        Entry::RootDevice(index) => (&spec.nic_selector.root_devices, index),
    };
    list.iter().flatten().nth(index).map_or("", String::as_str)
}

#[cfg(test)]
mod tests;
