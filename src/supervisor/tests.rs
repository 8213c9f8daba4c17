use std::convert::Infallible;
use std::sync::Arc;

use parking_lot::Mutex;

use tokio::time::sleep;

use super::*;

const STOP: Stop = Stop {
    delay: Duration::from_secs(5),
    drain: Duration::from_secs(20),
};

/// What happened, in order, with the seconds since the start.
#[derive(Clone)]
struct Story(Arc<Mutex<Vec<(u64, &'static str)>>>, Instant);

impl Story {
    fn new() -> Self {
        Self(Arc::default(), Instant::now())
    }

    fn tell(&self, what: &'static str) {
        self.0.lock().push((self.1.elapsed().as_secs(), what));
    }

    fn told(&self) -> Vec<(u64, &'static str)> {
        self.0.lock().clone()
    }
}

/// A supervisor with one task a stage, each of which takes a second to end once asked.
fn four_stages(story: &Story) -> Supervisor {
    let mut supervisor = Supervisor::new();
    for (name, stage) in [
        ("stores", Stage::Supporting),
        ("server", Stage::Serving),
        ("lease", Stage::Electing),
        ("operator", Stage::Writing),
    ] {
        let (story, stopping) = (story.clone(), supervisor.stopping(stage));
        supervisor.spawn(name, stage, async move {
            stopping.cancelled().await;
            sleep(Duration::from_secs(1)).await;
            story.tell(name);
            Ok::<_, Infallible>(())
        });
    }
    supervisor
}

#[tokio::test(start_paused = true)]
async fn a_signal_stops_writing_at_once_then_serving_then_the_rest() {
    let story = Story::new();
    let supervisor = four_stages(&story);
    let leaving = supervisor.leaving();
    let (signals, receiver) = mpsc::channel(2);
    let seen = story.clone();
    tokio::spawn(async move {
        leaving.cancelled().await;
        seen.tell("not ready");
    });
    signals.send(StopSignal::Terminate).await.unwrap();
    supervisor.run(receiver, STOP).await.unwrap();
    assert_eq!(
        story.told(),
        [
            (0, "not ready"),
            (1, "operator"),
            (2, "lease"),
            (6, "server"),
            (7, "stores")
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_second_signal_ends_at_once() {
    let story = Story::new();
    let supervisor = four_stages(&story);
    let (signals, receiver) = mpsc::channel(2);
    signals.send(StopSignal::Terminate).await.unwrap();
    signals.send(StopSignal::Interrupt).await.unwrap();
    let failure = supervisor.run(receiver, STOP).await.unwrap_err();
    assert!(matches!(failure, Failure::Forced), "{failure}");
    assert_eq!(story.told(), []);
}

#[tokio::test(start_paused = true)]
async fn the_first_task_to_end_unasked_stops_the_others_and_is_named() {
    type Ending = fn() -> Result<(), TaskError>;
    let endings: [(Ending, &str); 3] = [
        (|| Ok(()), "watcher ended although nothing asked it to"),
        (|| Err("no route".into()), "watcher failed: no route"),
        (|| panic!("index 7"), "watcher panicked: index 7"),
    ];
    for (ending, message) in endings {
        let story = Story::new();
        let mut supervisor = four_stages(&story);
        supervisor.spawn("watcher", Stage::Supporting, async move {
            sleep(Duration::from_secs(3)).await;
            ending()
        });
        let (_signals, receiver) = mpsc::channel(2);
        let failure = supervisor.run(receiver, STOP).await.unwrap_err();
        assert_eq!(failure.to_string(), message);
        assert_eq!(
            story.told(),
            [(4, "operator"), (5, "lease"), (6, "server"), (7, "stores")],
            "no delay after a failure, and the Lease is still released"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_does_not_stop_holds_up_nothing_after_it() {
    let story = Story::new();
    let mut supervisor = four_stages(&story);
    supervisor.spawn(
        "deaf",
        Stage::Serving,
        std::future::pending::<Result<(), Infallible>>(),
    );
    let (signals, receiver) = mpsc::channel(2);
    signals.send(StopSignal::Terminate).await.unwrap();
    let failure = supervisor.run(receiver, STOP).await.unwrap_err();
    assert_eq!(failure.to_string(), "deaf did not stop within 20s");
    assert_eq!(
        story.told(),
        [(1, "operator"), (2, "lease"), (6, "server"), (26, "stores")]
    );
}

#[tokio::test(start_paused = true)]
async fn a_task_of_a_later_stage_that_dies_during_the_stop_is_reported() {
    let story = Story::new();
    let mut supervisor = four_stages(&story);
    supervisor.spawn("metrics", Stage::Supporting, async {
        sleep(Duration::from_millis(5_500)).await;
        Err::<(), TaskError>("lost".into())
    });
    let (signals, receiver) = mpsc::channel(2);
    signals.send(StopSignal::Terminate).await.unwrap();
    let failure = supervisor.run(receiver, STOP).await.unwrap_err();
    assert_eq!(failure.to_string(), "metrics failed: lost");
    assert_eq!(
        story.told(),
        [(1, "operator"), (2, "lease"), (6, "server"), (7, "stores")],
        "the others stop in order all the same"
    );
}

#[tokio::test(start_paused = true)]
async fn tasks_that_end_with_an_error_when_asked_are_reported() {
    let mut supervisor = Supervisor::new();
    let stopping = supervisor.stopping(Stage::Serving);
    supervisor.spawn("server", Stage::Serving, async move {
        stopping.cancelled().await;
        Err::<(), TaskError>("2 requests cut off".into())
    });
    let (signals, receiver) = mpsc::channel(2);
    signals.send(StopSignal::Terminate).await.unwrap();
    let failure = supervisor.run(receiver, STOP).await.unwrap_err();
    assert_eq!(failure.to_string(), "server failed: 2 requests cut off");
}
