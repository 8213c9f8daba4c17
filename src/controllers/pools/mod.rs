//! Pools with OVS hardware offload: on OpenShift, each MachineConfigPool that one names has its MachineConfig.
//!
//! ```text
//! pools, MachineConfigPools, MachineConfigs -> stores -> plan (pure) -> calls
//! ```
//!
//! There are few of them, and what belongs to one can depend on all: so a pass is about all of them.

mod calls;
mod objects;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use kube::{Client, Resource};
use parking_lot::Mutex;
use tracing::{info, warn};

use self::{
    calls::Calls,
    objects::{MachineConfig, MachinePool},
};
use super::{
    Controller, Error, Outcome, Queue,
    drift::{Cause, Drift},
    openshift::Infrastructure,
};
use crate::{
    api::{POOL_CONFIG_FINALIZER, SriovNetworkPoolConfig},
    apply::Contested,
    operator::{Events, Reason},
    pools::{MACHINES, Plan, PoolView, View, machine_config_name, machine_pool_of, plan},
    server::metrics::Metrics,
    stores::{Change, Key, Mirror, Objects, Source},
};

/// What does not change while the process runs.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The operator's namespace.
    pub namespace: String,
    /// Whether the cluster is OpenShift.
    pub is_openshift: bool,
}

/// The controller of pools with hardware offload.
pub struct Pools {
    setting: Setting,
    configs: Arc<Objects<SriovNetworkPoolConfig>>,
    openshift: Option<OpenShift>,
    calls: Calls,
    events: Events,
    /// What was told of each pool.
    told: Mutex<HashMap<String, String>>,
    /// The MachineConfigs, by MachineConfigPool.
    drift: Drift<String, ()>,
    /// What was found in MachineConfigs, by name.
    found: Mutex<HashMap<Box<str>, Found>>,
}

/// What a version of a MachineConfig holds.
#[derive(Clone)]
struct Found {
    version: Box<str>,
    is_current: bool,
}

struct OpenShift {
    infrastructure: Arc<Objects<Infrastructure>>,
    machine_pools: Arc<Objects<MachinePool>>,
    machine_configs: Arc<Objects<MachineConfig>>,
}

impl Pools {
    /// The controller of one leadership, and the tasks that fill its stores.
    pub fn start(
        client: &Client,
        setting: &Setting,
        events: &Events,
        metrics: &Arc<Metrics>,
        queue: &Queue<()>,
    ) -> (Self, Vec<Mirror>) {
        let path = SriovNetworkPoolConfig::url_path(&(), Some(&setting.namespace));
        let (pools, mirror) = Objects::mirror(client, "sriovnetworkpoolconfigs", path, {
            let queue = queue.clone();
            move |change: &Change<'_, SriovNetworkPoolConfig>| {
                let version =
                    |pool: &Arc<SriovNetworkPoolConfig>| pool.metadata.resource_version.clone();
                if change.before.map(version) != change.after.map(version) {
                    queue.add(());
                }
            }
        });
        let mut mirrors = vec![mirror];
        let openshift = setting
            .is_openshift
            .then(|| OpenShift::start(client, queue, &mut mirrors));
        // What was left while nobody looked may have no pool that would tell of it.
        queue.add(());
        let pools = Self {
            setting: setting.clone(),
            configs: pools,
            openshift,
            calls: Calls::new(client.clone(), &setting.namespace),
            events: events.clone(),
            told: Mutex::default(),
            drift: Drift::new("pools", metrics),
            found: Mutex::default(),
        };
        (pools, mirrors)
    }
}

