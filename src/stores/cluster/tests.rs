use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::stores::fake_api::FakeApi;

const NS: &str = "sriov";
const NODES: &str = "/api/v1/nodes";
const CONFIG_MAPS: &str = "/api/v1/namespaces/sriov/configmaps";
const GROUP: &str = "/apis/sriovnetwork.openshift.io/v1/namespaces/sriov";

fn policies() -> String {
    format!("{GROUP}/sriovnetworknodepolicies")
}

fn states() -> String {
    format!("{GROUP}/sriovnetworknodestates")
}

fn rules() -> Rules {
    Rules {
        namespace: NS.to_owned(),
        dev_mode: false,
        known_gates: Vec::new(),
    }
}

fn node(name: &str) -> Value {
    json!({
        "metadata": { "name": name, "labels": { "role": "bm" }, "annotations": { "big": "x".repeat(8192) } },
        "spec": { "providerID": "baremetal" },
        "status": { "images": [{ "names": ["a"], "sizeBytes": 5 }] },
    })
}

fn state(name: &str) -> Value {
    let vfs: Vec<Value> = (0..8)
        .map(|id| json!({ "vfID": id, "pciAddress": format!("0000:3b:02.{id}") }))
        .collect();
    json!({
        "metadata": { "name": name, "namespace": NS },
        "spec": { "interfaces": [] },
        "status": {
            "syncStatus": "Succeeded",
            "interfaces": [{
                "name": "ens1f0", "pciAddress": "0000:3b:00.0", "vendor": "8086", "deviceID": "158b",
                "totalvfs": 64, "numVfs": 8, "Vfs": vfs,
            }],
        },
    })
}

fn nic_ids(lines: &[&str]) -> Value {
    let data: serde_json::Map<String, Value> = lines
        .iter()
        .enumerate()
        .map(|(index, line)| (format!("NIC_{index}"), json!(line)))
        .collect();
    json!({ "metadata": { "name": "supported-nic-ids", "namespace": NS }, "data": data })
}

fn policy(name: &str, pf: &str) -> Value {
    json!({
        "apiVersion": "sriovnetwork.openshift.io/v1",
        "kind": "SriovNetworkNodePolicy",
        "metadata": { "name": name, "namespace": NS },
        "spec": {
            "resourceName": name, "numVfs": 8, "nodeSelector": { "role": "bm" },
            "nicSelector": { "pfNames": [pf] },
            "deviceType": "netdevice", "priority": 99, "isRdma": false,
        },
    })
}

fn world() -> FakeApi {
    let api = FakeApi::default();
    api.put(NODES, node("bm-0"));
    api.put(&states(), state("bm-0"));
    api.put(CONFIG_MAPS, nic_ids(&["8086 158b 154c"]));
    api
}

struct World {
    api: FakeApi,
    stores: Arc<ClusterStores>,
}

impl World {
    async fn start(api: FakeApi) -> Self {
        let (stores, mirrors) = ClusterStores::start(&api.client(), NS);
        for mirror in mirrors {
            tokio::spawn(mirror.run(CancellationToken::new()));
        }
        let filled = timeout(Duration::from_secs(60), stores.wait_filled());
        filled.await.expect("stores fill");
        sleep(Duration::from_secs(2)).await;
        Self { api, stores }
    }

    async fn review(&self, object: &Value, dry_run: bool) -> Result<Verdict, Unavailable> {
        let text = object.to_string();
        let subject = Subject {
            kind: Kind::NodePolicy,
            operation: Operation::Create,
            name: object["metadata"]["name"].as_str().unwrap(),
            namespace: NS,
            object: Some(&text),
            old: None,
        };
        self.stores.validate(&subject, &rules(), dry_run).await
    }

    async fn verdict(&self, object: &Value) -> Verdict {
        self.review(object, false).await.expect("a verdict")
    }

    async fn allows(&self, object: &Value) -> bool {
        self.verdict(object).await.allowed()
    }
}

#[tokio::test(start_paused = true)]
async fn verdicts_follow_the_watches_and_cost_no_call() {
    let world = World::start(world()).await;
    let before = world.api.requests("").len();
    assert!(world.allows(&policy("a", "ens1f0#0-3")).await);
    world.api.put(&policies(), policy("a", "ens1f0#0-3"));
    sleep(Duration::from_millis(10)).await;
    let refused = world.verdict(&policy("b", "ens1f0#3-5")).await;
    assert!(!refused.allowed());
    assert!(world.allows(&policy("c", "ens1f0#4-5")).await);
    world.api.delete(&policies(), "a");
    sleep(Duration::from_millis(10)).await;
    assert!(world.allows(&policy("b", "ens1f0#3-3")).await);
    assert_eq!(world.api.requests("").len(), before);
}

