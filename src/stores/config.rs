//! The operator's own config, as the admission side follows it: the log level, and which webhooks are enabled.

use std::sync::Arc;

use kube::Resource;
use tokio::sync::watch;
use tokio::time::Instant;

use super::mirror::{Mirror, NotReady, Status, Watched, mirror};
use super::sinks::ConfigSink;
use super::source::Source;
use crate::api::{DEFAULT_CONFIG_NAME, SriovOperatorConfig, SriovOperatorConfigSpec};

/// The store of `SriovOperatorConfig/default`. Every process that answers reviews has one.
pub struct ConfigStore {
    config: Arc<ConfigSink>,
    watched: Watched,
}

impl ConfigStore {
    /// The store of the operator's `namespace`, and the task that fills it.
    #[must_use]
    pub fn start(client: &kube::Client, namespace: &str) -> (Arc<Self>, Mirror) {
        let config = Arc::new(ConfigSink::new());
        let path = SriovOperatorConfig::url_path(&(), Some(namespace));
        let source = Source::all("sriovoperatorconfigs", path).named(DEFAULT_CONFIG_NAME);
        let (watched, mirror) = mirror(client, source, &config);
        (Arc::new(Self { config, watched }), mirror)
    }

    /// The spec, whenever it changes. None while there is no config.
    #[must_use]
    pub fn spec(&self) -> watch::Receiver<Option<Arc<SriovOperatorConfigSpec>>> {
        self.config.spec()
    }

    /// Whether it is filled and fresh.
    pub fn ready(&self) -> Result<(), NotReady> {
        self.watched.ready(Instant::now())
    }

    /// How it fares.
    #[must_use]
    pub fn status(&self) -> Status {
        self.watched.status(Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::stores::fake_api::FakeApi;

    const CONFIGS: &str =
        "/apis/sriovnetwork.openshift.io/v1/namespaces/sriov/sriovoperatorconfigs";

    #[tokio::test(start_paused = true)]
    async fn our_config_is_followed_and_no_other() {
        let api = FakeApi::default();
        let (store, mirror) = ConfigStore::start(&api.client(), "sriov");
        let _task = tokio::spawn(mirror.run(tokio_util::sync::CancellationToken::new()));
        let mut watched = store.spec();
        let mut next = async || {
            let changed = tokio::time::timeout(Duration::from_secs(60), watched.changed());
            changed.await.unwrap().unwrap();
            watched
                .borrow_and_update()
                .as_ref()
                .map(|spec| spec.log_level)
        };
        let config = |name: &str, level: i64| json!({ "metadata": { "name": name, "namespace": "sriov" }, "spec": { "logLevel": level } });
        api.put(CONFIGS, config("other", 2));
        api.put(CONFIGS, config("default", 1));
        assert_eq!(next().await, Some(Some(1)));
        store.ready().unwrap();
        api.delete(CONFIGS, "default");
        assert_eq!(next().await, None);
    }
}
