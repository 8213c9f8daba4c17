//! Everything that changes in the cluster meanwhile, at a steady rate: networks, node states, policies, `ConfigMaps`. Each
//! change is written into the history. A write that fails is looked up afterwards, so that what is known stays true.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::chance::Chance;
use crate::history::{Fact, History};
use crate::model::{self, NETWORKS, NODES, node_name};
use crate::support::kinds::{CONFIG_MAP, NAD, NODE_STATE, POLICY};
use crate::support::user::User;
use crate::tally::Tally;

const PAUSE: Duration = Duration::from_millis(350);
const SUPPORTED: &str = "supported-nic-ids";
const SWITCHES: &str = "nri-control-switches";
/// Changes under way; they end when dropped.
pub(crate) struct Churn {
    stop: Arc<AtomicBool>,
    changes: Arc<AtomicUsize>,
    tasks: JoinSet<()>,
}

impl Churn {
    /// Changes something about three times a second from now on.
    pub(crate) fn start(
        admin: &User,
        history: &Arc<History>,
        tally: &Arc<Tally>,
        mut chance: Chance,
    ) -> Self {
        let (stop, changes) = (Arc::default(), Arc::default());
        let mut tasks = JoinSet::new();
        let writer = Writer {
            admin: admin.clone(),
            history: Arc::clone(history),
            tally: Arc::clone(tally),
        };
        let (stopped, counted): (Arc<AtomicBool>, Arc<AtomicUsize>) =
            (Arc::clone(&stop), Arc::clone(&changes));
        tasks.spawn(async move {
            let mut order = facts();
            while !stopped.load(Ordering::Relaxed) {
                // Everything in turn, in another order each time: so nothing changes faster than it can be judged.
                chance.shuffle(&mut order);
                for fact in &order {
                    if stopped.load(Ordering::Relaxed) {
                        return;
                    }
                    writer.change(*fact, &mut chance).await;
                    counted.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(PAUSE).await;
                }
            }
        });
        Self {
            stop,
            changes,
            tasks,
        }
    }

    /// How many changes were made.
    pub(crate) fn changes(&self) -> usize {
        self.changes.load(Ordering::Relaxed)
    }

    /// Changes nothing more.
    pub(crate) async fn stop(mut self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        while self.tasks.join_next().await.is_some() {}
        self.changes()
    }
}

/// What changes, by whose hand ever.
fn facts() -> Vec<Fact> {
    let networks = (0..NETWORKS).map(Fact::Network);
    let states = (0..NODES).map(Fact::State);
    let held = (0..NODES).map(Fact::Held);
    networks
        .chain(states)
        .chain(held)
        .chain([Fact::NicIds, Fact::Switches])
        .collect()
}

/// Writes down how everything is before anything changes.
pub(crate) async fn begin(admin: &User, history: &History) -> Result<()> {
    for fact in facts() {
        let asked = Instant::now();
        history.changed(fact, asked, read(admin, fact).await?);
    }
    for fact in [Fact::Defaulting, Fact::Validation, Fact::Injector] {
        history.changed(fact, Instant::now(), json!(true));
    }
    Ok(())
}

struct Writer {
    admin: User,
    history: Arc<History>,
    tally: Arc<Tally>,
}

impl Writer {
    async fn change(&self, fact: Fact, chance: &mut Chance) {
        let asked = Instant::now();
        self.history.changing(fact);
        let written = self.write(fact, chance).await;
        let answered = Instant::now();
        if let Err(error) = written {
            self.tally
                .failed(asked, answered, &format!("{fact:?}: {error:#}"));
        }
        let value = loop {
            match read(&self.admin, fact).await {
                Ok(value) => break value,
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        };
        self.history.changed(fact, asked, value);
    }

    async fn write(&self, fact: Fact, chance: &mut Chance) -> Result<()> {
        let admin = &self.admin;
        let is_there = self.history.latest(fact).is_object();
        match fact {
            Fact::Network(number) => {
                let name = format!("default/{}", model::network(number));
                let nad = model::nad(number, if chance.below(2) == 0 { "one" } else { "two" });
                match (is_there, chance.below(2)) {
                    (false, _) => admin.create(&nad).await.map(drop),
                    (true, 0) => admin.delete(NAD, &name).await,
                    (true, _) => admin.merge(NAD, &name, &nad).await.map(drop),
                }
            }
            Fact::State(number) => {
                let status = model::reported(if chance.below(2) == 0 { 16 } else { 64 });
                let name = node_name(number);
                admin
                    .merge_status(NODE_STATE, &name, &status)
                    .await
                    .map(drop)
            }
            Fact::Held(number) if is_there => admin.delete(POLICY, &format!("held-{number}")).await,
            Fact::Held(number) => admin.create(&model::held(number)).await.map(drop),
            Fact::NicIds => {
                let supported = (chance.below(2) == 0).then_some("15b3 1017 1018");
                let data = json!({ "data": { "Nvidia_mlx5_ConnectX-5": supported } });
                admin.merge(CONFIG_MAP, SUPPORTED, &data).await.map(drop)
            }
            Fact::Switches => {
                let data = model::switches(chance.below(2) == 0, chance.below(2) == 0);
                let data = json!({ "data": data });
                admin.merge(CONFIG_MAP, SWITCHES, &data).await.map(drop)
            }
            Fact::Defaulting | Fact::Validation | Fact::Injector => Ok(()),
        }
    }
}

async fn read(admin: &User, fact: Fact) -> Result<Value> {
    let found = match fact {
        Fact::Network(number) => {
            let name = format!("default/{}", model::network(number));
            admin.get(NAD, &name).await?
        }
        Fact::State(number) => admin.get(NODE_STATE, &node_name(number)).await?,
        Fact::Held(number) => admin.get(POLICY, &format!("held-{number}")).await?,
        Fact::NicIds => admin.get(CONFIG_MAP, SUPPORTED).await?,
        Fact::Switches => {
            let map = admin.must_get(CONFIG_MAP, SWITCHES).await?;
            Some(model::switches_text(&map))
        }
        Fact::Defaulting | Fact::Validation | Fact::Injector => None,
    };
    Ok(found.unwrap_or_default())
}
