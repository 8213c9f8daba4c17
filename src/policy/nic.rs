//! NICs as node states list them, and which of them a policy's `nicSelector` means. Shared by everything that has to
//! answer that question; it judges nothing.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};

use super::{
    net_filter::NetFilter,
    nic_ids::NicIds,
    vf_range::{Claim, Claims, Entry, PfName, PfNameError, VfRange},
};
use crate::api::node_policy::NicSelector;

/// PCI vendor id of Mellanox, whose NICs take [`MELLANOX_MAX_VFS`] whatever `totalvfs` says: firmware raises it on demand.
pub const MELLANOX: &str = "15b3";
/// Most virtual functions that a Mellanox NIC can have.
pub const MELLANOX_MAX_VFS: i64 = 128;

/// A physical function of a node. Decodes from an item of `status.interfaces`, virtual functions left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Nic {
    /// Name of the network device; may be empty.
    pub name: Box<str>,
    /// Alternative names of the network device.
    pub alt_names: Box<[Box<str>]>,
    /// PCI address, what tells the NICs of a node apart.
    pub pci_address: Box<str>,
    /// PCI vendor id.
    pub vendor: Box<str>,
    /// PCI device id.
    #[serde(rename = "deviceID")]
    pub device_id: Box<str>,
    /// Virtual functions that it can have.
    #[serde(rename = "totalvfs")]
    pub total_vfs: i64,
    /// Virtual functions that it has.
    pub num_vfs: i64,
    /// MTU in bytes.
    pub mtu: i64,
    /// `ETH` or `IB`, in any case.
    pub link_type: Box<str>,
    /// Network that a virtual machine's NIC is attached to; nothing when absent or malformed.
    #[serde(deserialize_with = "net_filter")]
    pub net_filter: Option<Box<NetFilter>>,
}

fn net_filter<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Box<NetFilter>>, D::Error> {
    let text = Option::<Cow<'de, str>>::deserialize(from)?;
    Ok(text.and_then(|t| NetFilter::parse(&t)).map(Box::new))
}

impl Nic {
    /// The name to show: that of the network device, else the PCI address.
    pub fn label(&self) -> &str {
        if self.name.is_empty() {
            &self.pci_address
        } else {
            &self.name
        }
    }

    /// Every name it goes by.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.name)
            .chain(&self.alt_names)
            .map(AsRef::as_ref)
            .filter(|name: &&str| !name.is_empty())
    }

    /// Most virtual functions that a policy may ask for.
    pub fn max_vfs(&self) -> i64 {
        if &*self.vendor == MELLANOX {
            MELLANOX_MAX_VFS
        } else {
            self.total_vfs
        }
    }
}

/// A part of a NIC selector that means nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NicQueryError {
    /// `pfNames[index]`
    #[error("spec.nicSelector.pfNames[{index}] {error}")]
    PfName {
        /// Index of the entry.
        index: usize,
        /// What is wrong.
        error: PfNameError,
    },
    /// `netFilter`
    #[error(
        "spec.nicSelector.netFilter is neither openstack/NetworkID:<id> nor aws/NetworkID:<id>"
    )]
    NetFilter,
}

/// A `nicSelector` made ready for asking.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NicQuery {
    vendor: Option<Box<str>>,
    device_id: Option<Box<str>>,
    net_filter: Option<NetFilter>,
    /// Sorted by address.
    root_devices: Vec<Named>,
    /// Sorted by name.
    pf_names: Vec<Named>,
    /// Nothing is set, or what is set means nothing: no NIC is meant.
    barren: bool,
}

/// What the entries of one name say.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Named {
    name: Box<str>,
    first: Entry,
    claims: Claims,
}

