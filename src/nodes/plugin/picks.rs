//! Which virtual functions of a node a device plugin picks by given selectors: all fields must hold, and among names and
//! addresses the first entry that fits decides.

use super::{Merged, Selectors};
use crate::policy::{NicIds, nic::Nic, vf_range::VfRange};

/// A node as its device plugin will find it.
pub(super) struct Scene<'a> {
    pub(super) nics: &'a [Nic],
    pub(super) merged: &'a [Merged<'a>],
    pub(super) ids: &'a NicIds,
}

/// How versions of the device plugin read an entry of `pfNames`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// As a name.
    Names,
    /// As a regular expression too, so that a name fits every name that contains it.
    Expressions,
}

impl Scene<'_> {
    /// All virtual functions that a NIC will have; for that of a virtual machine, itself. Empty when there are none.
    pub(super) fn all_of(&self, nic: &Nic) -> Vec<VfRange> {
        let count = match self.configured(nic) {
            _ if nic.net_filter.is_some() => 1,
            Some(merged) => merged.num_vfs,
            None => nic.num_vfs,
        };
        let count = u32::try_from(count.max(0)).unwrap_or(u32::MAX);
        VfRange::whole(count).into_iter().collect()
    }

    /// The virtual functions of a NIC that the selectors pick, in order.
    pub(super) fn picked(
        &self,
        selectors: &Selectors,
        nic: &Nic,
        reading: Reading,
    ) -> Vec<VfRange> {
        let any = |list: &[String], fits: &dyn Fn(&str) -> bool| {
            list.is_empty() || list.iter().any(|item| fits(item))
        };
        let link = self
            .configured(nic)
            .and_then(|merged| merged.link_type)
            .unwrap_or(&nic.link_type);
        let device = |id: &str| {
            self.ids
                .vfs_of_pf(Some(&nic.vendor), &nic.device_id)
                .contains(id)
        };
        let holds = any(&selectors.vendors, &|vendor| vendor == &*nic.vendor)
            && any(&selectors.devices, &device)
            && any(&selectors.pci_addresses, &|address| {
                nic.net_filter.is_some() && address == &*nic.pci_address
            })
            && any(&selectors.link_types, &|word| word == link_word(link));
        if !holds {
            return Vec::new();
        }
        let name = nic.name.to_ascii_lowercase();
        let by_name = chosen(&selectors.pf_names, |entry| {
            let entry = entry.to_ascii_lowercase();
            name == entry || reading == Reading::Expressions && name.contains(&entry)
        });
        let by_address = chosen(&selectors.root_devices, |entry| entry == &*nic.pci_address);
        [by_name, by_address]
            .into_iter()
            .fold(self.all_of(nic), |vfs, chosen| match chosen {
                Chosen::All => vfs,
                Chosen::Ranges(ranges) => common(&vfs, &normalized(ranges)),
            })
    }

    fn configured(&self, nic: &Nic) -> Option<&Merged<'_>> {
        self.merged
            .iter()
            .find(|merged| std::ptr::eq(merged.nic, nic))
    }
}

/// The device plugin's word for a link type.
pub(super) fn link_word(link: &str) -> &'static str {
    if link.eq_ignore_ascii_case("ib") {
        "infiniband"
    } else {
        "ether"
    }
}

enum Chosen {
    All,
    Ranges(Vec<VfRange>),
}

/// What a list of entries with ranges lets through of the one that `fits`.
fn chosen(entries: &[String], fits: impl Fn(&str) -> bool) -> Chosen {
    if entries.is_empty() {
        return Chosen::All;
    }
    let split = |entry: &'_ String| match entry.split_once('#') {
        Some((word, ranges)) => (word.to_owned(), Some(ranges.to_owned())),
        None => (entry.clone(), None),
    };
    match entries.iter().map(split).find(|(word, _)| fits(word)) {
        None => Chosen::Ranges(Vec::new()),
        Some((_, None)) => Chosen::All,
        Some((_, Some(ranges))) => {
            Chosen::Ranges(ranges.split(',').filter_map(read_range).collect())
        }
    }
}

fn read_range(text: &str) -> Option<VfRange> {
    let (start, end) = text.split_once('-').unwrap_or((text, text));
    VfRange::new(start.parse().ok()?, end.parse().ok()?)
}

/// The same virtual functions in order, as few ranges as there can be.
pub(super) fn normalized(mut ranges: Vec<VfRange>) -> Vec<VfRange> {
    ranges.sort_unstable();
    let mut joined: Vec<VfRange> = Vec::new();
    for range in ranges {
        let last = joined
            .last_mut()
            .filter(|last| last.end().saturating_add(1) >= range.start());
        match last {
            Some(last) => {
                let end = last.end().max(range.end());
                *last = VfRange::new(last.start(), end).unwrap_or(*last);
            }
            None => joined.push(range),
        }
    }
    joined
}

pub(super) fn common(a: &[VfRange], b: &[VfRange]) -> Vec<VfRange> {
    let pairs = a.iter().flat_map(|a| b.iter().map(move |b| (a, b)));
    normalized(
        pairs
            .filter_map(|(a, b)| VfRange::new(a.start().max(b.start()), a.end().min(b.end())))
            .collect(),
    )
}

/// `0-1,4-5`
pub(super) fn text_of(ranges: &[VfRange]) -> String {
    let texts: Vec<String> = ranges.iter().map(ToString::to_string).collect();
    texts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(list: &[(u32, u32)]) -> Vec<VfRange> {
        list.iter()
            .filter_map(|(start, end)| VfRange::new(*start, *end))
            .collect()
    }

    #[test]
    fn ranges_are_joined_where_they_meet() {
        assert_eq!(
            normalized(ranges(&[(4, 5), (0, 1), (2, 3), (8, 9), (9, 12)])),
            ranges(&[(0, 5), (8, 12)])
        );
        assert_eq!(
            common(&ranges(&[(0, 7)]), &ranges(&[(2, 3), (6, 9)])),
            ranges(&[(2, 3), (6, 7)])
        );
        assert_eq!(text_of(&ranges(&[(0, 1), (4, 4)])), "0-1,4-4");
    }

    #[test]
    fn the_first_entry_that_fits_decides() {
        let list = |entries: &[&str]| {
            entries
                .iter()
                .map(|e| (*e).to_owned())
                .collect::<Vec<String>>()
        };
        let of = |entries: &[&str]| match chosen(&list(entries), |word| word == "e0") {
            Chosen::All => None,
            Chosen::Ranges(ranges) => Some(text_of(&ranges)),
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&["e0"]), None);
        assert_eq!(of(&["e1"]), Some(String::new()));
        assert_eq!(of(&["e0#0-1", "e0#4-5"]), Some("0-1".into()));
        assert_eq!(of(&["e0#0-1,4,6-7"]), Some("0-1,4-4,6-7".into()));
    }
}
