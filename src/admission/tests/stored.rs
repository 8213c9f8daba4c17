//! The whole way of a review: route, stores that watch an API server, pure rules, answer.

use std::collections::BTreeMap;

use super::*;
use crate::{
    inject::{Options, Switches},
    policy::Rules,
    stores::{ClusterStores, Mirror, PodStores, fake_api::FakeApi},
};

const NADS: &str = "/apis/k8s.cni.cncf.io/v1/network-attachment-definitions";
const NAMESPACE: &str = "sriov";

/// Both webhooks over the stores of `api`, whose watches have begun or not.
fn over(api: &FakeApi, policy: FailurePolicy) -> (Webhooks, Vec<Mirror>) {
    let (cluster, mut mirrors) = ClusterStores::start(&api.client(), NAMESPACE);
    let start_up = Switches {
        hugepages: false,
        honor_existing: false,
        injections: BTreeMap::new(),
    };
    let keys = ["k8s.v1.cni.cncf.io/resourceName".to_owned()];
    let (pods, more) = PodStores::start(&api.client(), NAMESPACE, &keys, start_up);
    mirrors.extend(more);
    let rules = Rules {
        namespace: NAMESPACE.into(),
        dev_mode: false,
        known_gates: Vec::new(),
    };
    let options = Options {
        multus_namespace: "kube-system".into(),
    };
    let handlers = Handlers {
        custom_resources: Some(Arc::new(StoredCustomResources::new(cluster, rules))),
        pods: Some(Arc::new(StoredPods::new(pods, options, move || policy))),
    };
    let webhooks = Webhooks {
        router: router(
            &handlers,
            Limits::default(),
            CancellationToken::new(),
            &Metrics::default(),
        ),
        ..usual()
    };
    (webhooks, mirrors)
}

async fn filled(api: &FakeApi) -> Webhooks {
    let (webhooks, mirrors) = over(api, FailurePolicy::Fail);
    for mirror in mirrors {
        tokio::spawn(mirror.run(CancellationToken::new()));
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    webhooks
}

fn nad(name: &str) -> Value {
    json!({"metadata": {
        "namespace": "ns", "name": name,
        "annotations": {"k8s.v1.cni.cncf.io/resourceName": "vendor/r"},
    }})
}

fn pod(networks: &str) -> Value {
    review(&json!({
        "uid": "u-1", "operation": "CREATE", "namespace": "ns",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "object": {
            "metadata": {"generateName": "p-", "annotations": {"k8s.v1.cni.cncf.io/networks": networks}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    }))
}

fn node_policy(num_vfs: u32) -> Value {
    review(&json!({
        "uid": "u-1", "operation": "CREATE", "name": "p", "namespace": NAMESPACE,
        "kind": {"group": "sriovnetwork.openshift.io", "version": "v1", "kind": "SriovNetworkNodePolicy"},
        "object": {"metadata": {"name": "p", "namespace": NAMESPACE}, "spec": {
            "resourceName": "r", "numVfs": num_vfs, "nodeSelector": {}, "nicSelector": {"pfNames": ["ens1f0"]},
        }},
    }))
}

#[tokio::test(start_paused = true)]
async fn a_pod_gets_what_its_networks_need() {
    let api = FakeApi::default();
    api.put(NADS, nad("net"));
    let webhooks = filled(&api).await;
    let answer = webhooks.ask("/mutate", &pod("net")).await;
    let patch = answer.response()["patch"].as_str().unwrap();
    let patch: json_patch::Patch =
        serde_json::from_slice(&BASE64_STANDARD.decode(patch).unwrap()).unwrap();
    let mut object = pod("net")["request"]["object"].clone();
    json_patch::patch(&mut object, &patch).unwrap();
    let resources = &object["spec"]["containers"][0]["resources"];
    assert_eq!(resources["requests"]["vendor/r"], "1");
    assert!(api.requests("/namespaces/ns").is_empty(), "no call for it");

    let answer = webhooks.ask("/mutate", &pod("a/b/c")).await;
    assert_eq!(answer.response()["allowed"], false);
    let message = answer.response()["status"]["message"].as_str().unwrap();
    assert!(message.contains("k8s.v1.cni.cncf.io/networks"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_network_that_does_not_exist_is_looked_for_and_then_named() {
    let api = FakeApi::default();
    let webhooks = filled(&api).await;
    let answer = webhooks.ask("/mutate", &pod("missing")).await;
    assert_eq!(answer.response()["allowed"], false);
    let message = answer.response()["status"]["message"].as_str().unwrap();
    assert!(message.contains("missing"), "{message}");
    assert_eq!(api.requests("/namespaces/ns").len(), 1, "read live, once");
}

#[tokio::test(start_paused = true)]
async fn a_network_that_cannot_be_read_is_asked_about_again() {
    let api = FakeApi::default();
    let webhooks = filled(&api).await;
    api.fail(
        "/namespaces/ns",
        Some(http::StatusCode::INTERNAL_SERVER_ERROR),
    );
    let answer = webhooks.ask("/mutate", &pod("net")).await;
    assert!(answer.refusal(503).contains("net"));
    assert_eq!(answer.retries_after(), Some("1"));
}

#[tokio::test(start_paused = true)]
async fn a_policy_is_defaulted_and_judged() {
    let webhooks = filled(&FakeApi::default()).await;
    let answer = webhooks
        .ask("/mutating-custom-resource", &node_policy(4))
        .await;
    assert_eq!(answer.response()["patchType"], "JSONPatch");
    let answer = webhooks
        .ask("/validating-custom-resource", &node_policy(0))
        .await;
    let response = answer.response();
    assert_eq!(response["allowed"], false);
    assert_eq!(response["status"]["code"], 422);
    let causes = response["status"]["details"]["causes"].as_array().unwrap();
    assert!(causes.iter().any(|cause| cause["field"] == "spec.numVfs"));
}

#[tokio::test]
async fn before_the_stores_are_filled_only_what_needs_none_is_answered() {
    let (webhooks, _never_run) = over(&FakeApi::default(), FailurePolicy::Ignore);
    for (path, review) in [
        ("/mutate", pod("net")),
        ("/validating-custom-resource", node_policy(4)),
    ] {
        let answer = webhooks.ask(path, &review).await;
        assert!(answer.refusal(503).contains("not listed yet"));
        assert_eq!(answer.retries_after(), Some("1"));
    }
    let mut deletion = node_policy(4);
    deletion["request"]["operation"] = "DELETE".into();
    let answer = webhooks.ask("/validating-custom-resource", &deletion).await;
    assert_eq!(answer.response()["allowed"], true);
    let answer = webhooks
        .ask("/mutating-custom-resource", &node_policy(4))
        .await;
    assert_eq!(answer.response()["allowed"], true);
}
