//! A polite stop loses no request.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::{net::TcpStream, time::timeout};
use tokio_util::sync::CancellationToken;

use super::support::*;
use crate::server::Options;

#[tokio::test]
async fn requests_under_way_are_answered_and_close_their_connection() {
    let server = start(Options::default());
    let mut client = server.connect().await;
    client.write(&request("/slow", "")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    server.shutdown.stop.cancel();
    assert_eq!(client.read().await.unwrap(), ok_and_closes("slow"));
    assert!(client.is_closed().await);
    server.task.await.unwrap().unwrap();
    assert!(TcpStream::connect(server.address).await.is_err());
}

#[tokio::test]
async fn before_the_end_all_are_served_and_told_to_leave() {
    let server = start(Options::default());
    let mut known = server.connect().await;
    assert_eq!(known.post("/echo", "1").await.unwrap(), ok("1"));
    server.shutdown.leaving.cancel();
    assert_eq!(known.post("/echo", "2").await.unwrap(), ok_and_closes("2"));
    assert!(known.is_closed().await);
    let mut new = server.connect().await;
    assert_eq!(new.post("/echo", "3").await.unwrap(), ok_and_closes("3"));
    assert!(!server.task.is_finished());
    server.shutdown.stop.cancel();
    server.task.await.unwrap().unwrap();
}

#[tokio::test]
async fn connections_that_idle_do_not_hold_up_the_end() {
    let server = start(Options::default());
    let mut idle = server.connect().await;
    let mut used = server.connect().await;
    assert_eq!(used.post("/echo", "1").await.unwrap(), ok("1"));
    tokio::time::sleep(Duration::from_millis(100)).await;
    server.shutdown.stop.cancel();
    timeout(Duration::from_secs(3), server.task)
        .await
        .expect("it ends about a second after the connections were last used")
        .unwrap()
        .unwrap();
    assert!(idle.is_closed().await);
    assert!(used.is_closed().await);
}

#[tokio::test]
async fn whoever_has_just_connected_is_still_served() {
    let server = start(Options::default());
    let mut client = server.connect().await;
    server.shutdown.stop.cancel();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(client.post("/echo", "x").await.unwrap(), ok_and_closes("x"));
    server.task.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_head_that_is_half_there_is_waited_for() {
    let server = start(Options::default());
    let mut client = server.connect().await;
    assert_eq!(client.post("/echo", "1").await.unwrap(), ok("1"));
    let (half, rest) = (
        "POST /echo HTTP/1.1\r\nHo",
        "st: x\r\nContent-Length: 1\r\n\r\n2",
    );
    client.write(half).await.unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    server.shutdown.stop.cancel();
    tokio::time::sleep(Duration::from_millis(1200)).await;
    client.write(rest).await.unwrap();
    assert_eq!(client.read().await.unwrap(), ok_and_closes("2"));
    server.task.await.unwrap().unwrap();
}

#[tokio::test]
async fn what_does_not_end_is_told_to_give_up() {
    let options = Options {
        drain_timeout: Duration::from_millis(100),
        ..Options::default()
    };
    let server = start(options);
    let mut client = server.connect().await;
    client.write(&request("/never", "")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    server.shutdown.stop.cancel();
    assert_eq!(client.read().await.unwrap(), ok_and_closes("gave up"));
    server.task.await.unwrap().unwrap();
}

#[tokio::test]
async fn what_does_not_give_up_either_is_dropped() {
    let options = Options {
        drain_timeout: Duration::from_millis(100),
        ..Options::default()
    };
    let server = start(options);
    let mut client = server.connect().await;
    client
        .write("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    server.shutdown.stop.cancel();
    timeout(Duration::from_secs(3), server.task)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert!(client.is_closed().await);
    assert_eq!(server.metrics.ended_for("shutdown"), 1);
}

/// Callers as the API server is one: connections kept alive, given up when told so, another replica then.
#[tokio::test]
async fn under_load_not_one_request_is_lost() {
    let servers = Arc::new([start(Options::default()), start(Options::default())]);
    let first_leaves = Arc::new(AtomicBool::new(false));
    let end = CancellationToken::new();
    let answered = Arc::new(AtomicU32::new(0));
    let mut callers = Vec::new();
    for caller in 0..8 {
        let (servers, first_leaves) = (Arc::clone(&servers), Arc::clone(&first_leaves));
        let (end, answered) = (end.clone(), Arc::clone(&answered));
        callers.push(tokio::spawn(async move {
            while !end.is_cancelled() {
                let server = &servers[usize::from(first_leaves.load(Ordering::Relaxed))];
                let mut client = server.connect().await;
                loop {
                    let answer = client
                        .post("/echo", "x")
                        .await
                        .unwrap_or_else(|error| panic!("caller {caller} lost a request: {error}"));
                    assert_eq!((answer.code, &*answer.body), (200, "x"));
                    answered.fetch_add(1, Ordering::Relaxed);
                    if answer.closes || end.is_cancelled() {
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        }));
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    first_leaves.store(true, Ordering::Relaxed);
    servers[0].shutdown.leaving.cancel();
    // Whoever has just chosen the first one may take a while to connect on a busy machine.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    servers[0].shutdown.stop.cancel();
    while !servers[0].task.is_finished() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    end.cancel();
    for caller in callers {
        caller.await.unwrap();
    }
    assert!(answered.load(Ordering::Relaxed) > 100);
    assert_eq!(servers[0].metrics.open_now(), 0);
}
