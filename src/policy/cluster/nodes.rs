//! Nodes and an index of their labels, so that a node selector costs in proportion to the nodes that have its rarest label.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Bound,
    sync::Arc,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct NodeId(u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct PairId(u32);

/// A node, cut down to what admission asks for.
#[derive(Clone, Debug)]
pub struct Node {
    name: Arc<str>,
    provider_id: Box<str>,
    /// Sorted.
    labels: Box<[PairId]>,
}

impl Node {
    /// The node's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `spec.providerID`, empty when absent.
    pub fn provider_id(&self) -> &str {
        &self.provider_id
    }
}

/// A label as `key=value`, and the nodes that carry it. Keys hold no `=`, so the text tells labels apart.
#[derive(Clone, Debug)]
struct Pair {
    text: Arc<str>,
    nodes: BTreeSet<NodeId>,
}

/// All nodes. Labels are stored once, however many nodes carry them.
#[derive(Clone, Debug, Default)]
pub struct Nodes {
    by_name: HashMap<Arc<str>, NodeId>,
    slots: Slots<Node>,
    pairs: Slots<Pair>,
    by_text: BTreeMap<Arc<str>, PairId>,
}

/// A node selector made ready for asking: the labels that must be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection(Vec<PairId>);

impl Nodes {
    /// Takes in a new or changed node, and says whether it differs from what was known. An unchanged one costs a look.
    pub(super) fn insert<'a>(
        &mut self,
        name: &str,
        labels: impl IntoIterator<Item = (&'a str, &'a str)>,
        provider_id: &str,
    ) -> bool {
        let known = self.by_name.get(name).copied();
        let (id, name) = match known.and_then(|id| Some((id, self.slots.get(id.0)?.name.clone()))) {
            Some(found) => found,
            None => (NodeId(self.slots.reserve()), Arc::from(name)),
        };
        // Labels are added before old ones are released, so that those that stay keep their ids.
        let mut labels: Vec<PairId> = labels
            .into_iter()
            .map(|(key, value)| self.carry(id, &pair_text(key, value)))
            .collect();
        labels.sort_unstable();
        labels.dedup();
        let node = Node {
            name: name.clone(),
            provider_id: provider_id.into(),
            labels: labels.into_boxed_slice(),
        };
        let gone: Vec<PairId> = self
            .slots
            .get(id.0)
            .iter()
            .flat_map(|old| old.labels.iter())
            .filter(|pair| node.labels.binary_search(pair).is_err())
            .copied()
            .collect();
        for pair in gone {
            self.release(id, pair);
        }
        let differs = self
            .slots
            .get(id.0)
            .is_none_or(|old| old.labels != node.labels || old.provider_id != node.provider_id);
        self.slots.put(id.0, node);
        self.by_name.insert(name, id);
        differs
    }

    pub(super) fn remove(&mut self, name: &str) {
        let Some(id) = self.by_name.remove(name) else {
            return;
        };
        if let Some(node) = self.slots.take(id.0) {
            for pair in node.labels {
                self.release(id, pair);
            }
        }
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        let gone: Vec<Arc<str>> = self.by_name.keys().filter(|n| !keep(n)).cloned().collect();
        for name in gone {
            self.remove(&name);
        }
    }

    /// One node.
    pub fn get(&self, name: &str) -> Option<&Node> {
        self.slots.get(self.by_name.get(name)?.0)
    }

    /// The names of all nodes, in no order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(AsRef::as_ref)
    }

    /// The value of a node's label; nothing when it does not carry the label.
    pub fn value_of(&self, node: &Node, key: &str) -> Option<&str> {
        node.labels
            .iter()
            .filter_map(|pair| self.pairs.get(pair.0))
            .find_map(|pair| pair.text.strip_prefix(key)?.strip_prefix('='))
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Makes a node selector ready; nothing when some label is on no node at all, so that it selects none.
    pub fn selection(&self, selector: &BTreeMap<String, String>) -> Option<Selection> {
        selector
            .iter()
            .map(|(key, value)| self.by_text.get(pair_text(key, value).as_str()).copied())
            .collect::<Option<Vec<_>>>()
            .map(Selection)
    }

    /// The nodes selected, by name.
    pub fn selected(&self, selection: &Selection) -> Vec<&Node> {
        let rarest = selection
            .0
            .iter()
            .filter_map(|pair| self.pairs.get(pair.0))
            .min_by_key(|pair| pair.nodes.len());
        let candidates: Box<dyn Iterator<Item = NodeId> + '_> = match rarest {
            Some(pair) => Box::new(pair.nodes.iter().copied()),
            None => Box::new(self.by_name.values().copied()),
        };
        let mut nodes: Vec<&Node> = candidates
            .filter_map(|id| self.slots.get(id.0))
            .filter(|node| Self::selects(selection, node))
            .collect();
        nodes.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        nodes
    }

    /// Whether a node has every label of the selection.
    pub fn selects(selection: &Selection, node: &Node) -> bool {
        #[cfg(test)]
        work::count();
        selection
            .0
            .iter()
            .all(|pair| node.labels.binary_search(pair).is_ok())
    }

    /// How many nodes have this label.
    pub fn with_label(&self, key: &str, value: &str) -> usize {
        self.by_text
            .get(pair_text(key, value).as_str())
            .and_then(|id| self.pairs.get(id.0))
            .map_or(0, |pair| pair.nodes.len())
    }

    /// The values that this label has on some node, in order.
    pub fn values_of<'a>(&'a self, key: &str) -> impl Iterator<Item = &'a str> {
        let from = pair_text(key, "");
        let skip = from.len();
        let start = (Bound::Included(from.as_str()), Bound::Unbounded);
        self.by_text
            .range::<str, _>(start)
            .map(|(text, _)| text.as_ref())
            .take_while(move |text| text.starts_with(&from))
            .filter_map(move |text| text.get(skip..))
    }

    fn carry(&mut self, node: NodeId, text: &str) -> PairId {
        let id = if let Some(id) = self.by_text.get(text) {
            *id
        } else {
            let text: Arc<str> = text.into();
            let id = PairId(self.pairs.reserve());
            self.pairs.put(
                id.0,
                Pair {
                    text: text.clone(),
                    nodes: BTreeSet::new(),
                },
            );
            self.by_text.insert(text, id);
            id
        };
        if let Some(pair) = self.pairs.get_mut(id.0) {
            pair.nodes.insert(node);
        }
        id
    }

    fn release(&mut self, node: NodeId, id: PairId) {
        if let Some(pair) = self.pairs.get_mut(id.0) {
            pair.nodes.remove(&node);
            if pair.nodes.is_empty()
                && let Some(pair) = self.pairs.take(id.0)
            {
                self.by_text.remove(&pair.text);
            }
        }
    }
}