impl NicQuery {
    /// Makes a selector of a policy with `num_vfs` ready. Parts that mean nothing are left out and returned; what
    /// was to be chosen by them alone is then not chosen at all.
    pub fn new(selector: &NicSelector, num_vfs: u32) -> (Self, Vec<NicQueryError>) {
        let mut errors = Vec::new();
        let filled =
            |text: &Option<String>| text.as_deref().filter(|t| !t.is_empty()).map(Box::from);
        let listed = |list: &Option<Vec<String>>| list.as_deref().is_some_and(|l| !l.is_empty());

        let whole = VfRange::whole(num_vfs);
        let mut pfs = Vec::new();
        for (index, text) in selector.pf_names.iter().flatten().enumerate() {
            match PfName::parse(text) {
                Ok(pf) => pfs.push((pf.name, Entry::PfName(index), pf.range.or(whole))),
                Err(error) => errors.push(NicQueryError::PfName { index, error }),
            }
        }
        let pf_names = group(pfs);

        // Beside PF names, addresses only narrow the choice; alone they name the whole NIC.
        let by_address = whole.filter(|_| !listed(&selector.pf_names));
        let root_devices = group(
            selector
                .root_devices
                .iter()
                .flatten()
                .enumerate()
                .map(|(index, address)| (address.as_str(), Entry::RootDevice(index), by_address))
                .collect(),
        );

        let net_filter_text: Option<Box<str>> = filled(&selector.net_filter);
        let net_filter = net_filter_text.as_deref().and_then(NetFilter::parse);
        if net_filter_text.is_some() && net_filter.is_none() {
            errors.push(NicQueryError::NetFilter);
        }

        let vendor = filled(&selector.vendor);
        let device_id = filled(&selector.device_id);
        let lost = net_filter_text.is_some() && net_filter.is_none()
            || listed(&selector.pf_names) && pf_names.is_empty();
        let empty = vendor.is_none()
            && device_id.is_none()
            && net_filter.is_none()
            && root_devices.is_empty()
            && pf_names.is_empty();
        let query = Self {
            vendor,
            device_id,
            net_filter,
            root_devices,
            pf_names,
            barren: lost || empty,
        };
        (query, errors)
    }

    /// Whether it means no NIC, whatever the NIC: nothing is set, or what is set means nothing.
    pub fn is_barren(&self) -> bool {
        self.barren
    }

    /// Whether every part of the selector holds for the NIC. Whether the NIC is supported is another question.
    pub fn selects(&self, nic: &Nic) -> bool {
        !self.barren && self.refusal(nic).is_none()
    }

    /// The first part of the selector that does not hold for the NIC.
    pub fn refusal(&self, nic: &Nic) -> Option<Refusal> {
        let differs =
            |wanted: &Option<Box<str>>, is: &str| wanted.as_deref().is_some_and(|w| w != is);
        if differs(&self.vendor, &nic.vendor) {
            Some(Refusal::Vendor)
        } else if differs(&self.device_id, &nic.device_id) {
            Some(Refusal::Device)
        } else if !self.root_devices.is_empty()
            && find(&self.root_devices, &nic.pci_address).is_none()
        {
            Some(Refusal::RootDevices)
        } else if !self.pf_names.is_empty() && self.entries_of(nic).next().is_none() {
            Some(Refusal::PfNames)
        } else if self.net_filter.is_some() && self.net_filter.as_ref() != nic.net_filter.as_deref()
        {
            Some(Refusal::NetFilter)
        } else {
            None
        }
    }

    /// Whether the operator supports the NIC for this selector: its ids are those of a listed PF, or, where the
    /// selector's `netFilter` is that of the NIC and the node's `provider_id` names the platform, of a listed VF.
    pub fn supports(&self, nic: &Nic, provider_id: &str, ids: &NicIds) -> bool {
        ids.has_pf(&nic.vendor, &nic.device_id)
            || self.net_filter.as_ref().is_some_and(|filter| {
                Some(filter) == nic.net_filter.as_deref()
                    && ids.has_vf(&nic.vendor, &nic.device_id)
                    && filter.provider.is_named_by(provider_id)
            })
    }

