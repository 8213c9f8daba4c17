use std::time::Duration;

use http::StatusCode;
use serde_json::json;
use tokio::time::{advance, sleep, timeout};

use super::*;
use crate::stores::fake_api::FakeApi;

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/ns/leases";

const DURATIONS: LeaderElection = LeaderElection {
    lease_duration: Duration::from_secs(15),
    renew_deadline: Duration::from_secs(10),
    retry_period: Duration::from_secs(2),
};

struct Replica {
    leadership: watch::Receiver<Leadership>,
    shutdown: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Replica {
    fn start(api: &FakeApi, identity: &str) -> Self {
        let elector = Elector::new(api.client(), "ns", identity.to_owned(), DURATIONS);
        let (leadership, shutdown) = (elector.leadership(), CancellationToken::new());
        let task = tokio::spawn(elector.run(shutdown.clone()));
        Self {
            leadership,
            shutdown,
            task,
        }
    }

    fn leads(&self) -> bool {
        *self.leadership.borrow() == Leadership::Leading
    }

    /// How long it takes until it leads, or no longer does.
    async fn until(&mut self, wanted: Leadership) -> Duration {
        let began = Instant::now();
        let reached = self.leadership.wait_for(|now| *now == wanted);
        timeout(Duration::from_secs(120), reached)
            .await
            .expect("leadership changes")
            .unwrap();
        began.elapsed()
    }

    async fn stop(self) {
        self.shutdown.cancel();
        self.task.await.unwrap();
    }
}

fn holder(api: &FakeApi) -> String {
    let lease = api.get(LEASES, LEASE_NAME).expect("a Lease");
    lease["spec"]["holderIdentity"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn the_first_replica_leads_and_the_second_follows() {
    let api = FakeApi::default();
    let mut first = Replica::start(&api, "first");
    first.until(Leadership::Leading).await;
    let second = Replica::start(&api, "second");
    sleep(Duration::from_secs(60)).await;
    assert!(first.leads() && !second.leads());
    assert_eq!(holder(&api), "first");
}

#[tokio::test(start_paused = true)]
async fn of_two_that_start_at_once_one_leads() {
    let api = FakeApi::default();
    let (first, second) = (
        Replica::start(&api, "first"),
        Replica::start(&api, "second"),
    );
    sleep(Duration::from_secs(60)).await;
    assert!(first.leads() != second.leads());
}

#[tokio::test(start_paused = true)]
async fn a_stopped_leader_is_replaced_at_once() {
    let api = FakeApi::default();
    let mut first = Replica::start(&api, "first");
    first.until(Leadership::Leading).await;
    let mut second = Replica::start(&api, "second");
    sleep(Duration::from_secs(5)).await;
    first.stop().await;
    let took = second.until(Leadership::Leading).await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert_eq!(holder(&api), "second");
}

#[tokio::test(start_paused = true)]
async fn a_killed_leader_is_replaced_within_the_lease_duration_and_one_retry() {
    let api = FakeApi::default();
    let mut first = Replica::start(&api, "first");
    first.until(Leadership::Leading).await;
    let mut second = Replica::start(&api, "second");
    sleep(Duration::from_secs(5)).await;
    first.task.abort();
    let took = second.until(Leadership::Leading).await;
    assert!((11..=17).contains(&took.as_secs()), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_calls_are_not_answered_steps_down_at_the_renew_deadline() {
    let api = FakeApi::default();
    let mut leader = Replica::start(&api, "us");
    leader.until(Leadership::Leading).await;
    api.set_silent(true);
    let took = leader.until(Leadership::Following).await;
    assert!(took <= Duration::from_secs(10), "{took:?}");
    api.set_silent(false);
    leader.until(Leadership::Leading).await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_renewals_are_refused_steps_down_at_the_renew_deadline() {
    let api = FakeApi::default();
    let mut leader = Replica::start(&api, "us");
    leader.until(Leadership::Leading).await;
    api.fail("PUT", Some(StatusCode::INTERNAL_SERVER_ERROR));
    let took = leader.until(Leadership::Following).await;
    assert!(took <= Duration::from_secs(10), "{took:?}");
    assert!(took > Duration::from_secs(7), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_few_refusals_cost_no_leadership() {
    let api = FakeApi::default();
    let mut leader = Replica::start(&api, "us");
    leader.until(Leadership::Leading).await;
    for _ in 0..10 {
        api.fail("PUT", Some(StatusCode::INTERNAL_SERVER_ERROR));
        sleep(Duration::from_secs(5)).await;
        api.fail("PUT", None);
        sleep(Duration::from_secs(5)).await;
    }
    assert!(!leader.leadership.has_changed().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_somebody_edits_or_deletes_stays_ours() {
    let api = FakeApi::default();
    let mut leader = Replica::start(&api, "us");
    leader.until(Leadership::Leading).await;
    for _ in 0..5 {
        let mut lease = api.get(LEASES, LEASE_NAME).unwrap();
        lease["metadata"]["labels"] = json!({ "touched": "yes" });
        api.put(LEASES, lease);
        sleep(Duration::from_secs(3)).await;
        api.delete(LEASES, LEASE_NAME);
        sleep(Duration::from_secs(3)).await;
    }
    assert_eq!(holder(&api), "us");
    assert!(!leader.leadership.has_changed().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_lease_given_to_another_ends_leadership() {
    let api = FakeApi::default();
    let mut leader = Replica::start(&api, "us");
    leader.until(Leadership::Leading).await;
    let mut lease = api.get(LEASES, LEASE_NAME).unwrap();
    lease["spec"]["holderIdentity"] = json!("them");
    api.put(LEASES, lease);
    let took = leader.until(Leadership::Following).await;
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn an_exit_releases_ours_and_nobody_elses() {
    let api = FakeApi::default();
    let mut leader = Replica::start(&api, "us");
    leader.until(Leadership::Leading).await;
    let follower = Replica::start(&api, "follower");
    sleep(Duration::from_secs(1)).await;
    follower.stop().await;
    assert_eq!(holder(&api), "us");
    leader.stop().await;
    assert_eq!(holder(&api), "");
}

#[tokio::test(start_paused = true)]
async fn an_exit_does_not_wait_for_a_server_that_is_silent() {
    let api = FakeApi::default();
    let mut leader = Replica::start(&api, "us");
    leader.until(Leadership::Leading).await;
    api.set_silent(true);
    advance(Duration::from_secs(3)).await;
    let began = Instant::now();
    leader.stop().await;
    assert!(began.elapsed() <= Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn at_rest_a_leader_writes_once_a_retry_period_and_a_follower_nothing() {
    let api = FakeApi::default();
    let mut leader = Replica::start(&api, "us");
    leader.until(Leadership::Leading).await;
    let _follower = Replica::start(&api, "them");
    sleep(Duration::from_secs(5)).await;
    let before = api.requests("").len();
    sleep(Duration::from_secs(100)).await;
    let made = api.requests("").len() - before;
    assert!((48..=54).contains(&made), "{made} requests in 100 s");
}

#[tokio::test(start_paused = true)]
async fn without_election_a_replica_leads_until_it_stops() {
    let elector = Elector::uncontested();
    let mut leadership = elector.leadership();
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(elector.run(shutdown.clone()));
    leadership
        .wait_for(|now| *now == Leadership::Leading)
        .await
        .unwrap();
    shutdown.cancel();
    task.await.unwrap();
    assert_eq!(*leadership.borrow(), Leadership::Following);
}
