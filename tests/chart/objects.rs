//! What the rendered objects say.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::helm::{Objects, RELEASE, everything, render};
use crate::support::NAMESPACE;
use crate::support::kinds::text;
use crate::support::manifests::{read_yaml, root};

#[test]
fn the_defaults_make_the_operator_its_roles_and_the_list_of_network_cards() -> Result<()> {
    ensure!(
        render(&json!({}))?.names()
            == [
                "ClusterRole sriov-network-config-daemon",
                "ClusterRole sriov-network-operator",
                "ClusterRole sriov-network-operator-cleanup",
                "ClusterRoleBinding sriov-network-config-daemon",
                "ClusterRoleBinding sriov-network-operator",
                "ClusterRoleBinding sriov-network-operator-cleanup",
                "ClusterRoleBinding sriov-network-operator-cleanup-as-operator",
                "ConfigMap supported-nic-ids",
                "Deployment sriov-network-operator",
                "Job sriov-network-operator-pre-delete-hook",
                "NetworkPolicy sriov-network-operator",
                "PodDisruptionBudget sriov-network-operator",
                "Role sriov-network-config-daemon",
                "Role sriov-network-operator",
                "Role sriov-network-operator-cleanup",
                "RoleBinding sriov-network-config-daemon",
                "RoleBinding sriov-network-operator",
                "RoleBinding sriov-network-operator-cleanup",
                "RoleBinding sriov-network-operator-cleanup-as-operator",
                "ServiceAccount sriov-network-config-daemon",
                "ServiceAccount sriov-network-operator",
                "ServiceAccount sriov-network-operator-cleanup",
            ]
    );
    Ok(())
}

#[test]
fn two_replicas_answer_through_upgrades_and_drains() -> Result<()> {
    let objects = render(&json!({}))?;
    let deployment = objects.get("Deployment", RELEASE)?;
    ensure!(deployment["spec"]["replicas"] == 2);
    ensure!(deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0);
    let pod = objects.pod()?;
    ensure!(
        pod["spec"]["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
            [0]["podAffinityTerm"]["topologyKey"]
            == "kubernetes.io/hostname"
    );
    let container = &pod["spec"]["containers"][0];
    ensure!(
        container["readinessProbe"]["httpGet"] == json!({ "path": "/readyz", "port": "probes" })
    );
    ensure!(
        container["livenessProbe"]["httpGet"] == json!({ "path": "/healthz", "port": "probes" })
    );
    let budget = objects.get("PodDisruptionBudget", RELEASE)?;
    ensure!(budget["spec"]["maxUnavailable"] == 1);
    ensure!(is_selected(&budget["spec"]["selector"]["matchLabels"], pod));
    ensure!(is_selected(
        &deployment["spec"]["selector"]["matchLabels"],
        pod
    ));

    let single = render(&json!({ "operator": { "replicas": 1 } }))?;
    ensure!(
        single.of("PodDisruptionBudget").next().is_none(),
        "a single replica would keep its node from being drained"
    );
    Ok(())
}

#[test]
fn the_webhook_services_find_the_operators_pods_and_not_the_cleanup() -> Result<()> {
    let objects = render(&json!({}))?;
    let selector = json!({ "app.kubernetes.io/name": "sriov-operator" });
    ensure!(is_selected(&selector, objects.pod()?));
    let job = objects.of("Job").next().context("there is no hook")?;
    ensure!(!is_selected(&selector, &job["spec"]["template"]));
    Ok(())
}

/// Whether a label selector selects a pod.
fn is_selected(labels: &Value, pod: &Value) -> bool {
    labels.as_object().is_some_and(|labels| {
        !labels.is_empty()
            && labels
                .iter()
                .all(|(key, value)| pod["metadata"]["labels"][key] == *value)
    })
}

#[test]
fn ports_agree_between_environment_container_and_network_policy() -> Result<()> {
    for (values, [webhook, probes, metrics]) in [
        (json!({}), [6443, 8081, 8080]),
        (
            json!({ "operator": { "metricsBindAddress": ":7000", "admissionControllers": { "port": 7443 } } }),
            [7443, 8081, 7000],
        ),
        (
            json!({ "operator": { "hostNetwork": true } }),
            [9643, 9644, 9645],
        ),
    ] {
        let objects = render(&values)?;
        let environment = objects.environment()?;
        ensure!(environment["WEBHOOK_BIND_ADDRESS"] == format!(":{webhook}"));
        ensure!(environment["HEALTH_PROBE_BIND_ADDRESS"] == format!(":{probes}"));
        ensure!(environment["METRICS_BIND_ADDRESS"] == format!(":{metrics}"));
        let container = &objects.pod()?["spec"]["containers"][0];
        ensure!(ports(&container["ports"], "containerPort") == [webhook, probes, metrics]);
        if objects.pod()?["spec"]["hostNetwork"] == true {
            ensure!(
                objects.of("NetworkPolicy").next().is_none(),
                "it would have no effect"
            );
        } else {
            let policy = objects.get("NetworkPolicy", RELEASE)?;
            ensure!(
                ports(&policy["spec"]["ingress"][0]["ports"], "port") == [webhook, probes, metrics]
            );
            ensure!(
                policy["spec"]["policyTypes"] == json!(["Ingress"]),
                "the API server may be on any port"
            );
        }
    }
    let limited = render(&json!({ "networkPolicy": { "apiServerPorts": [6443] } }))?;
    let policy = limited.get("NetworkPolicy", RELEASE)?;
    ensure!(ports(&policy["spec"]["egress"][0]["ports"], "port") == [6443]);
    Ok(())
}

fn ports(list: &Value, key: &str) -> Vec<u64> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(|port| port[key].as_u64())
        .collect()
}

