//! A budget that learns late, forgets everything, and is told in any order never lets more nodes be drained than
//! allowed. The truth is kept beside it: annotations, of which it is told one after the other, some time later.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use proptest::prelude::*;
use serde_json::json;

use super::{Budget, Pool, budget::Labels};

const NODES: usize = 6;

#[derive(Clone, Copy, Debug)]
enum Move {
    /// A node's pass: it asks for a place, and the write may fail.
    Claim { node: usize, fails: bool },
    /// The daemon is done, and the operator has written Idle.
    End { node: usize },
    /// The node vanishes with its state, or comes back.
    Toggle { node: usize },
    /// The next piece of news about a node arrives.
    Hear { node: usize },
    /// Another leader begins: it lists what there is.
    Restart,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let node = 0..NODES;
    let one = prop_oneof![
        5 => (node.clone(), any::<bool>()).prop_map(|(node, fails)| Move::Claim { node, fails }),
        3 => node.clone().prop_map(|node| Move::End { node }),
        1 => node.clone().prop_map(|node| Move::Toggle { node }),
        4 => node.prop_map(|node| Move::Hear { node }),
        1 => Just(Move::Restart),
    ];
    prop::collection::vec(one, 1..200)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    Busy(bool),
    Present(bool),
}

struct World {
    limit: usize,
    /// Absent nodes are not in it; the others are busy or not.
    truth: BTreeMap<usize, bool>,
    /// On its way to the operator, by node.
    news: BTreeMap<usize, VecDeque<News>>,
    budget: Budget,
    /// Nodes whose daemons ask, and those of them that wait for a pass.
    asking: BTreeSet<usize>,
    queue: BTreeSet<usize>,
}

fn name(node: usize) -> String {
    format!("node-{node}")
}

impl World {
    fn new(limit: usize) -> Self {
        let mut world = Self {
            limit,
            truth: (0..NODES).map(|node| (node, false)).collect(),
            news: BTreeMap::new(),
            budget: Budget::default(),
            asking: BTreeSet::new(),
            queue: BTreeSet::new(),
        };
        world.restart();
        world
    }

    fn restart(&mut self) {
        self.news.clear();
        self.budget = Budget::default();
        let spec = json!({"maxUnavailable": self.limit});
        let pool = Pool::new("pool", &serde_json::from_value(spec).unwrap()).unwrap();
        self.budget.set_pools(vec![pool]);
        for (node, busy) in &self.truth {
            self.budget.set_node(&name(*node), Some(&Labels::default()));
            self.budget.set_busy(&name(*node), *busy);
        }
        self.queue.clone_from(&self.asking);
    }

    fn wake(&mut self, woken: &[Arc<str>]) {
        let node = |name: &Arc<str>| name.strip_prefix("node-")?.parse::<usize>().ok();
        self.queue.extend(woken.iter().filter_map(node));
    }

    fn tell(&mut self, node: usize, news: News) {
        self.news.entry(node).or_default().push_back(news);
    }

    fn play(&mut self, play: Move) {
        match play {
            Move::Claim { node, fails } => self.claim(node, fails),
            Move::End { node } => {
                if self.truth.get(&node) == Some(&true) {
                    self.truth.insert(node, false);
                    self.tell(node, News::Busy(false));
                }
            }
            Move::Toggle { node } => {
                let present = self.truth.remove(&node).is_none();
                if present {
                    self.truth.insert(node, false);
                }
                self.tell(node, News::Busy(false));
                self.tell(node, News::Present(present));
            }
            Move::Hear { node } => self.hear(node),
            Move::Restart => self.restart(),
        }
    }

    fn claim(&mut self, node: usize, fails: bool) {
        self.asking.insert(node);
        self.queue.remove(&node);
        if self.budget.claim(&name(node)).is_err() {
            return;
        }
        // The write is guarded by the version that was read: while there is news, what was read is outdated, and the place
        // is kept until the news is in.
        if self.news.get(&node).is_some_and(|news| !news.is_empty()) {
            self.queue.insert(node);
            return;
        }
        match self.truth.get(&node) {
            Some(false) if !fails => {
                self.truth.insert(node, true);
                self.asking.remove(&node);
                self.tell(node, News::Busy(true));
            }
            // It is being drained already, and its daemon asks for nothing else.
            Some(true) => drop(self.asking.remove(&node)),
            // Refused, or the node is gone: the operator knows that nothing was written.
            Some(false) | None => {
                let woken = self.budget.give_back(&name(node));
                self.wake(&woken);
                self.queue.insert(node);
            }
        }
    }

    fn hear(&mut self, node: usize) {
        let woken = match self.news.entry(node).or_default().pop_front() {
            Some(News::Busy(busy)) => self.budget.set_busy(&name(node), busy),
            Some(News::Present(present)) => {
                let labels = present.then(Labels::default);
                self.budget.set_node(&name(node), labels.as_ref())
            }
            None => return,
        };
        self.wake(&woken);
        if self.asking.contains(&node) {
            self.queue.insert(node);
        }
    }

    /// All news is heard, and everybody who was woken has had a pass.
    fn settle(&mut self) {
        loop {
            for node in 0..NODES {
                while self.news.get(&node).is_some_and(|news| !news.is_empty()) {
                    self.hear(node);
                }
            }
            let absent = |node: &usize| !self.truth.contains_key(node);
            let Some(node) = self.queue.iter().copied().find(|node| !absent(node)) else {
                return;
            };
            self.claim(node, false);
        }
    }

    fn busy(&self) -> usize {
        self.truth.values().filter(|busy| **busy).count()
    }
}

proptest! {
    #[test]
    fn the_budget_is_never_exceeded(limit in 0..4_usize, moves in moves()) {
        let mut world = World::new(limit);
        for play in moves {
            world.play(play);
            prop_assert!(world.busy() <= limit, "{play:?} made it {}", world.busy());
        }
    }

    #[test]
    fn nobody_waits_where_there_is_room(limit in 1..4_usize, moves in moves()) {
        let mut world = World::new(limit);
        for play in moves {
            world.play(play);
        }
        world.settle();
        let waiting = world.asking.iter().filter(|node| world.truth.contains_key(node)).count();
        prop_assert!(waiting == 0 || world.busy() == limit, "{waiting} wait, {} are busy", world.busy());
    }
}
