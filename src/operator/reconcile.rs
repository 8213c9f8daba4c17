//! One pass: from what is observed to what is in the cluster, and to the config's status.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{Api, Client, Resource, api::PartialObjectMeta};
use parking_lot::Mutex;
use tracing::{Instrument, info, info_span, warn};

use super::{
    announce::Announcer,
    certificates::Certificates,
    config::Observed,
    events::Events,
    finalizer,
    inputs::Inputs,
    report::Report,
    rollout::Rollout,
    status::{self, Outcome},
    teardown::catalogue,
};
use crate::{
    api::{DEFAULT_CONFIG_NAME, SriovOperatorConfig},
    apply::{Applier, Drift, ObjectRef},
    certs::{keeper::Keeper, serving::ServingStore},
    features::{Feature, Features},
    inject,
    render::{self, Component, Facts, Owner, Owners, Renderer},
    server::{health::Checks, metrics::Metrics},
    settings::{
        Settings,
        tls::{self, TlsOptions, TlsWarning},
    },
};

/// How soon a config whose finalizer was just added is looked at, should the watch not show it.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

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
    /// The uid of the config whose finalizer was removed: the watch may show it for another moment.
    finished: Mutex<Option<String>>,
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
            finished: Mutex::default(),
        }
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

    /// The objects of kinds that are watched by name.
    pub fn named_objects(&self) -> Vec<ObjectRef> {
        Component::ALL.into_iter().flat_map(catalogue).collect()
    }

    /// One pass.
    pub async fn pass(&self, drifts: Vec<Drift>) -> Verdict {
        let started = Instant::now();
        let verdict = self.look(drifts).instrument(info_span!("pass")).await;
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

    async fn look(&self, drifts: Vec<Drift>) -> Verdict {
        let config = self.inputs.config.borrow().clone();
        let namespace = self.inputs.namespace.borrow().clone();
        if matches!(namespace, Observed::Unknown) || !self.inputs.published.borrow().is_complete() {
            return Verdict::Settled { look_again: None };
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
            Observed::Present(config) => self.sync(&config, namespace.present(), drifts).await,
        }
    }

    /// There is no config: what an earlier one left without its finalizer having run goes.
    async fn sweep(&self) -> Verdict {
        let mut report = Report::default();
        self.remove_everything(&mut report).await;
        self.announcer.forget();
        if report.is_to_be_retried() {
            warn!(outcome = ?report.outcome(), "failed to remove what an earlier config left");
            Verdict::Retry
        } else {
            Verdict::Settled { look_again: None }
        }
    }

    /// The config goes: so does everything of ours, then the finalizer.
    async fn teardown(&self, config: &SriovOperatorConfig) -> Verdict {
        let uid = config.metadata.uid.as_ref();
        if (uid.is_some() && self.finished.lock().as_ref() == uid) || !finalizer::is_present(config)
        {
            return Verdict::Settled { look_again: None };
        }
        let mut report = Report::default();
        if let Some(uid) = uid {
            self.applier.set_config_uid(uid);
        }
        self.remove_everything(&mut report).await;
        self.certificates
            .remove(&owner_reference(config), &mut report)
            .await;
        if report.is_to_be_retried() {
            self.write_status(config, &report).await;
            return Verdict::Retry;
        }
        match finalizer::remove(&self.configs(), config).await {
            Ok(()) => {
                info!("everything of the config is removed, and its finalizer");
                self.finished.lock().clone_from(&config.metadata.uid);
                Verdict::Settled { look_again: None }
            }
            Err(error) => {
                warn!(%error, "failed to remove the finalizer");
                Verdict::Retry
            }
        }
    }

    async fn sync(
        &self,
        config: &SriovOperatorConfig,
        namespace: Option<&PartialObjectMeta<Namespace>>,
        drifts: Vec<Drift>,
    ) -> Verdict {
        if !finalizer::is_present(config) {
            // The watch shows the patched object, and that wakes the next pass.
            return match finalizer::add(&self.configs(), config).await {
                Ok(()) => Verdict::Settled {
                    look_again: Some(LOOK_AGAIN),
                },
                Err(error) => {
                    warn!(%error, "failed to add the finalizer");
                    Verdict::Retry
                }
            };
        }
        if let Some(uid) = &config.metadata.uid {
            self.applier.set_config_uid(uid);
        }
        let mut report = Report::default();
        let published = self.inputs.published.borrow().clone();
        let issued = self
            .certificates
            .pass(
                &owner_reference(config),
                &published,
                Timestamp::now(),
                &mut report,
            )
            .instrument(info_span!("certificates"))
            .await;
        self.certificates.warn(&mut report);
        self.announcer
            .certificates(config, &issued.news, &self.certificates.pairs());

        let features = Features::new(config.spec.feature_gates.iter().flatten());
        let unknown_gates = unknown_gates(&features);
        self.announcer.unknown_gates(config, &unknown_gates);
        for note in unknown_gates {
            report.warning(note);
        }
        let platform = self.inputs.platform.borrow().clone();
        let switches = self.inputs.switches.borrow().clone();
        self.announcer.set_aside(config, &switches);
        let profile = platform.api_server.as_ref().and_then(tls::cluster_profile);
        self.warn_of_tls(profile.as_ref(), &mut report);
        let condition = inject::match_condition(&switches.switches);
        let facts = Facts {
            config: &config.spec,
            settings: &self.settings,
            features: &features,
            hypershift: platform.hypershift,
            cluster_tls: profile.as_ref().map(|(options, _)| options),
            operator_registration: &issued.mutating.registration,
            validating_registration: &issued.validating.registration,
            injector_registration: &issued.injector.registration,
            injector_condition: &condition,
        };
        let owners = Owners {
            config: config.metadata.uid.clone().map(|uid| Owner {
                name: DEFAULT_CONFIG_NAME.into(),
                uid,
            }),
            namespace: namespace.and_then(|namespace| {
                Some(Owner {
                    name: namespace.metadata.name.clone()?,
                    uid: namespace.metadata.uid.clone()?,
                })
            }),
        };
        for (component, desired) in render::all(&self.renderer, &facts, &owners) {
            let rollout = Rollout {
                config,
                component,
                issued: &issued,
                published: &published,
                drifts: &drifts,
            };
            self.settle(&rollout, desired, &mut report)
                .instrument(info_span!("component", name = component.name()))
                .await;
        }
        self.write_status(config, &report).await;
        if report.is_to_be_retried() {
            Verdict::Retry
        } else {
            Verdict::Settled {
                look_again: report.look_again(),
            }
        }
    }

    async fn write_status(&self, config: &SriovOperatorConfig, report: &Report) {
        let before = config
            .status
            .as_ref()
            .map(|status| status.conditions.as_slice())
            .unwrap_or_default();
        let conditions = status::conditions(
            before,
            &report.outcome(),
            report.warnings(),
            config.metadata.generation,
            Timestamp::now(),
        );
        let changed = status::changed(before, &conditions);
        if changed.is_empty() {
            return;
        }
        match report.outcome() {
            Outcome::Ready => info!("ready"),
            Outcome::Unsupported(message) | Outcome::Failed(message) => {
                warn!(%message, "not ready");
            }
        }
        match status::write(&self.configs(), config, &conditions).await {
            Ok(()) => self.announcer.conditions(config, &changed),
            Err(error) => warn!(%error, "failed to write the status"),
        }
    }

    /// Warnings about TLS as it is served, by the cluster's profile where there is one.
    fn warn_of_tls(&self, profile: Option<&(TlsOptions, Vec<TlsWarning>)>, report: &mut Report) {
        let (options, warnings) = match profile {
            Some((options, warnings)) => (options, warnings.as_slice()),
            None => (&self.settings.admission.tls, [].as_slice()),
        };
        for warning in warnings.iter().chain(&options.served().1) {
            report.warning(warning.to_string());
        }
    }

    fn configs(&self) -> Api<SriovOperatorConfig> {
        Api::namespaced(self.client.clone(), &self.settings.process.namespace)
    }
}

fn owner_reference(config: &SriovOperatorConfig) -> OwnerReference {
    config.controller_owner_ref(&()).unwrap_or_default()
}

/// A note for each gate that is set and not known.
fn unknown_gates(features: &Features) -> Vec<String> {
    let known = Feature::KNOWN
        .iter()
        .map(|feature| feature.name())
        .collect::<Vec<_>>()
        .join(", ");
    features
        .unknown()
        .map(|gate| {
            format!("spec.featureGates[{gate}] is not known and has no effect; known are {known}")
        })
        .collect()
}
