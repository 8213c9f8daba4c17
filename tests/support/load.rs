//! Admissions at a steady rate through the API server, as dry runs: every other one is a policy, which is refused when
//! nobody answers, the rest are pods, which go unchanged when nobody answers. So each answer says whether there was one.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::kinds::POLICY;
use super::user::User;
use super::wait::eventually;
use super::world;

/// How many may be under way. A machine that does not keep up makes fewer calls, not more at a time.
const AT_A_TIME: usize = 24;

/// How long the way to the webhooks may take to open.
const LED_WITHIN: Duration = Duration::from_secs(10);

/// A running load; it ends when dropped.
pub(crate) struct Load {
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    answered: AtomicUsize,
    failed: Mutex<Vec<String>>,
}

/// Waits until the webhooks are asked, and answer: after a start, or a new registration, the API server and the Service take
/// a moment to lead there.
pub(crate) async fn is_answered(admin: &User) -> Result<()> {
    eventually(LED_WITHIN, "the webhooks to be asked", async || {
        call(admin, 1).await?;
        call(admin, 2).await
    })
    .await
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Tally {
    /// Calls that were answered as they should be.
    pub(crate) answered: usize,
    /// What happened to the others, with the time since the start.
    pub(crate) failed: Vec<String>,
}

impl Load {
    /// Starts `rate` calls a second, once there are answers.
    pub(crate) async fn start(admin: &User, rate: u32) -> Result<Self> {
        is_answered(admin).await?;
        let shared = Arc::new(Shared::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(run(admin.clone(), rate, Arc::clone(&shared)));
        Ok(Self { shared, tasks })
    }

    /// How many calls failed so far.
    pub(crate) fn failures(&self) -> usize {
        lock(&self.shared.failed).len()
    }

    /// How many calls were answered so far.
    pub(crate) fn answered(&self) -> usize {
        self.shared.answered.load(Ordering::Relaxed)
    }

    /// Makes no more calls and waits for those under way.
    pub(crate) async fn stop(mut self) -> Tally {
        self.shared.stop.store(true, Ordering::Relaxed);
        while self.tasks.join_next().await.is_some() {}
        Tally {
            answered: self.answered(),
            failed: lock(&self.shared.failed).clone(),
        }
    }
}

impl Tally {
    /// Fails unless every call was answered, and there were at least so many.
    pub(crate) fn is_spotless(&self, at_least: usize) -> Result<()> {
        let Self { answered, failed } = self;
        println!("{answered} calls were answered, {} failed", failed.len());
        ensure!(
            failed.is_empty(),
            "{} of {} calls failed: {:#?}",
            failed.len(),
            answered + failed.len(),
            failed.iter().take(5).collect::<Vec<_>>()
        );
        ensure!(*answered >= at_least, "only {answered} calls were made");
        Ok(())
    }
}

async fn run(admin: User, rate: u32, shared: Arc<Shared>) {
    let start = Instant::now();
    let places = Arc::new(Semaphore::new(AT_A_TIME));
    let mut ticks = interval(Duration::from_secs(1) / rate);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut calls = JoinSet::new();
    let mut number = 0_u32;
    while !shared.stop.load(Ordering::Relaxed) {
        ticks.tick().await;
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        number += 1;
        let (admin, shared) = (admin.clone(), Arc::clone(&shared));
        calls.spawn(async move {
            let _place = place;
            match call(&admin, number).await {
                Ok(()) => drop(shared.answered.fetch_add(1, Ordering::Relaxed)),
                Err(error) => {
                    let at = start.elapsed().as_secs_f32();
                    lock(&shared.failed).push(format!("call {number} after {at:.3} s: {error:#}"));
                }
            }
        });
        while calls.try_join_next().is_some() {}
    }
    while calls.join_next().await.is_some() {}
}

async fn call(admin: &User, number: u32) -> Result<()> {
    if number.is_multiple_of(2) {
        let spec = json!({
            "resourceName": "fast_nics",
            "nodeSelector": { "node-role.kubernetes.io/worker": "" },
            "numVfs": 8,
            "nicSelector": { "pfNames": ["ens1f0"] },
        });
        let policy = world::custom(POLICY, "under-load", &spec);
        let answered = admin.ask_create(&policy).await?.object()?;
        ensure!(answered["spec"]["priority"] == 99, "not defaulted");
    } else {
        let pod = world::pod("under-load", "fast");
        let answered = admin.ask_create(&pod).await?.object()?;
        let limits = &answered["spec"]["containers"][0]["resources"]["limits"];
        ensure!(limits["openshift.io/fast_nics"] == "1", "not injected");
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
