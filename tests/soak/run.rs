//! One run: what is done when, what is looked at meanwhile, and what is told at the end.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::calls::{Calls, Judge};
use crate::chance::Chance;
use crate::churn::{self, Churn};
use crate::history::History;
use crate::model::Model;
use crate::plan::{self, Deed};
use crate::report::Report;
use crate::stage::{Stage, Toggles};
use crate::support::issuer::{CONFIGURATIONS, live_bundle};
use crate::support::wait::eventually;
use crate::tally::Tally;
use crate::vitals::{self, Life, Sample};
use crate::writes::{self, Reasons};

/// Calls a second.
const RATE: u32 = 50;
const TICK: Duration = Duration::from_millis(100);
const LOOK_EVERY: Duration = Duration::from_secs(1);
const TELL_EVERY: Duration = Duration::from_secs(10);
/// How long a process may need until it is ready.
const STARTING: Duration = Duration::from_secs(5);
/// How long everything may take to come to rest.
const SETTLING: Duration = Duration::from_secs(60);
/// How long it is then watched.
const AT_REST: Duration = Duration::from_secs(6);
/// After which watches that were cut are back: their longest pause between two attempts, and a list.
const WATCHES_ARE_BACK: Duration = Duration::from_secs(15);

/// Everything that a run keeps track of.
struct Run {
    stage: Stage,
    history: Arc<History>,
    tally: Arc<Tally>,
    begun: Instant,
    /// The process that each replica is at the moment.
    lives: [Option<Life>; 2],
    ended: Vec<Life>,
    kills: usize,
    restarts: usize,
    leaders: Vec<bool>,
    leaderships: usize,
    authorities: BTreeSet<String>,
}

/// Runs for `seconds`. Returns whether nothing is wrong.
pub(crate) async fn run(seconds: u64, seed: u64) -> Result<bool> {
    let length = Duration::from_secs(seconds);
    println!("soak: {seconds} s, seed {seed}; a cluster is made ready");
    let stage = Stage::prepare(length).await?;
    let admin = stage.cluster.admin().clone();
    let history = Arc::new(History::default());
    churn::begin(&admin, &history).await?;
    let mut before = Vec::new();
    for replica in &stage.replicas {
        before.push(Sample::take(replica, Instant::now()).await?);
    }
    let mut run = Run {
        stage,
        history: Arc::clone(&history),
        tally: Arc::new(Tally::new()),
        begun: Instant::now(),
        lives: [Some(Life::begin(0)), Some(Life::begin(1))],
        ended: Vec::new(),
        kills: 0,
        restarts: 0,
        leaders: vec![false; 2],
        leaderships: 1,
        authorities: BTreeSet::new(),
    };
    println!(
        "{RATE} calls a second; {:?} are planned",
        plan::deeds(length).len()
    );
    let tally = Arc::clone(&run.tally);
    let mut chance = Chance::new(seed);
    let judge = Judge {
        admin: admin.clone(),
        model: Arc::new(Model::new()),
        history: Arc::clone(&history),
        tally: Arc::clone(&tally),
    };
    let toggles = Toggles::start(&admin, &history, &tally);
    let churn = Churn::start(
        &admin,
        &history,
        &tally,
        Chance::new(seed ^ chance.below(usize::MAX) as u64),
    );
    let calls = Calls::start(judge, RATE, chance);
    run.direct(length, &churn, &toggles).await?;

    calls.stop().await;
    let changes = churn.stop().await;
    let switches = toggles.made();
    toggles.stop(&admin).await?;
    let rest = run.comes_to_rest(&before).await;
    run.tell(length, changes, switches, rest)
}

impl Run {
    /// Does what is planned, and looks at the replicas meanwhile.
    async fn direct(&mut self, length: Duration, churn: &Churn, toggles: &Toggles) -> Result<()> {
        let mut deeds = plan::deeds(length).into_iter().peekable();
        let (mut looked, mut told) = (Instant::now(), Instant::now());
        while self.begun.elapsed() < length {
            if let Some((_, deed)) = deeds.next_if(|(at, _)| *at <= self.begun.elapsed()) {
                self.does(deed).await?;
            }
            if looked.elapsed() >= LOOK_EVERY {
                looked = Instant::now();
                self.look().await;
            }
            if told.elapsed() >= TELL_EVERY {
                told = Instant::now();
                self.progress(churn.changes(), toggles.made());
            }
            tokio::time::sleep(TICK).await;
        }
        Ok(())
    }

