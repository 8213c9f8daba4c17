//! The `netFilter` notation: by which network a virtual machine's NIC is chosen.

use std::fmt;

/// Platforms whose virtual machines get virtual functions as if they were NICs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Provider {
    /// `openstack`
    OpenStack,
    /// `aws`
    Aws,
}

impl Provider {
    /// The word used for it in `netFilter` and in a node's `providerID`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OpenStack => "openstack",
            Self::Aws => "aws",
        }
    }

    /// Whether a node's `providerID` names it, in any letter case.
    pub fn is_named_by(self, provider_id: &str) -> bool {
        provider_id.to_ascii_lowercase().contains(self.as_str())
    }
}

/// The network of a virtual machine's NIC: `openstack/NetworkID:<id>` or `aws/NetworkID:<id>`, blanks around the
/// colon and at both ends aside.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NetFilter {
    /// The platform.
    pub provider: Provider,
    /// The platform's id of the network.
    pub id: Box<str>,
}

impl NetFilter {
    /// Reads one; nothing when the text has not that form.
    pub fn parse(text: &str) -> Option<Self> {
        let (provider, rest) = text.trim_ascii().split_once('/')?;
        let provider = [Provider::OpenStack, Provider::Aws]
            .into_iter()
            .find(|p| p.as_str() == provider)?;
        let id = rest
            .strip_prefix("NetworkID")?
            .trim_ascii_start()
            .strip_prefix(':')?
            .trim_ascii_start();
        let whole = !id.is_empty() && !id.contains(|c: char| c.is_ascii_whitespace());
        whole.then(|| Self {
            provider,
            id: id.into(),
        })
    }
}

impl fmt::Display for NetFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/NetworkID:{}", self.provider.as_str(), self.id)
    }
}
