//! One pass: from what is observed to what is in the cluster, and to the config's status.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Api, Client, Resource};
use parking_lot::Mutex;
use tracing::{Instrument, info, info_span, warn};

use super::{
    announce::Announcer,
    certificates::Certificates,
    config::Observed,
    events::Events,
    inputs::Inputs,
    passage::Handovers,
    report::Report,
    status::{self, Outcome, Written},
};
use crate::{
    api::SriovOperatorConfig,
    apply::Applier,
    certs::{keeper::Keeper, serving::ServingStore},
    render::Renderer,
    server::{health::Checks, metrics::Metrics},
    settings::Settings,
};

/// How soon a config whose finalizer was just added is looked at, should the watch not show it.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How long the first look at what a pass depends on may take before the status says what is missing.
const FIRST_LOOK: Duration = Duration::from_secs(5);

/// What a pass asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing until something changes, or until then.
    Settled {
        /// When a pass is due without a cause.
        look_again: Option<Duration>,
    },
    /// Another pass soon.
    Retry,
}

/// What a reconciler is made of.
pub struct Parts {
    /// For the API server.
    pub client: Client,
    /// Flags and environment.
    pub settings: Arc<Settings>,
    /// The templates.
    pub renderer: Renderer,
    /// Keeps the Secrets in self-signed mode.
    pub keeper: Keeper,
    /// The pairs that this replica serves.
    pub serving: Arc<ServingStore>,
    /// What has to hold of this process before it is registered as a webhook.
    pub own_checks: Arc<Checks>,
    /// What wakes it.
    pub inputs: Inputs,
    /// Where Events are handed in.
    pub events: Events,
    /// The metrics of the process.
    pub metrics: Arc<Metrics>,
}

/// Makes passes. Knows nothing of leadership.
pub struct Reconciler {
    client: Client,
    settings: Arc<Settings>,
    renderer: Renderer,
    applier: Arc<Applier>,
    certificates: Certificates,
    own_checks: Arc<Checks>,
    inputs: Inputs,
    announcer: Announcer,
    metrics: Arc<Metrics>,
    handovers: Handovers,
    /// When this replica began to lead.
    began: Mutex<Instant>,
    /// Whether no other installation was found since.
    alone: AtomicBool,
    written: Mutex<Written>,
    /// The uid of the config whose finalizer was removed: the watch may show it for another moment.
    pub(super) finished: Mutex<Option<String>>,
}

impl Reconciler {
    /// A reconciler that has seen nothing yet.
    pub fn new(parts: Parts) -> Self {
        let Parts {
            client,
            settings,
            renderer,
            keeper,
            serving,
            own_checks,
            inputs,
            events,
            metrics,
        } = parts;
        Self {
            applier: Arc::new(Applier::new(client.clone(), &settings.process.namespace)),
            certificates: Certificates::new(&settings, keeper, serving, Arc::clone(&metrics)),
            client,
            settings,
            renderer,
            own_checks,
            inputs,
            announcer: Announcer::new(events),
            metrics,
            handovers: Handovers::default(),
            began: Mutex::new(Instant::now()),
            alone: AtomicBool::new(false),
            written: Mutex::default(),
            finished: Mutex::default(),
        }
    }

    /// This replica begins to lead: what it knew may have changed.
    pub fn begin(&self) {
        self.applier.forget();
        self.certificates.forget();
        self.alone.store(false, Ordering::Relaxed);
        *self.began.lock() = Instant::now();
    }