fn pair_text(key: &str, value: &str) -> String {
    let mut text = String::with_capacity(key.len() + 1 + value.len());
    text.push_str(key);
    text.push('=');
    text.push_str(value);
    text
}

/// A vector whose free places are used again.
#[derive(Clone, Debug)]
struct Slots<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slots<T> {
    /// A place that is not in use, to be filled by [`Self::put`].
    fn reserve(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        })
    }

    fn get(&self, place: u32) -> Option<&T> {
        self.slots.get(place as usize)?.as_ref()
    }

    fn get_mut(&mut self, place: u32) -> Option<&mut T> {
        self.slots.get_mut(place as usize)?.as_mut()
    }

    fn put(&mut self, place: u32, value: T) {
        if let Some(slot) = self.slots.get_mut(place as usize) {
            *slot = Some(value);
        }
    }

    fn take(&mut self, place: u32) -> Option<T> {
        let value = self.slots.get_mut(place as usize)?.take()?;
        self.free.push(place);
        Some(value)
    }
}

/// How often a node was looked at, so that tests compare work instead of time.
#[cfg(test)]
pub(crate) mod work {
    use std::cell::Cell;

    thread_local!(static LOOKS: Cell<usize> = const { Cell::new(0) });

    pub(super) fn count() {
        LOOKS.set(LOOKS.get() + 1);
    }

    /// Looks at nodes during `work`.
    pub(crate) fn looks(work: impl FnOnce()) -> usize {
        let before = LOOKS.get();
        work();
        LOOKS.get() - before
    }
}
