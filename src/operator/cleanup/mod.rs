//! Removing the operator's part from a cluster, whether or not an operator runs: for `sriov-operator cleanup`.
//!
//! ```text
//! config marked -> webhook configurations -> what was rolled out -> Secrets -> finalizers that nobody else removes
//! -> wait: for the operator to finish, if one leads -> else our finalizer of the config -> everything gone
//! -> the label of the nodes, the Lease
//! ```
//!
//! It writes nothing but deletions and removals of finalizers, each guarded by what was read, and what
//! `nodes` says. One fault keeps nothing else back. Users' policies, networks and pools stay, as do the definitions.

mod fault;
mod nodes;
mod release;
mod step;

use std::{collections::BTreeSet, future::Future, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    api::{coordination::v1::Lease, core::v1::Secret},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, ObjectMeta, Patch, Preconditions},
};
use tokio::time::{Instant, sleep, timeout};

use super::{finalizer, lease::LEASE_NAME, teardown::in_order_of_removal};
use crate::{
    api::{DEFAULT_CONFIG_NAME, SriovOperatorConfig},
    apply::{Applier, ObjectRef, by_us},
    certs::keeper::secrets::{AUTHORITY_SECRET, is_ours},
    settings::SecretNames,
};
use fault::{CallError, Fault, Left};
pub use step::Step;

/// How often what is left is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// How long one call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// How much of the time a leading operator gets to finish by itself.
const OPERATORS_SHARE: u32 = 2;

/// What is cleaned up, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The operator's namespace.
    pub namespace: String,
    /// The names of the Secrets with the serving pairs.
    pub secrets: SecretNames,
    /// How long everything may take.
    pub within: Duration,
    /// Look, and change nothing.
    pub dry_run: bool,
}

/// Cleans up. Each step is told as it is made. Returns what could not be done, a sentence each; empty when all is gone.
pub async fn run(client: &Client, options: &Options, tell: impl FnMut(Step) + Send) -> Vec<String> {
    let applier = Applier::new(client.clone(), &options.namespace);
    let mut cleanup = Cleanup {
        configs: Api::namespaced(client.clone(), &options.namespace),
        client,
        options,
        applier,
        owner: OwnerReference::default(),
        faults: Vec::new(),
        marked: BTreeSet::new(),
        tell,
    };
    cleanup.run().await;
    cleanup.faults.iter().map(Fault::to_string).collect()
}

struct Cleanup<'a, T> {
    client: &'a Client,
    configs: Api<SriovOperatorConfig>,
    options: &'a Options,
    applier: Applier,
    /// The config as an owner; without a uid when there is none.
    owner: OwnerReference,
    faults: Vec<Fault>,
    /// What was told to be removed, so that it is told once.
    marked: BTreeSet<String>,
    tell: T,
}

