//! Where definitions are: namespaces that come late, moves, and what a network leaves behind.

use anyhow::{Result, ensure};
use serde_json::json;

use super::{
    A_WHILE, KINDS, LAST, has_no_definition, has_own_definition, in_operators, is, is_gone,
    is_provisioned, namespace, network, owner, replace, resident, scene,
};
use crate::support::NAMESPACE;
use crate::support::cluster::Cluster;
use crate::support::kinds::{NAD, NAMESPACES, NETWORK, OVS_NETWORK};
use crate::support::scene::Scene;
use crate::support::wait::throughout;

fn to(target: &str) -> serde_json::Value {
    json!({ "spec": { "networkNamespace": target } })
}

#[tokio::test]
async fn a_network_waits_for_its_namespace_and_follows_it() -> Result<()> {
    let scene = scene(&["a", "b"]).await?;
    let admin = scene.admin();
    // A namespace that comes late.
    for kind in KINDS {
        admin
            .create(&network(kind, kind.name.to_lowercase().as_str(), "late"))
            .await?;
    }
    for kind in KINDS {
        let name = kind.name.to_lowercase();
        is(admin, kind, &name, "NamespaceNotFound", "does not exist").await?;
    }
    namespace(admin, "late").await?;
    for kind in KINDS {
        let name = kind.name.to_lowercase();
        has_own_definition(
            admin,
            &format!("late/{name}"),
            &owner(kind, NAMESPACE, &name),
        )
        .await?;
        is_provisioned(admin, kind, &name).await?;
    }

    // A move, and one to a namespace that is not there yet.
    let mine = owner(NETWORK, NAMESPACE, "net");
    admin.create(&network(NETWORK, "net", "a")).await?;
    has_own_definition(admin, "a/net", &mine).await?;
    is_provisioned(admin, NETWORK, "net").await?;
    admin.merge(NETWORK, "net", &to("b")).await?;
    has_own_definition(admin, "b/net", &mine).await?;
    has_no_definition(admin, "a/net").await?;
    let stored = is_provisioned(admin, NETWORK, "net").await?;
    ensure!(stored["metadata"]["annotations"][LAST] == "b");
    admin.merge(NETWORK, "net", &to("c")).await?;
    is(
        admin,
        NETWORK,
        "net",
        "NamespaceNotFound",
        "namespace c does not exist",
    )
    .await?;
    has_no_definition(admin, "b/net").await?;
    namespace(admin, "c").await?;
    has_own_definition(admin, "c/net", &mine).await?;

    // Back home, where it is owned.
    admin
        .merge(
            NETWORK,
            "net",
            &json!({ "spec": { "networkNamespace": null } }),
        )
        .await?;
    let home = has_own_definition(admin, &in_operators("net"), &mine).await?;
    ensure!(home["metadata"]["ownerReferences"][0]["name"] == "net");
    has_no_definition(admin, "c/net").await?;

    // Moved and deleted at once: nothing stays anywhere.
    for target in ["a", "b", "nowhere"] {
        admin.merge(NETWORK, "net", &to(target)).await?;
        admin.delete(NETWORK, "net").await?;
        is_gone(admin, NETWORK, "net").await?;
        for namespace in ["a", "b", "c", NAMESPACE] {
            has_no_definition(admin, &format!("{namespace}/net")).await?;
        }
        admin.create(&network(NETWORK, "net", "a")).await?;
        has_own_definition(admin, "a/net", &mine).await?;
    }
    scene.was_allowed_everything()
}

