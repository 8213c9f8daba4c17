//! The calls: each names what it touches, is guarded by what was read, and hands what the server answers to the stores.

use std::{future::Future, time::Duration};

use json_patch::Patch as JsonPatch;
use kube::{
    Api, Client,
    api::{
        ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions,
    },
    discovery::Scope,
};
use serde_json::{Value, json};

use super::{
    objects::{Definition, Network},
    plan::Doomed,
};
use crate::{
    api::{API_VERSION, Condition, GROUP, NETWORK_FINALIZER, VERSION},
    apply::{FIELD_MANAGER, finalizers, take_over},
    networks::{Attachment, LAST_NAMESPACE_ANNOTATION, NetworkKind, NetworkRef},
};

/// How long one call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(20);

/// Why a call did not do what it was to do.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// What was read is not what is there: the watch will show it.
    #[error("{0} has changed meanwhile")]
    Outdated(String),
    /// The API server refused or could not be reached.
    #[error("failed to {verb} {object}: {message}")]
    Refused {
        /// What was tried.
        verb: &'static str,
        /// On what.
        object: String,
        /// What the server said, one line.
        message: String,
    },
    /// The API server did not answer.
    #[error("failed to {verb} {object}: no answer within {} s", CALL_TIMEOUT.as_secs())]
    Unanswered {
        /// What was tried.
        verb: &'static str,
        /// On what.
        object: String,
    },
}

/// An object as the server answered it, cut down for the store.
pub(super) struct Answer<T> {
    pub(super) version: String,
    pub(super) body: T,
}

/// Makes calls.
#[derive(Clone)]
pub(super) struct Calls {
    client: Client,
}

impl Calls {
    pub(super) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Makes the definition. Of two networks that want one name, one wins here.
    pub(super) async fn create(&self, wanted: &Attachment) -> Result<Answer<Definition>, Error> {
        let object = described(&wanted.namespace, &wanted.network.name);
        let body: DynamicObject = serde_json::from_value(wanted.object())
            .map_err(|error| refused("create", &object, &kube::Error::SerdeError(error)))?;
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.into()),
            ..PostParams::default()
        };
        let api = self.definitions(&wanted.namespace);
        answer(call("create", object, api.create(&params, &body)).await?)
    }

    /// Changes the very version of the definition that was read. Fields of the reference's operator become ours before,
    /// so that what it wrote and we do not want goes.
    pub(super) async fn change(
        &self,
        wanted: &Attachment,
        live: &Definition,
    ) -> Result<Answer<Definition>, Error> {
        let name = &wanted.network.name;
        let object = described(&wanted.namespace, name);
        let api = self.definitions(&wanted.namespace);
        let mut version = live.metadata.resource_version.clone();
        if live.is_of_reference() {
            version = self.take_over(&api, wanted, &version).await?;
        }
        let mut body = wanted.object();
        body["metadata"]["uid"] = live.metadata.uid.as_str().into();
        body["metadata"]["resourceVersion"] = version.into();
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let patch = Patch::Apply(body);
        answer(call("apply", object, api.patch(name, &params, &patch)).await?)
    }

    /// Makes the fields of the reference's operator ours. Returns the version after it.
    async fn take_over(
        &self,
        api: &Api<DynamicObject>,
        wanted: &Attachment,
        version: &str,
    ) -> Result<String, Error> {
        let name = &wanted.network.name;
        let object = described(&wanted.namespace, name);
        let live = call("read", object.clone(), api.get(name)).await?;
        if live.metadata.resource_version.as_deref() != Some(version) {
            return Err(Error::Outdated(object));
        }
        let live = serde_json::to_value(live).unwrap_or_default();
        let Some(patch) = take_over(&live) else {
            return Ok(version.to_owned());
        };
        let patch = Patch::Json::<()>(patch);
        let taken = call("take over", object, api.patch(name, &by_us(), &patch)).await?;
        Ok(taken.metadata.resource_version.unwrap_or_default())
    }

    /// Deletes the very definition that was seen. One that is gone is fine.
    pub(super) async fn delete(&self, name: &str, doomed: &Doomed) -> Result<(), Error> {
        let params = DeleteParams::default().preconditions(Preconditions {
            uid: Some(doomed.uid.clone()),
            resource_version: None,
        });
        let api = self.definitions(&doomed.namespace);
        let object = described(&doomed.namespace, name);
        match timely(api.delete(name, &params)).await {
            Some(Err(error)) if is_not_found(&error) => Ok(()),
            result => outcome("delete", object, result).map(drop),
        }
    }

    /// Whether the API server says that there is no such network. A kind that it does not know is no such answer.
    pub(super) async fn is_gone(&self, network: &NetworkRef) -> Result<bool, Error> {
        let api = self.networks(network);
        match timely(api.get_metadata(&network.name)).await {
            Some(Err(error)) if is_not_found(&error) => Ok(true),
            result => outcome("read", network.to_string(), result).map(|_| false),
        }
    }

    /// Adds or removes our finalizer.
    pub(super) async fn finalize(
        &self,
        network: &NetworkRef,
        object: &Network,
        add: bool,
    ) -> Result<Option<Answer<Network>>, Error> {
        let (uid, current) = (
            Some(object.metadata.uid.as_str()),
            object.metadata.finalizers.as_slice(),
        );
        let patch: Option<JsonPatch> = if add {
            finalizers::addition(uid, current, NETWORK_FINALIZER)
        } else {
            finalizers::removal(uid, current, NETWORK_FINALIZER)
        };
        let Some(patch) = patch else { return Ok(None) };
        let patch = Patch::Json(patch);
        self.patch(network, "change the finalizers of", &patch)
            .await
    }

    /// Writes or removes the annotation that says where the definition was made.
    pub(super) async fn annotate(
        &self,
        network: &NetworkRef,
        object: &Network,
        namespace: Option<&str>,
    ) -> Result<Option<Answer<Network>>, Error> {
        let patch = Patch::Merge(json!({
            "metadata": {"uid": object.metadata.uid, "annotations": {LAST_NAMESPACE_ANNOTATION: namespace}},
        }));
        self.patch(network, "annotate", &patch).await
    }

    /// Writes the condition.
    pub(super) async fn report(
        &self,
        network: &NetworkRef,
        object: &Network,
        ready: &Condition,
    ) -> Result<Option<Answer<Network>>, Error> {
        let body = json!({
            "apiVersion": API_VERSION,
            "kind": network.kind.as_str(),
            "metadata": {"name": network.name, "uid": object.metadata.uid},
            "status": {"conditions": [ready]},
        });
        let api = self.networks(network);
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let written = timely(api.patch_status(&network.name, &params, &Patch::Apply(body))).await;
        of_network("write the status of", network, written)
    }

    async fn patch(
        &self,
        network: &NetworkRef,
        verb: &'static str,
        patch: &Patch<Value>,
    ) -> Result<Option<Answer<Network>>, Error> {
        let api = self.networks(network);
        let patched = timely(api.patch(&network.name, &by_us(), patch)).await;
        of_network(verb, network, patched)
    }

    fn networks(&self, network: &NetworkRef) -> Api<DynamicObject> {
        let resource = resource(network.kind);
        Api::dynamic(self.client.clone(), &resource, &Scope::Namespaced)
            .constrain(&network.namespace)
    }

    fn definitions(&self, namespace: &str) -> Api<DynamicObject> {
        let resource = ApiResource {
            group: "k8s.cni.cncf.io".into(),
            version: "v1".into(),
            api_version: "k8s.cni.cncf.io/v1".into(),
            kind: "NetworkAttachmentDefinition".into(),
            plural: "network-attachment-definitions".into(),
        };
        Api::dynamic(self.client.clone(), &resource, &Scope::Namespaced).constrain(namespace)
    }
}