impl OpenShift {
    fn start(client: &Client, queue: &Queue<()>, mirrors: &mut Vec<Mirror>) -> Self {
        let wake = {
            let queue = queue.clone();
            move || queue.add(())
        };
        let (infrastructure, mirror) = Infrastructure::watch(client, wake.clone());
        mirrors.push(mirror);
        let source = |what| {
            let path = format!("/apis/{MACHINES}/v1/{what}");
            Source::all(what, path).of_metadata()
        };
        let (machine_pools, mirror) = Objects::mirror_of(client, source("machineconfigpools"), {
            let wake = wake.clone();
            move |change: &Change<'_, MachinePool>| {
                if change.before.is_some() != change.after.is_some() {
                    wake();
                }
            }
        });
        mirrors.push(mirror);
        let (machine_configs, mirror) = Objects::mirror_of(client, source("machineconfigs"), {
            move |change: &Change<'_, MachineConfig>| {
                let ours = machine_pool_of(&change.key.name).is_some();
                if ours && change.before != change.after {
                    wake();
                }
            }
        });
        mirrors.push(mirror);
        Self {
            infrastructure,
            machine_pools,
            machine_configs,
        }
    }
}

impl Controller for Pools {
    type Key = ();
    const NAME: &'static str = "pools";
    const WORKERS: usize = 1;

    async fn reconcile(&self, (): &()) -> Result<Outcome, Error> {
        self.pass().await
    }
}

impl Pools {
    async fn pass(&self) -> Result<Outcome, Error> {
        let pools: Vec<Arc<SriovNetworkPoolConfig>> =
            self.configs.look(|pools| pools.values().cloned().collect());
        let openshift = self
            .openshift
            .as_ref()
            .filter(|openshift| !Infrastructure::is_hosted(&openshift.infrastructure));
        let (mut machine_pools, mut configs) = (None, BTreeMap::new());
        if let Some(openshift) = openshift {
            let names = openshift
                .machine_pools
                .look(|pools| pools.keys().map(|key| key.name.clone()).collect::<Vec<_>>());
            machine_pools = Some(names);
            configs = self.ours(openshift).await?;
        }
        let plan = plan(&View {
            pools: pools.iter().map(|pool| view(pool)).collect(),
            machine_pools: machine_pools
                .as_ref()
                .map(|names| names.iter().map(|name| &**name).collect::<BTreeSet<_>>()),
            machine_configs: configs
                .iter()
                .map(|(name, current)| (&**name, *current))
                .collect(),
        });
        self.carry_out(&pools, openshift, plan).await
    }

    async fn carry_out(
        &self,
        pools: &[Arc<SriovNetworkPoolConfig>],
        openshift: Option<&OpenShift>,
        plan: Plan,
    ) -> Result<Outcome, Error> {
        let mut outcome = Outcome::Done;
        let find = |name: &String| {
            pools
                .iter()
                .find(|pool| pool.metadata.name.as_ref() == Some(name))
        };
        let mut notes: HashMap<String, String> = plan
            .missing
            .into_iter()
            .map(|(pool, machine_pool)| {
                let note = format!(
                    "there is no MachineConfigPool {machine_pool}, which spec.ovsHardwareOffloadConfig.name names"
                );
                (pool, note)
            })
            .collect();
        for pool in plan.add_finalizer.iter().filter_map(find) {
            self.finalize(pool, true).await?;
        }
        for machine_pool in &plan.apply {
            let name = machine_config_name(machine_pool);
            let foreign = openshift
                .and_then(|openshift| openshift.machine_configs.get("", &name))
                .is_some_and(|live| !live.is_ours());
            if foreign {
                let named = |pool: &&Arc<SriovNetworkPoolConfig>| {
                    pool.spec.offload_pool() == Some(machine_pool.as_str())
                };
                let note =
                    format!("MachineConfig {name} is not the operator's, and is left as it is");
                let concerned = pools
                    .iter()
                    .filter(named)
                    .filter_map(|pool| pool.metadata.name.clone());
                notes.extend(concerned.map(|pool| (pool, note.clone())));
                continue;
            }
            let named = |pool: &&Arc<SriovNetworkPoolConfig>| {
                pool.spec.offload_pool() == Some(machine_pool.as_str())
            };
            let change = match self.drift.judge(machine_pool, &()) {
                Ok(change) => change,
                Err(Contested { manager, retry_in }) => {
                    let note =
                        format!("MachineConfig {name} is changed again and again by {manager}");
                    let concerned = pools
                        .iter()
                        .filter(named)
                        .filter_map(|pool| pool.metadata.name.clone());
                    notes.extend(concerned.map(|pool| (pool, note.clone())));
                    outcome = Outcome::Again(retry_in);
                    continue;
                }
            };
            if let Err(error) = self.calls.apply(machine_pool).await {
                self.drift.failed();
                return Err(error);
            }
            self.drift.written(machine_pool, (), change, None);
            info!(
                machine_config = name,
                ?change,
                "hardware offload is configured"
            );
            if change == Cause::Drifted {
                for pool in pools.iter().filter(named) {
                    let note = format!("MachineConfig {name} was changed and is repaired");
                    let about = pool.object_ref(&());
                    self.events.publish(&about, Reason::DriftRepaired, &note);
                }
            }
        }
        for name in &plan.delete {
            let Some(live) =
                openshift.and_then(|openshift| openshift.machine_configs.get("", name))
            else {
                continue;
            };
            self.calls.delete(name, live.uid()).await?;
            if let Some(machine_pool) = machine_pool_of(name) {
                self.drift.forget(&machine_pool.to_owned());
            }
            info!(
                machine_config = name,
                "hardware offload is no longer asked for"
            );
        }
        for pool in plan.remove_finalizer.iter().filter_map(find) {
            self.finalize(pool, false).await?;
        }
        self.tell(pools, notes);
        Ok(outcome)
    }