impl<T: FnMut(Step) + Send> Cleanup<'_, T> {
    async fn run(&mut self) {
        let deadline = Instant::now() + self.options.within;
        let config = self.mark_config().await;
        let mut faults = self.remove_objects().await;
        faults.extend(self.remove_secrets().await);
        self.release_finalizers().await;
        if self.options.dry_run {
            if config.is_some_and(|config| finalizer::is_present(&config)) {
                self.say(Step::Released {
                    what: config_name(),
                    finalizer: crate::api::OPERATOR_CONFIG_FINALIZER,
                });
            }
            self.release_nodes().await;
            self.faults.extend(faults);
            return;
        }
        let operators_end = Instant::now() + self.options.within / OPERATORS_SHARE;
        let mut told = Vec::new();
        loop {
            let mut left = self.look_at_config(operators_end, &faults).await;
            // What an operator applied in the moment in which the config was marked goes in a later round.
            faults = self.remove_objects().await;
            faults.extend(self.remove_secrets().await);
            left.extend(self.left().await);
            if left.is_empty() && faults.is_empty() {
                break;
            }
            let in_vain = self.waits_in_vain(operators_end, &faults, &left).await;
            if in_vain || Instant::now() >= deadline {
                faults.extend(left.into_iter().map(Fault::from));
                self.faults.extend(faults);
                break;
            }
            let waiting: Vec<String> = left
                .iter()
                .map(Left::to_string)
                .chain(faults.iter().map(Fault::to_string))
                .collect();
            if waiting != told {
                for line in &waiting {
                    self.say(Step::Waiting(line.clone()));
                }
                told = waiting;
            }
            sleep(LOOK_AGAIN).await;
        }
        self.release_nodes().await;
        self.remove_lease().await;
    }

    /// Whether all that is left waits for rights that are not there, with no operator that could use its own.
    async fn waits_in_vain(&self, operators_end: Instant, faults: &[Fault], left: &[Left]) -> bool {
        !faults.is_empty()
            && faults.iter().all(|fault| fault.is_forbidden)
            && left.iter().all(|left| left.what == config_name())
            && (Instant::now() >= operators_end || self.leader().await.is_none())
    }

    fn say(&mut self, step: Step) {
        (self.tell)(step);
    }

    /// Takes something of ours from an object that stays; in a dry run, it would. False when the object is gone.
    async fn patch<K, P>(
        &self,
        api: &Api<K>,
        name: &str,
        patch: &Patch<P>,
    ) -> Result<bool, CallError>
    where
        K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
        P: serde::Serialize + std::fmt::Debug,
    {
        if self.options.dry_run {
            return Ok(true);
        }
        match call(api.patch_metadata(name, &by_us(), patch)).await {
            Err(error) if error.is_missing() => Ok(false),
            other => other.map(|_| true),
        }
    }

    fn say_removed(&mut self, what: String) {
        if self.marked.insert(what.clone()) {
            self.say(Step::Removed(what));
        }
    }

    /// Marks the config for deletion, so that an operator that runs makes nothing anew. Its webhooks are not asked about
    /// deletions.
    async fn mark_config(&mut self) -> Option<SriovOperatorConfig> {
        let config = match read(&self.configs, DEFAULT_CONFIG_NAME).await {
            Ok(config) => config?,
            Err(error) => {
                self.faults.push(Fault::of(config_name(), &error));
                return None;
            }
        };
        if let Some(uid) = &config.metadata.uid {
            self.applier.set_config_uid(uid);
        }
        self.owner = config.controller_owner_ref(&()).unwrap_or_default();
        if config.metadata.deletion_timestamp.is_none() {
            self.say_removed(config_name());
            if !self.options.dry_run
                && let Err(error) = delete(&self.configs, &config.metadata).await
            {
                self.faults.push(Fault::of(config_name(), &error));
            }
        }
        Some(config)
    }

    /// Removes what templates made. Returns what failed.
    async fn remove_objects(&mut self) -> Vec<Fault> {
        let mut faults = Vec::new();
        self.applier.forget();
        for (_, object) in in_order_of_removal() {
            let removed = if self.options.dry_run {
                self.applier.get_ours(&object).await.map(|it| it.is_some())
            } else {
                self.applier.remove(&object).await
            };
            match removed {
                Ok(true) => self.say_removed(object.to_string()),
                Ok(false) => {}
                Err(error) => faults.push(error.into()),
            }
        }
        faults
    }

    /// Removes the authority and the serving pairs, those that are ours. Returns what failed.
    async fn remove_secrets(&mut self) -> Vec<Fault> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &self.options.namespace);
        let SecretNames { operator, injector } = &self.options.secrets;
        let mut faults = Vec::new();
        for name in [operator, injector, AUTHORITY_SECRET] {
            let secret = match read(&api, name).await {
                Ok(Some(secret)) if is_ours(&secret, &self.owner) => secret,
                Ok(_) => continue,
                Err(error) => {
                    faults.push(Fault::of(format!("Secret {name}"), &error));
                    continue;
                }
            };
            self.say_removed(format!("Secret {name}"));
            if !self.options.dry_run
                && let Err(error) = delete(&api, &secret.metadata).await
            {
                faults.push(Fault::of(format!("Secret {name}"), &error));
            }
        }
        faults
    }

    /// How the config stands. Once nothing keeps it but our finalizer, and no operator is there to remove that, it is
    /// removed here: all that it stands for is done.
    async fn look_at_config(&mut self, operators_end: Instant, faults: &[Fault]) -> Vec<Left> {
        let left = |why: String| {
            vec![Left {
                what: config_name(),
                why,
            }]
        };
        let config = match read(&self.configs, DEFAULT_CONFIG_NAME).await {
            Ok(Some(config)) => config,
            Ok(None) => return Vec::new(),
            Err(error) => return left(error.to_string()),
        };
        if config.metadata.deletion_timestamp.is_none() {
            return left("it is not marked for deletion".to_owned());
        }
        if !finalizer::is_present(&config) {
            return left(kept_by(finalizer::finalizers(&config)));
        }
        if !faults.is_empty() {
            return left("its finalizer stays until everything else is gone".to_owned());
        }
        if Instant::now() < operators_end
            && let Some(holder) = self.leader().await
        {
            return left(format!("the operator {holder} is to remove its finalizer"));
        }
        match finalizer::remove(&self.configs, &config).await {
            Ok(()) => {
                self.say(Step::Released {
                    what: config_name(),
                    finalizer: crate::api::OPERATOR_CONFIG_FINALIZER,
                });
                left("its finalizer is removed".to_owned())
            }
            Err(error) => left(error.to_string()),
        }
    }

    /// What of ours is still there, marked for deletion.
    async fn left(&self) -> Vec<Left> {
        let mut left = Vec::new();
        for (_, object) in in_order_of_removal() {
            // It failed before this look, too, and was told there.
            let Ok(Some(live)) = self.applier.get_ours(&object).await else {
                continue;
            };
            let finalizers: Vec<String> =
                serde_json::from_value(live["metadata"]["finalizers"].clone()).unwrap_or_default();
            left.push(Left {
                what: ObjectRef::to_string(&object),
                why: kept_by(&finalizers),
            });
        }
        left
    }

    /// Who holds the Lease, if it is in force.
    async fn leader(&self) -> Option<String> {
        let lease = self.lease().await.ok()??;
        holder(&lease, Timestamp::now())
    }

    async fn lease(&self) -> Result<Option<Lease>, CallError> {
        let api: Api<Lease> = Api::namespaced(self.client.clone(), &self.options.namespace);
        read(&api, LEASE_NAME).await
    }

    /// Removes the Lease unless somebody holds it, who would make it anew. It keeps nothing back, so a missing right to
    /// do it is no fault.
    async fn remove_lease(&mut self) {
        let api: Api<Lease> = Api::namespaced(self.client.clone(), &self.options.namespace);
        let Ok(Some(lease)) = self.lease().await else {
            return;
        };
        if holder(&lease, Timestamp::now()).is_none() && delete(&api, &lease.metadata).await.is_ok()
        {
            self.say_removed(format!("Lease {LEASE_NAME}"));
        }
    }
}

