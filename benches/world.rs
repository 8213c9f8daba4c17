//! The generated cluster and the reviews: nodes with 8 KB of images and annotations, node states with 4 PFs of 8 VFs each,
//! 20 policies, networks, and pods of 6 KB.

use serde_json::{Value, json};
use sriov_operator::policy::Cluster;

use crate::support::NAMESPACE;

/// Nodes that the policy of the reviews selects, however many there are.
pub(crate) const SELECTED: usize = 125;
/// Stored policies.
pub(crate) const POLICIES: usize = 20;
/// VFs of each policy's range.
const VFS_EACH: usize = 2;

pub(crate) fn node_name(number: usize) -> String {
    format!("node-{number:05}")
}

/// Whether node `number` of so many is in the pool of the policies: spread evenly, and as many whatever the size.
fn is_selected(number: usize, of: usize) -> bool {
    let step = (of / SELECTED).max(1);
    number.is_multiple_of(step) && number / step < SELECTED
}

/// How many of `size` nodes are in the pool that is spread over the first `of`.
pub(crate) fn selected(size: usize, of: usize) -> usize {
    (0..size).filter(|number| is_selected(*number, of)).count()
}

/// Node `number`; the pool of the policies is spread over the first `of` nodes.
pub(crate) fn node(number: usize, of: usize) -> Value {
    let name = node_name(number);
    let images: Vec<Value> = (0..36)
        .map(|image| {
            json!({
                "names": [format!("registry.example.com/team-{image}/service@sha256:{image:064x}")],
                "sizeBytes": 104_857_600 + image,
            })
        })
        .collect();
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "node-role.kubernetes.io/worker": "",
                "topology.kubernetes.io/zone": format!("zone-{}", number % 3),
                "rack": format!("rack-{:03}", number / 40),
                "pool": if is_selected(number, of) { "sriov" } else { "plain" },
            },
            "annotations": { "example.com/inventory": "x".repeat(3_500) },
        },
        "spec": { "providerID": format!("bare-metal://{name}") },
        "status": { "images": images },
    })
}

/// The node state of node `number`.
pub(crate) fn state(number: usize) -> Value {
    let interfaces: Vec<Value> = (0..4)
        .map(|pf| {
            let vfs: Vec<Value> = (0..8)
                .map(|vf| {
                    json!({
                        "vfID": vf, "name": format!("ens1f{pf}v{vf}"), "mac": format!("02:00:00:00:{pf:02x}:{vf:02x}"),
                        "mtu": 1500, "vendor": "8086", "deviceID": "154c", "driver": "iavf",
                        "pciAddress": format!("0000:18:{:02x}.{vf}", pf + 2),
                    })
                })
                .collect();
            json!({
                "name": format!("ens1f{pf}"), "altNames": [format!("enp24s0f{pf}")], "Vfs": vfs,
                "pciAddress": format!("0000:18:00.{pf}"), "vendor": "8086", "deviceID": "158b", "driver": "i40e",
                "totalvfs": 64, "numVfs": 8, "mtu": 1500, "linkType": "ETH", "linkSpeed": "25000 Mb/s",
                "mac": format!("02:00:00:00:00:{pf:02x}"), "linkAdminState": "up", "eSwitchMode": "legacy",
            })
        })
        .collect();
    json!({
        "apiVersion": "sriovnetwork.openshift.io/v1",
        "kind": "SriovNetworkNodeState",
        "metadata": { "name": node_name(number), "namespace": NAMESPACE },
        "spec": {},
        "status": { "interfaces": interfaces, "syncStatus": "Succeeded" },
    })
}

/// Stored policy `number`, for the pool.
pub(crate) fn policy(number: usize) -> Value {
    let first = number / 4 * VFS_EACH;
    let pf_name = format!("ens1f{}#{first}-{}", number % 4, first + VFS_EACH - 1);
    policy_of(&format!("policy-{number:02}"), &pf_name)
}

/// The policy of the reviews: it fits beside the stored ones.
pub(crate) fn asked_policy() -> Value {
    policy_of("asked", "ens1f0#40-47")
}

fn policy_of(name: &str, pf_name: &str) -> Value {
    json!({
        "apiVersion": "sriovnetwork.openshift.io/v1",
        "kind": "SriovNetworkNodePolicy",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": {
            "resourceName": name.replace('-', "_"), "nodeSelector": { "pool": "sriov" }, "numVfs": 64, "priority": 10,
            "nicSelector": { "vendor": "8086", "pfNames": [pf_name] }, "deviceType": "netdevice", "isRdma": false,
        },
    })
}

