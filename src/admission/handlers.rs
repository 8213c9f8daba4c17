//! What stands behind the routes: two traits, so that the router is tested without stores and a process serves one of them
//! or both. It must not know how a verdict comes about.

use std::sync::Arc;

use futures::future::BoxFuture;

use super::{
    decision::{Decision, Undecided},
    review::Request,
    webhook::Webhook,
};
use crate::settings::FailurePolicy;

/// A decision, or why there is none.
pub type Verdict = Result<Decision, Undecided>;

/// Defaults and validates the SR-IOV custom resources.
pub trait CustomResources: Send + Sync {
    /// The verdict of `/mutating-custom-resource`.
    fn set_defaults<'a>(&'a self, request: &'a Request<'a>) -> BoxFuture<'a, Verdict>;

    /// The verdict of `/validating-custom-resource`.
    fn validate<'a>(&'a self, request: &'a Request<'a>) -> BoxFuture<'a, Verdict>;
}

/// Injects network resources into pods.
pub trait Pods: Send + Sync {
    /// The verdict of `/mutate`.
    fn inject<'a>(&'a self, request: &'a Request<'a>) -> BoxFuture<'a, Verdict>;

    /// The failure policy of the registered configuration, asked at each fault since it may change at run time.
    fn failure_policy(&self) -> FailurePolicy;
}

/// The handlers of a process. A webhook without one is not served: its path is not found.
#[derive(Clone, Default)]
pub struct Handlers {
    /// Behind the two paths of the operator webhook.
    pub custom_resources: Option<Arc<dyn CustomResources>>,
    /// Behind the path of the network resources injector.
    pub pods: Option<Arc<dyn Pods>>,
}

/// One webhook with what stands behind it.
#[derive(Clone)]
pub(super) enum Handler {
    Default(Arc<dyn CustomResources>),
    Validate(Arc<dyn CustomResources>),
    Inject(Arc<dyn Pods>),
}

impl Handlers {
    /// Those that are there.
    pub(super) fn served(&self) -> Vec<Handler> {
        let mut served = Vec::new();
        if let Some(custom_resources) = &self.custom_resources {
            served.push(Handler::Default(Arc::clone(custom_resources)));
            served.push(Handler::Validate(Arc::clone(custom_resources)));
        }
        if let Some(pods) = &self.pods {
            served.push(Handler::Inject(Arc::clone(pods)));
        }
        served
    }
}

impl Handler {
    pub(super) fn webhook(&self) -> Webhook {
        match self {
            Self::Default(_) => Webhook::MutatingCustomResource,
            Self::Validate(_) => Webhook::ValidatingCustomResource,
            Self::Inject(_) => Webhook::Pods,
        }
    }

    pub(super) async fn judge(&self, request: &Request<'_>) -> Verdict {
        match self {
            Self::Default(custom_resources) => custom_resources.set_defaults(request).await,
            Self::Validate(custom_resources) => custom_resources.validate(request).await,
            Self::Inject(pods) => pods.inject(request).await,
        }
    }

    /// What to do when the handler itself is at fault. Custom resources are registered with Fail, always.
    pub(super) fn failure_policy(&self) -> FailurePolicy {
        match self {
            Self::Default(_) | Self::Validate(_) => FailurePolicy::Fail,
            Self::Inject(pods) => pods.failure_policy(),
        }
    }
}
