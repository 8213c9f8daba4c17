//! The requests, each with a time limit and an error that names verb and object. It decides nothing.

use std::{future::Future, time::Duration};

use kube::{
    Api, Client, Resource,
    api::{
        ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions,
    },
    core::DynamicResourceScope,
    discovery::Scope,
};
use serde::Serialize;
use serde_json::Value;

use super::{CREATOR, Error, FIELD_MANAGER, Kind, ObjectRef, by_us};

/// How long one call may take. The API server's own limit for a request is 60 s; a reconcile is retried anyway.
const CALL_TIMEOUT: Duration = Duration::from_secs(20);

/// Requests about objects in the cluster and in one namespace.
pub(super) struct Calls {
    client: Client,
    namespace: String,
}

impl Calls {
    pub(super) fn new(client: Client, namespace: &str) -> Self {
        Self {
            client,
            namespace: namespace.to_owned(),
        }
    }

    pub(super) fn client(&self) -> Client {
        self.client.clone()
    }

    /// How a kind is addressed: namespaced ones in the namespace.
    pub(super) fn api<K>(&self, kind: &Kind) -> Api<K>
    where
        K: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>,
    {
        let resource = kind.api_resource();
        if kind.namespaced {
            Api::dynamic(self.client.clone(), &resource, &Scope::Namespaced)
                .constrain(&self.namespace)
        } else {
            Api::dynamic(self.client.clone(), &resource, &Scope::Cluster)
        }
    }

    /// The live object, if there is one.
    pub(super) async fn get(&self, object: &ObjectRef) -> Result<Option<Value>, Error> {
        let api: Api<DynamicObject> = self.api(object.kind);
        let live = call("read", object, api.get_opt(&object.name)).await?;
        live.map(|live| value("read", object, &live)).transpose()
    }

    /// Makes an object that becomes its users'. One that was made meanwhile is as good.
    pub(super) async fn create(&self, object: &ObjectRef, desired: &Value) -> Result<(), Error> {
        let body: DynamicObject = serde_json::from_value(desired.clone())
            .map_err(|error| Error::api("create", object, kube::Error::SerdeError(error)))?;
        let params = PostParams {
            field_manager: Some(CREATOR.into()),
            ..PostParams::default()
        };
        let api: Api<DynamicObject> = self.api(object.kind);
        match call("create", object, api.create(&params, &body)).await {
            Err(error) if error.is_already_exists() => Ok(()),
            other => other.map(drop),
        }
    }

    /// Applies, and returns the object as it is then.
    pub(super) async fn apply(&self, object: &ObjectRef, desired: &Value) -> Result<Value, Error> {
        let params = PatchParams::apply(FIELD_MANAGER).force();
        self.patch("apply", object, &params, &Patch::Apply(desired))
            .await
    }

    /// Changes who owns fields, by a patch that is guarded by what was read.
    pub(super) async fn take_over(
        &self,
        object: &ObjectRef,
        patch: json_patch::Patch,
    ) -> Result<(), Error> {
        self.patch("take over", object, &by_us(), &Patch::Json::<()>(patch))
            .await
            .map(drop)
    }

    async fn patch<P: Serialize + std::fmt::Debug>(
        &self,
        verb: &'static str,
        object: &ObjectRef,
        params: &PatchParams,
        patch: &Patch<P>,
    ) -> Result<Value, Error> {
        let api: Api<DynamicObject> = self.api(object.kind);
        let live = call(verb, object, api.patch(&object.name, params, patch)).await?;
        value(verb, object, &live)
    }

    /// Deletes the object with that uid. One that is gone is as good.
    pub(super) async fn delete(
        &self,
        object: &ObjectRef,
        uid: Option<String>,
    ) -> Result<(), Error> {
        let params = DeleteParams::default().preconditions(Preconditions {
            uid,
            resource_version: None,
        });
        let api: Api<DynamicObject> = self.api(object.kind);
        match call("delete", object, api.delete(&object.name, &params)).await {
            Err(error) if error.is_not_found() => Ok(()),
            other => other.map(drop),
        }
    }
}

async fn call<T>(
    verb: &'static str,
    object: &ObjectRef,
    future: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Error> {
    match tokio::time::timeout(CALL_TIMEOUT, future).await {
        Ok(result) => result.map_err(|error| Error::api(verb, object, error)),
        Err(_) => Err(Error::Timeout {
            verb,
            object: object.clone(),
            seconds: CALL_TIMEOUT.as_secs(),
        }),
    }
}

fn value(verb: &'static str, object: &ObjectRef, live: &DynamicObject) -> Result<Value, Error> {
    serde_json::to_value(live)
        .map_err(|error| Error::api(verb, object, kube::Error::SerdeError(error)))
}
