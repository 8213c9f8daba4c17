//! Networks, told from outside: each has its network attachment definition, where it is to be, as it is to be, and
//! nobody else's.

mod conflicts;
mod definitions;
mod faults;
mod living;
pub(crate) mod migration;
mod namespaces;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::support::kinds::{IB_NETWORK, Kind, NAD, NETWORK, OVS_NETWORK, text};
use crate::support::scene::{PATIENCE, Scene};
use crate::support::user::User;
use crate::support::wait::{eventually, throughout};
use crate::support::{NAMESPACE, world};

const KINDS: [Kind; 3] = [NETWORK, IB_NETWORK, OVS_NETWORK];
const FINALIZER: &str = "netattdef.finalizers.sriovnetwork.openshift.io";
const OWNER: &str = "sriovnetwork.openshift.io/owner-ref";
const RESOURCE: &str = "k8s.v1.cni.cncf.io/resourceName";
const LAST: &str = "operator.sriovnetwork.openshift.io/last-network-namespace";
/// How long something is watched that must not happen.
const A_WHILE: Duration = Duration::from_millis(800);

/// An operator without webhooks, so that what admission would refuse reaches the controller, and these namespaces.
async fn scene(namespaces: &[&str]) -> Result<Scene> {
    let mut scene = installed(Scene::installed().await?, namespaces).await?;
    scene.operator.start()?;
    scene.is_ready().await?;
    Ok(scene)
}

/// The same, with the operator not started yet.
async fn installed(scene: Scene, namespaces: &[&str]) -> Result<Scene> {
    let without_webhooks =
        json!({ "enableInjector": false, "enableOperatorWebhook": false, "logLevel": 2 });
    scene.configure(&without_webhooks).await?;
    for name in namespaces {
        namespace(scene.admin(), name).await?;
    }
    Ok(scene)
}

async fn namespace(admin: &User, name: &str) -> Result<()> {
    let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
    admin.create(&object).await.map(drop)
}

/// A network of the operator's namespace, for another one unless that is empty.
fn network(kind: Kind, name: &str, target: &str) -> Value {
    let mut spec = json!({ "resourceName": "nics" });
    if !target.is_empty() {
        spec["networkNamespace"] = target.into();
    }
    world::custom(kind, name, &spec)
}

/// A network that lives in another namespace.
fn resident(kind: Kind, name: &str, namespace: &str) -> Value {
    let mut network = network(kind, name, "");
    network["metadata"]["namespace"] = namespace.into();
    network
}

fn owner(kind: Kind, namespace: &str, name: &str) -> String {
    format!("{}.sriovnetwork.openshift.io/{namespace}/{name}", kind.name)
}

/// Waits until there is a definition that passes.
async fn has_definition(
    admin: &User,
    name: &str,
    check: impl Fn(&Value) -> Result<()>,
) -> Result<Value> {
    eventually(PATIENCE, &format!("definition {name}"), async || {
        let definition = admin.must_get(NAD, name).await?;
        check(&definition).with_context(|| format!("{definition}"))?;
        Ok(definition)
    })
    .await
}

/// Waits until there is a definition that says that it comes of that network.
async fn has_own_definition(admin: &User, name: &str, owner: &str) -> Result<Value> {
    has_definition(admin, name, |definition| {
        ensure!(definition["metadata"]["annotations"][OWNER] == owner);
        Ok(())
    })
    .await
}

async fn has_no_definition(admin: &User, name: &str) -> Result<()> {
    eventually(
        PATIENCE,
        &format!("definition {name} to be gone"),
        async || {
            let definition = admin.get(NAD, name).await?;
            ensure!(definition.is_none(), "it is there");
            Ok(())
        },
    )
    .await
}

/// For a while, the definition stays as it is.
async fn stays(admin: &User, name: &str, definition: &Value) -> Result<()> {
    throughout(A_WHILE, &format!("definition {name}"), async || {
        let now = admin.must_get(NAD, name).await?;
        ensure!(
            now["metadata"]["resourceVersion"] == definition["metadata"]["resourceVersion"],
            "it became {now}"
        );
        Ok(())
    })
    .await
}

/// Waits until the network's condition is about its present generation, with that reason and a part of the message.
async fn is(admin: &User, kind: Kind, name: &str, reason: &str, part: &str) -> Result<Value> {
    eventually(PATIENCE, &format!("{name} to be {reason}"), async || {
        let network = admin.must_get(kind, name).await?;
        let ready = world::condition(&network, "Ready")?;
        let status = if reason == "NetworkReady" {
            "True"
        } else {
            "False"
        };
        ensure!(
            ready["reason"] == reason
                && ready["status"] == status
                && ready["observedGeneration"] == network["metadata"]["generation"]
                && text(&ready, "/message").contains(part),
            "the condition is {ready}"
        );
        Ok(network)
    })
    .await
}

async fn is_provisioned(admin: &User, kind: Kind, name: &str) -> Result<Value> {
    let part = "NetworkAttachmentDefinition is provisioned";
    is(admin, kind, name, "NetworkReady", part).await
}

/// Replaces spec and annotations, as a tool does that knows nothing of the operator's annotations.
async fn replace(admin: &User, kind: Kind, name: &str, spec: &Value) -> Result<()> {
    eventually(PATIENCE, "the replacement to be taken", async || {
        let mut object = admin.must_get(kind, name).await?;
        object["spec"] = spec.clone();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("annotations");
        }
        admin.replace(&object).await
    })
    .await
    .map(drop)
}

fn config(definition: &Value) -> Result<Value> {
    serde_json::from_str(text(definition, "/spec/config")).context("the configuration is no JSON")
}

/// Waits until a network is gone.
async fn is_gone(admin: &User, kind: Kind, name: &str) -> Result<()> {
    eventually(PATIENCE, &format!("{name} to be gone"), async || {
        let network = admin.get(kind, name).await?;
        ensure!(network.is_none(), "it is there: {network:?}");
        Ok(())
    })
    .await
}

fn in_operators(name: &str) -> String {
    format!("{NAMESPACE}/{name}")
}
