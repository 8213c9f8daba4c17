//! How many nodes may be drained at a time: pools, who belongs to which, who is being drained, who waits.
//!
//! Kept up to date change by change, so that an answer costs the same with ten nodes and with ten thousand, and so that
//! a place that becomes free wakes those who get it and nobody else.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use serde::{Deserialize, Deserializer};

use crate::{
    api::SriovNetworkPoolConfigSpec,
    policy::{
        label_selector::{Selector, SelectorError},
        max_unavailable::{LEGAL, MaxUnavailable},
    },
};

/// How many nodes that are in no pool may be drained at a time.
const WITHOUT_POOL: usize = 1;
/// How many names a message lists.
const NAMED: usize = 3;

type Name = Arc<str>;

/// The labels of a node. One text, `key=value` a line and sorted by key, since those of every node are kept: neither keys
/// nor values hold `=` or line ends. Clones are the same text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(Arc<str>);

impl Labels {
    /// The value of a label.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0
            .lines()
            .find_map(|label| label.strip_prefix(key)?.strip_prefix('='))
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let labels = Option::<BTreeMap<String, String>>::deserialize(deserializer)?;
        let mut text = String::new();
        for (key, value) in labels.unwrap_or_default() {
            text.extend([&*key, "=", &*value, "\n"]);
        }
        Ok(Self(text.into()))
    }
}

/// A pool, cut down to what limits draining.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    name: Name,
    selector: Result<Selector, SelectorError>,
    limit: Limit,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Limit {
    None,
    Most(MaxUnavailable),
    /// Not legal: as it is written.
    Unclear(String),
}

impl Pool {
    /// Reads a pool; nothing when it is one for OVS hardware offload, which chooses no nodes.
    pub fn new(name: &str, spec: &SriovNetworkPoolConfigSpec) -> Option<Self> {
        if spec.offload_pool().is_some() {
            return None;
        }
        let limit = match &spec.max_unavailable {
            None => Limit::None,
            Some(value) => MaxUnavailable::parse(value).map_or_else(
                || Limit::Unclear(serde_json::json!(value).to_string()),
                Limit::Most,
            ),
        };
        Some(Self {
            name: name.into(),
            selector: Selector::parse(spec.node_selector.as_ref()),
            limit,
        })
    }

    /// A pool whose selector is not understood selects no node; its nodes count as being in no pool, of which one may
    /// be drained at a time.
    fn selects(&self, labels: &Labels) -> bool {
        self.selector
            .as_ref()
            .is_ok_and(|selector| selector.matches(|key| labels.get(key)))
    }
}

/// Why a node is not drained now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// As many as may be are being drained. Those who wait are told when there is room.
    Full {
        /// The pool; none for the nodes that are in no pool.
        pool: Option<Name>,
        /// How many may be.
        limit: usize,
        /// Some of those that are.
        busy: Vec<Name>,
    },
    /// The pool allows none, ever.
    Never(Name),
    /// More than one pool selects the node.
    SeveralPools(Vec<Name>),
    /// The pool's `maxUnavailable` is not legal.
    Unclear {
        /// The pool.
        pool: Name,
        /// What is written there.
        value: String,
    },
    /// There is no such node.
    NoNode,
}

impl Refusal {
    /// Whether only somebody's change helps, rather than time.
    pub fn is_lasting(&self) -> bool {
        !matches!(self, Self::Full { .. } | Self::NoNode)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { pool, limit, busy } => {
                match pool {
                    Some(pool) => write!(
                        f,
                        "pool {pool} lets {limit} of its nodes be drained at a time"
                    )?,
                    None => write!(
                        f,
                        "{limit} of the nodes without a pool may be drained at a time"
                    )?,
                }
                if !busy.is_empty() {
                    write!(f, ", and now that is {}", busy.join(", "))?;
                }
                Ok(())
            }
            Self::Never(pool) => write!(
                f,
                "spec.maxUnavailable of pool {pool} is 0, which lets none of its nodes be drained"
            ),
            Self::SeveralPools(pools) => write!(
                f,
                "pools {} all select the node, so that it is not clear how many may be drained: select it by one",
                pools.join(", ")
            ),
            Self::Unclear { pool, value } => {
                write!(
                    f,
                    "spec.maxUnavailable of pool {pool} is {value}: it {LEGAL}"
                )
            }
            Self::NoNode => f.write_str("there is no such node"),
        }
    }
}

