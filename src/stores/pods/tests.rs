use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::inject::{CONFIG_KEY, NadView as _};
use crate::stores::fake_api::FakeApi;

const RESOURCE: &str = "k8s.v1.cni.cncf.io/resourceName";
const CONFIG_MAPS: &str = "/api/v1/namespaces/sriov/configmaps";

const START_UP: Switches = Switches {
    hugepages: true,
    honor_existing: false,
    injections: BTreeMap::new(),
};

fn nad(namespace: &str, name: &str, resource: &str) -> Value {
    json!({
        "metadata": {
            "namespace": namespace,
            "name": name,
            "annotations": { RESOURCE: resource, "kubectl.kubernetes.io/last": "x".repeat(200) },
        },
        "spec": { "config": "{}" },
    })
}

fn switches(text: &str) -> Value {
    json!({ "metadata": { "name": SWITCHES, "namespace": "sriov" }, "data": { CONFIG_KEY: text } })
}

async fn started(api: &FakeApi) -> Arc<PodStores> {
    let keys = [RESOURCE.to_owned()];
    let (stores, mirrors) = PodStores::start(&api.client(), "sriov", &keys, START_UP);
    for mirror in mirrors {
        tokio::spawn(mirror.run(CancellationToken::new()));
    }
    let filled = timeout(Duration::from_secs(60), stores.wait_filled());
    filled.await.expect("stores fill");
    stores
}

fn knows(stores: &PodStores, namespace: &str, name: &str) -> bool {
    stores
        .look(|nads| nads.contains(namespace, name))
        .expect("filled")
}

#[tokio::test(start_paused = true)]
async fn nads_of_all_namespaces_are_known_by_their_metadata() {
    let api = FakeApi::default();
    api.put(ALL, nad("a", "net", "vendor/r"));
    let stores = started(&api).await;
    let resources: Vec<String> = stores
        .look(|nads| match nads.find("a", "net") {
            crate::inject::Found::Nad(nad) => nad.resources().map(str::to_owned).collect(),
            other => panic!("{other:?}"),
        })
        .unwrap();
    assert_eq!(resources, ["vendor/r"]);
    api.put(ALL, nad("b", "net", "vendor/r"));
    api.delete(ALL, "a/net");
    sleep(Duration::from_millis(50)).await;
    assert!(knows(&stores, "b", "net") && !knows(&stores, "a", "net"));
    assert_eq!(
        api.requests("/namespaces/a").len(),
        0,
        "no read of a single one"
    );
}

#[tokio::test(start_paused = true)]
async fn a_new_list_forgets_nads_that_are_gone() {
    let api = FakeApi::default();
    api.put(ALL, nad("a", "net", "vendor/r"));
    api.put(ALL, nad("b", "net", "vendor/r"));
    let stores = started(&api).await;
    api.compact(|api| api.delete(ALL, "a/net"));
    sleep(Duration::from_secs(30)).await;
    assert!(knows(&stores, "b", "net") && !knows(&stores, "a", "net"));
}

#[tokio::test(start_paused = true)]
async fn nads_that_the_watch_has_not_shown_are_read_live() {
    let api = FakeApi::default();
    let stores = started(&api).await;
    api.compact(|api| {
        api.put(ALL, nad("a", "net", "vendor/r"));
    });
    let keys = ["net", "other"].map(|name| NadKey {
        namespace: "a".to_owned(),
        name: name.to_owned(),
    });
    let read = stores.read(&keys).await.unwrap();
    assert!(read.contains("a", "net") && !read.contains("a", "other"));
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_the_kind_has_no_nads() {
    let api = FakeApi::default();
    api.set_unknown("network-attachment-definitions", true);
    let stores = started(&api).await;
    sleep(Duration::from_secs(200)).await;
    assert_eq!(stores.ready(), Ok(()));
    let key = NadKey {
        namespace: "a".to_owned(),
        name: "net".to_owned(),
    };
    assert!(stores.read(&[key]).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_looked_up_before_the_first_list() {
    let api = FakeApi::default();
    let (stores, mirrors) = PodStores::start(&api.client(), "sriov", &[], START_UP);
    let refused = stores.look(Nads::len).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "network-attachment-definitions: not listed yet"
    );
    drop(mirrors);
}

#[tokio::test(start_paused = true)]
async fn switches_follow_the_config_map_and_fall_back_when_it_goes() {
    let api = FakeApi::default();
    let stores = started(&api).await;
    assert!(stores.switches().switches.hugepages);
    let mut watch = stores.watch_switches();
    watch.mark_unchanged();

    let off = r#"{"features":{"enableHugePageDownApi":false},"user-defined-injections":{"l":5}}"#;
    api.put(CONFIG_MAPS, switches(off));
    let changed = timeout(Duration::from_secs(1), watch.changed());
    changed.await.expect("within a second").unwrap();
    let loaded = Arc::clone(&watch.borrow_and_update());
    assert!(!loaded.switches.hugepages);
    assert_eq!(loaded.set_aside.len(), 1);

    let mut relabelled = switches(off);
    relabelled["metadata"]["labels"] = json!({ "a": "b" });
    api.put(CONFIG_MAPS, relabelled);
    sleep(Duration::from_secs(1)).await;
    assert!(
        !watch.has_changed().unwrap(),
        "nothing in force has changed"
    );

    api.delete(CONFIG_MAPS, SWITCHES);
    sleep(Duration::from_secs(1)).await;
    assert!(stores.switches().switches.hugepages);
    assert!(stores.switches().set_aside.is_empty());

    api.put(CONFIG_MAPS, switches(off));
    sleep(Duration::from_secs(1)).await;
    api.compact(|api| api.delete(CONFIG_MAPS, SWITCHES));
    sleep(Duration::from_secs(30)).await;
    assert!(
        stores.switches().switches.hugepages,
        "gone while nobody watched"
    );
}

#[tokio::test(start_paused = true)]
async fn status_tells_sizes_and_what_was_set_aside() {
    let api = FakeApi::default();
    api.put(ALL, nad("a", "net", "vendor/r"));
    api.put(CONFIG_MAPS, switches("not json"));
    let stores = started(&api).await;
    let told: Vec<_> = stores
        .status()
        .into_iter()
        .map(|status| (status.what, status.objects, status.malformed, status.fresh))
        .collect();
    assert_eq!(
        told,
        [
            ("network-attachment-definitions", 1, 0, true),
            (SWITCHES, 1, 1, true)
        ]
    );
}