    async fn does(&mut self, deed: Deed) -> Result<()> {
        let at = self.begun.elapsed().as_secs();
        match deed {
            Deed::Kill(replica) => {
                println!("[{at:>4} s] replica {} is killed", replica + 1);
                self.tally.kills();
                self.stage.replicas[replica].kill();
                self.ended.extend(self.lives[replica].take());
                self.leaders[replica] = false;
                self.kills += 1;
            }
            Deed::Start(replica) => {
                self.stage.replicas[replica].start()?;
                self.lives[replica] = Some(Life::begin(replica));
            }
            Deed::RestartApiServer(away) => {
                println!(
                    "[{at:>4} s] the API server is killed and stays away for {} s",
                    away.as_secs()
                );
                let since = Instant::now();
                self.tally.goes_down();
                self.stage.cluster.stop_api_server();
                tokio::time::sleep(away).await;
                self.stage.cluster.start_api_server().await?;
                self.tally.is_back();
                self.history
                    .interrupted(since, Instant::now() + WATCHES_ARE_BACK);
                self.restarts += 1;
                // Whoever led may have had to give up, and either may lead now.
                self.leaderships += 2;
                println!(
                    "[{:>4} s] the API server is back",
                    self.begun.elapsed().as_secs()
                );
            }
        }
        Ok(())
    }

    async fn look(&mut self) {
        for (replica, life) in self.lives.iter_mut().enumerate() {
            let Some(life) = life else { continue };
            // One that has just been started does not answer yet.
            let Ok(sample) = Sample::take(&self.stage.replicas[replica], life.started).await else {
                continue;
            };
            let readiness = self.stage.replicas[replica].health().get("/readyz").await;
            if let Ok((503, checks)) = readiness
                && sample.age > STARTING
            {
                let at = self.begun.elapsed().as_secs();
                let failed = checks.lines().filter(|line| line.starts_with("[-]"));
                for check in failed {
                    println!("[{at:>4} s] replica {} is not ready: {check}", replica + 1);
                }
            }
            if sample.leads && !self.leaders[replica] {
                self.leaderships += 1;
            }
            self.leaders[replica] = sample.leads;
            life.samples.push(sample);
        }
        let (kind, name) = CONFIGURATIONS[0];
        let live = live_bundle(self.stage.cluster.admin(), kind, name).await;
        let blocks = live.unwrap_or_default();
        let blocks = blocks.split_inclusive("-----END CERTIFICATE-----\n");
        self.authorities.extend(blocks.map(str::to_owned));
    }

    fn progress(&self, changes: usize, toggles: usize) {
        let sums = self.tally.sums();
        let lives: Vec<String> = self
            .lives
            .iter()
            .flatten()
            .filter_map(|life| Some((life.replica + 1, life.samples.last()?)))
            .map(|(replica, sample)| {
                format!(
                    "{replica}{}: {:.0} MiB, {} files, {} tasks",
                    if sample.leads { " leads" } else { "" },
                    sample.memory_mib,
                    sample.files,
                    sample.tasks
                )
            })
            .collect();
        println!(
            "[{:>4} s] {} answers, {} wrong, {} failed ({} lost to kills, {} to the API server); {} CAs, {changes} changes, {toggles} toggles; {}",
            self.begun.elapsed().as_secs(),
            sums.answered,
            sums.wrong.0,
            sums.failed.0,
            sums.lost_to_kills,
            sums.lost_to_the_api_server,
            self.authorities.len(),
            lives.join("; ")
        );
    }

