//! One pass: from what is observed to what is in the cluster, and to the config's status.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Namespace, ObjectReference},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{Api, Client, Resource, api::PartialObjectMeta};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;
use tracing::{debug, info, warn};

use super::{
    certificates::{Certificates, Issued, Standing},
    config::Observed,
    events::{Events, Reason},
    finalizer,
    report::Report,
    status::{self, Outcome},
    teardown::is_webhook_configuration,
};
use crate::{
    api::{DEFAULT_CONFIG_NAME, SriovOperatorConfig},
    apply::{Applied, Applier, Drift, Error as ApplyError, ObjectRef},
    certs::{keeper::Keeper, published::Published, serving::ServingStore},
    features::{Feature, Features},
    inject::{self, Loaded},
    platform,
    render::{self, Component, ComponentError, Desired, Facts, Owner, Owners, Rendered, Renderer},
    server::metrics::Metrics,
    settings::{
        AdmissionServing, Settings,
        tls::{self, TlsOptions, TlsWarning},
    },
};

/// How soon a backend that is waited for is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

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

/// Makes passes. Knows nothing of leadership.
pub struct Reconciler {
    client: Client,
    settings: Arc<Settings>,
    renderer: Renderer,
    applier: Arc<Applier>,
    certificates: Certificates,
    inputs: Inputs,
    events: Events,
    metrics: Arc<Metrics>,
    told: Mutex<Told>,
}

/// What Events were already about, so that each is told once.
#[derive(Default)]
struct Told {
    enabled: Vec<(Component, bool)>,
    unknown_gates: Vec<String>,
    set_aside: Vec<String>,
    refused: Vec<String>,
    /// The uid of the config whose finalizer was removed: the watch may show it for another moment.
    finished: Option<String>,
}

