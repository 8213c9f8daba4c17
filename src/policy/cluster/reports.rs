//! The NICs that nodes report. Nodes of one make report the same, and that is kept once: what it takes grows with the
//! differences between nodes.

use std::{collections::HashMap, mem, sync::Arc};

use crate::policy::nic::Nic;

/// The NICs of each node that has a node state.
#[derive(Clone, Debug, Default)]
pub(super) struct Reports {
    by_node: HashMap<Box<str>, Arc<[Nic]>>,
    /// What is reported, and by how many nodes.
    distinct: HashMap<Arc<[Nic]>, usize>,
}

impl Reports {
    /// Takes in what a node reports, and says whether that is new.
    pub(super) fn insert(&mut self, node: &str, nics: Vec<Nic>) -> bool {
        if self.get(node).is_some_and(|known| *known == *nics) {
            return false;
        }
        let nics = self.share(nics);
        let before = match self.by_node.get_mut(node) {
            Some(known) => Some(mem::replace(known, nics)),
            None => self.by_node.insert(node.into(), nics),
        };
        if let Some(before) = before {
            self.release(&before);
        }
        true
    }

    pub(super) fn remove(&mut self, node: &str) {
        if let Some(nics) = self.by_node.remove(node) {
            self.release(&nics);
        }
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        let gone: Vec<Box<str>> = self.by_node.keys().filter(|n| !keep(n)).cloned().collect();
        for node in gone {
            self.remove(&node);
        }
    }

    pub(super) fn get(&self, node: &str) -> Option<&[Nic]> {
        self.by_node.get(node).map(AsRef::as_ref)
    }

    pub(super) fn len(&self) -> usize {
        self.by_node.len()
    }

    fn share(&mut self, nics: Vec<Nic>) -> Arc<[Nic]> {
        let nics = match self.distinct.get_key_value(nics.as_slice()) {
            Some((known, _)) => Arc::clone(known),
            None => nics.into(),
        };
        *self.distinct.entry(Arc::clone(&nics)).or_default() += 1;
        nics
    }

    fn release(&mut self, nics: &Arc<[Nic]>) {
        if let Some(nodes) = self.distinct.get_mut(nics) {
            *nodes -= 1;
            if *nodes == 0 {
                self.distinct.remove(nics);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nics(mtu: i64) -> Vec<Nic> {
        let nic = Nic {
            name: "ens1f0".into(),
            mtu,
            ..Nic::default()
        };
        vec![nic]
    }

    #[test]
    fn what_many_nodes_report_is_kept_once_and_for_as_long_as_one_does() {
        let mut reports = Reports::default();
        for node in ["a", "b", "c"] {
            assert!(reports.insert(node, nics(1500)));
            assert!(!reports.insert(node, nics(1500)), "it is known");
        }
        assert_eq!((reports.len(), reports.distinct.len()), (3, 1));
        assert!(reports.insert("a", nics(9000)));
        assert_eq!(reports.get("a"), Some(nics(9000).as_slice()));
        assert_eq!(reports.get("b"), Some(nics(1500).as_slice()));
        assert_eq!(reports.distinct.len(), 2);
        reports.remove("b");
        reports.retain(|node| node != "c");
        assert_eq!((reports.len(), reports.distinct.len()), (1, 1));
        assert!(reports.insert("a", Vec::new()));
        assert_eq!(reports.get("a"), Some(Vec::new().as_slice()));
        reports.remove("a");
        assert_eq!((reports.get("a"), reports.distinct.len()), (None, 0));
    }
}