    /// The virtual functions that entries name on a NIC that is selected; nothing when no entry names it, because
    /// it is meant by vendor, device or network only.
    pub fn named(&self, nic: &Nic) -> Option<Cow<'_, Claims>> {
        if self.pf_names.is_empty() {
            return find(&self.root_devices, &nic.pci_address).map(|n| Cow::Borrowed(&n.claims));
        }
        let mut entries = self.entries_of(nic);
        let first = entries.next()?;
        Some(match entries.next() {
            None => Cow::Borrowed(&first.claims),
            Some(second) => {
                let mut seen = vec![first, second];
                seen.extend(entries);
                seen.sort_unstable_by_key(|n| n.first);
                seen.dedup_by_key(|n| n.first);
                Cow::Owned(seen.into_iter().flat_map(|n| &n.claims).copied().collect())
            }
        })
    }

    /// Each distinct PF name, or, where there are none, PCI address, with its first entry: in order of the text.
    pub fn names(&self) -> impl Iterator<Item = (&str, Entry)> {
        let named = if self.pf_names.is_empty() {
            &self.root_devices
        } else {
            &self.pf_names
        };
        named.iter().map(|n| (n.name.as_ref(), n.first))
    }

    /// Whether the NIC goes by a name of [`Self::names`].
    pub fn is_called(name: &str, nic: &Nic, entry: Entry) -> bool {
        match entry {
            Entry::PfName(_) => nic.names().any(|n| n == name),
            Entry::RootDevice(_) => &*nic.pci_address == name,
        }
    }

    /// What the entries of each name say, in order of the text.
    pub fn claims(&self) -> impl Iterator<Item = &Claims> {
        self.pf_names
            .iter()
            .chain(&self.root_devices)
            .map(|named| &named.claims)
    }

    /// The virtual functions that both selectors name by the same text, as (ours, theirs), where nothing rules out
    /// that they mean one NIC. For nodes whose NICs are not known yet.
    pub fn common_claims<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = (Claim, VfRange)> {
        let apart =
            |a: &Option<Box<str>>, b: &Option<Box<str>>| a.is_some() && b.is_some() && a != b;
        let possible = !self.barren
            && !other.barren
            && !apart(&self.vendor, &other.vendor)
            && !apart(&self.device_id, &other.device_id)
            && self.may_share_address(other);
        let (ours, theirs) = if self.pf_names.is_empty() {
            (&self.root_devices, &other.root_devices)
        } else {
            (&self.pf_names, &other.pf_names)
        };
        ours.iter()
            .filter(move |_| possible)
            .filter_map(|our| Some((our, find(theirs, &our.name)?)))
            .flat_map(|(our, their)| {
                their.claims.iter().flat_map(move |their| {
                    our.claims
                        .overlapping(their.range)
                        .map(move |our| (*our, their.range))
                })
            })
    }

    fn may_share_address(&self, other: &Self) -> bool {
        self.root_devices.is_empty()
            || other.root_devices.is_empty()
            || self
                .root_devices
                .iter()
                .any(|ours| find(&other.root_devices, &ours.name).is_some())
    }

    /// The network asked for.
    pub fn net_filter(&self) -> Option<&NetFilter> {
        self.net_filter.as_ref()
    }

    fn entries_of<'a>(&'a self, nic: &Nic) -> impl Iterator<Item = &'a Named> {
        nic.names().filter_map(|name| find(&self.pf_names, name))
    }
}

/// A part of a NIC selector that a NIC does not meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// `vendor`
    Vendor,
    /// `deviceID`
    Device,
    /// `rootDevices`
    RootDevices,
    /// `pfNames`
    PfNames,
    /// `netFilter`
    NetFilter,
}

fn find<'a>(sorted: &'a [Named], name: &str) -> Option<&'a Named> {
    let place = sorted
        .binary_search_by(|n| n.name.as_ref().cmp(name))
        .ok()?;
    sorted.get(place)
}

/// Gathers entries of one name, sorted by name.
fn group(mut entries: Vec<(&str, Entry, Option<VfRange>)>) -> Vec<Named> {
    entries.sort_unstable_by_key(|(name, entry, _)| (*name, *entry));
    entries
        .chunk_by(|a, b| a.0 == b.0)
        .filter_map(|same| {
            let (name, first, _) = same.first()?;
            Some(Named {
                name: (*name).into(),
                first: *first,
                claims: same
                    .iter()
                    .filter_map(|(_, entry, range)| {
                        range.map(|range| Claim {
                            range,
                            entry: *entry,
                        })
                    })
                    .collect(),
            })
        })
        .collect()
}

#[cfg(test)]
#[path = "nic_tests.rs"]
mod tests;
