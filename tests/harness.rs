//! The harness itself: if this fails, no other failure here means anything.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::support::cluster::Cluster;
use crate::support::kinds::CONFIG;
use crate::support::{NAMESPACE, manifests, world};

#[tokio::test]
async fn the_shipped_definitions_are_served_and_keep_explicit_false_and_zero() -> Result<()> {
    let cluster = Cluster::boot().await?;
    let admin = cluster.admin();
    manifests::install(admin).await?;
    world::load(admin, &world::seeds()?).await?;
    let spec = json!({ "enableInjector": false, "logLevel": 0 });
    admin.create(&world::config(&spec)).await?;
    let stored = admin.must_get(CONFIG, "default").await?;
    ensure!(stored["spec"]["enableInjector"] == false);
    ensure!(stored["spec"]["logLevel"] == 0);
    let version = admin.version().await?;
    ensure!(version.starts_with("v1."), "it is Kubernetes {version}");
    Ok(())
}

#[tokio::test]
async fn services_get_addresses_of_this_machine() -> Result<()> {
    let cluster = Cluster::boot().await?;
    manifests::namespace(cluster.admin(), NAMESPACE).await?;
    let service = cluster
        .admin()
        .create(&json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": { "name": "any", "namespace": NAMESPACE },
            "spec": { "ports": [{ "port": 443, "targetPort": 6443 }] },
        }))
        .await?;
    let address = service["spec"]["clusterIP"].as_str().unwrap_or_default();
    ensure!(address.starts_with("127."), "the Service has {address}");
    Ok(())
}
