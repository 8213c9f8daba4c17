//! A stand-in for the API server's Secrets: resource versions, uids, field ownership of data, and a process that dies.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::store::{SecretStore, StoreError};
use crate::apply::FIELD_MANAGER;

#[derive(Default)]
struct Cluster {
    secrets: BTreeMap<String, Secret>,
    version: u64,
    writes: usize,
    reads: usize,
}

/// One process's view of the shared cluster.
#[derive(Clone)]
pub(super) struct FakeSecrets {
    cluster: Arc<Mutex<Cluster>>,
    /// How many more writes this process lives for.
    lives_for: Arc<AtomicUsize>,
    /// How often each request lets others run first, cyclically.
    pauses: Arc<[u8]>,
    turn: Arc<AtomicUsize>,
}

impl FakeSecrets {
    pub(super) fn new() -> Self {
        Self {
            cluster: Arc::default(),
            lives_for: Arc::new(AtomicUsize::new(usize::MAX)),
            pauses: Arc::new([0]),
            turn: Arc::default(),
        }
    }

    /// Another process on the same cluster, which is interrupted as told.
    pub(super) fn process(&self, pauses: &[u8]) -> Self {
        Self {
            cluster: Arc::clone(&self.cluster),
            lives_for: Arc::new(AtomicUsize::new(usize::MAX)),
            pauses: pauses.into(),
            turn: Arc::default(),
        }
    }

    pub(super) fn dies_after(&self, writes: usize) {
        self.lives_for.store(writes, Ordering::Relaxed);
    }

    pub(super) fn get(&self, name: &str) -> Option<Secret> {
        self.cluster.lock().secrets.get(name).cloned()
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.cluster.lock().secrets.keys().cloned().collect()
    }

    pub(super) fn writes(&self) -> usize {
        self.cluster.lock().writes
    }

    pub(super) fn reads(&self) -> usize {
        self.cluster.lock().reads
    }

    /// A change by hand: like `kubectl replace`, it owns what it changes.
    pub(super) fn by_hand(&self, name: &str, edit: impl FnOnce(&mut Secret)) {
        let mut cluster = self.cluster.lock();
        let mut secret = cluster.secrets.get(name).cloned().unwrap_or_default();
        let before = secret.data.clone();
        edit(&mut secret);
        secret.metadata.name = Some(name.to_owned());
        let kept: Vec<String> = owned_keys(&secret)
            .into_iter()
            .filter(|key| {
                let value = |data: &Option<BTreeMap<_, _>>| data.as_ref()?.get(key).cloned();
                value(&before) == value(&secret.data)
            })
            .collect();
        own(&mut secret, &kept);
        cluster.put(secret);
    }

    pub(super) fn delete_by_hand(&self, name: &str) {
        self.cluster.lock().secrets.remove(name);
    }

    async fn pause(&self) {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let pauses = self.pauses.get(turn % self.pauses.len().max(1));
        for _ in 0..pauses.copied().unwrap_or(0) {
            tokio::task::yield_now().await;
        }
    }

    async fn write<T>(
        &self,
        change: impl FnOnce(&mut Cluster) -> Result<T, StoreError> + Send,
    ) -> Result<T, StoreError> {
        self.pause().await;
        if self.lives_for.load(Ordering::Relaxed) == 0 {
            return Err(StoreError::TimedOut);
        }
        self.lives_for.fetch_sub(1, Ordering::Relaxed);
        let mut cluster = self.cluster.lock();
        cluster.writes += 1;
        change(&mut cluster)
    }
}

impl Cluster {
    fn put(&mut self, mut secret: Secret) -> Secret {
        self.version += 1;
        let version = self.version.to_string();
        let metadata = &mut secret.metadata;
        metadata.uid.get_or_insert_with(|| format!("uid-{version}"));
        metadata.resource_version = Some(version);
        let name = metadata.name.clone().unwrap_or_default();
        self.secrets.insert(name, secret.clone());
        secret
    }

    fn guarded(&self, name: &str, version: Option<&str>) -> Result<Secret, StoreError> {
        let secret = self.secrets.get(name).ok_or(StoreError::Conflict)?;
        if secret.metadata.resource_version.as_deref() != version {
            return Err(StoreError::Conflict);
        }
        Ok(secret.clone())
    }
}