/// The kind as kube's dynamic API takes it.
fn resource(kind: NetworkKind) -> ApiResource {
    ApiResource {
        group: GROUP.into(),
        version: VERSION.into(),
        api_version: API_VERSION.into(),
        kind: kind.as_str().into(),
        plural: kind.plural().into(),
    }
}

fn described(namespace: &str, name: &str) -> String {
    format!("NetworkAttachmentDefinition {namespace}/{name}")
}

fn by_us() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.into()),
        ..PatchParams::default()
    }
}

/// A call that answers with nothing when it takes too long.
async fn timely<T>(
    future: impl Future<Output = Result<T, kube::Error>>,
) -> Option<Result<T, kube::Error>> {
    tokio::time::timeout(CALL_TIMEOUT, future).await.ok()
}

async fn call<T>(
    verb: &'static str,
    object: String,
    future: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Error> {
    outcome(verb, object, timely(future).await)
}

fn outcome<T>(
    verb: &'static str,
    object: String,
    result: Option<Result<T, kube::Error>>,
) -> Result<T, Error> {
    match result {
        Some(Ok(answer)) => Ok(answer),
        Some(Err(error)) if is_outdated(&error) => Err(Error::Outdated(object)),
        Some(Err(error)) => Err(refused(verb, &object, &error)),
        None => Err(Error::Unanswered { verb, object }),
    }
}

/// A network that is gone meanwhile needs nothing more.
fn of_network(
    verb: &'static str,
    network: &NetworkRef,
    result: Option<Result<DynamicObject, kube::Error>>,
) -> Result<Option<Answer<Network>>, Error> {
    match result {
        Some(Err(error)) if is_not_found(&error) => Ok(None),
        result => answer(outcome(verb, network.to_string(), result)?).map(Some),
    }
}

/// Whether a call failed since what it was guarded by, or what it needs, is not as it was when it was read: another
/// version, another object of the name, a namespace that is gone or goes, a test of a patch that does not hold.
fn is_outdated(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else {
        return false;
    };
    let terminating = status.details.iter().flat_map(|details| &details.causes);
    status.is_conflict()
        || status.is_already_exists()
        || is_not_found(error)
        || (status.is_invalid() && status.message.contains("the server rejected our request"))
        || terminating
            .into_iter()
            .any(|cause| cause.reason == "NamespaceTerminating")
}

/// A missing object is a `Status` with that reason; a missing kind is a 404 in plain text.
fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.reason == "NotFound")
}

fn refused(verb: &'static str, object: &str, error: &kube::Error) -> Error {
    let message = match error {
        kube::Error::Api(status) if status.code == 404 => {
            "the API server does not know this kind".to_owned()
        }
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    };
    Error::Refused {
        verb,
        object: object.to_owned(),
        message: message.split_whitespace().collect::<Vec<_>>().join(" "),
    }
}

fn answer<T: serde::de::DeserializeOwned>(object: DynamicObject) -> Result<Answer<T>, Error> {
    let version = object.metadata.resource_version.clone().unwrap_or_default();
    let name = object.metadata.name.clone().unwrap_or_default();
    let body = serde_json::to_value(object).and_then(serde_json::from_value);
    let body = body.map_err(|error| refused("decode", &name, &kube::Error::SerdeError(error)))?;
    Ok(Answer { version, body })
}
