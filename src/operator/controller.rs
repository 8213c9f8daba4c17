//! The loop: what wakes the reconciler, how failures are spaced out, and that it runs only while this replica leads.

use std::{sync::Arc, time::Duration};

use futures::future::{self, Either};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    lease::Leadership,
    reconcile::{Reconciler, Verdict},
};
use crate::apply;

/// How often everything is looked at without a cause.
const RESYNC: Duration = Duration::from_secs(300);
/// The first pause after a failed pass; it doubles up to [`LONGEST_RETRY`].
const FIRST_RETRY: Duration = Duration::from_millis(200);
const LONGEST_RETRY: Duration = Duration::from_secs(10);

/// Runs the reconciler while this replica leads, until `shutdown`.
pub async fn run(
    reconciler: Arc<Reconciler>,
    mut leadership: watch::Receiver<Leadership>,
    shutdown: CancellationToken,
) {
    loop {
        let leading = leadership.wait_for(|leadership| *leadership == Leadership::Leading);
        match future::select(Box::pin(shutdown.cancelled()), Box::pin(leading)).await {
            Either::Right((Ok(_), _)) => {}
            Either::Left(_) | Either::Right((Err(_), _)) => return,
        }
        info!("this replica leads: reconciling");
        let mut lost = leadership.clone();
        let lost = lost.wait_for(|leadership| *leadership != Leadership::Leading);
        // A pass that is cut short leaves nothing behind that the next leader's first pass does not put right.
        tokio::select! {
            () = lead(&reconciler) => return,
            () = shutdown.cancelled() => return,
            _ = lost => info!("this replica leads no longer"),
        }
        reconciler.certificates().forget();
    }
}

/// Reconciles for as long as it is polled.
async fn lead(reconciler: &Arc<Reconciler>) {
    reconciler.begin();
    let wake = Notify::new();
    let objects = reconciler.watched_objects();
    let watch = apply::watch(Arc::clone(reconciler.applier()), &objects, || {
        wake.notify_one();
    });
    let secrets = reconciler.certificates().follow(|| wake.notify_one());
    let reconcile = async {
        let mut wakers = reconciler.wakers();
        let mut failures = 0;
        loop {
            let pause = match reconciler.pass().await {
                Verdict::Settled { look_again } => {
                    failures = 0;
                    look_again.map_or(RESYNC, |look_again| look_again.min(RESYNC))
                }
                Verdict::Retry => {
                    failures += 1;
                    retry_after(failures)
                }
            };
            tokio::select! {
                () = wakers.changed() => failures = 0,
                () = wake.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    };
    tokio::select! {
        () = watch => warn!("the watches over applied objects ended"),
        () = secrets => warn!("the watches over certificates ended"),
        () = reconcile => {}
    }
}

fn retry_after(failures: u32) -> Duration {
    FIRST_RETRY
        .saturating_mul(1 << failures.saturating_sub(1).min(16))
        .min(LONGEST_RETRY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_begin_soon_and_end_up_slow() {
        assert_eq!(retry_after(1), Duration::from_millis(200));
        assert_eq!(retry_after(2), Duration::from_millis(400));
        assert_eq!(retry_after(100), LONGEST_RETRY);
    }
}
