//! Of two that want one definition, the first has it; what belongs to something else is left alone.

use anyhow::{Result, ensure};
use serde_json::json;

use super::{
    KINDS, OWNER, config, has_definition, has_no_definition, has_own_definition, is, is_gone,
    is_provisioned, namespace, network, owner, resident, scene, stays,
};
use crate::support::NAMESPACE;
use crate::support::kinds::{IB_NETWORK, NAD, NETWORK};

const INVALID: &str = "NetworkAttachmentDefinitionInvalid";

#[tokio::test]
async fn the_first_of_two_networks_has_the_definition_and_the_second_gets_it_afterwards()
-> Result<()> {
    let scene = scene(&["a", "b"]).await?;
    let admin = scene.admin();
    // One for another namespace, and one that lives there.
    for kind in KINDS {
        let name = kind.name.to_lowercase();
        let (first, second) = (owner(kind, NAMESPACE, &name), owner(kind, "a", &name));
        let there = format!("a/{name}");
        admin.create(&network(kind, &name, "a")).await?;
        is_provisioned(admin, kind, &name).await?;
        let mut later = resident(kind, &name, "a");
        later["spec"]["resourceName"] = "others".into();
        admin.create(&later).await?;
        is(admin, kind, &there, INVALID, &first).await?;
        let definition = has_own_definition(admin, &there, &first).await?;
        stays(admin, &there, &definition).await?;

        // The one without goes without harm, and comes back to wait.
        admin.delete(kind, &there).await?;
        is_gone(admin, kind, &there).await?;
        stays(admin, &there, &definition).await?;
        admin.create(&later).await?;
        is(admin, kind, &there, INVALID, &first).await?;

        admin.delete(kind, &name).await?;
        is_provisioned(admin, kind, &there).await?;
        has_own_definition(admin, &there, &second).await?;
    }

    // Two kinds; the one without moves away and leaves the other's alone.
    admin.create(&network(NETWORK, "net", "a")).await?;
    is_provisioned(admin, NETWORK, "net").await?;
    admin.create(&network(IB_NETWORK, "net", "a")).await?;
    is(
        admin,
        IB_NETWORK,
        "net",
        INVALID,
        &owner(NETWORK, NAMESPACE, "net"),
    )
    .await?;
    let definition = admin.must_get(NAD, "a/net").await?;
    ensure!(config(&definition)?["type"] == "sriov");
    let elsewhere = json!({ "spec": { "networkNamespace": "b" } });
    admin.merge(IB_NETWORK, "net", &elsewhere).await?;
    is_provisioned(admin, IB_NETWORK, "net").await?;
    stays(admin, "a/net", &definition).await?;

    // Both want to go where one namespace comes late: one has it, the other says why not.
    for kind in [NETWORK, IB_NETWORK] {
        admin.create(&network(kind, "race", "late")).await?;
    }
    namespace(admin, "late").await?;
    has_definition(admin, "late/race", |_| Ok(())).await?;
    let winner = admin.must_get(NAD, "late/race").await?["metadata"]["annotations"][OWNER].clone();
    let (won, lost) = if winner == owner(NETWORK, NAMESPACE, "race") {
        (NETWORK, IB_NETWORK)
    } else {
        (IB_NETWORK, NETWORK)
    };
    is_provisioned(admin, won, "race").await?;
    is(admin, lost, "race", INVALID, &owner(won, NAMESPACE, "race")).await?;
    scene.was_allowed_everything()
}

#[tokio::test]
async fn a_definition_that_nobody_owns_is_adopted_and_one_that_is_controlled_is_not() -> Result<()>
{
    let scene = scene(&["a"]).await?;
    let admin = scene.admin();
    let plain = |name: &str| {
        json!({
            "apiVersion": NAD.api_version, "kind": NAD.name,
            "metadata": { "name": name, "namespace": "a", "annotations": { "user": "x" } },
            "spec": { "config": "not JSON" },
        })
    };
    let plain_one = admin.create(&plain("net")).await?;
    admin.create(&network(NETWORK, "net", "a")).await?;
    let adopted = has_own_definition(admin, "a/net", &owner(NETWORK, NAMESPACE, "net")).await?;
    ensure!(adopted["metadata"]["uid"] == plain_one["metadata"]["uid"]);
    ensure!(adopted["metadata"]["annotations"]["user"] == "x");
    ensure!(config(&adopted)?["type"] == "sriov");

    let mut controlled = plain("other");
    controlled["metadata"]["ownerReferences"] = json!([
        { "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p", "controller": true }
    ]);
    let controlled = admin.create(&controlled).await?;
    admin.create(&network(NETWORK, "other", "a")).await?;
    is(admin, NETWORK, "other", INVALID, "belongs to Pod p").await?;
    stays(admin, "a/other", &controlled).await?;
    admin.delete(NETWORK, "other").await?;
    is_gone(admin, NETWORK, "other").await?;
    stays(admin, "a/other", &controlled).await?;

    // What says that it comes of a network that does not exist is left over from one.
    let mut orphan = plain("orphan");
    orphan["metadata"]["annotations"] = json!({ OWNER: owner(NETWORK, NAMESPACE, "orphan") });
    admin.create(&orphan).await?;
    has_no_definition(admin, "a/orphan").await?;
    scene.was_allowed_everything()
}