#[tokio::test]
async fn the_annotation_about_the_last_namespace_leads_to_nothing_foreign() -> Result<()> {
    let scene = scene(&["a", "b"]).await?;
    let admin = scene.admin();
    // It names what never was, and it is empty as the reference's operator leaves it.
    for (name, last) in [("never", "non-existent-namespace"), ("empty", "")] {
        let mut object = network(NETWORK, name, "a");
        object["metadata"]["annotations"] = json!({ LAST: last });
        admin.create(&object).await?;
        let mine = owner(NETWORK, NAMESPACE, name);
        has_own_definition(admin, &format!("a/{name}"), &mine).await?;
        let stored = is_provisioned(admin, NETWORK, name).await?;
        ensure!(stored["metadata"]["annotations"][LAST] == "a");
    }
    // It names a place where a user has a definition of that name.
    let users = json!({
        "apiVersion": NAD.api_version, "kind": NAD.name,
        "metadata": { "name": "mine", "namespace": "b" }, "spec": { "config": "{\"type\":\"bridge\"}" },
    });
    let users = admin.create(&users).await?;
    let mut object = network(NETWORK, "mine", "a");
    object["metadata"]["annotations"] = json!({ LAST: "b" });
    admin.create(&object).await?;
    is_provisioned(admin, NETWORK, "mine").await?;
    super::stays(admin, "b/mine", &users).await?;

    // A definition that was adopted moves like one that was made.
    admin
        .create(&network(NETWORK, "adopted", "nowhere"))
        .await?;
    is(admin, NETWORK, "adopted", "NamespaceNotFound", "").await?;
    let mut plain = users.clone();
    plain["metadata"] = json!({ "name": "adopted", "namespace": "b" });
    admin.create(&plain).await?;
    admin.merge(NETWORK, "adopted", &to("b")).await?;
    let mine = owner(NETWORK, NAMESPACE, "adopted");
    has_own_definition(admin, "b/adopted", &mine).await?;
    let stored = is_provisioned(admin, NETWORK, "adopted").await?;
    ensure!(stored["metadata"]["annotations"][LAST] == "b");
    replace(
        admin,
        NETWORK,
        "adopted",
        &network(NETWORK, "adopted", "a")["spec"],
    )
    .await?;
    has_own_definition(admin, "a/adopted", &mine).await?;
    has_no_definition(admin, "b/adopted").await?;

    // A copy that a user made of a definition, marks and all, is the user's.
    let mut copy = admin.must_get(NAD, "a/adopted").await?;
    copy["metadata"] = json!({ "name": "adopted", "namespace": "b", "annotations": copy["metadata"]["annotations"] });
    let copy = admin.create(&copy).await?;
    super::stays(admin, "b/adopted", &copy).await?;
    scene.was_allowed_everything()
}

#[tokio::test]
async fn a_namespace_that_is_being_deleted_is_waited_for() -> Result<()> {
    let cluster = Cluster::boot().await?.with_controller_manager()?;
    let mut scene = super::installed(Scene::on(cluster).await?, &["team"]).await?;
    scene.operator.start()?;
    scene.is_ready().await?;
    let admin = scene.admin();
    // Something keeps the namespace from going.
    let keeper = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "keeper", "namespace": "team", "finalizers": ["example.com/keeper"] },
    });
    admin.create(&keeper).await?;
    admin.create(&network(NETWORK, "net", "team")).await?;
    admin.create(&resident(OVS_NETWORK, "own", "team")).await?;
    is_provisioned(admin, NETWORK, "net").await?;
    is_provisioned(admin, OVS_NETWORK, "team/own").await?;
    admin.delete(NAMESPACES, "team").await?;
    is(admin, NETWORK, "net", "NamespaceNotFound", "").await?;
    has_no_definition(admin, "team/net").await?;
    throughout(A_WHILE, "waiting", async || {
        ensure!(admin.get(NAD, "team/net").await?.is_none(), "it was made");
        Ok(())
    })
    .await?;
    let free = json!({ "metadata": { "finalizers": null } });
    admin
        .merge(crate::support::kinds::CONFIG_MAP, "team/keeper", &free)
        .await?;
    is(admin, NETWORK, "net", "NamespaceNotFound", "does not exist").await?;
    namespace(admin, "team").await?;
    // An Event about what lived there may come too late for its namespace, so that not everything was allowed.
    is_provisioned(admin, NETWORK, "net").await.map(drop)
}
