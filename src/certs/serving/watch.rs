//! Keeps a [`ServingStore`] filled from the Secrets, each watched by its name.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{StreamExt, select_all};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use tokio::time::{MissedTickBehavior, interval};
use tracing::warn;

use super::ServingStore;
use crate::certs::pair::PairContents;
use crate::lines::causes;
use crate::watching::watch_object;

/// How often dates are looked at: a pair that was not yet valid becomes so, one in use expires.
const LOOK_AT_DATES: Duration = Duration::from_secs(5);

/// Watches the store's Secrets in `namespace` until it is dropped. Failing watches are resumed with a back-off; what is
/// served stays meanwhile.
pub async fn watch(client: Client, namespace: &str, store: Arc<ServingStore>) {
    let mut names: Vec<String> = store
        .endpoints()
        .into_iter()
        .map(|endpoint| endpoint.secret)
        .collect();
    names.sort();
    names.dedup();
    let mut secrets = select_all(names.into_iter().map(|name| {
        let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
        watch_object(api, &name)
            .map(move |event| (name.clone(), event))
            .boxed()
    }));
    let mut dates = interval(LOOK_AT_DATES);
    dates.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            Some((name, event)) = secrets.next() => match event {
                Ok(secret) => {
                    let contents = secret.map(|secret| PairContents::from_data(secret.data.as_ref()));
                    store.update_secret(&name, contents.as_ref(), Timestamp::now());
                }
                Err(error) => warn!(secret = name, error = %causes(&error), "failed to watch the serving Secret; what is served stays"),
            },
            _ = dates.tick() => store.reconsider(Timestamp::now()),
        }
    }
}