#[test]
fn network_cards_are_three_ids_each_and_more_can_be_added() -> Result<()> {
    let objects = render(
        &json!({ "supportedExtraNICs": ["Acme_nic: \"1234 5678 9abc\"", "Bare: dead beef 0001"] }),
    )?;
    let list = objects.get("ConfigMap", "supported-nic-ids")?;
    let entries = list["data"].as_object().context("it has no data")?;
    let mut seen = BTreeSet::new();
    for (name, ids) in entries {
        let ids = ids.as_str().with_context(|| format!("{name} is no text"))?;
        ensure!(
            ids.split(' ').count() == 3
                && ids
                    .split(' ')
                    .all(|id| id.len() == 4 && id.bytes().all(|b| b.is_ascii_hexdigit())),
            "{name} is {ids}"
        );
        ensure!(seen.insert(ids), "{ids} is listed twice");
    }
    ensure!(entries["Acme_nic"] == "1234 5678 9abc" && entries["Bare"] == "dead beef 0001");
    for ids in [
        "8086 158b 154c",
        "15b3 1017 1018",
        "14e4 16d7 16dc",
        "1077 1654 1664",
        "1af4 1000 1000",
        "177d b900 b903",
        "1d0f ec20 ec20",
    ] {
        ensure!(seen.contains(ids), "{ids} is not listed");
    }
    ensure!(entries.len() == 48 + 2, "there are {}", entries.len());
    Ok(())
}

#[test]
fn with_cert_manager_the_chart_makes_what_an_administrator_applies_without_it() -> Result<()> {
    let objects = render(&everything())?;
    let mut made: Vec<Value> = objects
        .of("Issuer")
        .chain(objects.of("Certificate"))
        .cloned()
        .collect();
    for object in &mut made {
        object["metadata"]
            .as_object_mut()
            .context("it has no metadata")?
            .remove("labels");
    }
    let mut applied = read_yaml(&root().join("certs/cert-manager/certificates.yaml"))?;
    for objects in [&mut made, &mut applied] {
        objects.sort_by_key(ToString::to_string);
    }
    ensure!(made == applied, "the chart makes {made:#?}");

    let own = json!({ "operator": { "admissionControllers": { "certificates": { "certManager": { "enabled": true } } } } });
    ensure!(
        render(&own)?.of("Certificate").next().is_none(),
        "they are the administrator's to make"
    );
    Ok(())
}

#[test]
fn pairs_that_are_provided_are_in_secrets_once_and_their_ca_in_the_environment() -> Result<()> {
    let custom = |operator: Value, injector: Value| {
        json!({ "operator": { "admissionControllers": { "certificates": { "custom": {
            "enabled": true, "operator": operator, "injector": injector,
        } } } } })
    };
    let objects = render(&custom(
        json!({ "caCrt": "CA", "tlsCrt": "CRT", "tlsKey": "KEY" }),
        json!({}),
    ))?;
    let secret = objects.get("Secret", "operator-webhook-cert")?;
    ensure!(secret["data"] == json!({ "ca.crt": "Q0E=", "tls.crt": "Q1JU", "tls.key": "S0VZ" }));
    ensure!(
        objects.of("Secret").count() == 1,
        "the injector's is there already"
    );
    let environment = objects.environment()?;
    ensure!(environment["ADMISSION_CONTROLLERS_CERTIFICATES_OPERATOR_CA_CRT"] == "CA");
    let source: Value =
        serde_json::from_str(&environment["ADMISSION_CONTROLLERS_CERTIFICATES_INJECTOR_CA_CRT"])?;
    ensure!(
        source
            == json!({ "secretKeyRef": { "name": "network-resources-injector-cert", "key": "ca.crt" } })
    );
    Ok(())
}

