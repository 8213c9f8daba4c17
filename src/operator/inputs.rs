//! What the reconciler follows, and how it is woken.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::PartialObjectMeta;
use tokio::sync::watch;

use super::config::Observed;
use crate::{api::SriovOperatorConfig, certs::published::Published, inject::Loaded, platform};

/// What the reconciler follows. Each change wakes it.
#[derive(Clone)]
pub struct Inputs {
    /// The config.
    pub config: watch::Receiver<Observed<SriovOperatorConfig>>,
    /// The operator's own Namespace.
    pub namespace: watch::Receiver<Observed<PartialObjectMeta<Namespace>>>,
    /// What the cluster is.
    pub platform: watch::Receiver<platform::Facts>,
    /// The bundles that live configurations carry.
    pub published: watch::Receiver<Published>,
    /// Changes of the pairs that are served.
    pub pairs: watch::Receiver<u64>,
    /// The injector's switches.
    pub switches: watch::Receiver<Arc<Loaded>>,
}

impl Inputs {
    /// Waits until any of them changes.
    pub async fn changed(&mut self) {
        tokio::select! {
            Ok(()) = self.config.changed() => {}
            Ok(()) = self.namespace.changed() => {}
            Ok(()) = self.platform.changed() => {}
            Ok(()) = self.published.changed() => {}
            Ok(()) = self.pairs.changed() => {}
            Ok(()) = self.switches.changed() => {}
            else => std::future::pending().await,
        }
    }
}
