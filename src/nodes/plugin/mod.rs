//! What the device plugin of a node offers: its part of the `ConfigMap` `device-plugin-config`.
//!
//! A resource is described as its policies describe it, in the fields of their selectors, where the device plugin finds
//! exactly the virtual functions of the resource by that; so an installation that is taken over is left as it is. Else
//! the NICs are named one by one, with ranges.

mod picks;

use serde::Serialize;

use self::picks::{Reading, Scene, normalized, text_of};
use super::merge::{Group, Merged};
use crate::policy::{
    NicIds, ParsedPolicy, net_filter::NetFilter, nic::Nic, node_policy::resource_name_fault,
    vf_range::VfRange,
};

/// One resource of a node's device plugin, in the device plugin's own words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    /// Its name, without prefix.
    pub resource_name: String,
    /// NUMA nodes are not reported.
    #[serde(skip_serializing_if = "is_false")]
    pub exclude_topology: bool,
    /// Which devices are in it.
    pub selectors: Selectors,
    #[serde(rename = "SelectorObj", skip_serializing_if = "Spelling::is_terse")]
    spelling: Spelling,
}

/// Which devices are in a resource. All that is set must hold; in a list, any.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Selectors {
    /// PCI vendor ids.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vendors: Vec<String>,
    /// PCI device ids of virtual functions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    /// PCI addresses of devices.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pci_addresses: Vec<String>,
    /// Names of physical functions, with ranges: `ens1f0#0-1,4-5`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pf_names: Vec<String>,
    /// PCI addresses of physical functions, with ranges.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub root_devices: Vec<String>,
    /// `ether` or `infiniband`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub link_types: Vec<String>,
    /// Only RDMA devices. None leaves the word out, which means no.
    #[serde(rename = "IsRdma", skip_serializing_if = "Option::is_none")]
    pub is_rdma: Option<bool>,
    /// Pods get `/dev/vhost-net`. None leaves the word out, which means no.
    #[serde(rename = "NeedVhostNet", skip_serializing_if = "Option::is_none")]
    pub need_vhost_net: Option<bool>,
    /// Kind of vDPA device.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub vdpa_type: String,
}

/// How the text of a configuration is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spelling {
    /// With the words that mean nothing, as the reference's operator writes it.
    #[default]
    Full,
    /// Without them, when the `ConfigMap` gets too large.
    Terse,
}

impl Spelling {
    #[allow(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    fn is_terse(&self) -> bool {
        *self == Self::Terse
    }
}

impl Serialize for Spelling {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_unit()
    }
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_false(value: &bool) -> bool {
    !*value
}

/// The text of a node's key in the `ConfigMap`.
pub fn text(resources: &[Resource], spelling: Spelling) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Config<'a> {
        resource_list: Option<Vec<std::borrow::Cow<'a, Resource>>>,
    }
    let spelled = |resource| match spelling {
        Spelling::Full => std::borrow::Cow::Borrowed(resource),
        Spelling::Terse => std::borrow::Cow::Owned(terse(resource)),
    };
    let list = (!resources.is_empty()).then(|| resources.iter().map(spelled).collect());
    let config = Config {
        resource_list: list,
    };
    serde_json::to_string(&config).unwrap_or_default()
}

fn terse(resource: &Resource) -> Resource {
    let mut resource = resource.clone();
    resource.spelling = Spelling::Terse;
    let selectors = &mut resource.selectors;
    selectors.is_rdma = selectors.is_rdma.filter(|is| *is);
    selectors.need_vhost_net = selectors.need_vhost_net.filter(|is| *is);
    resource
}