    /// The MachineConfigs under names of ours that are ours, with whether they are as wanted.
    async fn ours(&self, openshift: &OpenShift) -> Result<BTreeMap<Box<str>, bool>, Error> {
        let live: Vec<(Box<str>, Arc<MachineConfig>)> = openshift.machine_configs.look(|configs| {
            configs
                .iter()
                .filter(|(key, live)| machine_pool_of(&key.name).is_some() && live.is_ours())
                .map(|(key, live)| (key.name.clone(), Arc::clone(live)))
                .collect()
        });
        let mut ours = BTreeMap::new();
        for (name, live) in live {
            let known = self.found.lock().get(&name).cloned();
            let found = match known {
                Some(found) if *found.version == *live.version() => found,
                _ => Found {
                    version: live.version().into(),
                    is_current: self.calls.is_current(&name).await?,
                },
            };
            if let Some(machine_pool) = machine_pool_of(&name).filter(|_| found.is_current) {
                self.drift.is_as_wanted(&machine_pool.to_owned(), ());
            }
            ours.insert(name.clone(), found.is_current);
            self.found.lock().insert(name, found);
        }
        self.found.lock().retain(|name, _| ours.contains_key(name));
        Ok(ours)
    }

    async fn finalize(&self, pool: &SriovNetworkPoolConfig, add: bool) -> Result<(), Error> {
        let Some((version, body)) = self.calls.finalize(pool, add).await? else {
            return Ok(());
        };
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        // The last finalizer takes the object with it, which the watch tells.
        if body.metadata.deletion_timestamp.is_none() {
            let key = Key::new(&self.setting.namespace, name);
            self.configs.absorb(&key, &version, body);
        }
        Ok(())
    }

    /// Tells of each pool what keeps it from being done, once.
    fn tell(&self, pools: &[Arc<SriovNetworkPoolConfig>], notes: HashMap<String, String>) {
        let mut told = self.told.lock();
        for pool in pools {
            let name = pool.metadata.name.as_deref().unwrap_or_default();
            if let Some(note) = notes.get(name)
                && told.get(name) != Some(note)
            {
                warn!(pool = name, note, "hardware offload is not configured");
                let about = pool.object_ref(&());
                self.events.publish(&about, Reason::OffloadBlocked, note);
            }
        }
        *told = notes;
    }
}

fn view(pool: &SriovNetworkPoolConfig) -> PoolView<'_> {
    let finalizers = pool.metadata.finalizers.as_deref().unwrap_or_default();
    PoolView {
        name: pool.metadata.name.as_deref().unwrap_or_default(),
        offload: pool.spec.offload_pool(),
        is_deleted: pool.metadata.deletion_timestamp.is_some(),
        has_finalizer: finalizers
            .iter()
            .any(|finalizer| finalizer == POOL_CONFIG_FINALIZER),
    }
}
