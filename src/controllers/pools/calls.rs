//! The calls of the controller of pools.

use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams},
};

use crate::{
    api::{POOL_CONFIG_FINALIZER, SriovNetworkPoolConfig},
    apply::{FIELD_MANAGER, by_us, finalizers},
    controllers::calls::{Error, call, cluster_scoped, that_very, unless_gone},
    pools::{MACHINES, is_current, machine_config, machine_config_name, machine_pool_of},
};

/// Makes calls.
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

    /// Whether a MachineConfig does what is wanted. One that is gone does not.
    pub(super) async fn is_current(&self, name: &str) -> Result<bool, Error> {
        let api = self.machine_configs();
        let live = match call("read", &described(name), api.get(name)).await {
            Err(Error::Gone(_)) => return Ok(false),
            live => serde_json::to_value(live?).unwrap_or_default(),
        };
        Ok(machine_pool_of(name).is_some_and(|machine_pool| is_current(&live, machine_pool)))
    }

    /// Applies the MachineConfig of a MachineConfigPool.
    pub(super) async fn apply(&self, machine_pool: &str) -> Result<(), Error> {
        let name = machine_config_name(machine_pool);
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let patch = Patch::Apply(machine_config(machine_pool));
        let api = self.machine_configs();
        let applied = api.patch(&name, &params, &patch);
        call("apply", &described(&name), applied).await.map(drop)
    }

    /// Deletes that very MachineConfig.
    pub(super) async fn delete(&self, name: &str, uid: &str) -> Result<(), Error> {
        let (api, params) = (self.machine_configs(), that_very(uid));
        unless_gone(call("delete", &described(name), api.delete(name, &params)).await)
    }

    /// Adds or removes the finalizer of a pool. Returns it with its version, unless there is nothing to do or it is gone.
    pub(super) async fn finalize(
        &self,
        pool: &SriovNetworkPoolConfig,
        add: bool,
    ) -> Result<Option<(String, SriovNetworkPoolConfig)>, Error> {
        let meta = &pool.metadata;
        let current = meta.finalizers.as_deref().unwrap_or_default();
        let uid = meta.uid.as_deref();
        let patch = if add {
            finalizers::addition(uid, current, POOL_CONFIG_FINALIZER)
        } else {
            finalizers::removal(uid, current, POOL_CONFIG_FINALIZER)
        };
        let Some(patch) = patch else {
            return Ok(None);
        };
        let name = meta.name.as_deref().unwrap_or_default();
        let api: Api<SriovNetworkPoolConfig> =
            Api::namespaced(self.client.clone(), &self.namespace);
        let object = format!("SriovNetworkPoolConfig {}/{name}", self.namespace);
        let (params, patch) = (by_us(), Patch::Json::<()>(patch));
        let patched = api.patch(name, &params, &patch);
        match call("change the finalizers of", &object, patched).await {
            Ok(pool) => {
                let version = pool.metadata.resource_version.clone().unwrap_or_default();
                Ok(Some((version, pool)))
            }
            Err(Error::Gone(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn machine_configs(&self) -> Api<DynamicObject> {
        cluster_scoped(&self.client, MACHINES, "MachineConfig", "machineconfigs")
    }
}

fn described(name: &str) -> String {
    format!("MachineConfig {name}")
}
