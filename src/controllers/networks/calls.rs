//! The calls: each names what it touches, is guarded by what was read, and hands what the server answers to the stores.

use json_patch::Patch as JsonPatch;
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{
    objects::{Definition, Network},
    plan::Doomed,
};
use crate::{
    api::{API_VERSION, Condition, GROUP, NETWORK_FINALIZER},
    apply::{FIELD_MANAGER, by_us, finalizers, made_by_us, take_over},
    controllers::calls::{
        Answer, Error, answer, call, namespaced, that_very, undecodable, unless_gone,
    },
    networks::{Attachment, LAST_NAMESPACE_ANNOTATION, NetworkRef},
};

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
        let body: DynamicObject =
            serde_json::from_value(wanted.object()).map_err(|error| undecodable(&object, error))?;
        let api = self.definitions(&wanted.namespace);
        answer(call("create", &object, api.create(&made_by_us(), &body)).await?)
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
        answer(call("apply", &object, api.patch(name, &params, &patch)).await?)
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
        let live = call("read", &object, api.get(name)).await?;
        if live.metadata.resource_version.as_deref() != Some(version) {
            return Err(Error::Outdated(object));
        }
        let live = serde_json::to_value(live).unwrap_or_default();
        let Some(patch) = take_over(&live) else {
            return Ok(version.to_owned());
        };
        let patch = Patch::Json::<()>(patch);
        let taken = call("take over", &object, api.patch(name, &by_us(), &patch)).await?;
        Ok(taken.metadata.resource_version.unwrap_or_default())
    }

    /// Deletes the very definition that was seen. One that is gone is fine.
    pub(super) async fn delete(&self, name: &str, doomed: &Doomed) -> Result<(), Error> {
        let api = self.definitions(&doomed.namespace);
        let object = described(&doomed.namespace, name);
        let params = that_very(&doomed.uid);
        unless_gone(call("delete", &object, api.delete(name, &params)).await)
    }

    /// Whether the API server says that there is no such network. A kind that it does not know is no such answer.
    pub(super) async fn is_gone(&self, network: &NetworkRef) -> Result<bool, Error> {
        let api = self.networks(network);
        match call(
            "read",
            &network.to_string(),
            api.get_metadata(&network.name),
        )
        .await
        {
            Err(Error::Gone(_)) => Ok(true),
            result => result.map(|_| false),
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
        let patch = Patch::Apply(body);
        let written = api.patch_status(&network.name, &params, &patch);
        of_network(call("write the status of", &network.to_string(), written).await)
    }

    async fn patch(
        &self,
        network: &NetworkRef,
        verb: &'static str,
        patch: &Patch<Value>,
    ) -> Result<Option<Answer<Network>>, Error> {
        let api = self.networks(network);
        let params = by_us();
        let patched = api.patch(&network.name, &params, patch);
        of_network(call(verb, &network.to_string(), patched).await)
    }

    fn networks(&self, network: &NetworkRef) -> Api<DynamicObject> {
        let kind = network.kind;
        namespaced(
            &self.client,
            GROUP,
            kind.as_str(),
            kind.plural(),
            &network.namespace,
        )
    }

    fn definitions(&self, namespace: &str) -> Api<DynamicObject> {
        namespaced(
            &self.client,
            "k8s.cni.cncf.io",
            "NetworkAttachmentDefinition",
            "network-attachment-definitions",
            namespace,
        )
    }
}

fn described(namespace: &str, name: &str) -> String {
    format!("NetworkAttachmentDefinition {namespace}/{name}")
}

/// A network that is gone meanwhile needs nothing more.
fn of_network(result: Result<DynamicObject, Error>) -> Result<Option<Answer<Network>>, Error> {
    match result {
        Err(Error::Gone(_)) => Ok(None),
        result => answer(result?).map(Some),
    }
}
