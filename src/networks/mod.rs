//! Networks as network attachment definitions: what a `SriovNetwork`, `SriovIBNetwork` or `OVSNetwork` comes to, and
//! whose a definition is. Pure; admission refuses by it, the controller acts by it.
//!
//! ```text
//! spec -> config (json) -> Attachment: name, namespace, annotations, owner, spec.config
//! ```

mod attachment;
mod config;
mod json;

use std::fmt;

pub use attachment::{
    Attachment, LAST_NAMESPACE_ANNOTATION, OWNER_ANNOTATION, RESOURCE_ANNOTATION, Setting,
    attachment, check, target,
};
pub use config::{Common, NetworkSpec};

use crate::api::GROUP;

/// The kinds of networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NetworkKind {
    /// `SriovNetwork`
    Sriov,
    /// `SriovIBNetwork`
    Ib,
    /// `OVSNetwork`
    Ovs,
}

impl NetworkKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Sriov, Self::Ib, Self::Ovs];

    /// The kind's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sriov => "SriovNetwork",
            Self::Ib => "SriovIBNetwork",
            Self::Ovs => "OVSNetwork",
        }
    }

    /// The kind of that name.
    pub fn parse(kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == kind)
    }

    /// Its plural, as it stands in paths.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Sriov => "sriovnetworks",
            Self::Ib => "sriovibnetworks",
            Self::Ovs => "ovsnetworks",
        }
    }
}

/// A network by kind and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NetworkRef {
    /// Its kind.
    pub kind: NetworkKind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl NetworkRef {
    /// Reads the annotation that says whose a definition is. Nothing when it names none of our networks.
    pub fn parse(owner: &str) -> Option<Self> {
        let mut parts = owner.split('/');
        let (kind, namespace, name) = (parts.next()?, parts.next()?, parts.next()?);
        let kind = kind.strip_suffix(GROUP)?.strip_suffix('.')?;
        let kind = NetworkKind::parse(kind)?;
        let complete = parts.next().is_none() && !namespace.is_empty() && !name.is_empty();
        complete.then(|| Self {
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }
}

/// As the annotation of a definition says it: `SriovNetwork.sriovnetwork.openshift.io/namespace/name`.
impl fmt::Display for NetworkRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.as_str();
        write!(f, "{kind}.{GROUP}/{}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_written_and_read() {
        for kind in NetworkKind::ALL {
            let network = NetworkRef {
                kind,
                namespace: "a".into(),
                name: "b.c".into(),
            };
            assert_eq!(NetworkRef::parse(&network.to_string()), Some(network));
        }
        for other in [
            "",
            "unknown/a/b",
            "SriovNetwork/a/b",
            "Pod.sriovnetwork.openshift.io/a/b",
            "SriovNetwork.sriovnetwork.openshift.io/a",
            "SriovNetwork.sriovnetwork.openshift.io//b",
            "SriovNetwork.sriovnetwork.openshift.io/a/b/c",
            "SriovNetwork.example.com/a/b",
        ] {
            assert_eq!(NetworkRef::parse(other), None, "{other}");
        }
    }
}
