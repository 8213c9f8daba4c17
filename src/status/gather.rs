//! The calls: each part by itself, all at once, none longer than a few seconds.

use std::{collections::BTreeMap, fmt::Debug, future::Future, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment},
    coordination::v1::Lease,
    core::v1::{Pod, Secret, Service},
};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams, PartialObjectMeta},
    discovery::Scope,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;

use super::report::{Part, UNKNOWN_KIND};
use crate::{
    api::{
        DEFAULT_CONFIG_NAME, GROUP, SriovNetworkNodePolicy, SriovNetworkNodeState,
        SriovOperatorConfig,
    },
    certs::{keeper::secrets::AUTHORITY_SECRET, published::Configuration},
    lines::said,
    networks::NetworkKind,
    operator::lease::LEASE_NAME,
    pools::MACHINES,
    settings::SecretNames,
};

/// How long one part may take.
const WITHIN: Duration = Duration::from_secs(10);

/// What was read, as it is.
#[derive(Clone, Debug)]
pub struct Gathered {
    /// The wall clock.
    pub now: Timestamp,
    /// The operator's namespace.
    pub namespace: String,
    /// The names of the Secrets with the serving pairs.
    pub secret_names: SecretNames,
    /// `SriovOperatorConfig/default`.
    pub config: Part<Option<Box<SriovOperatorConfig>>>,
    /// The workloads of the namespace.
    pub daemon_sets: Part<Vec<DaemonSet>>,
    /// See [`Self::daemon_sets`].
    pub deployments: Part<Vec<Deployment>>,
    /// The pods of the namespace.
    pub pods: Part<Vec<Pod>>,
    /// The Services of the namespace.
    pub services: Part<Vec<Service>>,
    /// The webhook configurations.
    pub configurations: BTreeMap<Configuration, Part<Option<Value>>>,
    /// The Secrets with the serving pairs, and the CA's, by name.
    pub secrets: BTreeMap<String, Part<Option<Secret>>>,
    /// The operator's Lease.
    pub lease: Part<Option<Box<Lease>>>,
    /// The policies.
    pub policies: Part<Vec<SriovNetworkNodePolicy>>,
    /// The nodes' states.
    pub node_states: Part<Vec<SriovNetworkNodeState>>,
    /// The networks of all namespaces, by kind.
    pub networks: BTreeMap<NetworkKind, Part<Vec<DynamicObject>>>,
    /// The network attachment definitions of all namespaces.
    pub definitions: Part<Vec<Metadata>>,
    /// The MachineConfigPools of OpenShift.
    pub machine_pools: Part<Vec<DynamicObject>>,
    /// The MachineConfigs of OpenShift.
    pub machine_configs: Part<Vec<Metadata>>,
}

/// An object of which only the metadata is read.
pub type Metadata = PartialObjectMeta<DynamicObject>;

/// Reads everything.
pub async fn gather(client: &Client, namespace: &str, secret_names: &SecretNames) -> Gathered {
    let secrets = [
        secret_names.operator.as_str(),
        secret_names.injector.as_str(),
        AUTHORITY_SECRET,
    ];
    let secrets = secrets.map(|name| async move {
        let secret = get::<Secret>(Api::namespaced(client.clone(), namespace), name).await;
        (name.to_owned(), secret)
    });
    let configurations = Configuration::ALL.map(|configuration| async move {
        (configuration, registered(client, configuration).await)
    });
    let config = get::<SriovOperatorConfig>(
        Api::namespaced(client.clone(), namespace),
        DEFAULT_CONFIG_NAME,
    );
    let lease = get::<Lease>(Api::namespaced(client.clone(), namespace), LEASE_NAME);
    let (daemon_sets, deployments, pods, services, policies, node_states) = tokio::join!(
        list(Api::namespaced(client.clone(), namespace)),
        list(Api::namespaced(client.clone(), namespace)),
        list(Api::namespaced(client.clone(), namespace)),
        list(Api::namespaced(client.clone(), namespace)),
        list(Api::namespaced(client.clone(), namespace)),
        list(Api::namespaced(client.clone(), namespace)),
    );
    let networks = NetworkKind::ALL.map(|kind| async move {
        let api = everywhere(client, GROUP, kind.as_str(), kind.plural());
        (kind, list(api).await)
    });
    let definitions = everywhere(
        client,
        "k8s.cni.cncf.io",
        "NetworkAttachmentDefinition",
        "network-attachment-definitions",
    );
    let machines = |kind, plural| everywhere(client, MACHINES, kind, plural);
    let machine_pools = machines("MachineConfigPool", "machineconfigpools");
    let machine_configs = machines("MachineConfig", "machineconfigs");
    let (networks, definitions, machine_pools, machine_configs) = tokio::join!(
        futures::future::join_all(networks),
        list_metadata(definitions),
        list(machine_pools),
        list_metadata(machine_configs),
    );
    let (config, lease, secrets, configurations) = tokio::join!(
        config,
        lease,
        futures::future::join_all(secrets),
        futures::future::join_all(configurations),
    );
    Gathered {
        now: Timestamp::now(),
        namespace: namespace.to_owned(),
        secret_names: secret_names.clone(),
        config: config.map(|config| config.map(Box::new)),
        daemon_sets,
        deployments,
        pods,
        services,
        configurations: configurations.into_iter().collect(),
        secrets: secrets.into_iter().collect(),
        lease: lease.map(|lease| lease.map(Box::new)),
        policies,
        node_states,
        networks: networks.into_iter().collect(),
        definitions,
        machine_pools,
        machine_configs,
    }
}

/// The objects of a kind, wherever they are.
fn everywhere(client: &Client, group: &str, kind: &str, plural: &str) -> Api<DynamicObject> {
    let resource = ApiResource {
        group: group.into(),
        version: "v1".into(),
        api_version: format!("{group}/v1"),
        kind: kind.into(),
        plural: plural.into(),
    };
    Api::dynamic(client.clone(), &resource, &Scope::Cluster)
}

async fn list_metadata(api: Api<DynamicObject>) -> Part<Vec<Metadata>> {
    let params = ListParams::default();
    part(api.list_metadata(&params))
        .await
        .map(|list| list.items)
}

async fn registered(client: &Client, configuration: Configuration) -> Part<Option<Value>> {
    let api = everywhere(
        client,
        "admissionregistration.k8s.io",
        configuration.kind(),
        configuration.plural(),
    );
    get(api, configuration.name())
        .await
        .map(|object| object.and_then(|object| serde_json::to_value(object).ok()))
}

async fn get<K>(api: Api<K>, name: &str) -> Part<Option<K>>
where
    K: Clone + Debug + DeserializeOwned,
{
    part(api.get_opt(name)).await
}

async fn list<K>(api: Api<K>) -> Part<Vec<K>>
where
    K: Clone + Debug + DeserializeOwned,
{
    let params = ListParams::default();
    part(api.list(&params)).await.map(|list| list.items)
}

async fn part<T>(call: impl Future<Output = Result<T, kube::Error>>) -> Part<T> {
    let unreadable = match timeout(WITHIN, call).await {
        Ok(Ok(read)) => return Part::Read(read),
        Ok(Err(kube::Error::Api(status))) if status.code == 403 => {
            "you have no right to read it".to_owned()
        }
        // A kind that the server does not know answers in plain text.
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => UNKNOWN_KIND.to_owned(),
        Ok(Err(error)) => said(&error),
        Err(_) => format!("no answer within {} s", WITHIN.as_secs()),
    };
    Part::Unreadable { unreadable }
}
