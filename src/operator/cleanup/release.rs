//! Finalizers on users' networks and pools. With the operator gone, and the reference's before it, nobody
//! else would remove them, and the objects could not be deleted.

use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch},
    core::NamespaceResourceScope,
};

use super::{Cleanup, Fault, Step, call};
use crate::{
    api::{
        NETWORK_FINALIZER, OVSNetwork, POOL_FINALIZER, SriovIBNetwork, SriovNetwork,
        SriovNetworkPoolConfig,
    },
    apply::finalizers,
};

impl<T: FnMut(Step) + Send> Cleanup<'_, T> {
    /// Removes them. The objects themselves stay.
    pub(super) async fn release_finalizers(&mut self) {
        self.release::<SriovNetwork>(NETWORK_FINALIZER).await;
        self.release::<SriovIBNetwork>(NETWORK_FINALIZER).await;
        self.release::<OVSNetwork>(NETWORK_FINALIZER).await;
        self.release::<SriovNetworkPoolConfig>(POOL_FINALIZER).await;
    }

    async fn release<K>(&mut self, finalizer: &'static str)
    where
        K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned,
    {
        let kind = K::kind(&());
        let everywhere: Api<K> = Api::all(self.client.clone());
        let objects = match call(everywhere.list_metadata(&ListParams::default())).await {
            Err(error) if error.is_forbidden() => {
                let namespace = &self.options.namespace;
                let skipped = format!(
                    "{kind} objects outside of {namespace}: there is no right to list them"
                );
                self.say(Step::Skipped(skipped));
                let ours: Api<K> = Api::namespaced(self.client.clone(), namespace);
                call(ours.list_metadata(&ListParams::default())).await
            }
            other => other,
        };
        let objects = match objects {
            Ok(objects) => objects.items,
            // A kind that the server does not know has no objects.
            Err(error) if error.is_missing() => return,
            Err(error) => {
                self.faults
                    .push(Fault::of(format!("{kind} objects"), &error));
                return;
            }
        };
        for object in objects {
            let uid = object.uid();
            let Some(removal) = finalizers::removal(uid.as_deref(), object.finalizers(), finalizer)
            else {
                continue;
            };
            let (name, namespace) = (object.name_any(), object.namespace().unwrap_or_default());
            let what = format!("{kind} {namespace}/{name}");
            let api: Api<K> = Api::namespaced(self.client.clone(), &namespace);
            let patch = Patch::Json::<()>(removal);
            match self.patch(&api, &name, &patch).await {
                Ok(true) => self.say(Step::Released { what, finalizer }),
                Ok(false) => {}
                Err(error) => self.faults.push(Fault::of(what, &error)),
            }
        }
    }
}
