//! Size, time, memory, overload and shutdown.

use super::*;
use crate::telemetry::testing::{Captured, heard_beside_others};

#[tokio::test]
async fn a_review_above_the_limit_is_denied_with_size_and_limit() {
    let limits = Limits {
        review_bytes: 20_000,
        ..Limits::default()
    };
    let webhooks = webhooks(limits, FailurePolicy::Fail);
    let body = review(&json!({"uid": "u-1", "zobject": "x".repeat(30_000)})).to_string();
    let size = body.len().to_string();
    let announced = webhooks.post("/mutate", body.clone()).await;
    let pieces: Vec<_> = body
        .as_bytes()
        .chunks(1000)
        .map(|piece| Ok::<_, std::io::Error>(Bytes::copy_from_slice(piece)))
        .collect();
    let counted = webhooks
        .post("/mutate", Body::from_stream(futures::stream::iter(pieces)))
        .await;
    for answer in [announced, counted] {
        let response = answer.response();
        assert_eq!(response["uid"], "u-1");
        assert_eq!(response["allowed"], false);
        assert_eq!(response["status"]["code"], 413);
        let message = response["status"]["message"].as_str().unwrap();
        assert!(
            message.contains(&size) && message.contains("20000"),
            "{message}"
        );
    }
    // A uid behind the object is not looked for.
    let hidden = format!(
        r#"{{"request":{{"object":"{}","uid":"u-1"}}}}"#,
        "x".repeat(30_000)
    );
    let answer = webhooks.post("/mutate", hidden).await;
    assert!(answer.refusal(413).contains("20000"));
}

#[tokio::test]
async fn a_review_of_seven_mebibytes_is_read() {
    let mut body = about("x");
    body["request"]["object"]["spec"] = json!("y".repeat(7 * 1024 * 1024 - 1024));
    usual().ask("/mutate", &body).await.response();
}

#[tokio::test(start_paused = true)]
async fn the_answer_comes_before_the_deadline() {
    let begun = tokio::time::Instant::now();
    let answer = usual().ask("/mutate?timeout=2s", &about("hang")).await;
    assert!(answer.refusal(504).contains("deadline"));
    assert_eq!(begun.elapsed().as_millis(), 1800);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let begun = tokio::time::Instant::now();
    let beginning = futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(b"{"))]);
    let body = Body::from_stream(beginning.chain(futures::stream::pending()));
    let answer = usual().post("/mutate?timeout=30s", body).await;
    answer.refusal(408);
    assert_eq!(begun.elapsed(), Limits::default().body_time);
}

#[tokio::test]
async fn a_body_that_breaks_off_is_a_bad_request() {
    let pieces = [
        Ok(Bytes::from_static(b"{")),
        Err(std::io::Error::other("gone")),
    ];
    let body = Body::from_stream(futures::stream::iter(pieces));
    usual().post("/mutate", body).await.refusal(400);
}

#[tokio::test(start_paused = true)]
async fn overload_asks_to_try_again() {
    let limits = Limits {
        reviews: 1,
        ..Limits::default()
    };
    let webhooks = Arc::new(webhooks(limits, FailurePolicy::Fail));
    let busy = tokio::spawn({
        let webhooks = Arc::clone(&webhooks);
        async move { webhooks.ask("/mutate", &about("hang")).await.code }
    });
    tokio::time::sleep(Duration::from_millis(1)).await;
    let answer = webhooks.ask("/mutate", &about("x")).await;
    answer.refusal(429);
    assert_eq!(answer.retries_after(), Some("1"));
    assert_eq!(busy.await.unwrap(), 504);
    webhooks.ask("/mutate", &about("x")).await.response();
}

#[tokio::test]
async fn bodies_together_stay_within_their_memory() {
    let limits = Limits {
        body_bytes: 2048,
        ..Limits::default()
    };
    let webhooks = webhooks(limits, FailurePolicy::Fail);
    webhooks.ask("/mutate", &about("x")).await.response();
    let answer = webhooks.post("/mutate", vec![b' '; 4096]).await;
    answer.refusal(429);
    assert_eq!(answer.retries_after(), Some("1"));
    webhooks.ask("/mutate", &about("x")).await.response();
}

#[tokio::test(start_paused = true)]
async fn shutdown_sends_callers_elsewhere() {
    let webhooks = Arc::new(usual());
    let under_way = tokio::spawn({
        let webhooks = Arc::clone(&webhooks);
        async move { webhooks.ask("/mutate", &about("hang")).await }
    });
    tokio::time::sleep(Duration::from_millis(1)).await;
    webhooks.stop.cancel();
    for answer in [
        under_way.await.unwrap(),
        webhooks.ask("/mutate", &about("x")).await,
    ] {
        assert!(answer.refusal(503).contains("shutting down"));
        assert_eq!(answer.retries_after(), Some("1"));
    }
}

#[tokio::test]
async fn the_log_is_not_filled_with_what_stands_where_a_name_belongs() {
    let log = Captured::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let _heard = heard_beside_others();
    let _logging = tracing::subscriber::set_default(subscriber);
    let endless = "n".repeat(100_000);
    let webhooks = usual();
    for name in ["deny", endless.as_str()] {
        let mut review = about(name);
        review["request"]["namespace"] = json!(endless);
        review["request"]["kind"]["kind"] = json!(endless);
        webhooks.ask("/mutate", &review).await.response();
    }
    let mut undecodable = about("x");
    undecodable["request"]["operation"] = json!(endless);
    webhooks.ask("/mutate", &undecodable).await.response();
    let log = log.text();
    assert_eq!(log.matches("denied").count(), 2, "{log}");
    assert!(log.contains("nnn...") && log.len() < 5000, "{}", log.len());
}
