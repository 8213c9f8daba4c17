//! The three webhooks by path. It must not know what they decide.

/// A webhook that this process may serve. A closed set, so that it can be a metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Webhook {
    /// Defaults SR-IOV custom resources.
    MutatingCustomResource,
    /// Validates SR-IOV custom resources.
    ValidatingCustomResource,
    /// Injects network resources into pods.
    Pods,
}

impl Webhook {
    /// Every webhook.
    pub const ALL: [Self; 3] = [
        Self::MutatingCustomResource,
        Self::ValidatingCustomResource,
        Self::Pods,
    ];

    /// The path that webhook configurations register. Also the value of the metrics' `webhook` label, as dashboards for
    /// controller-runtime expect it.
    pub const fn path(self) -> &'static str {
        match self {
            Self::MutatingCustomResource => "/mutating-custom-resource",
            Self::ValidatingCustomResource => "/validating-custom-resource",
            Self::Pods => "/mutate",
        }
    }
}
