//! The writes of a drain. Each is guarded by the version that was read, so that of two writers one wins and the other
//! looks again; and what the server answers goes into the stores at once.

use std::time::Duration;

use jiff::Timestamp;
use kube::{
    Api, Client, Resource,
    api::{DynamicObject, Patch, PatchParams, PostParams, Request},
};
use serde_json::{Value, json};

use super::objects::{MachinePool, Node, Pod, State, US};
use crate::{
    api::{
        API_VERSION, Condition, DEFAULT_CONFIG_NAME, GROUP, SriovNetworkNodeState,
        SriovOperatorConfig,
    },
    apply::by_us,
    controllers::calls::{Answer, Error, answer, call, cluster_scoped, namespaced},
    drain::{
        CORDONED_BY, CURRENT_STATE, DESIRED_STATE, DRAIN_STARTED, DRAINING, IDLE, STATE, pause,
    },
    pools::MACHINES,
};

/// How long the server may take to write that a drain begins. Whoever leads next grants nothing before that is over.
const BEGIN_WITHIN: Duration = Duration::from_secs(2);

/// Who writes the condition about drains.
const CONDITION_MANAGER: &str = "sriov-operator-drain";

/// Makes calls.
#[derive(Clone)]
pub(super) struct Calls {
    client: Client,
    /// Repeats nothing by itself: a refused eviction is tried again when it is time.
    once: Client,
    namespace: String,
}

/// What came of an eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Evicted {
    /// The pod goes, or is gone.
    Yes,
    /// Not now, and why.
    No(String),
}

impl Calls {
    pub(super) fn new(client: Client, once: Client, namespace: &str) -> Self {
        Self {
            client,
            once,
            namespace: namespace.to_owned(),
        }
    }

    /// What a Node lacks becomes Idle.
    pub(super) async fn initialise_node(
        &self,
        name: &str,
        node: &Node,
    ) -> Result<Answer<Node>, Error> {
        let annotations = json!({ STATE: IDLE });
        self.patch_node(name, node, annotations, None).await
    }

    /// What a node state lacks becomes Idle.
    pub(super) async fn initialise_state(
        &self,
        name: &str,
        state: &State,
        current: bool,
        desired: bool,
    ) -> Result<Answer<State>, Error> {
        let mut annotations = json!({});
        if current {
            annotations[CURRENT_STATE] = IDLE.into();
        }
        if desired {
            annotations[DESIRED_STATE] = IDLE.into();
        }
        self.patch_state(name, state, annotations).await
    }

    /// A drain begins. The server gives up after a short time, so that nothing is written when another leads.
    pub(super) async fn begin(&self, name: &str, state: &State) -> Result<Answer<State>, Error> {
        let annotations = json!({
            CURRENT_STATE: DRAINING,
            DRAIN_STARTED: Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        });
        let patch = Patch::Merge(guarded(
            &state.metadata.uid,
            &state.metadata.resource_version,
            &annotations,
        ));
        let collection = SriovNetworkNodeState::url_path(&(), Some(&self.namespace));
        let object = self.state(name);
        let written = async {
            let request = Request::new(collection).patch(name, &by_us(), &patch);
            let mut request = request.map_err(kube::Error::BuildRequest)?;
            let seconds = BEGIN_WITHIN.as_secs();
            if let Ok(uri) = format!("{}&timeout={seconds}s", request.uri()).parse() {
                *request.uri_mut() = uri;
            }
            self.client.request::<DynamicObject>(request).await
        };
        answer(call("begin the drain in", &object, written).await?)
    }

    /// The operator is that far.
    pub(super) async fn report(
        &self,
        name: &str,
        state: &State,
        current: &str,
    ) -> Result<Answer<State>, Error> {
        let mut annotations = json!({ CURRENT_STATE: current });
        if current == IDLE {
            annotations[DRAIN_STARTED] = Value::Null;
        }
        self.patch_state(name, state, annotations).await
    }

    /// Writes a condition of the config, under a field manager of its own: it is no matter of the reconciler's.
    pub(super) async fn tell(
        &self,
        config_uid: Option<&str>,
        condition: &Condition,
    ) -> Result<Answer<SriovOperatorConfig>, Error> {
        let body = json!({
            "apiVersion": API_VERSION,
            "kind": "SriovOperatorConfig",
            "metadata": { "name": DEFAULT_CONFIG_NAME, "uid": config_uid },
            "status": { "conditions": [condition] },
        });
        let (kind, plural) = ("SriovOperatorConfig", "sriovoperatorconfigs");
        let api = namespaced(&self.client, GROUP, kind, plural, &self.namespace);
        let params = PatchParams::apply(CONDITION_MANAGER).force();
        let patch = Patch::Apply(body);
        let written = api.patch_status(DEFAULT_CONFIG_NAME, &params, &patch);
        let object = format!("{kind} {}/{DEFAULT_CONFIG_NAME}", self.namespace);
        answer(call("write the status of", &object, written).await?)
    }

    /// Cordons a node, on record.
    pub(super) async fn cordon(&self, name: &str, node: &Node) -> Result<Answer<Node>, Error> {
        let annotations = json!({ CORDONED_BY: US });
        self.patch_node(name, node, annotations, Some(true)).await
    }

    /// Removes our record of a cordon, and with `lift` the cordon.
    pub(super) async fn uncordon(
        &self,
        name: &str,
        node: &Node,
        lift: bool,
    ) -> Result<Answer<Node>, Error> {
        let annotations = json!({ CORDONED_BY: null });
        self.patch_node(name, node, annotations, lift.then_some(false))
            .await
    }

