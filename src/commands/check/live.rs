//! Reads the state of a running cluster: what admission keeps watches on, once, in pages.

use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use kube::{Client, Resource, api::ListParams, core::Request};
use serde_json::Value;
use tokio::time::timeout;

use super::{input::Document, state::State};
use crate::{
    api::{
        OVSNetwork, SriovIBNetwork, SriovNetwork, SriovNetworkNodePolicy, SriovNetworkNodeState,
        SriovNetworkPoolConfig, SriovOperatorConfig,
    },
    policy::{Kind, nic_ids},
    stores::SWITCHES,
};

/// Objects a page.
const PAGE_SIZE: u32 = 250;
/// What one page may take.
const PAGE_WITHIN: Duration = Duration::from_secs(30);

/// What the documents are to be judged against. NADs are read only where there are pods among them.
pub(super) async fn read(
    client: &Client,
    namespace: &str,
    documents: &[Document],
) -> Result<State> {
    let mut state = State::new(namespace);
    let config_map = |name: &str| {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        (path, format!("metadata.name={name}"))
    };
    let (path, nic_ids) = config_map(nic_ids::CONFIG_MAP);
    list(client, &path, Some(nic_ids), "ConfigMap", &mut state).await?;
    list(client, "/api/v1/nodes", None, "Node", &mut state).await?;
    let ours = |path: String, kind: &'static str| (path, kind);
    let namespace = Some(namespace);
    let mut collections = vec![
        ours(
            SriovNetworkNodeState::url_path(&(), namespace),
            "SriovNetworkNodeState",
        ),
        ours(
            SriovNetworkNodePolicy::url_path(&(), namespace),
            Kind::NodePolicy.as_str(),
        ),
    ];
    let is_judged = |kind: Kind| {
        documents
            .iter()
            .any(|document| document.object["kind"] == kind.as_str())
    };
    // Others are needed in their stored version only, wherever they are.
    for kind in Kind::ALL {
        // What nodes are to be follows from these, too.
        let decides = matches!(kind, Kind::OperatorConfig | Kind::PoolConfig);
        if (is_judged(kind) || (decides && is_judged(Kind::NodePolicy))) && kind != Kind::NodePolicy
        {
            collections.push(ours(everywhere(kind), kind.as_str()));
        }
    }
    for (path, kind) in collections {
        list(client, &path, None, kind, &mut state).await?;
    }
    if documents
        .iter()
        .any(|document| document.object["kind"] == "Pod")
    {
        let nads = "/apis/k8s.cni.cncf.io/v1/network-attachment-definitions";
        list(
            client,
            nads,
            None,
            "NetworkAttachmentDefinition",
            &mut state,
        )
        .await?;
        let (path, switches) = config_map(SWITCHES);
        list(client, &path, Some(switches), "ConfigMap", &mut state).await?;
    }
    Ok(state)
}

/// The path of all objects of a kind, whatever their namespace.
fn everywhere(kind: Kind) -> String {
    match kind {
        Kind::OperatorConfig => SriovOperatorConfig::url_path(&(), None),
        Kind::NodePolicy => SriovNetworkNodePolicy::url_path(&(), None),
        Kind::PoolConfig => SriovNetworkPoolConfig::url_path(&(), None),
        Kind::Network => SriovNetwork::url_path(&(), None),
        Kind::IbNetwork => SriovIBNetwork::url_path(&(), None),
        Kind::OvsNetwork => OVSNetwork::url_path(&(), None),
    }
}

/// Lists a collection into the state. A kind that the server does not know is an empty list.
async fn list(
    client: &Client,
    path: &str,
    field_selector: Option<String>,
    kind: &str,
    state: &mut State,
) -> Result<()> {
    let mut params = ListParams {
        limit: Some(PAGE_SIZE),
        field_selector,
        ..ListParams::default()
    };
    loop {
        let request = Request::new(path).list(&params)?;
        let page = timeout(PAGE_WITHIN, client.request::<Value>(request))
            .await
            .map_err(|_| anyhow!("{path}: no answer within {PAGE_WITHIN:?}"))?;
        let mut page = match page {
            Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(()),
            page => page.with_context(|| path.to_owned())?,
        };
        let version = page["apiVersion"].clone();
        if let Value::Array(items) = page["items"].take() {
            for mut item in items {
                item["kind"] = kind.into();
                item["apiVersion"] = version.clone();
                state.insert(&item);
            }
        }
        params.continue_token = page["metadata"]["continue"]
            .as_str()
            .filter(|token| !token.is_empty())
            .map(str::to_owned);
        if params.continue_token.is_none() {
            return Ok(());
        }
    }
}