    /// Waits until nothing is left of the load, and watches for writes. Returns how many calls had been made by then.
    async fn comes_to_rest(&mut self, before: &[Sample]) -> Result<usize> {
        for (number, life) in self.lives.iter_mut().enumerate() {
            // What the last kill has left.
            if life.is_none() {
                self.stage.replicas[number].start()?;
                *life = Some(Life::begin(number));
            }
            self.stage.replicas[number].ready().await?;
        }
        eventually(SETTLING, "the replicas to come to rest", async || {
            for (replica, life) in self.stage.replicas.iter().zip(&self.lives) {
                let started = life.as_ref().map_or(self.begun, |life| life.started);
                let now = Sample::take(replica, started).await?;
                let same_part = before.iter().find(|sample| sample.leads == now.leads);
                let first = same_part.context("nobody of that part was there at first")?;
                vitals::nothing_is_left(first, &now)?;
                vitals::no_connection_is_left(replica.webhook(), now.connections)?;
            }
            Ok(())
        })
        .await?;
        // What was done last is still told of, in status and Events.
        tokio::time::sleep(AT_REST).await;
        let made = self.stage.cluster.calls()?.len();
        tokio::time::sleep(AT_REST).await;
        Ok(made)
    }

    fn tell(
        mut self,
        length: Duration,
        changes: usize,
        toggles: usize,
        rest: Result<usize>,
    ) -> Result<bool> {
        let sums = self.tally.sums();
        let mut report = Report::default();
        println!("\nafter {} s", self.begun.elapsed().as_secs());
        report.figure("seconds", length.as_secs());
        report.figure("answers_as_the_model_says", sums.answered);
        report.figure("answers_to_which_one_state_led", sums.decided_by_one_state);
        report.figure("wrong_answers", sums.wrong.0);
        report.figure("failed_calls", sums.failed.0);
        report.figure("calls_lost_to_kills", sums.lost_to_kills);
        report.figure("calls_lost_to_the_api_server", sums.lost_to_the_api_server);
        report.figure("slowest_answer_ms", milliseconds(sums.slowest));
        for (when, age) in [
            ("", sums.oldest),
            ("_after_outages", sums.oldest_after_outages),
        ] {
            let name = format!("stores_were_behind{when}_ms");
            report.figure(&name, milliseconds(age.stores));
            let name = format!("registrations_were_behind{when}_ms");
            report.figure(&name, milliseconds(age.registered));
        }
        report.figure("certificate_authorities", self.authorities.len());
        report.figure("changes", changes);
        report.figure("toggles", toggles);
        report.figure("kills", self.kills);
        report.figure("api_server_restarts", self.restarts);
        report.figure("leaderships", self.leaderships);
        for (count, lines) in [&sums.wrong, &sums.failed] {
            if *count > 0 {
                report.fault(format!("{count} calls: {lines:#?}"));
            }
        }
        if sums.answered < usize::try_from(length.as_secs())? * 5 {
            report.fault("too few calls were answered to tell anything");
        }
        self.ended
            .extend(self.lives.iter_mut().filter_map(Option::take));
        let lives: Vec<Value> = self.ended.iter().map(Life::as_json).collect();
        for life in &self.ended {
            report.check(life.is_flat());
        }
        report.figure("processes", lives);
        let rest = match rest {
            Ok(rest) => rest,
            Err(error) => {
                report.fault(format!("{error:#}"));
                usize::MAX
            }
        };
        let reasons = Reasons {
            toggles: toggles + 1,
            leaderships: self.leaderships,
            changes,
            seconds: usize::try_from(self.begun.elapsed().as_secs())?,
        };
        let findings = writes::examine(&self.stage.cluster.calls()?, rest, reasons);
        report.figures(findings.as_json());
        for fault in findings.faults {
            report.fault(fault);
        }
        if report.finish()? {
            return Ok(true);
        }
        for replica in &self.stage.replicas {
            let log = replica.log(usize::MAX);
            // Of what was answered, the calls have told.
            let told: Vec<&str> = log.lines().filter(|line| !line.contains("uid=")).collect();
            let end = told.len().saturating_sub(40);
            println!("the end of a replica's log:\n{}", told[end..].join("\n"));
        }
        Ok(false)
    }
}

fn milliseconds(time: Duration) -> Value {
    json!(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}
