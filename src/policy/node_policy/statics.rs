//! What a policy says must be consistent, whatever the cluster looks like; only the list of supported NICs is asked.

use super::{LEGACY, ParsedPolicy, SWITCHDEV, entry_text};
use crate::{
    api::{SriovNetworkNodePolicySpec, node_policy::NicSelector},
    policy::{
        Rules, Verdict,
        fault::{Fault, Places, quoted},
        labels,
        nic::NicQueryError,
        nic_ids::{CONFIG_MAP, NicIds, is_pci_id},
        vf_range::Entry,
    },
};

/// Most bytes of a resource name.
const MAX_RESOURCE_NAME: usize = 63;
const RESOURCE_NAME_FORM: &str =
    "consists of letters, digits, '-' and '_', and begins and ends with a letter or digit";
/// Ids of a list that are shown.
const MAX_IDS: usize = 12;

pub(super) fn check(
    spec: &SriovNetworkNodePolicySpec,
    policy: &ParsedPolicy,
    errors: &[NicQueryError],
    ids: &NicIds,
    rules: &Rules,
    verdict: &mut Verdict,
) {
    check_resource_name(&spec.resource_name, verdict);
    labels::check("spec.nodeSelector", &spec.node_selector, verdict);
    if spec.num_vfs < 1 {
        verdict.fault(Fault::invalid(
            "spec.numVfs",
            spec.num_vfs,
            "must be at least 1",
        ));
    }
    check_selector(spec, errors, verdict);
    check_ids(&spec.nic_selector, ids, rules, verdict);
    check_ranges(spec, policy, verdict);
    check_net_filter(spec, verdict);
    check_modes(spec, verdict);
}

fn set(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|t| !t.is_empty())
}

fn listed(list: Option<&Vec<String>>) -> bool {
    list.is_some_and(|list| !list.is_empty())
}

/// Why a text can be no resource name; nothing when it can.
pub fn resource_name_fault(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        Some("is empty")
    } else if name.len() > MAX_RESOURCE_NAME {
        Some("has more than 63 characters")
    } else if !has_resource_name_form(name) {
        Some(RESOURCE_NAME_FORM)
    } else {
        None
    }
}

fn check_resource_name(name: &str, verdict: &mut Verdict) {
    let field = "spec.resourceName";
    if name.is_empty() {
        verdict.fault(Fault::required(
            field,
            "names the resource that the virtual functions are offered as",
        ));
        return;
    }
    if name.len() > MAX_RESOURCE_NAME {
        verdict.fault(Fault::too_long(field, MAX_RESOURCE_NAME));
    }
    if !has_resource_name_form(name) {
        verdict.fault(Fault::invalid(field, name, RESOURCE_NAME_FORM));
    }
}

fn has_resource_name_form(name: &str) -> bool {
    let ends = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    ends(bytes.first())
        && ends(bytes.last())
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || b"-_".contains(b))
}

fn check_selector(
    spec: &SriovNetworkNodePolicySpec,
    errors: &[NicQueryError],
    verdict: &mut Verdict,
) {
    let selector = &spec.nic_selector;
    let something = [&selector.vendor, &selector.device_id, &selector.net_filter]
        .into_iter()
        .any(|text| set(text.as_ref()).is_some())
        || listed(selector.pf_names.as_ref())
        || listed(selector.root_devices.as_ref());
    if !something {
        let detail =
            "at least one of vendor, deviceID, pfNames, rootDevices and netFilter must be set";
        verdict.fault(Fault::required("spec.nicSelector", detail));
    }
    for error in errors {
        verdict.fault(match error {
            NicQueryError::PfName { index, error } => {
                let entry = Entry::PfName(*index);
                Fault::invalid(entry.path(), entry_text(spec, entry), error.to_string())
            }
            NicQueryError::NetFilter => Fault::invalid(
                "spec.nicSelector.netFilter",
                &selector.net_filter,
                "must be openstack/NetworkID:<id> or aws/NetworkID:<id>",
            ),
        });
    }
}

