//! Networks that cannot work: refused at admission, told by the controller.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::{
    KINDS, has_own_definition, is, is_gone, is_provisioned, network, owner, resident, scene, stays,
};
use crate::support::NAMESPACE;
use crate::support::kinds::{NAD, NETWORK};
use crate::support::scene::Scene;
use crate::support::user::Refuser;

const INVALID: &str = "NetworkAttachmentDefinitionInvalid";

/// Fields that are wrong, and what is said of them.
fn malformed() -> [(&'static str, Value, &'static str); 6] {
    [
        (
            "ipam",
            json!("{\n  \"type\": }"),
            "spec.ipam: Invalid value: \"{\\n  \\\"type\\\": }\": line 2, column 11",
        ),
        (
            "ipam",
            json!("{},\"type\":\"host-device\""),
            "spec.ipam: Invalid value",
        ),
        (
            "capabilities",
            json!("[]"),
            "spec.capabilities: Invalid value: \"[]\": line 1, column 1",
        ),
        (
            "metaPlugins",
            json!("{\"type\":\"a\"},"),
            "spec.metaPlugins: Invalid value",
        ),
        (
            "metaPlugins",
            json!("{}"),
            "spec.metaPlugins: Invalid value: \"{}\": line 1, column 1: the plugin has no",
        ),
        (
            "resourceName",
            json!("r\n  namespace: kube-system"),
            "spec.resourceName: Invalid value",
        ),
    ]
}

#[tokio::test]
async fn malformed_fields_are_refused_at_admission_with_their_place() -> Result<()> {
    let scene = Scene::registered().await?;
    for kind in KINDS {
        for (field, value, fault) in malformed() {
            let mut object = network(kind, "net", "");
            object["spec"][field] = value;
            let answer = scene.admin().ask_create(&object).await?;
            ensure!(answer.refuser() == Some(Refuser::Webhook), "{answer:?}");
            ensure!(answer.message().contains(fault), "{}", answer.message());
        }
        let mut object = resident(kind, "net", "default");
        object["spec"]["networkNamespace"] = "kube-system".into();
        let answer = scene.admin().ask_create(&object).await?;
        ensure!(
            answer
                .message()
                .contains("spec.networkNamespace: Forbidden"),
            "{answer:?}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn what_reached_the_store_is_told_and_changes_nothing_until_it_is_put_right() -> Result<()> {
    let scene = scene(&["a"]).await?;
    let admin = scene.admin();
    for kind in KINDS {
        for (field, value, fault) in malformed() {
            let mut object = network(kind, "net", "a");
            object["spec"][field] = value;
            admin.create(&object).await?;
            is(admin, kind, "net", INVALID, fault).await?;
            ensure!(admin.get(NAD, "a/net").await?.is_none());
            admin.delete(kind, "net").await?;
            is_gone(admin, kind, "net").await?;
        }
    }

    // A good one that goes bad keeps what it has.
    admin.create(&network(NETWORK, "net", "a")).await?;
    is_provisioned(admin, NETWORK, "net").await?;
    let before = admin.must_get(NAD, "a/net").await?;
    let bad = json!({ "spec": { "ipam": "{", "vlan": 7 } });
    admin.merge(NETWORK, "net", &bad).await?;
    is(admin, NETWORK, "net", INVALID, "spec.ipam").await?;
    stays(admin, "a/net", &before).await?;
    let good = json!({ "spec": { "ipam": "{}" } });
    admin.merge(NETWORK, "net", &good).await?;
    is_provisioned(admin, NETWORK, "net").await?;
    let after = admin.must_get(NAD, "a/net").await?;
    ensure!(super::config(&after)?["vlan"] == 7);

    // One of another namespace that reaches out, with a finalizer from when it was allowed to: it can be deleted.
    let mut outside = resident(NETWORK, "out", "default");
    outside["spec"]["networkNamespace"] = "a".into();
    outside["metadata"]["finalizers"] = json!([super::FINALIZER]);
    admin.create(&outside).await?;
    is(
        admin,
        NETWORK,
        "default/out",
        INVALID,
        "networkNamespace cannot be set",
    )
    .await?;
    ensure!(admin.get(NAD, "a/out").await?.is_none());
    admin.delete(NETWORK, "default/out").await?;
    is_gone(admin, NETWORK, "default/out").await?;
    has_own_definition(admin, "a/net", &owner(NETWORK, NAMESPACE, "net")).await?;
    scene.was_allowed_everything()
}
