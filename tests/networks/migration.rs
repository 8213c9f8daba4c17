//! Networks that the reference's operator has provisioned: what is equal is not written, what differs is taken over.

use anyhow::{Result, ensure};
use http::Method;
use serde_json::{Value, json};

use super::{
    FINALIZER, LAST, OWNER, RESOURCE, config, has_definition, has_no_definition, installed,
    is_provisioned, network, owner, stays,
};
use crate::support::NAMESPACE;
use crate::support::kinds::{Kind, NAD, NETWORK, text};
use crate::support::scene::Scene;
use crate::support::user::User;

/// The field manager of the reference's operator.
const REFERENCE: &str = "sriov-network-operator";

/// As the reference's operator writes it: with its layout and its order of keys.
fn written(name: &str, vlan: u16) -> String {
    format!(
        r#"{{
    "cniVersion": "1.0.0",
    "name": "{name}",
    "type": "sriov",
    "vlan": {vlan},
    "vlanQoS": 0,
    "logLevel": "info",
    "ipam": {{
        "type": "host-local",
        "subnet": "10.0.0.0/24"
    }}
}}"#
    )
}

fn definition(name: &str, annotations: &Value, config: &str) -> Value {
    json!({
        "apiVersion": NAD.api_version, "kind": NAD.name,
        "metadata": { "name": name, "namespace": "a", "annotations": annotations },
        "spec": { "config": config },
    })
}

pub(crate) async fn as_reference(admin: &User, object: &Value) -> Result<Value> {
    let collection = Kind::of(object)?.collection(Some(text(object, "/metadata/namespace")));
    let path = format!("{collection}?fieldManager={REFERENCE}");
    admin
        .call(Method::POST, &path, "application/json", Some(object))
        .await?
        .object()
}

/// A network for namespace `default` that the reference's operator has provisioned, with its definition.
pub(crate) async fn provisioned_definition(admin: &User, name: &str) -> Result<()> {
    provisioned(admin, name).await?;
    let here = json!({
        "spec": { "networkNamespace": "default" },
        "metadata": { "annotations": { LAST: "default" } },
    });
    admin.merge(NETWORK, name, &here).await?;
    let generation = json!({ "conditions": [{
        "type": "Ready", "status": "True", "reason": "NetworkReady", "observedGeneration": 2,
        "message": "said in other words", "lastTransitionTime": "2026-01-01T00:00:00Z",
    }] });
    admin.merge_status(NETWORK, name, &generation).await?;
    let marks = json!({ RESOURCE: "openshift.io/nics", OWNER: owner(NETWORK, NAMESPACE, name) });
    let mut definition = definition(name, &marks, &written(name, 0));
    definition["metadata"]["namespace"] = "default".into();
    as_reference(admin, &definition).await.map(drop)
}

/// A network that the reference's operator has provisioned.
async fn provisioned(admin: &User, name: &str) -> Result<Value> {
    let mut object = network(NETWORK, name, "a");
    object["metadata"]["finalizers"] = json!([FINALIZER]);
    object["metadata"]["annotations"] = json!({ LAST: "a" });
    object["spec"]["ipam"] = "{ \"type\": \"host-local\",\n \"subnet\": \"10.0.0.0/24\" }".into();
    admin.create(&object).await?;
    let ready = json!({ "conditions": [{
        "type": "Ready", "status": "True", "reason": "NetworkReady", "observedGeneration": 1,
        "message": "said in other words", "lastTransitionTime": "2026-01-01T00:00:00Z",
    }] });
    admin.merge_status(NETWORK, name, &ready).await
}

#[tokio::test]
async fn what_is_equal_is_left_untouched_and_what_differs_is_taken_over() -> Result<()> {
    let mut scene = installed(Scene::installed().await?, &["a", "b"]).await?;
    let admin = scene.admin().clone();
    let marks = |name: &str| json!({ RESOURCE: "openshift.io/nics", OWNER: owner(NETWORK, NAMESPACE, name) });
    let equal = provisioned(&admin, "equal").await?;
    let equal_one = as_reference(
        &admin,
        &definition("equal", &marks("equal"), &written("equal", 0)),
    )
    .await?;
    provisioned(&admin, "older").await?;
    let unmarked = json!({ RESOURCE: "openshift.io/nics" });
    as_reference(
        &admin,
        &definition("older", &unmarked, &written("older", 0)),
    )
    .await?;
    provisioned(&admin, "changed").await?;
    let mut changed = definition("changed", &marks("changed"), &written("changed", 9));
    changed["metadata"]["annotations"]["left/over"] = "x".into();
    as_reference(&admin, &changed).await?;
    provisioned(&admin, "moved").await?;
    as_reference(
        &admin,
        &definition("moved", &unmarked, &written("moved", 0)),
    )
    .await?;
    admin
        .merge(
            NETWORK,
            "moved",
            &json!({ "spec": { "networkNamespace": "b" } }),
        )
        .await?;
    scene.operator.start()?;
    scene.operator.ready().await?;

    // One without a mark is marked; fields that only the reference wrote go with its claim to them.
    has_definition(&admin, "a/older", |definition| {
        ensure!(definition["metadata"]["annotations"] == marks("older"));
        Ok(())
    })
    .await?;
    let taken = has_definition(&admin, "a/changed", |definition| {
        ensure!(config(definition)?["vlan"] == 0);
        ensure!(definition["metadata"]["annotations"] == marks("changed"));
        Ok(())
    })
    .await?;
    let managers: Vec<&str> = taken["metadata"]["managedFields"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|entry| text(entry, "/manager"))
        .collect();
    ensure!(managers == ["sriov-operator"], "{managers:?}");
    has_definition(&admin, "b/moved", |_| Ok(())).await?;
    has_no_definition(&admin, "a/moved").await?;
    is_provisioned(&admin, NETWORK, "moved").await?;

    stays(&admin, "a/equal", &equal_one).await?;
    let now = admin.must_get(NETWORK, "equal").await?;
    ensure!(
        now["metadata"]["resourceVersion"] == equal["metadata"]["resourceVersion"],
        "it became {now}"
    );
    scene.was_allowed_everything()
}
