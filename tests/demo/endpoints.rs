//! In a cluster that the demo did not boot, the API server reaches the operator on this machine as it reaches any
//! pod: through the Services' endpoints, which the demo writes since no pod stands behind them.

use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::NAMESPACE;
use crate::support::kinds::{NODE, SERVICE, text};
use crate::support::user::User;

const PERIOD: Duration = Duration::from_millis(200);

/// Publishes until it is dropped.
pub(crate) struct Endpoints {
    _task: JoinSet<()>,
}

impl Endpoints {
    /// Starts to give every Service of the operator's namespace this machine as its endpoint.
    pub(crate) fn publish(admin: User) -> Self {
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut reported = false;
            loop {
                if let Err(error) = publish_once(&admin).await
                    && !std::mem::replace(&mut reported, true)
                {
                    eprintln!("failed to publish endpoints: {error:#}");
                }
                tokio::time::sleep(PERIOD).await;
            }
        });
        Self { _task: task }
    }
}

async fn publish_once(admin: &User) -> Result<()> {
    for service in admin.list(SERVICE).await? {
        // A loopback address is a booted cluster's, without a proxy that would heed endpoints.
        if !text(&service, "/spec/clusterIP").starts_with("127.") {
            let address = own_address(&admin.list(NODE).await?)?;
            admin.apply(&slice(&service, address)).await?;
        }
    }
    Ok(())
}

/// Owned by the Service, so that it goes with it.
fn slice(service: &Value, address: IpAddr) -> Value {
    let name = text(service, "/metadata/name");
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": format!("{name}-demo"),
            "namespace": NAMESPACE,
            "labels": {
                "kubernetes.io/service-name": name,
                "endpointslice.kubernetes.io/managed-by": "sriov-operator-demo",
            },
            "ownerReferences": [{
                "apiVersion": "v1",
                "kind": "Service",
                "name": name,
                "uid": service["metadata"]["uid"],
            }],
        },
        "addressType": if address.is_ipv4() { "IPv4" } else { "IPv6" },
        "ports": [{ "port": service["spec"]["ports"][0]["targetPort"], "protocol": "TCP" }],
        "endpoints": [{ "addresses": [address], "conditions": { "ready": true } }],
    })
}

/// The address of this machine from which it would talk to a node, so one that the node can answer.
fn own_address(nodes: &[Value]) -> Result<IpAddr> {
    let node = nodes
        .iter()
        .flat_map(|node| node["status"]["addresses"].as_array().into_iter().flatten())
        .find(|address| address["type"] == "InternalIP")
        .context("no node of the cluster has an address")?;
    let node: IpAddr = text(node, "/address").parse()?;
    let any: IpAddr = if node.is_ipv4() {
        "0.0.0.0".parse()?
    } else {
        "::".parse()?
    };
    // Connecting a datagram socket sends nothing; it only chooses the route.
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect((node, 9))?;
    Ok(socket.local_addr()?.ip())
}
