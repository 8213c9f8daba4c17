//! The pass over a config that is there to stay: certificates, components, status.

use std::{sync::atomic::Ordering, time::Instant};

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::PartialObjectMeta;
use tracing::{Instrument, info_span, warn};

use super::{
    finalizer,
    reconcile::{LOOK_AGAIN, Reconciler, Verdict, owner_reference},
    report::Report,
    rollout::Rollout,
};
use crate::{
    api::{DEFAULT_CONFIG_NAME, SriovOperatorConfig},
    features::{Feature, Features},
    inject,
    render::{self, Component, ComponentError, Desired, Facts, Owner, Owners},
    settings::tls::{self, TlsOptions, TlsWarning},
};

impl Reconciler {
    pub(super) async fn sync(
        &self,
        config: &SriovOperatorConfig,
        namespace: Option<&PartialObjectMeta<Namespace>>,
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
            self.applier().set_config_uid(uid);
        }
        self.announcer().about(config);
        let mut report = Report::default();
        if self.is_alone(&mut report).await {
            self.roll_out_all(config, namespace, &mut report).await;
        }
        self.announcer().contests(config, report.contests());
        let is_told = self.write_status(config, &report).await;
        if !is_told || report.is_to_be_retried() {
            Verdict::Retry
        } else {
            Verdict::Settled {
                look_again: report.look_again(),
            }
        }
    }

    /// Whether no operator in another namespace has what is cluster-wide. Looked at once, when this replica begins to
    /// lead: the other one finds ours from then on.
    async fn is_alone(&self, report: &mut Report) -> bool {
        if self.alone().load(Ordering::Relaxed) {
            return true;
        }
        for object in Component::ALL
            .into_iter()
            .flat_map(|component| self.catalogue(component))
            .filter(|object| !object.kind.namespaced)
        {
            match self.applier().other_installation(&object).await {
                Ok(None) => {}
                Ok(Some(error)) => {
                    report.lasting_fault("operator", error);
                    return false;
                }
                // Its component will say so, and the others go on.
                Err(error) if error.is_forbidden() => {}
                Err(error) => {
                    report.fault("operator", error);
                    return false;
                }
            }
        }
        self.alone().store(true, Ordering::Relaxed);
        true
    }

    async fn roll_out_all(
        &self,
        config: &SriovOperatorConfig,
        namespace: Option<&PartialObjectMeta<Namespace>>,
        report: &mut Report,
    ) {
        let published = self.inputs().published.borrow().clone();
        let issued = self
            .certificates()
            .pass(
                &owner_reference(config),
                &published,
                Timestamp::now(),
                report,
            )
            .instrument(info_span!("certificates"))
            .await;
        self.certificates().warn(report);
        self.announcer()
            .certificates(config, &issued.news, &self.certificates().pairs());

        let features = Features::new(config.spec.feature_gates.iter().flatten());
        let unknown_gates = unknown_gates(&features);
        self.announcer().unknown_gates(config, &unknown_gates);
        for note in unknown_gates {
            report.warning(note);
        }
        let platform = self.inputs().platform.borrow().clone();
        let switches = self.inputs().switches.borrow().clone();
        self.announcer().set_aside(config, &switches);
        let profile = platform.api_server.as_ref().and_then(tls::cluster_profile);
        self.warn_of_tls(profile.as_ref(), report);
        let condition = inject::match_condition(&switches.switches);
        let facts = Facts {
            config: &config.spec,
            settings: self.settings(),
            features: &features,
            hypershift: platform.hypershift,
            cluster_tls: profile.as_ref().map(|(options, _)| options),
            operator_registration: &issued.mutating.registration,
            validating_registration: &issued.validating.registration,
            injector_registration: &issued.injector.registration,
            injector_condition: &condition,
        };
        let desired = render::all(self.renderer(), &facts, &owners(config, namespace));
        let components = desired.into_iter().map(|(component, desired)| {
            let rollout = Rollout {
                config,
                component,
                issued: &issued,
                published: &published,
            };
            let span = info_span!("component", name = component.name());
            async move { self.settle(&rollout, desired).await }.instrument(span)
        });
        for one in join_all(components).await {
            report.merge(one);
        }
    }

    /// Brings one component to what is desired, and measures it. What fails there fails there only.
    async fn settle(
        &self,
        rollout: &Rollout<'_>,
        desired: Result<Desired, ComponentError>,
    ) -> Report {
        let (component, started) = (rollout.component, Instant::now());
        let mut report = Report::default();
        let settled = match desired {
            Ok(Desired::Off) => {
                let removed = self.remove_others(component, &[], &mut report).await;
                Some((false, removed))
            }
            Ok(Desired::On(rendered)) => {
                let created = self.roll_out(rollout, rendered, &mut report).await;
                Some((true, created))
            }
            Err(ComponentError::Unsupported(what)) => {
                report.unsupported(what);
                None
            }
            Err(error) => {
                report.lasting_fault(component, error);
                None
            }
        };
        // What is still on its way, or fails, is told by the condition.
        if let Some((enabled, changed)) = settled.filter(|_| report.is_fine()) {
            self.announcer()
                .component(rollout.config, component, enabled, changed);
        }
        let result = if report.is_fine() { "success" } else { "error" };
        self.metrics()
            .operator
            .rolled_out(component.name(), result, started.elapsed());
        report
    }

    /// Warnings about TLS as it is served, by the cluster's profile where there is one.
    fn warn_of_tls(&self, profile: Option<&(TlsOptions, Vec<TlsWarning>)>, report: &mut Report) {
        let (options, warnings) = match profile {
            Some((options, warnings)) => (options, warnings.as_slice()),
            None => (&self.settings().admission.tls, [].as_slice()),
        };
        for warning in warnings.iter().chain(&options.served().1) {
            report.warning(warning.to_string());
        }
    }
}

fn owners(
    config: &SriovOperatorConfig,
    namespace: Option<&PartialObjectMeta<Namespace>>,
) -> Owners {
    Owners {
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
    }
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