/// Pools and nodes with what they have of each other.
#[derive(Clone, Debug, Default)]
pub struct Budget {
    pools: Vec<Pool>,
    nodes: BTreeMap<Name, Entry>,
    /// One a pool, and a last one for the nodes that are in none.
    groups: Vec<Group>,
}

#[derive(Clone, Debug, Default)]
struct Entry {
    /// None while only the node's state is known.
    labels: Option<Labels>,
    /// The pools that select it, by index.
    pools: Vec<usize>,
    /// Its state says that it is being drained or is drained.
    busy: bool,
    /// It may be drained, and its state does not say so yet.
    granted: bool,
    waiting: bool,
}

#[derive(Clone, Debug, Default)]
struct Group {
    size: usize,
    busy: BTreeSet<Name>,
    waiting: BTreeSet<Name>,
}

impl Budget {
    /// Takes in all pools. Returns whom to ask again.
    pub fn set_pools(&mut self, mut pools: Vec<Pool>) -> Vec<Name> {
        pools.sort_by(|a, b| a.name.cmp(&b.name));
        self.pools = pools;
        self.groups = vec![Group::default(); self.pools.len() + 1];
        let names: Vec<Name> = self.nodes.keys().cloned().collect();
        for name in &names {
            if let Some(mut entry) = self.nodes.remove(name) {
                entry.pools = self.selecting(entry.labels.as_ref());
                self.count_in(name, &entry);
                self.nodes.insert(Arc::clone(name), entry);
            }
        }
        let waits = |name: &Name| self.nodes.get(name).is_some_and(|entry| entry.waiting);
        names.into_iter().filter(waits).collect()
    }

    /// Takes in a node with its labels, or that it is gone. Returns whom to ask again.
    pub fn set_node(&mut self, name: &str, labels: Option<&Labels>) -> Vec<Name> {
        let known = self.nodes.get(name).and_then(|entry| entry.labels.as_ref());
        if known == labels {
            return Vec::new();
        }
        let pools = self.selecting(labels);
        self.change(name, |entry| {
            entry.labels = labels.cloned();
            entry.pools = pools;
        })
    }

    /// Takes in what a node's state says. Returns whom to ask again.
    pub fn set_busy(&mut self, name: &str, busy: bool) -> Vec<Name> {
        self.change(name, |entry| {
            entry.busy = busy;
            if busy {
                entry.granted = false;
                entry.waiting = false;
            }
        })
    }

    /// Asks for a place for a node. It has it until its state has said that the drain began and is over, or until it is
    /// given back. One that is refused waits.
    pub fn claim(&mut self, name: &str) -> Result<(), Refusal> {
        let Some(entry) = self.nodes.get(name).filter(|entry| entry.labels.is_some()) else {
            return Err(Refusal::NoNode);
        };
        if entry.busy || entry.granted {
            return Ok(());
        }
        let verdict = self.verdict(&entry.pools);
        let granted = verdict.is_ok();
        self.change(name, |entry| {
            entry.granted = granted;
            entry.waiting = !granted;
        });
        verdict
    }

    /// The node needs no place now: it neither waits nor has one that its state does not speak of. Returns whom to ask
    /// again.
    pub fn give_back(&mut self, name: &str) -> Vec<Name> {
        match self.nodes.get(name) {
            Some(entry) if entry.granted || entry.waiting => self.change(name, |entry| {
                entry.granted = false;
                entry.waiting = false;
            }),
            _ => Vec::new(),
        }
    }

