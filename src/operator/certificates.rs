//! The certificates' part of a pass: keeps the Secrets in self-signed mode, gives them up in the others, and says how each
//! configuration can be registered ([`standing`](super::standing)).
//!
//! A webhook is registered only when it will be answered: its backend serves a pair that the bundle to be published
//! verifies. Where somebody else fills in `caBundle`, it is registered without one and with `Ignore` until the bundle
//! is there and verifies the pair.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::{
    report::Report,
    standing::{Bundles, Situation, Standing},
};
use crate::{
    certs::{
        bundle::Bundle,
        keeper::{Keeper, KeeperError, KeeperOutcome, News, Request, handover::NewIssuer},
        names::{self, Endpoint},
        published::{Configuration, Published},
        serving::{ServingStore, Status},
    },
    render::Component,
    server::metrics::Metrics,
    settings::{CertificateMode, INJECTOR_CA_CRT, OPERATOR_CA_CRT, Settings},
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
    metrics: Arc<Metrics>,
}

/// How the configurations can be registered now, and what was done for it.
#[derive(Debug)]
pub(super) struct Issued {
    pub(super) mutating: Standing,
    pub(super) validating: Standing,
    pub(super) injector: Standing,
    /// Components whose Service and configurations stay as they are: what they would ask for could not be given, and
    /// what the issuer before gave would be lost.
    pub(super) held: Vec<Component>,
    pub(super) news: Vec<News>,
}

impl Issued {
    pub(super) fn standing(&self, configuration: Configuration) -> &Standing {
        match configuration {
            Configuration::OperatorMutating => &self.mutating,
            Configuration::OperatorValidating => &self.validating,
            Configuration::Injector => &self.injector,
        }
    }
}

impl Certificates {
    pub(super) fn new(
        settings: &Settings,
        keeper: Keeper,
        serving: Arc<ServingStore>,
        metrics: Arc<Metrics>,
    ) -> Self {
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
            metrics,
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

    /// Forgets what the Secrets were, as one who begins to lead or no longer leads does.
    pub(super) fn forget(&self) {
        self.keeper.forget();
        self.metrics.certificates.forget_authority();
    }

    /// Follows the Secrets until dropped, and calls `changed` when somebody else changed one.
    pub(super) async fn follow(&self, changed: impl Fn()) {
        let endpoints = [self.operator.clone(), self.injector.clone()];
        self.keeper.follow(&endpoints, changed).await;
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
        let (mut news, mut held) = (Vec::new(), Vec::new());
        let (operator, injector) = match &self.mode {
            CertificateMode::SelfSigned => match self.keeper.reconcile(request).await {
                Ok(outcome) => {
                    self.measure(&outcome);
                    report.look_again_in(outcome.check_again_in);
                    for fault in &outcome.faults {
                        tell(report, fault);
                    }
                    news = outcome.news;
                    let bundles = Bundles::Ours(outcome.bundle);
                    (bundles.clone(), bundles)
                }
                Err(error) => {
                    tell(report, &error);
                    (Bundles::Unknown, Bundles::Unknown)
                }
            },
            CertificateMode::Provided(bundles) => {
                self.give_up(request, NewIssuer::TakesOver, report).await;
                let operator = Bundle::from_live(bundles.operator.as_bytes());
                let injector = Bundle::from_live(bundles.injector.as_bytes());
                for (endpoint, bundle, variable) in [
                    (&self.operator, &operator, OPERATOR_CA_CRT),
                    (&self.injector, &injector, INJECTOR_CA_CRT),
                ] {
                    self.wait_for_provided(endpoint, bundle, variable, now, report);
                }
                (Bundles::Ours(operator), Bundles::Ours(injector))
            }
            CertificateMode::CertManager => {
                self.give_up(request, NewIssuer::TakesOver, report).await;
                (Bundles::Others, Bundles::Others)
            }
            CertificateMode::ServiceCa => {
                self.give_up(request, NewIssuer::StartsAfresh, report).await;
                held = self.without_room(request, published, report).await;
                (Bundles::Others, Bundles::Others)
            }
        };
        let standing = |endpoint: &Endpoint, bundles, configuration| {
            let pair = self.serving.pair(&endpoint.service);
            let situation = Situation {
                endpoint,
                pair: pair.as_ref(),
                looked_up: self.serving.is_filled(),
                live: published.get(configuration),
                now,
            };
            situation.standing(bundles)
        };
        Issued {
            mutating: standing(&self.operator, &operator, Configuration::OperatorMutating),
            validating: standing(&self.operator, &operator, Configuration::OperatorValidating),
            injector: standing(&self.injector, &injector, Configuration::Injector),
            held,
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
        self.metrics.certificates.forget_authority();
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

    /// Gives up what the issuer of another mode takes over, and removes what only ours needs.
    async fn give_up(&self, request: Request<'_>, issuer: NewIssuer, report: &mut Report) {
        match self.keeper.hand_over(request, issuer).await {
            Ok(done) => {
                if !done {
                    report.look_again_in(LOOK_AGAIN);
                }
            }
            Err(error) => tell(report, &error),
        }
    }

    /// The components that the service CA cannot take over yet, since a Secret is in its way.
    async fn without_room(
        &self,
        request: Request<'_>,
        published: &Published,
        report: &mut Report,
    ) -> Vec<Component> {
        let webhooks: [(_, &[Configuration]); 2] = [
            (
                Component::OperatorWebhook,
                &[
                    Configuration::OperatorMutating,
                    Configuration::OperatorValidating,
                ],
            ),
            (Component::Injector, &[Configuration::Injector]),
        ];
        let mut held = Vec::new();
        for (component, configurations) in webhooks {
            // Once it was asked for a bundle, the old one is lost anyway.
            let mut live = configurations.iter().filter_map(|one| published.get(*one));
            if !live.any(|one| !one.asks_service_ca) {
                continue;
            }
            let endpoint = self.endpoint(component);
            if let Err(error) = self.keeper.has_room_for_service_ca(endpoint, request).await {
                tell(report, &error);
                held.push(component);
            }
        }
        held
    }

    /// Where the pair of the mode before is still served, it is the administrator's turn.
    fn wait_for_provided(
        &self,
        endpoint: &Endpoint,
        bundle: &Bundle,
        variable: &str,
        now: Timestamp,
        report: &mut Report,
    ) {
        let pair = self.serving.pair(&endpoint.service);
        if pair.is_some_and(|pair| pair.trusted_by(bundle, now).is_err()) {
            let missing = format!(
                "a pair in Secret {} that {variable} verifies; the one before is served meanwhile",
                endpoint.secret
            );
            report.waiting("certificates", missing, LOOK_AGAIN);
        }
    }

    fn measure(&self, outcome: &KeeperOutcome) {
        let metrics = &self.metrics.certificates;
        metrics.phase(outcome.phase.name());
        if let Some(expires) = outcome.authority_expires {
            metrics.expires("ca", seconds(expires));
        }
    }
}

/// A Secret of somebody else stays one until somebody does something.
fn tell(report: &mut Report, error: &KeeperError) {
    if error.is_transient() {
        report.fault("certificates", error);
    } else {
        report.lasting_fault("certificates", error);
    }
}

/// Since 1970, as metrics have it.
fn seconds(at: Timestamp) -> f64 {
    at.duration_since(Timestamp::UNIX_EPOCH).as_secs_f64()
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
