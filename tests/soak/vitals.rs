//! What the replicas hold: memory, files, tasks, connections, each second, process by process.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::support::operator::Operator;

/// When a process is taken to have everything that it will need.
const WARM: Duration = Duration::from_secs(10);
/// How many samples a figure is the median of.
const WINDOW: usize = 6;
/// How much a process may grow after that, beside a tenth.
const ROOM_MIB: f64 = 8.0;

/// One look at a process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// Since its start.
    pub(crate) age: Duration,
    /// Resident memory.
    pub(crate) memory_mib: f64,
    /// Open files, connections among them.
    pub(crate) files: usize,
    /// Asynchronous tasks that are alive.
    pub(crate) tasks: usize,
    /// Connections of the webhook's listener, as the process counts them.
    pub(crate) connections: usize,
    pub(crate) leads: bool,
}

impl Sample {
    /// Takes one.
    pub(crate) async fn take(replica: &Operator, started: Instant) -> Result<Self> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", replica.process_id()?))?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib: f64 = resident
            .and_then(|line| line.trim().strip_suffix(" kB"))
            .context("no VmRSS")?
            .parse()?;
        let count = async |name: &str| -> Result<usize> {
            let value = replica.metric(name).await?.unwrap_or_default();
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a small count"
            )]
            Ok(value as usize)
        };
        Ok(Self {
            age: started.elapsed(),
            memory_mib: kib / 1024.0,
            files: replica.open_files()?,
            tasks: count("sriov_operator_tasks").await?,
            connections: count("sriov_operator_connections{listener=\"webhook\"}").await?,
            leads: count("leader_election_master_status{name=\"sriov-operator\"}").await? == 1,
        })
    }

    /// Files that are no connections of the webhook.
    fn other_files(&self) -> usize {
        self.files.saturating_sub(self.connections)
    }

    /// Tasks that serve no connection of the webhook.
    fn other_tasks(&self) -> usize {
        self.tasks.saturating_sub(self.connections)
    }
}

/// One process from its start to its end.
#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) replica: usize,
    pub(crate) started: Instant,
    pub(crate) samples: Vec<Sample>,
}

impl Life {
    pub(crate) fn begin(replica: usize) -> Self {
        Self {
            replica,
            started: Instant::now(),
            samples: Vec::new(),
        }
    }

    fn age(&self) -> Duration {
        self.samples
            .last()
            .map(|sample| sample.age)
            .unwrap_or_default()
    }

    /// Memory when it was warm and at the end, as medians; nothing for one that did not live long enough to tell.
    pub(crate) fn memory(&self) -> Option<(f64, f64)> {
        let warm: Vec<&Sample> = self
            .samples
            .iter()
            .filter(|sample| sample.age >= WARM)
            .collect();
        (warm.len() >= 2 * WINDOW).then(|| {
            let (first, last) = (&warm[..WINDOW], &warm[warm.len() - WINDOW..]);
            (median(first), median(last))
        })
    }

    /// Whether memory stayed what it was.
    pub(crate) fn is_flat(&self) -> Result<()> {
        if let Some((warm, end)) = self.memory() {
            ensure!(
                end <= warm * 1.1 + ROOM_MIB,
                "replica {} grew from {warm:.1} to {end:.1} MiB in {} s",
                self.replica + 1,
                self.age().as_secs()
            );
        }
        Ok(())
    }

    pub(crate) fn as_json(&self) -> Value {
        let memory = self.memory();
        json!({
            "replica": self.replica + 1,
            "lived_seconds": self.age().as_secs(),
            "memory_warm_mib": memory.map(|(warm, _)| warm),
            "memory_end_mib": memory.map(|(_, end)| end),
        })
    }
}

fn median(samples: &[&Sample]) -> f64 {
    let mut memory: Vec<f64> = samples.iter().map(|sample| sample.memory_mib).collect();
    memory.sort_by(f64::total_cmp);
    memory.get(memory.len() / 2).copied().unwrap_or_default()
}

/// What a process at rest holds beside connections, before and after everything.
pub(crate) fn nothing_is_left(before: &Sample, after: &Sample) -> Result<()> {
    ensure!(
        after.other_files() <= before.other_files() + 4,
        "{} files are open beside connections, {} were at first",
        after.other_files(),
        before.other_files()
    );
    ensure!(
        after.other_tasks() <= before.other_tasks() + 4,
        "{} tasks are alive beside connections, {} were at first",
        after.other_tasks(),
        before.other_tasks()
    );
    Ok(())
}

/// Every connection that a process holds is one that its peer holds too, as the kernel knows it.
pub(crate) fn no_connection_is_left(at: SocketAddr, counted: usize) -> Result<()> {
    let SocketAddr::V4(address) = at else {
        return Ok(());
    };
    // As the kernel prints it: the address in this machine's byte order, then the port.
    let ip = u32::from_ne_bytes(address.ip().octets());
    let local = format!("{ip:08X}:{:04X}", address.port());
    let table = std::fs::read_to_string("/proc/net/tcp")?;
    let (mut whole, mut forsaken) = (0, 0);
    for line in table.lines() {
        let mut columns = line.split_whitespace().skip(1);
        if columns.next() != Some(&local) {
            continue;
        }
        match columns.nth(1) {
            Some("01") => whole += 1,
            // The peer has closed it, the process has not.
            Some("08") => forsaken += 1,
            _ => {}
        }
    }
    ensure!(
        forsaken == 0,
        "{forsaken} connections are held that their peer has closed"
    );
    ensure!(
        counted <= whole,
        "{counted} connections are counted, {whole} are there"
    );
    Ok(())
}