impl Reconciler {
    /// A reconciler that has seen nothing yet.
    pub fn new(
        client: Client,
        settings: Arc<Settings>,
        renderer: Renderer,
        keeper: Keeper,
        serving: Arc<ServingStore>,
        inputs: Inputs,
        events: Events,
        metrics: Arc<Metrics>,
    ) -> Self {
        let [operator, injector] = crate::certs::names::endpoints(
            &settings.process.namespace,
            &settings.admission.secret_names.operator,
            &settings.admission.secret_names.injector,
        );
        Self {
            applier: Arc::new(Applier::new(client.clone(), &settings.process.namespace)),
            certificates: Certificates {
                keeper,
                mode: settings.certificate_mode.clone(),
                operator,
                injector,
                serving,
            },
            client,
            settings,
            renderer,
            inputs,
            events,
            metrics,
            told: Mutex::default(),
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

    /// What wakes.
    pub fn wakers(&self) -> Inputs {
        self.inputs.clone()
    }

    /// The objects of kinds that are watched by name.
    pub fn named_objects(&self) -> Vec<ObjectRef> {
        Component::ALL
            .into_iter()
            .flat_map(|component| self.catalogue(component))
            .collect()
    }

    /// Every object that a component may have in any variant, in the order in which it is applied.
    pub(super) fn catalogue(&self, component: Component) -> Vec<ObjectRef> {
        component
            .objects()
            .iter()
            .filter_map(|object| ObjectRef::find(object.api_version, object.kind, object.name))
            .collect()
    }

    /// One pass.
    pub async fn pass(&self, drifts: Vec<Drift>) -> Verdict {
        let started = Instant::now();
        let verdict = self.look(drifts).await;
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
        *self.told.lock() = Told::default();
        if report.is_to_be_retried() {
            warn!(outcome = ?report.outcome(), "failed to remove what an earlier config left");
            Verdict::Retry
        } else {
            Verdict::Settled { look_again: None }
        }
    }

    /// The config goes: so does everything of ours, then the finalizer.
    async fn teardown(&self, config: &SriovOperatorConfig) -> Verdict {
        let finished =
            config.metadata.uid.is_some() && self.told.lock().finished == config.metadata.uid;
        if finished || !finalizer::is_present(config) {
            return Verdict::Settled { look_again: None };
        }
        let mut report = Report::default();
        if let Some(uid) = &config.metadata.uid {
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
                self.told.lock().finished = config.metadata.uid.clone();
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
            .await;
        self.certificates.warn(&mut report);
        self.tell_certificates(config, &issued);

        let features = Features::new(config.spec.feature_gates.iter().flatten());
        self.tell_unknown_gates(config, &features, &mut report);
        let platform = self.inputs.platform.borrow().clone();
        let switches = self.inputs.switches.borrow().clone();
        self.tell_set_aside(config, &switches);
        let profile = platform.api_server.as_ref().and_then(tls::cluster_profile);
        self.warn_of_tls(profile.as_ref(), &mut report);
        let condition = inject::match_condition(&switches.switches);
        let facts = Facts {
            config: &config.spec,
            settings: &self.settings,
            features: &features,
            hypershift: platform.hypershift,
            cluster_tls: profile.as_ref().map(|(options, _)| options),
            operator_registration: &issued.operator.registration,
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
            match desired {
                Ok(Desired::Off) => {
                    self.remove_others(component, &[], &mut report).await;
                    self.tell_enabled(config, component, false);
                }
                Ok(Desired::On(rendered)) => {
                    let standing = match component {
                        Component::OperatorWebhook => Some(&issued.operator),
                        Component::Injector => Some(&issued.injector),
                        _ => None,
                    };
                    self.roll_out(
                        config,
                        component,
                        rendered,
                        standing,
                        &published,
                        &drifts,
                        &mut report,
                    )
                    .await;
                    self.tell_enabled(config, component, true);
                }
                Err(ComponentError::Unsupported(what)) => report.unsupported(what),
                Err(error) => report.lasting_fault(component, error),
            }
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

    /// Applies a component's objects in order, then removes what it no longer has.
    #[allow(
        clippy::too_many_arguments,
        reason = "one component's share of a pass, taken apart for reading"
    )]
    async fn roll_out(
        &self,
        config: &SriovOperatorConfig,
        component: Component,
        rendered: Rendered,
        standing: Option<&Standing>,
        published: &Published,
        drifts: &[Drift],
        report: &mut Report,
    ) {
        for warning in &rendered.warnings {
            report.warning(warning.to_string());
        }
        let mut kept = Vec::new();
        let mut backend_failed = false;
        for (object, once) in rendered
            .created_once
            .iter()
            .map(|object| (object, true))
            .chain(rendered.objects.iter().map(|object| (object, false)))
        {
            let Ok(reference) = ObjectRef::of(object) else {
                report.lasting_fault(
                    component,
                    "a template makes an object of a kind that is not managed",
                );
                continue;
            };
            kept.push(reference.clone());
            if is_webhook_configuration(reference.kind)
                && let Some(waiting) = self
                    .not_yet(component, standing, &reference, published, backend_failed)
                    .await
            {
                report.waiting(component, waiting, LOOK_AGAIN);
                continue;
            }
            let applied = if once {
                self.applier.create_once(object).await
            } else {
                self.applier.apply(object).await
            };
            self.metrics.operator.applied(
                component.name(),
                match &applied {
                    Ok(Applied::Unchanged) => "skipped",
                    Ok(_) => "applied",
                    Err(_) => "failed",
                },
            );
            match applied {
                Ok(Applied::Repaired) => {
                    self.metrics.operator.repaired(component.name());
                    self.tell_repaired(config, &reference, drifts);
                }
                Ok(applied) => debug!(%component, object = %reference, ?applied, "reconciled"),
                // What the server does not know cannot be there: the Prometheus operator is not installed.
                Err(ApplyError::UnknownKind(object)) => {
                    report.warning(format!(
                        "{component}: {object} is left out: the API server does not know this kind"
                    ));
                }
                Err(error @ ApplyError::Foreign(_)) => {
                    backend_failed = true;
                    report.lasting_fault(component, error);
                    // It may be deleted by its owner, and no watch of ours shows that.
                    report.look_again_in(Duration::from_secs(30));
                }
                Err(ApplyError::Contested {
                    object,
                    manager,
                    retry_in,
                }) => {
                    report.warning(format!(
                        "{component}: {object} is changed again and again by {manager}"
                    ));
                    report.look_again_in(retry_in);
                }
                Err(error) => {
                    backend_failed = true;
                    report.fault(component, error);
                }
            }
        }
        self.remove_others(component, &kept, report).await;
    }

    /// Why a configuration is not registered yet; `None` when it may be. One that is registered stays so.
    async fn not_yet(
        &self,
        component: Component,
        standing: Option<&Standing>,
        configuration: &ObjectRef,
        published: &Published,
        backend_failed: bool,
    ) -> Option<String> {
        let registered = crate::certs::published::Configuration::ALL
            .into_iter()
            .find(|known| {
                known.name() == configuration.name && known.kind() == configuration.kind.kind
            })
            .is_some_and(|known| published.get(known).is_some());
        let standing = standing?;
        if registered {
            return None;
        }
        if backend_failed {
            return Some("its backend, which could not be applied".to_owned());
        }
        let endpoint = match component {
            Component::Injector => &self.certificates.injector,
            _ => &self.certificates.operator,
        };
        if !standing.verified {
            return Some(format!(
                "a serving certificate in Secret {} that its CA bundle verifies",
                endpoint.secret
            ));
        }
        if self.settings.components.serving == AdmissionServing::Dedicated
            && !self.has_ready_pod(component).await
        {
            return Some("a ready pod of its DaemonSet".to_owned());
        }
        None
    }

    /// Whether the DaemonSet of a dedicated webhook has a ready pod. Asked only until its webhook is registered.
    async fn has_ready_pod(&self, component: Component) -> bool {
        let daemon_set = self
            .catalogue(component)
            .into_iter()
            .find(|object| object.kind.kind == "DaemonSet");
        let Some(daemon_set) = daemon_set else {
            return false;
        };
        match self.applier.get(&daemon_set).await {
            Ok(live) => live
                .as_ref()
                .and_then(|live| live.pointer("/status/numberReady"))
                .and_then(Value::as_i64)
                .is_some_and(|ready| ready > 0),
            Err(error) => {
                warn!(%error, "failed to look for ready pods");
                false
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
                warn!(%message, "not ready")
            }
        }
        match status::write(&self.configs(), config, &conditions).await {
            Ok(()) => {
                for condition in changed
                    .into_iter()
                    .filter(|condition| condition.type_ == status::READY)
                {
                    let note = format!("Ready is {}: {}", condition.status, condition.message);
                    self.events
                        .publish(&config.object_ref(&()), Reason::ReadyChanged, &note);
                }
            }
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

    fn tell(&self, config: &SriovOperatorConfig, reason: Reason, note: &str) {
        let about: ObjectReference = config.object_ref(&());
        self.events.publish(&about, reason, note);
    }

    fn tell_enabled(&self, config: &SriovOperatorConfig, component: Component, enabled: bool) {
        let mut told = self.told.lock();
        let before = told
            .enabled
            .iter()
            .find(|(known, _)| *known == component)
            .map(|(_, enabled)| *enabled);
        if before == Some(enabled) {
            return;
        }
        told.enabled.retain(|(known, _)| *known != component);
        told.enabled.push((component, enabled));
        drop(told);
        match (before, enabled) {
            (_, true) => self.tell(
                config,
                Reason::ComponentEnabled,
                &format!("{component} is rolled out"),
            ),
            (Some(true), false) => self.tell(
                config,
                Reason::ComponentDisabled,
                &format!("{component} is removed"),
            ),
            (_, false) => {}
        }
    }

    fn tell_repaired(&self, config: &SriovOperatorConfig, object: &ObjectRef, drifts: &[Drift]) {
        let what = drifts
            .iter()
            .find(|drift| drift.object() == object)
            .map_or_else(
                || "was changed".to_owned(),
                |drift| match drift {
                    Drift::Changed(_, Some(manager)) => format!("was changed by {manager}"),
                    Drift::Changed(_, None) | Drift::Appeared(_) => "was changed".to_owned(),
                    Drift::Deleted(_) => "was deleted".to_owned(),
                },
            );
        info!(%object, what, "repaired");
        self.tell(
            config,
            Reason::DriftRepaired,
            &format!("{object} {what} and is repaired"),
        );
    }

    fn tell_certificates(&self, config: &SriovOperatorConfig, issued: &Issued) {
        for news in &issued.news {
            self.tell(config, Reason::CertificateRenewed, &news.to_string());
        }
        let refused: Vec<String> = self
            .certificates
            .serving
            .status()
            .into_iter()
            .filter_map(|status| {
                Some(format!(
                    "Secret {}: {}",
                    status.endpoint.secret, status.refused?
                ))
            })
            .collect();
        let before = std::mem::replace(&mut self.told.lock().refused, refused.clone());
        for note in refused.iter().filter(|note| !before.contains(note)) {
            self.tell(config, Reason::CertificateRefused, note);
        }
    }

    fn tell_unknown_gates(
        &self,
        config: &SriovOperatorConfig,
        features: &Features,
        report: &mut Report,
    ) {
        let known = Feature::KNOWN
            .iter()
            .map(|feature| feature.name())
            .collect::<Vec<_>>()
            .join(", ");
        let unknown: Vec<String> = features.unknown().map(str::to_owned).collect();
        let before = std::mem::replace(&mut self.told.lock().unknown_gates, unknown.clone());
        for gate in &unknown {
            let note = format!(
                "spec.featureGates[{gate}] is not known and has no effect; known are {known}"
            );
            if !before.contains(gate) {
                self.tell(config, Reason::UnknownFeatureGate, &note);
            }
            report.warning(note);
        }
    }

    fn tell_set_aside(&self, config: &SriovOperatorConfig, switches: &Loaded) {
        let set_aside: Vec<String> = switches.set_aside.iter().map(ToString::to_string).collect();
        let before = std::mem::replace(&mut self.told.lock().set_aside, set_aside.clone());
        for note in set_aside.iter().filter(|note| !before.contains(note)) {
            self.tell(
                config,
                Reason::InvalidSwitches,
                &format!("ConfigMap nri-control-switches: {note}"),
            );
        }
    }
}

fn owner_reference(config: &SriovOperatorConfig) -> OwnerReference {
    config.controller_owner_ref(&()).unwrap_or_default()
}
