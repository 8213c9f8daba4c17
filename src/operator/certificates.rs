//! The certificates' part of a pass: keeps the Secrets in self-signed mode, and says how each webhook can be registered.
//!
//! A webhook is registered only when it will be answered: its backend serves a pair that the bundle to be published
//! verifies. Where somebody else fills in `caBundle`, it is registered without one and with `Ignore` until the bundle
//! is there and verifies the pair.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::report::Report;
use crate::{
    certs::{
        bundle::Bundle,
        keeper::{Keeper, News, Request, handover::NewIssuer},
        names::{self, Endpoint},
        published::{Configuration, Published},
        serving::{ServingStore, Status},
    },
    render::{Component, Registration},
    settings::{CertificateMode, FailurePolicy, Settings},
};

/// How soon a certificate that is waited for is looked for again, should no watch tell of it.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// What keeps certificates.
pub(super) struct Certificates {
    keeper: Keeper,
    mode: CertificateMode,
    operator: Endpoint,
    injector: Endpoint,
    serving: Arc<ServingStore>,
}

/// How one webhook can be registered now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Standing {
    /// What to register it with.
    pub(super) registration: Registration,
    /// Whether a first registration would be answered with a pair that verifies.
    pub(super) verified: bool,
    /// Whether this process could answer calls now: it serves a pair that the bundle, its own or the live one, verifies.
    pub(super) answered: bool,
}

/// How both webhooks can be registered now, and what was done for it.
#[derive(Debug, Default)]
pub(super) struct Issued {
    pub(super) operator: Standing,
    pub(super) injector: Standing,
    pub(super) news: Vec<News>,
}

impl Certificates {
    pub(super) fn new(settings: &Settings, keeper: Keeper, serving: Arc<ServingStore>) -> Self {
        let [operator, injector] = names::endpoints(
            &settings.process.namespace,
            &settings.admission.secret_names.operator,
            &settings.admission.secret_names.injector,
        );
        Self {
            keeper,
            mode: settings.certificate_mode.clone(),
            operator,
            injector,
            serving,
        }
    }

    /// The endpoint of a component with a webhook.
    pub(super) fn endpoint(&self, component: Component) -> &Endpoint {
        match component {
            Component::Injector => &self.injector,
            _ => &self.operator,
        }
    }

    /// How the pairs stand that this replica serves.
    pub(super) fn pairs(&self) -> Vec<Status> {
        self.serving.status()
    }

    /// Brings the Secrets up to date.
    pub(super) async fn pass(
        &self,
        owner: &OwnerReference,
        published: &Published,
        now: Timestamp,
        report: &mut Report,
    ) -> Issued {
        let endpoints = [self.operator.clone(), self.injector.clone()];
        let observed = observed(published);
        let request = Request {
            now,
            owner,
            endpoints: &endpoints,
            observed: &observed,
        };
        let mut news = Vec::new();
        let (operator, injector) = match &self.mode {
            CertificateMode::SelfSigned => match self.keeper.reconcile(request).await {
                Ok(outcome) => {
                    report.look_again_in(outcome.check_again_in);
                    for fault in &outcome.faults {
                        if fault.is_transient() {
                            report.fault("certificates", fault);
                        } else {
                            report.lasting_fault("certificates", fault);
                        }
                    }
                    news = outcome.news;
                    (Some(outcome.bundle.clone()), Some(outcome.bundle))
                }
                Err(error) => {
                    report.fault("certificates", error);
                    let live = |configuration| live_bundle(published, configuration);
                    (
                        live(Configuration::OperatorValidating),
                        live(Configuration::Injector),
                    )
                }
            },
            CertificateMode::Provided(bundles) => {
                self.give_up(request, NewIssuer::TakesOver, report).await;
                (parse(&bundles.operator), parse(&bundles.injector))
            }
            CertificateMode::CertManager => {
                self.foreign(request, NewIssuer::TakesOver, published, report)
                    .await
            }
            CertificateMode::ServiceCa => {
                self.foreign(request, NewIssuer::StartsAfresh, published, report)
                    .await
            }
        };
        Issued {
            operator: self.standing(
                &self.operator,
                operator,
                published,
                Configuration::OperatorValidating,
                now,
            ),
            injector: self.standing(
                &self.injector,
                injector,
                published,
                Configuration::Injector,
                now,
            ),
            news,
        }
    }

