//! Pods and policies at a steady rate through the API server, as dry runs. Each answer is held against the model.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use crate::chance::Chance;
use crate::history::History;
use crate::model::{Model, NETWORKS, NODES, Question};
use crate::support::user::User;
use crate::tally::Tally;

/// How many may be under way. A machine that does not keep up makes fewer calls, not more at a time.
const AT_A_TIME: usize = 16;

/// Whom to ask, and what to hold the answers against.
#[derive(Clone)]
pub(crate) struct Judge {
    pub(crate) admin: User,
    pub(crate) model: Arc<Model>,
    pub(crate) history: Arc<History>,
    pub(crate) tally: Arc<Tally>,
}

/// Calls under way; they end when dropped.
pub(crate) struct Calls {
    stop: Arc<AtomicBool>,
    tasks: JoinSet<()>,
}

impl Calls {
    /// Starts `rate` calls a second.
    pub(crate) fn start(judge: Judge, rate: u32, chance: Chance) -> Self {
        let stop = Arc::default();
        let mut tasks = JoinSet::new();
        tasks.spawn(run(judge, rate, chance, Arc::clone(&stop)));
        Self { stop, tasks }
    }

    /// Makes no more calls and waits for those under way.
    pub(crate) async fn stop(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        while self.tasks.join_next().await.is_some() {}
    }
}

async fn run(judge: Judge, rate: u32, mut chance: Chance, stop: Arc<AtomicBool>) {
    let places = Arc::new(Semaphore::new(AT_A_TIME));
    let mut ticks = interval(Duration::from_secs(1) / rate);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut calls = JoinSet::new();
    while !stop.load(Ordering::Relaxed) {
        ticks.tick().await;
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let (judge, question) = (judge.clone(), question(&mut chance));
        calls.spawn(async move {
            judge.ask(&question).await;
            drop(place);
        });
        while calls.try_join_next().is_some() {}
    }
    while calls.join_next().await.is_some() {}
}

/// As many pods as policies.
fn question(chance: &mut Chance) -> Question {
    let node = chance.below(NODES);
    match chance.below(8) {
        0 => Question::Large(node),
        1 => Question::Overlapping(node),
        2 => Question::Unsupported(node),
        3 => Question::Wrong(node),
        _ => Question::Pod {
            networks: (0..=chance.below(2))
                .map(|_| chance.below(NETWORKS))
                .collect(),
            labelled: chance.below(4) == 0,
        },
    }
}

impl Judge {
    async fn ask(&self, question: &Question) {
        let from = Instant::now();
        let answer = self.admin.ask_create(&question.object()).await;
        let to = Instant::now();
        let observed = match answer {
            Err(error) => Err(format!("{error:#}")),
            Ok(answer) => question.observed(&answer),
        };
        let observed = match observed {
            Ok(observed) => observed,
            Err(failure) => {
                let what = format!("{question:?}: {failure}");
                return self.tally.failed(from, to, &what);
            }
        };
        let facts = question.facts();
        self.history.settled(&facts).await;
        let mut expected = Vec::new();
        for candidate in self.history.candidates(&facts, from, to) {
            match self.model.verdict(question, &candidate.state) {
                Ok(verdict) => expected.push((verdict, candidate.age)),
                Err(error) => return self.tally.wrong(&format!("{question:?}: {error:#}")),
            }
        }
        let right = expected.iter().find(|(verdict, _)| *verdict == observed);
        if let Some((_, age)) = right {
            let only_one = expected.iter().all(|(verdict, _)| *verdict == observed);
            let interrupted = self.history.is_interrupted(from);
            return self.tally.right(*age, only_one, interrupted, (from, to));
        }
        // Nobody is refused for the sake of an injector that does not answer: the pod is then as it was.
        if observed == question.unjudged() && self.tally.excuse(from, to).is_some() {
            return self.tally.failed(from, to, "nobody judged");
        }
        let expected = expected.first().map(|(verdict, _)| verdict);
        self.tally
            .wrong(&format!("{question:?}: {observed:?}, and not {expected:?}"));
    }
}
