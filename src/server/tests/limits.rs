//! Slow, silent, garbled and all too many clients, none of which keeps others from being served.

use std::time::{Duration, Instant};

use super::support::*;
use crate::server::Options;

/// Limits that a test can wait for, each told from the others.
fn impatient() -> Options {
    Options {
        handshake_timeout: Duration::from_millis(150),
        header_timeout: Duration::from_millis(150),
        request_timeout: Duration::from_millis(450),
        idle_timeout: Duration::from_millis(600),
        ..Options::default()
    }
}

#[tokio::test]
async fn one_connection_carries_many_requests() {
    let server = start(Options::default());
    let mut client = server.connect().await;
    for n in 0..200 {
        let body = n.to_string();
        assert_eq!(client.post("/echo", &body).await.unwrap(), ok(&body));
    }
    let both = request("/echo", "a") + &request("/echo", "b");
    client.write(&both).await.unwrap();
    assert_eq!(client.read().await.unwrap(), ok("a"));
    assert_eq!(client.read().await.unwrap(), ok("b"));
    assert_eq!(server.metrics.open_now(), 1);
}

#[tokio::test]
async fn whoever_does_not_shake_hands_is_dropped() {
    let server = start(impatient());
    let mut silent = server.connect_plainly().await;
    assert!(silent.is_closed().await);
    server.has_ended("slow_handshake", 1).await;
}

#[tokio::test]
async fn a_head_has_to_come_quickly_but_an_idle_connection_may_wait() {
    let server = start(impatient());
    let mut idle = server.connect().await;
    let mut used = server.connect().await;
    assert_eq!(used.post("/echo", "1").await.unwrap(), ok("1"));
    let mut slow = server.connect().await;
    let begun = Instant::now();
    slow.write("POST /echo HTTP/1.1\r\nHo").await.unwrap();
    assert!(slow.is_closed().await);
    assert!(begun.elapsed() < Duration::from_millis(500));
    server.has_ended("slow_head", 1).await;
    // Longer than a head may take.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(used.post("/echo", "2").await.unwrap(), ok("2"));
    assert_eq!(idle.post("/echo", "2").await.unwrap(), ok("2"));
}

#[tokio::test]
async fn a_head_that_trickles_in_is_no_better_than_a_slow_one() {
    let server = start(impatient());
    let mut client = server.connect().await;
    assert_eq!(client.post("/echo", "1").await.unwrap(), ok("1"));
    for byte in "POST /echo HTTP/1.1\r\nHost: x\r\n".chars() {
        if client.write(&byte.to_string()).await.is_err() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(client.is_closed().await);
    server.has_ended("slow_head", 1).await;
}

#[tokio::test]
async fn a_request_has_to_end() {
    let server = start(impatient());
    let mut client = server.connect().await;
    assert_eq!(client.post("/slow", "").await.unwrap(), ok("slow"));
    assert!(client.post("/never", "").await.is_err());
    server.has_ended("slow_request", 1).await;
    // A body that does not come is a request that does not end.
    let mut client = server.connect().await;
    let unfinished = "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc";
    client.write(unfinished).await.unwrap();
    assert!(client.is_closed().await);
    server.has_ended("slow_request", 2).await;
}

#[tokio::test]
async fn idle_connections_end_after_their_time() {
    let server = start(impatient());
    let mut client = server.connect().await;
    assert_eq!(client.post("/echo", "1").await.unwrap(), ok("1"));
    assert!(client.is_closed().await);
    server.has_ended("idle", 1).await;
    assert_eq!(server.metrics.open_now(), 0);
}

#[tokio::test]
async fn garbage_harms_nobody_else() {
    let server = start(Options::default());
    let mut good = server.connect().await;
    for garbage in [
        "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "\u{16}\u{3}\u{1}\u{0}\u{5}hello",
        "SSH-2.0-OpenSSH_9.9\r\n",
        "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
    ] {
        let mut client = server.connect_plainly().await;
        client.write(garbage).await.unwrap();
        drop(client);
    }
    server.has_ended("handshake_failed", 4).await;
    let mut client = server.connect().await;
    client.write("\r\n\u{1}\u{2}garbage\r\n\r\n").await.unwrap();
    assert!(client.read().await.unwrap().code == 400);
    server.has_ended("broken", 1).await;
    assert_eq!(good.post("/echo", "x").await.unwrap(), ok("x"));
}

#[tokio::test]
async fn silent_connections_make_room_for_those_that_speak() {
    let options = Options {
        max_connections: 8,
        ..Options::default()
    };
    let server = start(options);
    let mut caller = server.connect().await;
    assert_eq!(caller.post("/echo", "1").await.unwrap(), ok("1"));
    let mut crowd = Vec::new();
    for _ in 0..100 {
        crowd.push(server.connect_plainly().await);
    }
    let mut another = server.connect().await;
    assert_eq!(another.post("/echo", "2").await.unwrap(), ok("2"));
    assert_eq!(caller.post("/echo", "3").await.unwrap(), ok("3"));
    server.has_ended("evicted", 94).await;
    assert!(server.metrics.open_now() <= 8);
    assert!(crowd[0].is_closed().await);
}

#[tokio::test]
async fn when_every_connection_has_spoken_a_new_one_is_turned_away() {
    let options = Options {
        max_connections: 2,
        ..Options::default()
    };
    let server = start(options);
    let mut first = server.connect().await;
    let mut second = server.connect().await;
    for client in [&mut first, &mut second] {
        assert_eq!(client.post("/echo", "x").await.unwrap(), ok("x"));
    }
    assert!(server.connect_plainly().await.is_closed().await);
    server.has_ended("refused", 1).await;
    drop(first);
    server.has_ended("done", 1).await;
    let mut third = server.connect().await;
    assert_eq!(third.post("/echo", "x").await.unwrap(), ok("x"));
}