/// Vendor and device must be legal ids and, outside development mode, listed as supported.
fn check_ids(selector: &NicSelector, ids: &NicIds, rules: &Rules, verdict: &mut Verdict) {
    let vendor_field = "spec.nicSelector.vendor";
    let device_field = "spec.nicSelector.deviceID";
    let vendor = set(selector.vendor.as_ref());
    let device = set(selector.device_id.as_ref());
    let mut legal = |field: &str, id: Option<&str>| match id.and_then(id_fault) {
        Some(detail) => {
            verdict.fault(Fault::invalid(field, id, detail));
            false
        }
        None => true,
    };
    let vendor_legal = legal(vendor_field, vendor);
    let device_legal = legal(device_field, device);
    if rules.dev_mode {
        return;
    }
    let known_vendor = vendor.filter(|vendor| vendor_legal && ids.has_vendor(vendor));
    if let Some(vendor) = vendor.filter(|_| vendor_legal && known_vendor.is_none()) {
        let detail = format!(
            "is in no line of the ConfigMap {CONFIG_MAP}; {}",
            those_listed("vendors", ids.vendors())
        );
        verdict.fault(Fault::invalid(vendor_field, vendor, detail));
    }
    let Some(device) = device.filter(|_| device_legal) else {
        return;
    };
    let listed = match known_vendor {
        Some(vendor) => ids.has_pf(vendor, device),
        None => ids.has_device(device),
    };
    if listed {
        return;
    }
    let of = known_vendor
        .map(|vendor| format!(" of vendor {vendor}"))
        .unwrap_or_default();
    let mut detail = format!(
        "is no PF{of} in the ConfigMap {CONFIG_MAP}; {}",
        those_listed("PFs", ids.devices(known_vendor).into_iter())
    );
    let pfs: Vec<_> = ids.pfs_of_vf(known_vendor, device).into_iter().collect();
    if !pfs.is_empty() {
        detail = format!("{detail}; it is the VF of {}", shortlist(pfs.into_iter()));
    }
    verdict.fault(Fault::invalid(device_field, device, detail));
}

fn those_listed<'a>(what: &str, ids: impl Iterator<Item = &'a str>) -> String {
    let list = shortlist(ids);
    if list.is_empty() {
        "it lists no NIC".into()
    } else {
        format!("{what} listed are {list}")
    }
}

fn shortlist<'a>(mut ids: impl Iterator<Item = &'a str>) -> String {
    let mut list = ids.by_ref().take(MAX_IDS).collect::<Vec<_>>().join(", ");
    match ids.count() {
        0 => {}
        more => list = format!("{list} and {more} more"),
    }
    list
}

/// Why a text can be no PCI id, with the id that was probably meant.
fn id_fault(id: &str) -> Option<String> {
    if is_pci_id(id) {
        return None;
    }
    let lower = id.trim().to_ascii_lowercase();
    let meant = lower.strip_prefix("0x").unwrap_or(&lower);
    Some(if is_pci_id(meant) {
        format!(
            "PCI ids are written in lower case and without 0x: {}",
            quoted(meant)
        )
    } else {
        "is no PCI id: four hexadecimal digits in lower case".into()
    })
}

/// Ranges must lie within `numVfs` and, where entries use one name, apart from each other.
fn check_ranges(spec: &SriovNetworkNodePolicySpec, policy: &ParsedPolicy, verdict: &mut Verdict) {
    if spec.num_vfs < 1 {
        return;
    }
    for claims in policy.nics.claims() {
        for claim in claims {
            if claim.range.end() >= policy.vf_count() {
                verdict.fault(Fault::invalid(
                    claim.entry.path(),
                    entry_text(spec, claim.entry),
                    format!(
                        "ends beyond the last VF, which is {} with numVfs {}",
                        spec.num_vfs - 1,
                        spec.num_vfs
                    ),
                ));
            }
        }
        for (earlier, later) in claims.clashes() {
            verdict.fault(Fault::invalid(
                later.entry.path(),
                entry_text(spec, later.entry),
                format!(
                    "VFs {} overlap VFs {} of {} ({})",
                    later.range,
                    earlier.range,
                    earlier.entry.path(),
                    quoted(entry_text(spec, earlier.entry))
                ),
            ));
        }
    }
}