    /// Removes our Secrets.
    pub(super) async fn remove(&self, owner: &OwnerReference, report: &mut Report) {
        let endpoints = [self.operator.clone(), self.injector.clone()];
        let request = Request {
            now: Timestamp::now(),
            owner,
            endpoints: &endpoints,
            observed: &[],
        };
        if let Err(error) = self.keeper.remove(request).await {
            report.fault("certificates", error);
        }
    }

    /// Warnings about pairs that cannot be used.
    pub(super) fn warn(&self, report: &mut Report) {
        for status in self.serving.status() {
            let Some(refused) = status.refused else {
                continue;
            };
            let meanwhile = match status.serves_until {
                Some(until) => format!("the one before is served until {until}"),
                None => "there is none to serve meanwhile".to_owned(),
            };
            report.warning(format!(
                "Secret {}: {refused}; {meanwhile}",
                status.endpoint.secret
            ));
        }
    }

    /// While somebody else fills in the bundle, ours is rendered only as long as it is the one that is there.
    async fn foreign(
        &self,
        request: Request<'_>,
        issuer: NewIssuer,
        published: &Published,
        report: &mut Report,
    ) -> (Option<Bundle>, Option<Bundle>) {
        let ours = self.give_up(request, issuer, report).await;
        let kept = |configuration| {
            let live = live_bundle(published, configuration)?;
            let ours = ours.as_ref().filter(|ours| !ours.is_empty())?;
            (live == *ours).then(|| ours.clone())
        };
        (
            kept(Configuration::OperatorValidating),
            kept(Configuration::Injector),
        )
    }

    async fn give_up(
        &self,
        request: Request<'_>,
        issuer: NewIssuer,
        report: &mut Report,
    ) -> Option<Bundle> {
        match self.keeper.hand_over(request, issuer).await {
            Ok(hand_over) => {
                if !hand_over.done {
                    report.look_again_in(LOOK_AGAIN);
                }
                Some(hand_over.bundle)
            }
            Err(error) => {
                report.fault("certificates", error);
                None
            }
        }
    }

    fn standing(
        &self,
        endpoint: &Endpoint,
        bundle: Option<Bundle>,
        published: &Published,
        configuration: Configuration,
        now: Timestamp,
    ) -> Standing {
        let trust = bundle
            .clone()
            .or_else(|| live_bundle(published, configuration));
        let verified = trust.is_some_and(|trust| {
            self.serving.pair(&endpoint.service).is_some_and(|pair| {
                pair.in_date(now).is_ok()
                    && pair.covers(&endpoint.service.called_as()).is_ok()
                    && pair.trusted_by(&trust, now).is_ok()
            })
        });
        // One that is enforced stays so: after a start, the pair is there a moment later than the configuration.
        let enforced = published
            .get(configuration)
            .is_some_and(|live| !live.ignores_failures && live.ca_bundle.is_some());
        let failure_policy =
            (bundle.is_none() && !verified && !enforced).then_some(FailurePolicy::Ignore);
        Standing {
            // Registered without a bundle, it is ignored while it cannot be answered.
            verified: verified || bundle.is_none(),
            answered: verified,
            registration: Registration {
                ca_bundle: bundle.map(|bundle| bundle.to_pem()),
                failure_policy,
            },
        }
    }
}

/// What every existing configuration carries; one without a bundle counts as an empty one.
fn observed(published: &Published) -> Vec<Bundle> {
    Configuration::ALL
        .into_iter()
        .filter_map(|configuration| published.get(configuration))
        .map(|registered| {
            registered
                .ca_bundle
                .as_deref()
                .map(Bundle::from_live)
                .unwrap_or_default()
        })
        .collect()
}

fn live_bundle(published: &Published, configuration: Configuration) -> Option<Bundle> {
    published
        .get(configuration)?
        .ca_bundle
        .as_deref()
        .map(Bundle::from_live)
}

fn parse(pem: &str) -> Option<Bundle> {
    Bundle::from_pem(pem.as_bytes()).ok()
}