/// The `ConfigMap` of supported NICs.
pub(crate) fn nic_ids() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": "supported-nic-ids", "namespace": NAMESPACE },
        "data": { "Intel_i40e_XXV710": "8086 158b 154c" },
    })
}

/// Network `number`.
pub(crate) fn nad(number: usize) -> Value {
    let resource = format!("openshift.io/resource_{}", number % 50);
    json!({
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": {
            "name": nad_name(number), "namespace": "default",
            "annotations": { "k8s.v1.cni.cncf.io/resourceName": resource },
        },
        "spec": { "config": json!({
            "cniVersion": "1.0.0", "name": nad_name(number), "type": "sriov", "vlan": number % 4094,
            "ipam": {"type": "whereabouts", "range": "10.0.0.0/8"},
        }).to_string() },
    })
}

pub(crate) fn nad_name(number: usize) -> String {
    format!("net-{number:05}")
}

/// The cluster in memory, for the pure paths.
pub(crate) fn cluster(nodes: usize) -> Cluster {
    let mut cluster = Cluster::default();
    let policies = (0..POLICIES).map(policy);
    let objects = (0..nodes).flat_map(|number| [node(number, nodes), state(number)]);
    for object in objects.chain(policies).chain([nic_ids()]) {
        let aside = cluster.insert_object(&object, NAMESPACE);
        assert!(aside.is_empty(), "{aside:?}");
    }
    cluster
}

/// A pod whose review has 6 KB, with these networks or none.
pub(crate) fn pod(networks: Option<&str>) -> Value {
    let env: Vec<Value> = (0..16)
        .map(|number| json!({"name": format!("SETTING_{number}"), "value": format!("value of setting {number}")}))
        .collect();
    let container = |name: &str| {
        json!({
            "name": name, "image": "registry.example.com/team/service:v1.2.3", "env": env,
            "command": ["/usr/bin/service"], "args": ["--verbose", "--listen=0.0.0.0:8080", "--config=/etc/config.yaml"],
            "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
            "resources": {"requests": {"cpu": "500m", "memory": "256Mi"}, "limits": {"cpu": "1", "memory": "512Mi"}},
            "volumeMounts": [
                {"name": "config", "mountPath": "/etc/config"},
                {"name": "kube-api-access", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true},
            ],
            "livenessProbe": {"httpGet": {"path": "/healthz", "port": "http", "scheme": "HTTP"}, "periodSeconds": 10},
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            "imagePullPolicy": "IfNotPresent",
        })
    };
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "service-5d9c7b8f6-", "namespace": "default",
            "labels": {"app": "service", "pod-template-hash": "5d9c7b8f6"},
            "annotations": {"example.com/checksum": format!("{:064x}", 7), "prometheus.io/scrape": "true"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "service-5d9c7b8f6",
                "uid": "7c1a6c2e-52b1-4d0e-9a0a-0c6f3f1b2a11", "controller": true, "blockOwnerDeletion": true}],
        },
        "spec": {
            "containers": [container("service"), container("sidecar")],
            "volumes": [
                {"name": "config", "configMap": {"name": "service", "defaultMode": 420}},
                {"name": "kube-api-access", "projected": {"sources": [{"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}]}},
            ],
            "restartPolicy": "Always", "serviceAccountName": "service", "schedulerName": "default-scheduler",
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
        },
    });
    if let Some(networks) = networks {
        pod["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] = networks.into();
    }
    let missing = 6_144_usize.saturating_sub(review(&pod).len());
    pod["metadata"]["annotations"]["example.com/notes"] = "n".repeat(missing).into();
    pod
}

/// The review of a creation.
pub(crate) fn review(object: &Value) -> Vec<u8> {
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = json!({"group": group, "version": version, "kind": object["kind"]});
    let resource = json!({"group": group, "version": version, "resource": "any"});
    json!({
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": kind, "resource": resource, "requestKind": kind, "requestResource": resource,
            "name": object["metadata"]["name"], "namespace": object["metadata"]["namespace"],
            "operation": "CREATE",
            "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller",
                "groups": ["system:serviceaccounts", "system:authenticated"]},
            "object": object, "oldObject": null,
            // So that nothing is remembered of what is asked a thousand times.
            "dryRun": true,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    })
    .to_string()
    .into_bytes()
}