fn owned_keys(secret: &Secret) -> Vec<String> {
    let entries = secret.metadata.managed_fields.iter().flatten();
    entries
        .filter(|entry| entry.manager.as_deref() == Some(FIELD_MANAGER))
        .filter_map(|entry| entry.fields_v1.as_ref()?.0.get("f:data")?.as_object())
        .flat_map(|fields| fields.keys().map(|key| key["f:".len()..].to_owned()))
        .collect()
}

fn own(secret: &mut Secret, keys: &[String]) {
    let fields: serde_json::Map<String, Value> = keys
        .iter()
        .map(|key| (format!("f:{key}"), json!({})))
        .collect();
    let fields = if fields.is_empty() {
        json!({})
    } else {
        json!({ "f:data": fields })
    };
    secret.metadata.managed_fields = Some(vec![ManagedFieldsEntry {
        manager: Some(FIELD_MANAGER.to_owned()),
        fields_v1: Some(FieldsV1(fields)),
        ..ManagedFieldsEntry::default()
    }]);
}

fn own_all(secret: &mut Secret) {
    let keys: Vec<String> = secret
        .data
        .iter()
        .flatten()
        .map(|(key, _)| key.clone())
        .collect();
    own(secret, &keys);
}

impl SecretStore for FakeSecrets {
    fn namespace(&self) -> &'static str {
        "sriov"
    }

    async fn read(&self, name: &str) -> Result<Option<Secret>, StoreError> {
        self.pause().await;
        self.cluster.lock().reads += 1;
        Ok(self.get(name))
    }

    async fn create(&self, secret: &Secret) -> Result<Secret, StoreError> {
        let mut secret = secret.clone();
        self.write(|cluster| {
            let name = secret.metadata.name.clone().unwrap_or_default();
            if cluster.secrets.contains_key(&name) {
                return Err(StoreError::Conflict);
            }
            own_all(&mut secret);
            Ok(cluster.put(secret))
        })
        .await
    }

    async fn merge(&self, name: &str, patch: &Value) -> Result<Secret, StoreError> {
        self.write(|cluster| {
            let live = cluster.guarded(name, patch["metadata"]["resourceVersion"].as_str())?;
            assert_ne!(
                live.immutable,
                Some(true),
                "an immutable Secret is not changed"
            );
            let mut value = serde_json::to_value(live).unwrap();
            json_patch::merge(&mut value, patch);
            let mut secret: Secret = serde_json::from_value(value).unwrap();
            own_all(&mut secret);
            Ok(cluster.put(secret))
        })
        .await
    }

    async fn apply(&self, secret: &Secret, force: bool) -> Result<Secret, StoreError> {
        self.write(|cluster| {
            let name = secret.metadata.name.clone().unwrap_or_default();
            let mut live = match (&secret.metadata.resource_version, force) {
                (Some(version), true) => cluster.guarded(&name, Some(version))?,
                (None, false) if cluster.secrets.contains_key(&name) => {
                    return Err(StoreError::Conflict);
                }
                (None, false) => Secret::default(),
                _ => panic!("what exists is taken over at its version, what does not is created"),
            };
            assert!(
                live.type_.is_none() || live.type_ == secret.type_,
                "the type changed"
            );
            let data = live.data.get_or_insert_default();
            for key in owned_keys(&Secret {
                metadata: live.metadata.clone(),
                ..Secret::default()
            }) {
                data.remove(&key);
            }
            data.extend(secret.data.clone().unwrap_or_default());
            live.metadata.name = Some(name);
            live.metadata.labels.clone_from(&secret.metadata.labels);
            live.metadata
                .owner_references
                .clone_from(&secret.metadata.owner_references);
            live.type_.clone_from(&secret.type_);
            let applied: Vec<String> = secret
                .data
                .iter()
                .flatten()
                .map(|(key, _)| key.clone())
                .collect();
            own(&mut live, &applied);
            Ok(cluster.put(live))
        })
        .await
    }

    async fn delete(&self, name: &str, uid: &str) -> Result<(), StoreError> {
        self.write(|cluster| match cluster.secrets.get(name) {
            Some(secret) if secret.metadata.uid.as_deref() != Some(uid) => {
                Err(StoreError::Conflict)
            }
            _ => {
                cluster.secrets.remove(name);
                Ok(())
            }
        })
        .await
    }
}
