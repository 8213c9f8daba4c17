//! The harness itself: if this fails, no other failure here means anything.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::support::cluster::Cluster;
use crate::support::kinds::{CONFIG, SERVICE};
use crate::support::{NAMESPACE, manifests, world};

#[tokio::test]
async fn two_clusters_run_side_by_side_and_serve_the_shipped_crds() -> Result<()> {
    let (one, other) = tokio::try_join!(Cluster::boot(), Cluster::boot())?;
    for cluster in [&one, &other] {
        manifests::install(cluster.admin()).await?;
        world::seed(cluster.admin()).await?;
    }
    let spec = json!({ "enableInjector": false, "logLevel": 0 });
    one.admin().create(&world::config(&spec)).await?;
    ensure!(one.admin().get(CONFIG, "default").await?.is_some());
    ensure!(other.admin().get(CONFIG, "default").await?.is_none());
    Ok(())
}

#[tokio::test]
async fn services_get_addresses_of_this_machine() -> Result<()> {
    let cluster = Cluster::boot().await?;
    let admin = cluster.admin();
    manifests::namespace(admin, NAMESPACE).await?;
    let service = admin
        .create(&json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": { "name": "any", "namespace": NAMESPACE },
            "spec": { "ports": [{ "port": 443, "targetPort": 6443 }] },
        }))
        .await?;
    let address = service["spec"]["clusterIP"].as_str().unwrap_or_default();
    ensure!(address.starts_with("127."), "the Service has {address}");
    ensure!(admin.get(SERVICE, "any").await?.is_some());
    Ok(())
}