    /// The client.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// What writes.
    pub fn applier(&self) -> &Arc<Applier> {
        &self.applier
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(super) fn certificates(&self) -> &Certificates {
        &self.certificates
    }

    pub(super) fn own_checks(&self) -> &Checks {
        &self.own_checks
    }

    pub(super) fn announcer(&self) -> &Announcer {
        &self.announcer
    }

    pub(super) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// What wakes.
    pub fn wakers(&self) -> Inputs {
        self.inputs.clone()
    }

    pub(super) fn inputs(&self) -> &Inputs {
        &self.inputs
    }

    pub(super) fn renderer(&self) -> &Renderer {
        &self.renderer
    }

    pub(super) fn handovers(&self) -> &Handovers {
        &self.handovers
    }

    pub(super) fn alone(&self) -> &AtomicBool {
        &self.alone
    }

    /// One pass.
    pub async fn pass(&self) -> Verdict {
        let started = Instant::now();
        let verdict = self.look().instrument(info_span!("pass")).await;
        let result = match verdict {
            Verdict::Settled { look_again: None } => "success",
            Verdict::Settled {
                look_again: Some(_),
            } => "requeue_after",
            Verdict::Retry => "error",
        };
        self.metrics
            .operator
            .reconciled("sriovoperatorconfig", result, started.elapsed());
        verdict
    }

    async fn look(&self) -> Verdict {
        let config = self.inputs.config.borrow().clone();
        let namespace = self.inputs.namespace.borrow().clone();
        let pending = self.pending(&namespace);
        if !pending.is_empty() {
            return self.wait_for(&config, &pending).await;
        }
        let namespace_goes = namespace
            .present()
            .is_some_and(|namespace| namespace.metadata.deletion_timestamp.is_some());
        match config {
            Observed::Unknown => Verdict::Settled { look_again: None },
            Observed::Absent => self.sweep().await,
            Observed::Present(config)
                if namespace_goes || config.metadata.deletion_timestamp.is_some() =>
            {
                self.teardown(&config).await
            }
            Observed::Present(config) => self.sync(&config, namespace.present()).await,
        }
    }

    /// What has not been looked at yet, and what a pass depends on.
    fn pending<K>(&self, namespace: &Observed<K>) -> Vec<String> {
        let mut pending = Vec::new();
        if matches!(namespace, Observed::Unknown) {
            pending.push(format!("Namespace {}", self.settings.process.namespace));
        }
        if !self.inputs.published.borrow().is_complete() {
            pending.push("the webhook configurations".to_owned());
        }
        for (source, why) in &self.inputs.platform.borrow().pending {
            pending.push(match why {
                Some(why) => format!("{source} ({why})"),
                None => source.to_string(),
            });
        }
        pending
    }

    /// Waits for what is pending, which wakes a pass when it is there; says so when that takes long.
    async fn wait_for(
        &self,
        config: &Observed<SriovOperatorConfig>,
        pending: &[String],
    ) -> Verdict {
        let rest = FIRST_LOOK.saturating_sub(self.began.lock().elapsed());
        if !rest.is_zero() {
            return Verdict::Settled {
                look_again: Some(rest),
            };
        }
        if let Some(config) = config.present() {
            let mut report = Report::default();
            let what = format!("a first look at {}", pending.join(", "));
            report.waiting("operator", what, FIRST_LOOK);
            self.write_status(config, &report).await;
        }
        Verdict::Settled {
            look_again: Some(FIRST_LOOK),
        }
    }

    /// Writes the status when it changes, and says whether it is as it should be.
    pub(super) async fn write_status(&self, config: &SriovOperatorConfig, report: &Report) -> bool {
        let known = self.written.lock().clone();
        let before = known.known(config);
        let conditions = status::conditions(
            before,
            &report.outcome(),
            report.warnings(),
            config.metadata.generation,
            Timestamp::now(),
        );
        let changed = status::changed(before, &conditions);
        if changed.is_empty() {
            return true;
        }
        match report.outcome() {
            Outcome::Ready => info!("ready"),
            Outcome::Unsupported(message) | Outcome::Failed(message) => {
                warn!(%message, "not ready");
            }
        }
        match status::write(&self.configs(), config, &conditions).await {
            Ok(written) => {
                if let Some(written) = written {
                    *self.written.lock() = written;
                }
                self.announcer.conditions(config, before, &changed);
                true
            }
            Err(error) => {
                warn!(%error, "failed to write the status");
                false
            }
        }
    }

    pub(super) fn configs(&self) -> Api<SriovOperatorConfig> {
        Api::namespaced(self.client.clone(), &self.settings.process.namespace)
    }
}

pub(super) fn owner_reference(config: &SriovOperatorConfig) -> OwnerReference {
    config.controller_owner_ref(&()).unwrap_or_default()
}
