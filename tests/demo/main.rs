//! The main job on a real API server, as a transcript to read: `make demo`.
//!
//! Ends with an error when any step is not as it should be, and leaves nothing behind. `KEEP=1` stops before the
//! end and waits, so that the cluster can be tried by hand; `KUBECONFIG_DEMO` names a cluster to use instead of
//! booting one.

#[allow(
    dead_code,
    reason = "the demo uses what it needs of the tests' harness"
)]
#[path = "../support/mod.rs"]
mod support;

mod endpoints;
mod stage;
mod story;
mod transcript;

use std::process::ExitCode;

use anyhow::Result;
use tokio::signal::unix::{SignalKind, signal};

use stage::Stage;
use transcript::Transcript;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let transcript = Transcript::new();
    match run(&transcript).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            transcript.failure(&error);
            ExitCode::FAILURE
        }
    }
}

async fn run(transcript: &Transcript) -> Result<()> {
    transcript.title("sriov-operator: the main job on a real API server");
    let mut stage = Stage::prepare().await?;
    let told = tokio::select! {
        told = tell(transcript, &mut stage) => told,
        () = interrupted() => Err(anyhow::anyhow!("interrupted")),
    };
    if told.is_err() {
        transcript.note("the end of the operator's log:", &stage.operator.log(30));
    }
    let cleaned = stage.clear().await;
    told?;
    cleaned?;
    transcript.end();
    Ok(())
}

async fn tell(transcript: &Transcript, stage: &mut Stage) -> Result<()> {
    story::opening(transcript, stage).await?;
    story::registration(transcript, stage).await?;
    story::admission(transcript, stage).await?;
    story::switches_and_repairs(transcript, stage).await?;
    if std::env::var("KEEP").is_ok_and(|keep| !matches!(keep.as_str(), "" | "0")) {
        transcript.note(
            "It is yours until Ctrl-C. Try, in another shell:",
            &stage.hints(),
        );
        interrupted().await;
    }
    story::ending(transcript, stage).await
}

async fn interrupted() {
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