    /// Asks for the eviction of that very pod.
    pub(super) async fn evict(&self, pod: &Pod) -> Evicted {
        let meta = &pod.metadata;
        let body = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": { "name": meta.name, "namespace": meta.namespace },
            "deleteOptions": { "preconditions": { "uid": meta.uid } },
        });
        let path = format!(
            "/api/v1/namespaces/{}/pods/{}/eviction",
            meta.namespace, meta.name
        );
        let evicted = async {
            let body = body.to_string().into_bytes();
            let request = Request::new(path).create(&PostParams::default(), body);
            let request = request.map_err(kube::Error::BuildRequest)?;
            self.once.request::<Value>(request).await
        };
        match call(
            "evict",
            &format!("Pod {}/{}", meta.namespace, meta.name),
            evicted,
        )
        .await
        {
            // Another pod of that name is somewhere else.
            Ok(_) | Err(Error::Gone(_) | Error::Outdated(_)) => Evicted::Yes,
            Err(Error::Refused { message, .. } | Error::Unclear { message, .. }) => {
                Evicted::No(message)
            }
            Err(error @ Error::NoKind(_)) => Evicted::No(error.to_string()),
        }
    }

    /// Whether there is such a DaemonSet.
    pub(super) async fn has_daemon_set(&self, namespace: &str, name: &str) -> Result<bool, Error> {
        let api = namespaced(&self.client, "apps", "DaemonSet", "daemonsets", namespace);
        let object = format!("DaemonSet {namespace}/{name}");
        match call("read", &object, api.get_metadata(name)).await {
            Ok(_) => Ok(true),
            Err(Error::Gone(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The MachineConfigPool that a MachineConfig was rendered for.
    pub(super) async fn machine_pool_of(
        &self,
        machine_config: &str,
    ) -> Result<Option<Box<str>>, Error> {
        let api = self.machine("MachineConfig", "machineconfigs");
        let object = format!("MachineConfig {machine_config}");
        let read = call("read", &object, api.get_metadata(machine_config)).await?;
        let owners = read.metadata.owner_references.unwrap_or_default();
        let owner = owners
            .into_iter()
            .find(|owner| owner.kind == "MachineConfigPool");
        Ok(owner.map(|owner| owner.name.into()))
    }

    /// A MachineConfigPool as it is now.
    pub(super) async fn machine_pool(&self, name: &str) -> Result<Answer<MachinePool>, Error> {
        let api = self.machine("MachineConfigPool", "machineconfigpools");
        answer(call("read", &format!("MachineConfigPool {name}"), api.get(name)).await?)
    }

    /// Pauses or resumes a MachineConfigPool, on record.
    pub(super) async fn pause(
        &self,
        name: &str,
        pool: &MachinePool,
        pause: bool,
    ) -> Result<Answer<MachinePool>, Error> {
        let (record, paused) = pause::written(pause);
        let meta = &pool.metadata;
        let mut body = guarded(&meta.uid, &meta.resource_version, &json!({ STATE: record }));
        body["spec"] = json!({ "paused": paused });
        let api = self.machine("MachineConfigPool", "machineconfigpools");
        let verb = if pause { "pause" } else { "resume" };
        let (params, patch) = (by_us(), Patch::Merge(body));
        let written = api.patch(name, &params, &patch);
        answer(call(verb, &format!("MachineConfigPool {name}"), written).await?)
    }

    async fn patch_node(
        &self,
        name: &str,
        node: &Node,
        annotations: Value,
        unschedulable: Option<bool>,
    ) -> Result<Answer<Node>, Error> {
        let meta = &node.metadata;
        let mut body = guarded(&meta.uid, &meta.resource_version, &annotations);
        if let Some(unschedulable) = unschedulable {
            // Absent is what a node is made with.
            let value = if unschedulable {
                json!(true)
            } else {
                Value::Null
            };
            body["spec"] = json!({ "unschedulable": value });
        }
        let api = cluster_scoped(&self.client, "", "Node", "nodes");
        let patch = Patch::Merge(body);
        answer(
            call(
                "change",
                &format!("Node {name}"),
                api.patch(name, &by_us(), &patch),
            )
            .await?,
        )
    }

    async fn patch_state(
        &self,
        name: &str,
        state: &State,
        annotations: Value,
    ) -> Result<Answer<State>, Error> {
        let meta = &state.metadata;
        let patch = Patch::Merge(guarded(&meta.uid, &meta.resource_version, &annotations));
        let kind = "SriovNetworkNodeState";
        let api = namespaced(
            &self.client,
            GROUP,
            kind,
            "sriovnetworknodestates",
            &self.namespace,
        );
        answer(
            call(
                "change",
                &self.state(name),
                api.patch(name, &by_us(), &patch),
            )
            .await?,
        )
    }

    fn machine(&self, kind: &str, plural: &str) -> Api<DynamicObject> {
        cluster_scoped(&self.client, MACHINES, kind, plural)
    }

    fn state(&self, name: &str) -> String {
        format!("SriovNetworkNodeState {}/{name}", self.namespace)
    }
}

/// A change of annotations of the very object and version that was read.
fn guarded(uid: &str, version: &str, annotations: &Value) -> Value {
    json!({ "metadata": { "uid": uid, "resourceVersion": version, "annotations": annotations } })
}
