//! What became of the calls: answered as the model says, answered otherwise, or not answered. A call that was not
//! answered is excused when the API server was down or a replica killed meanwhile.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::history::Age;
use crate::lock;

/// How long after a kill connections may still be led to where nobody listens, as kube-proxy does.
const NOTICED: Duration = Duration::from_secs(1);
/// How long after the API server says that it is ready it may be busy with coming up.
const COMING_UP: Duration = Duration::from_secs(1);
/// How many of a kind are told in full.
const TOLD: usize = 5;

/// Something that loses calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// A replica was killed.
    Kill,
    /// The API server was down.
    ApiServer,
}

struct Outage {
    loss: Loss,
    from: Instant,
    until: Option<Instant>,
}

struct Failure {
    from: Instant,
    to: Instant,
    what: String,
}

/// Shared by all who call.
pub(crate) struct Tally {
    start: Instant,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    answered: usize,
    decided_by_one_state: usize,
    oldest: Age,
    oldest_after_outages: Age,
    slowest: Duration,
    wrong: Vec<String>,
    failed: Vec<Failure>,
    outages: Vec<Outage>,
}

/// The sums.
#[derive(Debug, Default, Clone)]
pub(crate) struct Sums {
    /// Answers that are those of the model.
    pub(crate) answered: usize,
    /// Of these, those to which only one answer was right.
    pub(crate) decided_by_one_state: usize,
    /// The oldest state that an answer was given by.
    pub(crate) oldest: Age,
    /// The same while watches may have been on their way back.
    pub(crate) oldest_after_outages: Age,
    /// The slowest call that was answered and that no outage held up.
    pub(crate) slowest: Duration,
    /// Calls lost to kills.
    pub(crate) lost_to_kills: usize,
    /// Calls lost while the API server was down.
    pub(crate) lost_to_the_api_server: usize,
    /// How many answers are not those of the model, and the first of them.
    pub(crate) wrong: (usize, Vec<String>),
    /// How many calls failed without an excuse, and the first of them.
    pub(crate) failed: (usize, Vec<String>),
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self {
            start: Instant::now(),
            inner: Mutex::default(),
        }
    }

    /// An answer as the model has it, in a state of that age.
    pub(crate) fn right(
        &self,
        age: Age,
        only_one: bool,
        interrupted: bool,
        (from, to): (Instant, Instant),
    ) {
        let mut inner = lock(&self.inner);
        inner.answered += 1;
        inner.decided_by_one_state += usize::from(only_one);
        if interrupted {
            inner.oldest_after_outages = inner.oldest_after_outages.max_of(age);
        } else {
            inner.oldest = inner.oldest.max_of(age);
        }
        if inner.excuse(from, to).is_none() {
            inner.slowest = inner.slowest.max(to - from);
        }
    }

    /// An answer that the model has in no state.
    pub(crate) fn wrong(&self, what: &str) {
        let at = self.start.elapsed().as_secs_f32();
        let line = format!("after {at:.1} s: {what}");
        println!("WRONG {line}");
        lock(&self.inner).wrong.push(line);
    }

    /// No answer.
    pub(crate) fn failed(&self, from: Instant, to: Instant, what: &str) {
        let what = what.to_owned();
        if self.excuse(from, to).is_none() {
            println!("FAILED {}", self.told(from, to, &what));
        }
        lock(&self.inner).failed.push(Failure { from, to, what });
    }

    /// A replica is killed now.
    pub(crate) fn kills(&self) {
        let from = Instant::now();
        lock(&self.inner).outages.push(Outage {
            loss: Loss::Kill,
            from,
            until: Some(from + NOTICED),
        });
    }

    /// The API server goes down now.
    pub(crate) fn goes_down(&self) {
        lock(&self.inner).outages.push(Outage {
            loss: Loss::ApiServer,
            from: Instant::now(),
            until: None,
        });
    }

    /// The API server is back now.
    pub(crate) fn is_back(&self) {
        if let Some(last) = lock(&self.inner).outages.last_mut() {
            last.until = Some(Instant::now() + COMING_UP);
        }
    }

    /// What excuses the loss of a call between these moments.
    pub(crate) fn excuse(&self, from: Instant, to: Instant) -> Option<Loss> {
        lock(&self.inner).excuse(from, to)
    }

    fn told(&self, from: Instant, to: Instant, what: &str) -> String {
        let at = from.duration_since(self.start).as_secs_f32();
        let took = to.duration_since(from).as_secs_f32();
        format!("after {at:.1} s, for {took:.1} s: {what}")
    }

    /// The sums so far.
    pub(crate) fn sums(&self) -> Sums {
        let inner = lock(&self.inner);
        let mut sums = Sums {
            answered: inner.answered,
            decided_by_one_state: inner.decided_by_one_state,
            oldest: inner.oldest,
            oldest_after_outages: inner.oldest_after_outages,
            slowest: inner.slowest,
            wrong: (
                inner.wrong.len(),
                inner.wrong.iter().take(TOLD).cloned().collect(),
            ),
            ..Sums::default()
        };
        for failure in &inner.failed {
            match inner.excuse(failure.from, failure.to) {
                Some(Loss::Kill) => sums.lost_to_kills += 1,
                Some(Loss::ApiServer) => sums.lost_to_the_api_server += 1,
                None => {
                    sums.failed.0 += 1;
                    if sums.failed.1.len() < TOLD {
                        let line = self.told(failure.from, failure.to, &failure.what);
                        sums.failed.1.push(line);
                    }
                }
            }
        }
        sums
    }
}

impl Inner {
    fn excuse(&self, from: Instant, to: Instant) -> Option<Loss> {
        self.outages
            .iter()
            .find(|outage| outage.from <= to && outage.until.is_none_or(|until| from <= until))
            .map(|outage| outage.loss)
    }
}
