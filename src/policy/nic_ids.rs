//! The NICs that are supported: the lines of the `ConfigMap` `supported-nic-ids`, each `<vendor> <PF device> <VF device>`.

use std::collections::{BTreeMap, BTreeSet};

use super::SetAside;

/// Name of the `ConfigMap`, in the operator's namespace.
pub const CONFIG_MAP: &str = "supported-nic-ids";

/// PCI ids of supported NICs, as lower-case hexadecimal text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NicIds {
    vendors: BTreeMap<Box<str>, Devices>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Devices {
    pfs: BTreeSet<Box<str>>,
    /// VF device to the PF devices that have it.
    vfs: BTreeMap<Box<str>, BTreeSet<Box<str>>>,
}

impl NicIds {
    /// Reads the data of the `ConfigMap`. A line that is not three ids is set aside and harms no other.
    pub fn parse(data: &BTreeMap<String, String>) -> (Self, Vec<SetAside>) {
        let mut ids = Self::default();
        let mut aside = Vec::new();
        for (key, line) in data {
            match read_line(line) {
                Ok([vendor, pf, vf]) => {
                    let devices = ids.vendors.entry(vendor.into()).or_default();
                    devices.pfs.insert(pf.into());
                    devices.vfs.entry(vf.into()).or_default().insert(pf.into());
                }
                Err(reason) => aside.push(SetAside {
                    what: "ConfigMap",
                    name: CONFIG_MAP.into(),
                    reason: format!("key {key:?}: line {line:?} {reason}"),
                }),
            }
        }
        (ids, aside)
    }

    /// Whether no NIC is listed.
    pub fn is_empty(&self) -> bool {
        self.vendors.is_empty()
    }

    /// Whether some NIC of this vendor is listed.
    pub fn has_vendor(&self, vendor: &str) -> bool {
        self.vendors.contains_key(vendor)
    }

    /// Whether some vendor's physical function of this device id is listed.
    pub fn has_device(&self, device: &str) -> bool {
        self.vendors.values().any(|d| d.pfs.contains(device))
    }

    /// Whether this physical function is listed.
    pub fn has_pf(&self, vendor: &str, device: &str) -> bool {
        self.vendors
            .get(vendor)
            .is_some_and(|d| d.pfs.contains(device))
    }

    /// Whether this virtual function is listed.
    pub fn has_vf(&self, vendor: &str, device: &str) -> bool {
        self.vendors
            .get(vendor)
            .is_some_and(|d| d.vfs.contains_key(device))
    }

    /// Device ids of physical functions, of one vendor or of all.
    pub fn devices<'a>(&'a self, vendor: Option<&'a str>) -> BTreeSet<&'a str> {
        self.of(vendor)
            .flat_map(|d| &d.pfs)
            .map(AsRef::as_ref)
            .collect()
    }

    /// Device ids of the virtual functions of this physical function, of one vendor or of all; empty when it is in no
    /// line.
    pub fn vfs_of_pf<'a>(&'a self, vendor: Option<&'a str>, pf: &str) -> BTreeSet<&'a str> {
        self.of(vendor)
            .flat_map(|d| &d.vfs)
            .filter(|(_, pfs)| pfs.contains(pf))
            .map(|(vf, _)| vf.as_ref())
            .collect()
    }

    /// Device ids of the physical functions that have virtual functions of this device id.
    pub fn pfs_of_vf<'a>(&'a self, vendor: Option<&'a str>, vf: &str) -> BTreeSet<&'a str> {
        self.of(vendor)
            .filter_map(|d| d.vfs.get(vf))
            .flatten()
            .map(AsRef::as_ref)
            .collect()
    }

    /// The vendors listed.
    pub fn vendors(&self) -> impl Iterator<Item = &str> {
        self.vendors.keys().map(AsRef::as_ref)
    }

    fn of<'a>(&'a self, vendor: Option<&'a str>) -> impl Iterator<Item = &'a Devices> {
        self.vendors
            .iter()
            .filter(move |(name, _)| vendor.is_none_or(|v| v == name.as_ref()))
            .map(|(_, devices)| devices)
    }
}

fn read_line(line: &str) -> Result<[&str; 3], &'static str> {
    let mut fields = line.split_ascii_whitespace();
    let (Some(vendor), Some(pf), Some(vf), None) =
        (fields.next(), fields.next(), fields.next(), fields.next())
    else {
        return Err("is not <vendor> <PF device> <VF device>");
    };
    let ids = [vendor, pf, vf];
    if ids.into_iter().all(is_pci_id) {
        Ok(ids)
    } else {
        Err("has an id that is not lower-case hexadecimal without 0x")
    }
}

/// Whether a text can be a PCI id as node states carry them: lower-case hexadecimal digits.
pub fn is_pci_id(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(lines: &[&str]) -> BTreeMap<String, String> {
        lines
            .iter()
            .enumerate()
            .map(|(i, line)| (format!("NIC_{i}"), (*line).to_owned()))
            .collect()
    }

    #[test]
    fn lines_name_physical_and_virtual_functions() {
        let (ids, aside) = NicIds::parse(&data(&["8086 158b 154c", "15b3  1017 1018 "]));
        assert!(aside.is_empty());
        assert!(ids.has_pf("8086", "158b") && !ids.has_pf("8086", "154c"));
        assert!(ids.has_vf("8086", "154c") && !ids.has_vf("15b3", "154c"));
        assert!(ids.has_pf("15b3", "1017") && !ids.has_pf("8086", "1017"));
        assert!(ids.has_vendor("15b3") && !ids.has_vendor("15B3"));
        assert!(ids.has_device("158b") && !ids.has_device("1018"));
        assert_eq!(
            ids.devices(Some("15b3")).into_iter().collect::<Vec<_>>(),
            ["1017"]
        );
        assert_eq!(
            ids.pfs_of_vf(None, "1018").into_iter().collect::<Vec<_>>(),
            ["1017"]
        );
        assert_eq!(
            ids.vfs_of_pf(None, "1017").into_iter().collect::<Vec<_>>(),
            ["1018"]
        );
        assert!(ids.vfs_of_pf(Some("8086"), "1017").is_empty());
    }

    #[test]
    fn a_malformed_line_is_set_aside_alone() {
        for bad in [
            "8086 158b",
            "",
            "8086 158b 154c 1",
            "0x8086 158b 154c",
            "15B3 1017 1018",
            "8086,158b,154c",
        ] {
            let (ids, aside) = NicIds::parse(&data(&["15b3 1017 1018", bad]));
            assert!(ids.has_pf("15b3", "1017"), "{bad}");
            assert_eq!(ids.vendors().count(), 1, "{bad}");
            let [only] = &aside[..] else {
                panic!("{bad}: {aside:?}")
            };
            assert!(only.reason.contains("NIC_1"), "{bad}: {only:?}");
        }
    }
}
