//! What a definition says, and that it keeps saying it.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::{
    FINALIZER, KINDS, LAST, OWNER, RESOURCE, config, has_definition, has_no_definition,
    in_operators, is_gone, is_provisioned, network, owner, replace, resident, scene, stays,
};
use crate::support::NAMESPACE;
use crate::support::cluster::Cluster;
use crate::support::kinds::{EVENT, IB_NETWORK, NAD, NETWORK, NODE, OVS_NETWORK, text};
use crate::support::scene::{PATIENCE, Scene};
use crate::support::wait::{eventually, throughout};

/// How long a repair may take.
const AT_ONCE: Duration = Duration::from_secs(2);

#[tokio::test]
async fn each_kind_has_its_definition_which_follows_the_network() -> Result<()> {
    let scene = scene(&["team"]).await?;
    let admin = scene.admin();
    let ipam = r#"{"type":"host-local","subnet":"10.0.0.0/24","gateway":"10.0.0.1"}"#;
    let specs = [
        (
            NETWORK,
            json!({ "resourceName": "nics", "networkNamespace": "team", "ipam": ipam, "vlan": 100, "vlanQoS": 5,
                "vlanProto": "802.1ad", "spoofChk": "on", "trust": "on", "logLevel": "debug", "logFile": "/var/log/x" }),
            json!({ "cniVersion": "1.0.0", "name": "net-0", "type": "sriov", "vlan": 100, "spoofchk": "on", "trust": "on",
                "vlanQoS": 5, "vlanProto": "802.1ad", "logLevel": "debug", "logFile": "/var/log/x",
                "ipam": { "type": "host-local", "subnet": "10.0.0.0/24", "gateway": "10.0.0.1" } }),
        ),
        (
            IB_NETWORK,
            json!({ "resourceName": "nics", "networkNamespace": "team", "linkState": "enable" }),
            json!({ "cniVersion": "1.0.0", "name": "net-1", "type": "ib-sriov", "link_state": "enable", "ipam": {} }),
        ),
        (
            OVS_NETWORK,
            json!({ "resourceName": "nics", "networkNamespace": "team", "vlan": 200, "bridge": "br0" }),
            json!({ "cniVersion": "1.0.0", "name": "net-2", "type": "ovs", "bridge": "br0", "vlan": 200, "ipam": {} }),
        ),
    ];
    for (number, (kind, spec, expected)) in specs.iter().enumerate() {
        let name = format!("net-{number}");
        let mut object = network(*kind, &name, "");
        object["spec"] = spec.clone();
        admin.create(&object).await?;
        let there = format!("team/{name}");
        let definition = has_definition(admin, &there, |definition| {
            ensure!(config(definition)? == *expected);
            Ok(())
        })
        .await?;
        let mine = owner(*kind, NAMESPACE, &name);
        ensure!(
            definition["metadata"]["annotations"]
                == json!({ RESOURCE: "openshift.io/nics", OWNER: mine }),
            "{definition}"
        );
        ensure!(definition["metadata"].get("ownerReferences").is_none());
        let stored = is_provisioned(admin, *kind, &name).await?;
        ensure!(stored["metadata"]["finalizers"] == json!([FINALIZER]));
        ensure!(stored["metadata"]["annotations"][LAST] == "team");

        // Another spec, and annotations replaced by none.
        let changed = json!({ "resourceName": "others", "networkNamespace": "team", "ipam": "{\"type\":\"dhcp\"}" });
        replace(admin, *kind, &name, &changed).await?;
        let definition = has_definition(admin, &there, |definition| {
            ensure!(config(definition)?["ipam"] == json!({ "type": "dhcp" }));
            ensure!(definition["metadata"]["annotations"][RESOURCE] == "openshift.io/others");
            Ok(())
        })
        .await?;
        let stored = is_provisioned(admin, *kind, &name).await?;
        ensure!(stored["metadata"]["annotations"][LAST] == "team");

        // Deleted or changed by hand, it comes back; what users add to it stays.
        admin.delete(NAD, &there).await?;
        eventually(AT_ONCE, "the definition to be back", async || {
            let now = admin.must_get(NAD, &there).await?;
            ensure!(now["spec"] == definition["spec"]);
            ensure!(now["metadata"]["uid"] != definition["metadata"]["uid"]);
            Ok(())
        })
        .await?;
        let broken = json!({
            "metadata": { "labels": { "user": "x" }, "annotations": { "k8s.v1.cni.cncf.io/nodeSelector": "a=b", RESOURCE: null } },
            "spec": { "config": "{" },
        });
        admin.merge(NAD, &there, &broken).await?;
        eventually(AT_ONCE, "the definition to be repaired", async || {
            let now = admin.must_get(NAD, &there).await?;
            ensure!(now["spec"] == definition["spec"]);
            let annotations = &now["metadata"]["annotations"];
            ensure!(annotations[RESOURCE] == "openshift.io/others");
            ensure!(annotations["k8s.v1.cni.cncf.io/nodeSelector"] == "a=b");
            ensure!(now["metadata"]["labels"] == json!({ "user": "x" }));
            Ok(())
        })
        .await?;

        admin.delete(*kind, &name).await?;
        is_gone(admin, *kind, &name).await?;
        has_no_definition(admin, &there).await?;
    }
    scene.was_allowed_everything()
}

