//! Defaulting and validation of the custom resources, as pure functions: the object, its old version and a view of the
//! cluster go in, a patch or a verdict comes out. No I/O, no clock, nothing shared between two calls.
//!
//! ```text
//! Subject -> decode -> operator_config | node_policy | pool_config | network -> Verdict
//!                                             |
//!                      cluster::View -> nodes, NICs (nic), VF ranges (vf_range), NIC list (nic_ids)
//! ```
//!
//! Deletion is never refused; an object under deletion and a spec that did not change are not judged again.

pub mod cluster;
mod decode;
mod defaults;
pub mod fault;
pub mod label_selector;
pub mod labels;
pub mod max_unavailable;
pub mod net_filter;
mod network;
pub mod nic;
pub mod nic_ids;
pub mod node_policy;
mod operator_config;
mod pool_config;
pub mod schema;
pub mod verdict;
pub mod vf_range;

use self::decode::{Object, Review};
pub use self::{
    cluster::{Cluster, ReportedState, View},
    defaults::default_node_policy,
    fault::{Fault, FaultKind},
    nic_ids::NicIds,
    node_policy::{NicClaim, ParsedPolicy, claims},
    verdict::{Cause, Verdict},
};
use crate::{
    api::{OVSNetworkSpec, SriovIBNetworkSpec, SriovNetworkSpec},
    networks::NetworkKind,
};

/// The kinds that are admitted. Node states are written by the operator and its daemon and are not reviewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `SriovOperatorConfig`
    OperatorConfig,
    /// `SriovNetworkNodePolicy`
    NodePolicy,
    /// `SriovNetworkPoolConfig`
    PoolConfig,
    /// `SriovNetwork`
    Network,
    /// `SriovIBNetwork`
    IbNetwork,
    /// `OVSNetwork`
    OvsNetwork,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 6] = [
        Self::OperatorConfig,
        Self::NodePolicy,
        Self::PoolConfig,
        Self::Network,
        Self::IbNetwork,
        Self::OvsNetwork,
    ];

    /// The kind of this name, as a review's `request.kind.kind` carries it.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// The kind's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OperatorConfig => "SriovOperatorConfig",
            Self::NodePolicy => "SriovNetworkNodePolicy",
            Self::PoolConfig => "SriovNetworkPoolConfig",
            Self::Network => "SriovNetwork",
            Self::IbNetwork => "SriovIBNetwork",
            Self::OvsNetwork => "OVSNetwork",
        }
    }
}

/// What is to be done to the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// `CREATE`
    Create,
    /// `UPDATE`
    Update,
    /// `DELETE`
    Delete,
}

impl Operation {
    /// The operation of this name, as a review's `request.operation` carries it.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "CREATE" => Some(Self::Create),
            "UPDATE" => Some(Self::Update),
            "DELETE" => Some(Self::Delete),
            _ => None,
        }
    }
}

/// What does not depend on the request: how this operator is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The operator's namespace.
    pub namespace: String,
    /// NICs are used whether or not they are listed as supported.
    pub dev_mode: bool,
    /// Names of the feature gates that exist.
    pub known_gates: Vec<&'static str>,
}

/// What is asked about.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Kind of the object.
    pub kind: Kind,
    /// What is to be done to it.
    pub operation: Operation,
    /// Its name; may be empty when it is to be generated.
    pub name: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// The object as JSON; nothing on DELETE.
    pub object: Option<&'a str>,
    /// The stored object as JSON; nothing on CREATE.
    pub old: Option<&'a str>,
}

/// Something stored that cannot be understood. It takes part in no verdict and harms none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} {name} is set aside: {reason}")]
pub struct SetAside {
    /// Kind of the object.
    pub what: &'static str,
    /// Its name.
    pub name: String,
    /// What is wrong with it.
    pub reason: String,
}

/// Judges an object. Never fails: what cannot be decoded is a fault like any other.
pub fn validate(subject: &Subject<'_>, view: View<'_>, rules: &Rules) -> Verdict {
    let mut verdict = Verdict::default();
    if subject.operation == Operation::Delete {
        return verdict;
    }
    let object = match Object::read(subject.object) {
        Ok(object) => object,
        Err(fault) => {
            verdict.fault(fault);
            return verdict;
        }
    };
    let old = match subject.operation {
        Operation::Update => Object::read(subject.old).ok(),
        Operation::Create | Operation::Delete => None,
    };
    if object.under_deletion()
        || old
            .as_ref()
            .is_some_and(|old| decode::same_spec(subject.kind, &object, old))
    {
        return verdict;
    }
    let review = Review {
        name: object.name().unwrap_or(subject.name),
        namespace: subject.namespace,
        spec: object.spec(),
        old_spec: old.as_ref().and_then(Object::spec),
    };
    match subject.kind {
        Kind::OperatorConfig => operator_config::validate(&review, view, rules, &mut verdict),
        Kind::NodePolicy => node_policy::validate(&review, view, rules, &mut verdict),
        Kind::PoolConfig => pool_config::validate(&review, rules, &mut verdict),
        Kind::Network => {
            network::validate::<SriovNetworkSpec>(NetworkKind::Sriov, &review, rules, &mut verdict);
        }
        Kind::IbNetwork => {
            network::validate::<SriovIBNetworkSpec>(NetworkKind::Ib, &review, rules, &mut verdict);
        }
        Kind::OvsNetwork => {
            network::validate::<OVSNetworkSpec>(NetworkKind::Ovs, &review, rules, &mut verdict);
        }
    }
    verdict
}

#[cfg(test)]
mod tests;