#[tokio::test(start_paused = true)]
async fn the_list_of_nics_is_live_and_a_bad_line_harms_no_other() {
    let world = World::start(world()).await;
    let present = world.stores.nic_ids_present();
    assert!(*present.borrow());
    world.api.delete(CONFIG_MAPS, "supported-nic-ids");
    sleep(Duration::from_millis(10)).await;
    assert!(!*present.borrow());
    assert!(!world.allows(&policy("a", "ens1f0")).await);
    world
        .api
        .put(CONFIG_MAPS, nic_ids(&["two fields", "8086 158b 154c"]));
    sleep(Duration::from_millis(10)).await;
    assert!(world.allows(&policy("a", "ens1f0")).await);
}

#[tokio::test(start_paused = true)]
async fn of_two_conflicting_policies_in_flight_one_passes() {
    let world = World::start(world()).await;
    for round in 0..1000 {
        let objects = [0, 1].map(|side| policy(&format!("p{round}-{side}"), "ens1f0#0-3"));
        let (first, second) = tokio::join!(world.allows(&objects[0]), world.allows(&objects[1]));
        assert!(first && !second, "round {round}");
        sleep(Duration::from_secs(2)).await; // neither was ever stored
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_policies_applied_one_after_the_other_the_second_is_refused() {
    let world = World::start(world()).await;
    for round in 0..1000 {
        let (first, second) = (format!("a{round}"), format!("b{round}"));
        assert!(world.allows(&policy(&first, "ens1f0#0-3")).await, "{round}");
        if round % 2 == 0 {
            world.api.put(&policies(), policy(&first, "ens1f0#0-3"));
        }
        if round % 4 == 0 {
            sleep(Duration::from_millis(1)).await;
        }
        assert!(
            !world.allows(&policy(&second, "ens1f0#0-3")).await,
            "{round}"
        );
        world.api.delete(&policies(), &first);
        sleep(Duration::from_secs(2)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_admitted_stops_counting_when_it_is_seen_and_deleted() {
    let world = World::start(world()).await;
    assert!(world.allows(&policy("a", "ens1f0")).await);
    world.api.put(&policies(), policy("a", "ens1f0"));
    world.api.delete(&policies(), "a");
    sleep(Duration::from_millis(10)).await;
    assert!(world.allows(&policy("b", "ens1f0")).await);
}

#[tokio::test(start_paused = true)]
async fn an_earlier_version_in_the_store_does_not_end_the_memory_of_a_later_one() {
    let api = world();
    api.put(&policies(), policy("a", "ens1f0#0-3"));
    let world = World::start(api).await;
    assert!(world.allows(&policy("a", "ens1f0#4-7")).await);
    let mut touched = policy("a", "ens1f0#0-3");
    touched["metadata"]["labels"] = json!({ "x": "y" });
    world.api.put(&policies(), touched);
    sleep(Duration::from_millis(10)).await;
    assert!(!world.allows(&policy("b", "ens1f0#4-7")).await);
    assert!(world.allows(&policy("b", "ens1f0#0-3")).await);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_leaves_no_trace() {
    let world = World::start(world()).await;
    let verdict = world.review(&policy("a", "ens1f0"), true).await.unwrap();
    assert!(verdict.allowed());
    assert!(world.allows(&policy("b", "ens1f0")).await);
}

#[tokio::test(start_paused = true)]
async fn while_the_watch_is_interrupted_policies_are_listed() {
    let world = World::start(world()).await;
    world
        .api
        .fail("watch=true", Some(StatusCode::INTERNAL_SERVER_ERROR));
    world.api.end_watches();
    sleep(Duration::from_secs(5)).await;
    world.api.put(&policies(), policy("a", "ens1f0#0-3"));
    assert!(!world.allows(&policy("b", "ens1f0#0-3")).await);
    world.api.delete(&policies(), "a");
    assert!(world.allows(&policy("b", "ens1f0#0-3")).await);

    let before = world.api.requests("sriovnetworknodepolicies?&limit").len();
    let objects: Vec<Value> = (0..50)
        .map(|index| policy(&format!("n{index}"), "no"))
        .collect();
    futures::future::join_all(objects.iter().map(|object| world.verdict(object))).await;
    let lists = world.api.requests("sriovnetworknodepolicies?&limit").len() - before;
    assert!(lists <= 2, "{lists} lists for 50 reviews");

    world.api.set_silent(true);
    let began = Instant::now();
    let error = world
        .review(&policy("b", "ens1f0"), false)
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "policies cannot be read: no answer within 2s"
    );
    assert!(began.elapsed() <= LIST_WITHIN);

    world.api.set_silent(false);
    world.api.fail("watch=true", None);
    sleep(Duration::from_secs(60)).await;
    let before = world.api.requests("").len();
    assert!(world.allows(&policy("z", "ens1f0")).await);
    assert_eq!(world.api.requests("").len(), before, "the watch is back");
}

#[tokio::test(start_paused = true)]
async fn a_malformed_policy_is_set_aside_and_harms_no_verdict() {
    let api = world();
    api.put(&policies(), policy("odd", "ens1f0#3"));
    let mut undecodable = policy("worse", "ens1f0");
    undecodable["spec"]["numVfs"] = json!("many");
    api.put(&policies(), undecodable);
    let world = World::start(api).await;
    assert!(world.allows(&policy("a", "ens1f0")).await);
    let malformed: u64 = world
        .stores
        .status()
        .iter()
        .map(|status| status.malformed)
        .sum();
    assert_eq!(malformed, 2);
}

#[tokio::test(start_paused = true)]
async fn a_node_state_without_status_lists_nothing_and_is_set_aside_when_that_is_no_beginning() {
    let api = world();
    let ago = |minutes| (Timestamp::now() - SignedDuration::from_mins(minutes)).to_string();
    for (name, made) in [("bm-1", ago(1)), ("bm-3", ago(10))] {
        api.put(NODES, node(name));
        let metadata = json!({ "name": name, "namespace": NS, "creationTimestamp": made });
        api.put(&states(), json!({ "metadata": metadata }));
    }
    let world = World::start(api).await;
    let nics = |name: &str| world.stores.cluster.read().nics(name).map(<[_]>::len);
    assert_eq!(nics("bm-0"), Some(1));
    assert_eq!(nics("bm-1"), Some(0));
    assert_eq!(nics("bm-2"), None);
    assert_eq!(nics("bm-3"), Some(0));
    let malformed = || {
        world
            .stores
            .status()
            .iter()
            .map(|status| status.malformed)
            .sum::<u64>()
    };
    assert_eq!(malformed(), 1, "the one that was made ten minutes ago");
}

#[tokio::test(start_paused = true)]
async fn before_the_first_list_policies_are_not_judged_and_deletions_are() {
    let api = world();
    let (stores, _mirrors) = ClusterStores::start(&api.client(), NS);
    let text = policy("a", "ens1f0").to_string();
    let subject = Subject {
        kind: Kind::NodePolicy,
        operation: Operation::Create,
        name: "a",
        namespace: NS,
        object: Some(&text),
        old: None,
    };
    let error = stores
        .validate(&subject, &rules(), false)
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "nodes: not listed yet");
    let deletion = Subject {
        operation: Operation::Delete,
        object: None,
        old: Some(&text),
        ..subject
    };
    assert!(
        stores
            .validate(&deletion, &rules(), false)
            .await
            .unwrap()
            .allowed()
    );
}

#[tokio::test(start_paused = true)]
async fn readiness_names_the_store_that_is_stale() {
    let world = World::start(world()).await;
    assert_eq!(world.stores.ready(), Ok(()));
    world
        .api
        .fail("/nodes", Some(StatusCode::INTERNAL_SERVER_ERROR));
    world.api.end_watches();
    sleep(Duration::from_secs(120)).await;
    let stale = world.stores.ready().unwrap_err();
    assert!(
        stale.to_string().starts_with("nodes: nothing heard"),
        "{stale}"
    );
    world.api.fail("/nodes", None);
    sleep(Duration::from_secs(30)).await;
    assert_eq!(world.stores.ready(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn thousands_of_nodes_are_listed_in_pages_and_counted() {
    let api = world();
    for index in 1..2000 {
        api.put(
            NODES,
            json!({ "metadata": { "name": format!("n{index}"), "labels": { "role": "x" } } }),
        );
        api.put(&states(), state(&format!("n{index}")));
    }
    let world = World::start(api).await;
    let size = |what: &str| {
        let status = world.stores.status();
        status
            .iter()
            .find(|status| status.what == what)
            .unwrap()
            .objects
    };
    assert_eq!(size("nodes"), 2000);
    assert_eq!(size("sriovnetworknodestates"), 2000);
    assert_eq!(world.api.requests("/nodes?&limit=100").len(), 20);
    assert!(world.allows(&policy("a", "ens1f0")).await);
}