#[test]
fn the_configuration_says_what_the_values_say() -> Result<()> {
    ensure!(
        render(&json!({}))?
            .of("SriovOperatorConfig")
            .next()
            .is_none()
    );
    let objects = render(&everything())?;
    let config = objects.get("SriovOperatorConfig", "default")?;
    ensure!(
        config["spec"]
            == json!({
                "enableInjector": true,
                "enableOperatorWebhook": true,
                "logLevel": 2,
                "disableDrain": false,
                "configurationMode": "daemon",
                "configDaemonNodeSelector": { "network": "fast" },
                "disablePlugins": ["mellanox"],
                "featureGates": { "metricsExporter": true },
                "configDaemonEnvVars": { "LEVEL": "7" },
            })
    );
    Ok(())
}

#[test]
fn the_cleanup_runs_before_the_operator_is_deleted_with_an_account_of_its_own() -> Result<()> {
    let objects = render(&json!({}))?;
    let job = objects.of("Job").next().context("there is no hook")?;
    let pod = &job["spec"]["template"]["spec"];
    ensure!(
        pod["containers"][0]["args"]
            == json!([
                "cleanup",
                format!("--namespace={NAMESPACE}"),
                "--timeout=5m"
            ])
    );
    let account = text(pod, "/serviceAccountName");
    for object in &objects.0 {
        let annotations = &object["metadata"]["annotations"];
        let is_the_cleanups =
            text(object, "/metadata/name").contains("cleanup") || object["kind"] == "Job";
        ensure!(
            is_the_cleanups == (annotations["helm.sh/hook"] == "pre-delete"),
            "{object}"
        );
        if object["kind"] == "ServiceAccount" && is_the_cleanups {
            ensure!(object["metadata"]["name"] == account);
            ensure!(
                annotations["helm.sh/hook-weight"] == "0",
                "the account is there before the Job"
            );
        }
    }
    let off = render(&json!({ "cleanup": { "enabled": false } }))?;
    ensure!(
        off.names()
            .iter()
            .all(|name| !name.contains("cleanup") && !name.starts_with("Job"))
    );
    Ok(())
}

#[test]
fn names_follow_the_release_as_in_the_reference_chart() -> Result<()> {
    for (values, name) in [
        (json!({}), "sriov-network-operator"),
        (json!({ "fullnameOverride": "sriov" }), "sriov"),
        (
            json!({ "operator": { "fullnameOverride": "sriov" }, "fullnameOverride": "other" }),
            "sriov",
        ),
        (
            json!({ "nameOverride": "fabric" }),
            "sriov-network-operator-fabric",
        ),
    ] {
        let objects = render(&values)?;
        objects.get("Deployment", name)?;
        let account =
            &objects.get("Deployment", name)?["spec"]["template"]["spec"]["serviceAccountName"];
        ensure!(account == name);
        for kind in [
            "ServiceAccount",
            "Role",
            "ClusterRole",
            "RoleBinding",
            "ClusterRoleBinding",
        ] {
            objects.get(kind, name)?;
        }
    }
    Ok(())
}

#[test]
fn pull_secrets_reach_every_pod() -> Result<()> {
    let objects = render(&everything())?;
    let expected = json!([{ "name": "one" }, { "name": "two" }]);
    ensure!(objects.environment()?["IMAGE_PULL_SECRETS"] == "one,two");
    ensure!(objects.pod()?["spec"]["imagePullSecrets"] == expected);
    for account in objects.of("ServiceAccount") {
        ensure!(account["imagePullSecrets"] == expected, "{account}");
    }
    Ok(())
}

#[test]
fn every_object_says_whose_it_is_and_leaves_the_operators_own_label_alone() -> Result<()> {
    let Objects(objects) = render(&everything())?;
    for object in objects
        .iter()
        .filter(|object| object["metadata"]["name"] != "more")
    {
        let labels = &object["metadata"]["labels"];
        ensure!(
            text(object, "/metadata/labels/app.kubernetes.io~1name").starts_with("sriov-operator"),
            "{object}"
        );
        ensure!(labels["app.kubernetes.io/managed-by"].is_null(), "{object}");
    }
    Ok(())
}