/// A virtual machine's NIC is chosen by its network alone, and what it is attached to cannot be configured.
fn check_net_filter(spec: &SriovNetworkNodePolicySpec, verdict: &mut Verdict) {
    let selector = &spec.nic_selector;
    if set(selector.net_filter.as_ref()).is_none() {
        return;
    }
    let others = [
        (
            "spec.nicSelector.vendor",
            set(selector.vendor.as_ref()).is_some(),
        ),
        (
            "spec.nicSelector.deviceID",
            set(selector.device_id.as_ref()).is_some(),
        ),
        (
            "spec.nicSelector.pfNames",
            listed(selector.pf_names.as_ref()),
        ),
        (
            "spec.nicSelector.rootDevices",
            listed(selector.root_devices.as_ref()),
        ),
        (
            "spec.eSwitchMode",
            set(spec.e_switch_mode.as_ref()).is_some(),
        ),
        ("spec.bridge.ovs", has_bridge(spec)),
    ];
    for (field, _) in others.into_iter().filter(|(_, set)| *set) {
        verdict.fault(Fault::forbidden(
            field,
            "may not be set together with netFilter",
        ));
    }
    if let Some(link) = set(spec.link_type.as_ref()).filter(|link| !is_ethernet(link)) {
        verdict.fault(Fault::invalid(
            "spec.linkType",
            link,
            "must be eth or ETH together with netFilter",
        ));
    }
}

fn check_modes(spec: &SriovNetworkNodePolicySpec, verdict: &mut Verdict) {
    let device_type = set(spec.device_type.as_ref()).unwrap_or("netdevice");
    let switch = set(spec.e_switch_mode.as_ref()).unwrap_or(LEGACY);
    let switchdev = switch == SWITCHDEV;
    if device_type == "vfio-pci" && spec.is_rdma == Some(true) {
        let detail = "must be false with deviceType vfio-pci, which takes the RDMA driver away";
        verdict.fault(Fault::invalid("spec.isRdma", true, detail));
    }
    if let Some(link) = set(spec.link_type.as_ref()).filter(|link| switchdev && !is_ethernet(link))
    {
        verdict.fault(Fault::invalid(
            "spec.linkType",
            link,
            "must be eth or ETH with eSwitchMode switchdev",
        ));
    }
    let mut needs_switchdev = Places::default();
    if let Some(vdpa) = set(spec.vdpa_type.as_ref()) {
        if device_type != "netdevice" {
            let detail = format!("must be netdevice with vdpaType {vdpa}");
            verdict.fault(Fault::invalid("spec.deviceType", device_type, detail));
        }
        needs_switchdev.add(|| format!("vdpaType {vdpa}"));
    }
    if has_bridge(spec) {
        needs_switchdev.add(|| "bridge.ovs".into());
        if spec.externally_managed == Some(true) {
            let detail = "may not be set with externallyManaged: the operator cannot attach a PF that it does not manage";
            verdict.fault(Fault::forbidden("spec.bridge.ovs", detail));
        }
    }
    if !switchdev && !needs_switchdev.is_empty() {
        let detail = format!("must be switchdev with {}", needs_switchdev.joined(" and "));
        verdict.fault(Fault::invalid("spec.eSwitchMode", switch, detail));
    }
}

/// What keeps the software bridge of a policy from being made; nothing when it can be, or none is asked for.
pub fn bridge_fault(spec: &SriovNetworkNodePolicySpec) -> Option<&'static str> {
    let not_ethernet = set(spec.link_type.as_ref()).is_some_and(|link| !is_ethernet(link));
    if !has_bridge(spec) {
        None
    } else if set(spec.e_switch_mode.as_ref()) != Some(SWITCHDEV) {
        Some("spec.eSwitchMode must be switchdev with bridge.ovs")
    } else if not_ethernet {
        Some("spec.linkType must be eth or ETH with bridge.ovs")
    } else if spec.externally_managed == Some(true) {
        Some("spec.bridge.ovs may not be set with externallyManaged")
    } else {
        None
    }
}

fn has_bridge(spec: &SriovNetworkNodePolicySpec) -> bool {
    spec.bridge
        .as_ref()
        .is_some_and(|bridge| bridge.ovs.is_some())
}

fn is_ethernet(link_type: &str) -> bool {
    link_type.eq_ignore_ascii_case("eth")
}
