//! The five requests about Secrets that the keeper makes, as a trait: the API server, and in tests a stand-in.

use std::future::Future;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client, Error};
use serde_json::Value;
use tokio::time::timeout;

use crate::{
    apply::{FIELD_MANAGER, by_us, made_by_us},
    lines::said,
};

/// Requests have no read time-out of their own.
const DEADLINE: Duration = Duration::from_secs(10);

/// Why a request about a Secret failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Somebody was faster: it exists already, is another version, or is gone.
    #[error("it was changed meanwhile")]
    Conflict,
    /// The API server did not answer.
    #[error("the API server did not answer within {DEADLINE:?}")]
    TimedOut,
    /// Anything else.
    #[error("{}", said(.0))]
    Api(Box<Error>),
}

/// Secrets of one namespace. What is written comes back as it is stored.
pub trait SecretStore: Send + Sync {
    /// The namespace.
    fn namespace(&self) -> &str;

    /// Reads one, `None` when there is none.
    fn read(&self, name: &str) -> impl Future<Output = Result<Option<Secret>, StoreError>> + Send;

    /// Creates one; [`StoreError::Conflict`] when it exists.
    fn create(&self, secret: &Secret) -> impl Future<Output = Result<Secret, StoreError>> + Send;

    /// Changes one by a merge patch, which names a `resourceVersion`.
    fn merge(
        &self,
        name: &str,
        patch: &Value,
    ) -> impl Future<Output = Result<Secret, StoreError>> + Send;

    /// Server-side apply. `force` takes over fields of others: only for what was read as ours, at that
    /// `resourceVersion`.
    fn apply(
        &self,
        secret: &Secret,
        force: bool,
    ) -> impl Future<Output = Result<Secret, StoreError>> + Send;

    /// Deletes the one with this uid; one that is gone already counts as deleted.
    fn delete(&self, name: &str, uid: &str) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// The Secrets of a namespace on the API server.
#[derive(Clone)]
pub struct KubeSecrets {
    api: Api<Secret>,
    namespace: String,
}

impl KubeSecrets {
    /// The Secrets of `namespace`.
    pub fn new(client: Client, namespace: &str) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            namespace: namespace.to_owned(),
        }
    }

    /// For the watches.
    pub(super) fn api(&self) -> Api<Secret> {
        self.api.clone()
    }
}

impl SecretStore for KubeSecrets {
    fn namespace(&self) -> &str {
        &self.namespace
    }

    async fn read(&self, name: &str) -> Result<Option<Secret>, StoreError> {
        within_deadline(self.api.get_opt(name)).await
    }

    async fn create(&self, secret: &Secret) -> Result<Secret, StoreError> {
        within_deadline(self.api.create(&made_by_us(), secret)).await
    }

    async fn merge(&self, name: &str, patch: &Value) -> Result<Secret, StoreError> {
        within_deadline(self.api.patch(name, &by_us(), &Patch::Merge(patch))).await
    }

    async fn apply(&self, secret: &Secret, force: bool) -> Result<Secret, StoreError> {
        let name = secret.metadata.name.as_deref().unwrap_or_default();
        let params = PatchParams {
            force,
            ..PatchParams::apply(FIELD_MANAGER)
        };
        within_deadline(self.api.patch(name, &params, &Patch::Apply(secret))).await
    }

    async fn delete(&self, name: &str, uid: &str) -> Result<(), StoreError> {
        let params = DeleteParams::default().preconditions(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        });
        let request = async {
            match self.api.delete(name, &params).await {
                Err(Error::Api(status)) if status.is_not_found() => Ok(()),
                other => other.map(drop),
            }
        };
        within_deadline(request).await
    }
}

async fn within_deadline<T>(
    request: impl Future<Output = Result<T, Error>>,
) -> Result<T, StoreError> {
    match timeout(DEADLINE, request).await {
        Err(_) => Err(StoreError::TimedOut),
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(Error::Api(status)))
            if status.is_conflict() || status.is_already_exists() || status.is_not_found() =>
        {
            Err(StoreError::Conflict)
        }
        Ok(Err(error)) => Err(StoreError::Api(Box::new(error))),
    }
}