/// The resources of a node: one a name, in the order of their weakest policies.
pub(super) fn resources(nics: &[Nic], merged: &[Merged<'_>], ids: &NicIds) -> Vec<Resource> {
    let mut parts: Vec<Part<'_>> = Vec::new();
    for merged in merged {
        for group in &merged.groups {
            let name = group.policy.spec().resource_name.as_str();
            if resource_name_fault(name).is_some() {
                continue;
            }
            match parts.iter_mut().find(|part| part.name == name) {
                Some(part) => part.add(merged.nic, group),
                None => parts.push(Part::new(name, merged.nic, group)),
            }
        }
    }
    for part in &mut parts {
        part.policies.sort_by(|a, b| weaker_first(a, b));
    }
    parts.sort_by(|a, b| match (a.policies.first(), b.policies.first()) {
        (Some(a_weakest), Some(b_weakest)) => {
            weaker_first(a_weakest, b_weakest).then_with(|| a.name.cmp(b.name))
        }
        _ => a.name.cmp(b.name),
    });
    let scene = Scene { nics, merged, ids };
    parts.iter().map(|part| part.resource(&scene)).collect()
}

fn weaker_first(a: &ParsedPolicy, b: &ParsedPolicy) -> std::cmp::Ordering {
    let by_priority = b.priority().cmp(&a.priority());
    by_priority.then_with(|| a.name().cmp(b.name()))
}

/// What is in one resource.
struct Part<'a> {
    name: &'a str,
    /// The weakest first, each once.
    policies: Vec<&'a ParsedPolicy>,
    /// The NICs, with what is taken of each.
    nics: Vec<(&'a Nic, Vec<VfRange>)>,
}

impl<'a> Part<'a> {
    fn new(name: &'a str, nic: &'a Nic, group: &Group<'a>) -> Self {
        Self {
            name,
            policies: vec![group.policy],
            nics: vec![(nic, vec![group.range])],
        }
    }

    fn add(&mut self, nic: &'a Nic, group: &Group<'a>) {
        if !self
            .policies
            .iter()
            .any(|p| p.name() == group.policy.name())
        {
            self.policies.push(group.policy);
        }
        match self.nics.iter_mut().find(|(n, _)| std::ptr::eq(*n, nic)) {
            Some((_, ranges)) => ranges.push(group.range),
            None => self.nics.push((nic, vec![group.range])),
        }
    }

    fn resource(&self, scene: &Scene<'_>) -> Resource {
        let selectors = [self.as_written(scene), self.by_name(scene)]
            .into_iter()
            .find(|selectors| self.is_exact(selectors, scene))
            .unwrap_or_else(|| self.by_address(scene));
        // Of policies that disagree about a resource the strongest is right.
        let strongest = self.policies.last().map(|policy| policy.spec());
        Resource {
            resource_name: self.name.to_owned(),
            exclude_topology: strongest.and_then(|s| s.exclude_topology) == Some(true),
            selectors: Selectors {
                is_rdma: Some(strongest.and_then(|s| s.is_rdma) == Some(true)),
                need_vhost_net: Some(strongest.and_then(|s| s.need_vhost_net) == Some(true)),
                vdpa_type: strongest
                    .and_then(|s| s.vdpa_type.clone())
                    .unwrap_or_default(),
                ..selectors
            },
            spelling: Spelling::Full,
        }
    }

    /// The selectors of the policies, put together: each list is that of the weakest, and what the others add.
    fn as_written(&self, scene: &Scene<'_>) -> Selectors {
        let mut all = Selectors::default();
        for policy in &self.policies {
            let one = written(policy, scene);
            unite(&mut all.vendors, one.vendors);
            unite(&mut all.devices, one.devices);
            unite(&mut all.pci_addresses, one.pci_addresses);
            unite(&mut all.pf_names, one.pf_names);
            unite(&mut all.root_devices, one.root_devices);
            unite(&mut all.link_types, one.link_types);
        }
        all
    }

    fn by_name(&self, scene: &Scene<'_>) -> Selectors {
        Selectors {
            pf_names: self.entries(scene, |nic| &nic.name),
            link_types: self.link_types(),
            ..Selectors::default()
        }
    }

    /// What cannot be misunderstood. The NIC of a virtual machine is itself the device.
    fn by_address(&self, scene: &Scene<'_>) -> Selectors {
        let mut selectors = Selectors {
            link_types: self.link_types(),
            ..Selectors::default()
        };
        if self.nics.iter().all(|(nic, _)| nic.net_filter.is_some()) {
            let address = |(nic, _): &(&Nic, _)| nic.pci_address.clone().into();
            selectors.pci_addresses = self.nics.iter().map(address).collect();
        } else {
            selectors.root_devices = self.entries(scene, |nic| &nic.pci_address);
        }
        selectors
    }

    fn entries<'n>(&self, scene: &Scene<'_>, word: impl Fn(&'n Nic) -> &'n str) -> Vec<String>
    where
        'a: 'n,
    {
        self.nics
            .iter()
            .map(|(nic, ranges)| {
                let ranges = normalized(ranges.clone());
                let word = word(nic);
                if ranges.as_slice() == scene.all_of(nic).as_slice() {
                    word.to_owned()
                } else {
                    format!("{word}#{}", text_of(&ranges))
                }
            })
            .collect()
    }

    /// What all policies say of the link, if they agree.
    fn link_types(&self) -> Vec<String> {
        let mut policies = self.policies.iter();
        let first = policies.next().and_then(|policy| link_type(policy));
        first
            .filter(|first| policies.all(|policy| link_type(policy) == Some(first)))
            .map(str::to_owned)
            .into_iter()
            .collect()
    }

    /// Whether selectors mean these virtual functions and no other device of the node, in every version of the device
    /// plugin.
    fn is_exact(&self, selectors: &Selectors, scene: &Scene<'_>) -> bool {
        scene.nics.iter().all(|nic| {
            let mine = self.nics.iter().find(|(n, _)| std::ptr::eq(*n, nic));
            let ranges = mine.map(|(_, ranges)| ranges.clone()).unwrap_or_default();
            // Virtual functions that a NIC will not have are nobody's.
            let wanted = picks::common(&scene.all_of(nic), &normalized(ranges));
            [Reading::Names, Reading::Expressions]
                .into_iter()
                .all(|reading| scene.picked(selectors, nic, reading) == wanted)
        })
    }
}

/// A policy's own selector in the words of the device plugin.
fn written(policy: &ParsedPolicy, scene: &Scene<'_>) -> Selectors {
    let selector = &policy.spec().nic_selector;
    let set = |text: &Option<String>| text.clone().filter(|t| !t.is_empty());
    let vendor = set(&selector.vendor);
    let devices = set(&selector.device_id).map(|device| {
        let vfs = scene.ids.vfs_of_pf(vendor.as_deref(), &device);
        vfs.into_iter().map(str::to_owned).collect()
    });
    let filter: Option<&NetFilter> = policy.nics().net_filter();
    Selectors {
        devices: devices.unwrap_or_default(),
        pci_addresses: scene
            .nics
            .iter()
            .filter(|nic| filter.is_some() && nic.net_filter.as_deref() == filter)
            .map(|nic| nic.pci_address.clone().into())
            .collect(),
        pf_names: selector
            .pf_names
            .iter()
            .flatten()
            .map(|entry| resolved(entry, scene.nics))
            .collect(),
        root_devices: selector.root_devices.clone().unwrap_or_default(),
        link_types: link_type(policy).map(str::to_owned).into_iter().collect(),
        vendors: vendor.into_iter().collect(),
        ..Selectors::default()
    }
}

/// An entry of `pfNames` with the name that the NIC really has in place of an alternative one.
fn resolved(entry: &str, nics: &[Nic]) -> String {
    let (name, range) = match entry.split_once('#') {
        Some((name, range)) => (name, Some(range)),
        None => (entry, None),
    };
    let real = nics
        .iter()
        .find(|nic| nic.names().any(|n| n == name))
        .map(|nic| &*nic.name)
        .filter(|real| !real.is_empty())
        .unwrap_or(name);
    match range {
        Some(range) => format!("{real}#{range}"),
        None => real.to_owned(),
    }
}

fn link_type(policy: &ParsedPolicy) -> Option<&'static str> {
    let spec = policy.spec();
    let link = spec.link_type.as_deref().filter(|link| !link.is_empty())?;
    (spec.device_type.as_deref() != Some("vfio-pci")).then_some(picks::link_word(link))
}

fn unite(all: &mut Vec<String>, more: Vec<String>) {
    if all.is_empty() {
        *all = more;
    } else {
        for one in more {
            if !all.contains(&one) {
                all.push(one);
            }
        }
    }
}

/// Whether a resource means exactly the groups of its name on a node.
#[cfg(test)]
pub(super) fn means_its_groups(
    resource: &Resource,
    nics: &[Nic],
    merged: &[Merged<'_>],
    ids: &NicIds,
) -> bool {
    let scene = Scene { nics, merged, ids };
    [Reading::Names, Reading::Expressions]
        .into_iter()
        .all(|reading| {
            nics.iter().all(|nic| {
                let groups = merged.iter().filter(|m| std::ptr::eq(m.nic, nic));
                let ranges = groups
                    .flat_map(|m| &m.groups)
                    .filter(|g| g.policy.spec().resource_name == resource.resource_name)
                    .map(|g| g.range);
                let all = scene.all_of(nic);
                let wanted = picks::common(&all, &normalized(ranges.collect()));
                scene.picked(&resource.selectors, nic, reading) == wanted
            })
        })
}