/// Who holds a Lease that has not expired.
fn holder(lease: &Lease, now: Timestamp) -> Option<String> {
    let spec = lease.spec.as_ref()?;
    let holder = spec
        .holder_identity
        .clone()
        .filter(|holder| !holder.is_empty())?;
    let renewed = spec.renew_time.as_ref()?.0;
    let lasts = Duration::from_secs(u64::try_from(spec.lease_duration_seconds?).ok()?);
    (renewed + lasts > now).then_some(holder)
}

fn config_name() -> String {
    format!("SriovOperatorConfig {DEFAULT_CONFIG_NAME}")
}

fn kept_by(finalizers: &[String]) -> String {
    if finalizers.is_empty() {
        "it is being deleted".to_owned()
    } else {
        format!("it is kept by the finalizers {}", finalizers.join(", "))
    }
}

/// Reads an object; one of a kind that the server does not know is not there.
async fn read<K>(api: &Api<K>, name: &str) -> Result<Option<K>, CallError>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    match call(api.get_opt(name)).await {
        Err(error) if error.is_missing() => Ok(None),
        other => other,
    }
}

/// Deletes the very object that was read.
async fn delete<K>(api: &Api<K>, metadata: &ObjectMeta) -> Result<(), CallError>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let params = DeleteParams::default().preconditions(Preconditions {
        uid: metadata.uid.clone(),
        resource_version: None,
    });
    let name = metadata.name.clone().unwrap_or_default();
    match call(api.delete(&name, &params)).await {
        Err(error) if error.is_missing() => Ok(()),
        other => other.map(drop),
    }
}

async fn call<T>(request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, CallError> {
    Ok(timeout(CALL_TIMEOUT, request)
        .await
        .map_err(|_| CallError::Timeout)??)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_held_until_it_expires() {
        let lease = |holder: &str, renewed: &str| -> Lease {
            let spec = serde_json::json!({"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed});
            serde_json::from_value(serde_json::json!({"metadata": {}, "spec": spec})).unwrap()
        };
        let now: Timestamp = "2026-01-01T00:00:20Z".parse().unwrap();
        let held = lease("a", "2026-01-01T00:00:06.000000Z");
        assert_eq!(holder(&held, now).as_deref(), Some("a"));
        assert_eq!(
            holder(&lease("a", "2026-01-01T00:00:05.000000Z"), now),
            None
        );
        assert_eq!(holder(&lease("", "2026-01-01T00:00:19.000000Z"), now), None);
        assert_eq!(holder(&Lease::default(), now), None);
    }
}