    fn verdict(&self, pools: &[usize]) -> Result<(), Refusal> {
        let index = match pools {
            [] => self.pools.len(),
            [index] => *index,
            several => {
                let names = several.iter().filter_map(|index| self.pools.get(*index));
                let names = names.map(|pool| Arc::clone(&pool.name)).collect();
                return Err(Refusal::SeveralPools(names));
            }
        };
        let pool = self.pools.get(index);
        let Some(group) = self.groups.get(index) else {
            return Err(Refusal::NoNode);
        };
        let limit = match pool.map(|pool| (&pool.name, &pool.limit)) {
            None => WITHOUT_POOL,
            Some((_, Limit::None)) => return Ok(()),
            Some((pool, Limit::Unclear(value))) => {
                let (pool, value) = (Arc::clone(pool), value.clone());
                return Err(Refusal::Unclear { pool, value });
            }
            Some((pool, Limit::Most(most))) => match most.of(group.size) {
                0 => return Err(Refusal::Never(Arc::clone(pool))),
                limit => limit,
            },
        };
        if group.busy.len() < limit {
            return Ok(());
        }
        Err(Refusal::Full {
            pool: pool.map(|pool| Arc::clone(&pool.name)),
            limit,
            busy: group.busy.iter().take(NAMED).cloned().collect(),
        })
    }

    /// How many more of a group may be drained.
    fn room(&self, index: usize) -> usize {
        let Some(group) = self.groups.get(index) else {
            return 0;
        };
        let limit = match self.pools.get(index).map(|pool| &pool.limit) {
            None => WITHOUT_POOL,
            Some(Limit::None) => usize::MAX,
            Some(Limit::Unclear(_)) => 0,
            Some(Limit::Most(most)) => most.of(group.size),
        };
        limit.saturating_sub(group.busy.len())
    }

    fn selecting(&self, labels: Option<&Labels>) -> Vec<usize> {
        let Some(labels) = labels else {
            return Vec::new();
        };
        let pools = self.pools.iter().enumerate();
        pools
            .filter(|(_, pool)| pool.selects(labels))
            .map(|(index, _)| index)
            .collect()
    }

    fn change(&mut self, name: &str, change: impl FnOnce(&mut Entry)) -> Vec<Name> {
        if self.groups.is_empty() {
            self.groups.push(Group::default());
        }
        let (name, mut entry) = self
            .nodes
            .remove_entry(name)
            .unwrap_or_else(|| (name.into(), Entry::default()));
        let mut touched = self.count_out(&name, &entry);
        change(&mut entry);
        touched.extend(self.count_in(&name, &entry));
        if entry.labels.is_some() || entry.busy {
            self.nodes.insert(name, entry);
        }
        touched.sort_unstable();
        touched.dedup();
        touched
            .into_iter()
            .flat_map(|index| {
                let waiting = self.groups.get(index).map(|group| &group.waiting);
                let room = self.room(index);
                waiting.into_iter().flatten().take(room).cloned()
            })
            .collect()
    }

    fn groups_of(&self, entry: &Entry) -> Vec<usize> {
        match (&entry.labels, entry.pools.is_empty()) {
            (None, _) => Vec::new(),
            (Some(_), true) => vec![self.pools.len()],
            (Some(_), false) => entry.pools.clone(),
        }
    }

    fn count_in(&mut self, name: &Name, entry: &Entry) -> Vec<usize> {
        let groups = self.groups_of(entry);
        for index in &groups {
            let Some(group) = self.groups.get_mut(*index) else {
                continue;
            };
            group.size += 1;
            if entry.busy || entry.granted {
                group.busy.insert(Arc::clone(name));
            }
            // Of several pools it is woken by a change of these only: it must not be woken in the place of another.
            if entry.waiting && groups.len() == 1 {
                group.waiting.insert(Arc::clone(name));
            }
        }
        groups
    }

    fn count_out(&mut self, name: &Name, entry: &Entry) -> Vec<usize> {
        let groups = self.groups_of(entry);
        for index in &groups {
            if let Some(group) = self.groups.get_mut(*index) {
                group.size -= 1;
                group.busy.remove(name);
                group.waiting.remove(name);
            }
        }
        groups
    }
}

#[cfg(test)]
mod tests;