#[tokio::test]
async fn a_network_of_another_namespace_owns_its_definition() -> Result<()> {
    let cluster = Cluster::boot().await?.with_controller_manager()?;
    let mut scene = super::installed(Scene::on(cluster).await?, &["team"]).await?;
    scene.operator.start()?;
    scene.is_ready().await?;
    let admin = scene.admin();
    for kind in KINDS {
        let name = kind.name.to_lowercase();
        let there = format!("team/{name}");
        let stored = admin.create(&resident(kind, &name, "team")).await?;
        let owners = json!([{
            "apiVersion": kind.api_version, "kind": kind.name, "name": name, "uid": stored["metadata"]["uid"],
        }]);
        let is_owned = |definition: &Value| {
            ensure!(definition["metadata"]["ownerReferences"] == owners);
            Ok(())
        };
        has_definition(admin, &there, is_owned).await?;
        let stored = is_provisioned(admin, kind, &there).await?;
        ensure!(stored["metadata"].get("finalizers").is_none());

        // An owner that is taken away comes back.
        let orphaned = json!({ "metadata": { "ownerReferences": null } });
        admin.merge(NAD, &there, &orphaned).await?;
        has_definition(admin, &there, is_owned).await?;

        admin.delete(kind, &there).await?;
        has_no_definition(admin, &there).await?;
    }
    scene.was_allowed_everything()
}

#[tokio::test]
async fn what_is_as_wanted_is_not_written_and_what_is_told_is_told_once() -> Result<()> {
    let mut scene = scene(&["team"]).await?;
    let admin = scene.admin().clone();
    for (kind, target) in [(NETWORK, "team"), (IB_NETWORK, ""), (OVS_NETWORK, "team")] {
        admin
            .create(&network(kind, kind.name.to_lowercase().as_str(), target))
            .await?;
    }
    for kind in [NETWORK, IB_NETWORK, OVS_NETWORK] {
        is_provisioned(&admin, kind, &kind.name.to_lowercase()).await?;
    }
    // The annotation survives what users write beside it.
    for round in 0..10 {
        let note = json!({ "metadata": { "annotations": { "foo": format!("{round}") } } });
        let stored = admin.merge(NETWORK, "sriovnetwork", &note).await?;
        ensure!(stored["metadata"]["annotations"][LAST] == "team");
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let writes = scene.writes()?.len();
    // Neither events around it nor another start make it write.
    admin
        .merge(
            NODE,
            "worker-0",
            &json!({ "metadata": { "annotations": { "a": "b" } } }),
        )
        .await?;
    let note = json!({ "metadata": { "annotations": { "foo": "bar" } } });
    admin.merge(NETWORK, "sriovnetwork", &note).await?;
    admin.merge(NAD, "team/sriovnetwork", &note).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let since = scene.writes()?.split_off(writes);
    ensure!(since.is_empty(), "it wrote {since:?}");

    let definition = admin.must_get(NAD, "team/sriovnetwork").await?;
    let stored = admin.must_get(NETWORK, "sriovnetwork").await?;
    scene.operator.stop().await?;
    scene.operator.start()?;
    scene.operator.ready().await?;
    stays(&admin, "team/sriovnetwork", &definition).await?;
    let now = admin.must_get(NETWORK, "sriovnetwork").await?;
    ensure!(now["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]);

    eventually(PATIENCE, "the Events", async || {
        let mut reasons: Vec<String> = admin
            .list(EVENT)
            .await?
            .iter()
            .filter(|event| text(event, "/involvedObject/name") == "sriovnetwork")
            .map(|event| text(event, "/reason").to_owned())
            .collect();
        reasons.sort();
        ensure!(reasons == ["ReadyAdded"], "{reasons:?}");
        Ok(())
    })
    .await?;
    scene.was_allowed_everything()
}

#[tokio::test]
async fn names_that_look_like_something_else_and_any_text_work() -> Result<()> {
    let scene = scene(&["123"]).await?;
    let admin = scene.admin();
    let text = "a \"quoted\" 'text' \\ with: {{ braces }}\nand # lines é";
    for name in ["123", "true", "null", "1e3", "on"] {
        let mut object = network(NETWORK, name, "123");
        object["spec"]["logFile"] = text.into();
        object["spec"]["ipam"] = json!({ "note": text }).to_string().into();
        object["spec"]["metaPlugins"] =
            json!({ "type": "tuning", "note": text }).to_string().into();
        admin.create(&object).await?;
    }
    for name in ["123", "true", "null", "1e3", "on"] {
        is_provisioned(admin, NETWORK, name).await?;
        let definition = admin.must_get(NAD, &format!("123/{name}")).await?;
        let config = config(&definition)?;
        ensure!(config["name"] == name, "{config}");
        ensure!(config["plugins"][0]["logFile"] == text, "{config}");
        ensure!(
            config["plugins"][0]["ipam"] == json!({ "note": text }),
            "{config}"
        );
        ensure!(
            config["plugins"][1] == json!({ "type": "tuning", "note": text }),
            "{config}"
        );
    }
    scene.was_allowed_everything()
}

#[tokio::test]
async fn who_fights_over_a_definition_is_named_and_slowed_down() -> Result<()> {
    let scene = scene(&[]).await?;
    let admin = scene.admin();
    admin.create(&network(NETWORK, "net", "")).await?;
    is_provisioned(admin, NETWORK, "net").await?;
    let there = in_operators("net");
    let broken = json!({ "spec": { "config": "{}" } });
    eventually(PATIENCE, "the repairs to be spaced out", async || {
        admin.merge(NAD, &there, &broken).await?;
        tokio::time::sleep(Duration::from_millis(200)).await;
        let stored = admin.must_get(NETWORK, "net").await?;
        let message = crate::support::world::condition(&stored, "Ready")?["message"].clone();
        ensure!(
            message
                .as_str()
                .unwrap_or_default()
                .contains("again and again by"),
            "{message}"
        );
        Ok(())
    })
    .await?;
    is_provisioned(admin, NETWORK, "net").await?;
    throughout(Duration::from_millis(300), "peace", async || {
        let definition = admin.must_get(NAD, &there).await?;
        ensure!(definition["spec"] != broken["spec"]);
        Ok(())
    })
    .await
}
