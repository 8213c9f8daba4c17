//! Waiting for something to become true, with a message that says what was missing at the end.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

const PAUSE: Duration = Duration::from_millis(25);

/// Tries until `attempt` succeeds; after `within`, fails with the last failure.
pub(crate) async fn eventually<T>(
    within: Duration,
    what: &str,
    mut attempt: impl AsyncFnMut() -> Result<T>,
) -> Result<T> {
    let start = Instant::now();
    loop {
        match attempt().await {
            Ok(value) => return Ok(value),
            Err(error) if start.elapsed() >= within => {
                return Err(error)
                    .with_context(|| format!("waited {} s for {what}", within.as_secs_f32()));
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Fails as soon as `attempt` does; succeeds when it held all the time.
pub(crate) async fn throughout(
    time: Duration,
    what: &str,
    mut attempt: impl AsyncFnMut() -> Result<()>,
) -> Result<()> {
    let start = Instant::now();
    while start.elapsed() < time {
        attempt()
            .await
            .with_context(|| format!("{what} held for {} s only", start.elapsed().as_secs_f32()))?;
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}
