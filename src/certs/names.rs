//! The names a webhook's Service is called by, and where its serving pair is kept.

use std::fmt;

/// A Service that the API server calls webhooks through.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceName {
    /// `metadata.name` of the Service.
    pub name: String,
    /// `metadata.namespace` of the Service.
    pub namespace: String,
}

impl ServiceName {
    /// The Service `name` in `namespace`.
    pub fn new(name: impl Into<String>, namespace: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            namespace: namespace.into(),
        }
    }

    /// The name that the API server verifies and sends as SNI: `<service>.<namespace>.svc`.
    pub fn called_as(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }

    /// Every name a certificate of ours covers, shortest first.
    pub fn dns_names(&self) -> [String; 4] {
        let Self { name, namespace } = self;
        [
            name.clone(),
            format!("{name}.{namespace}"),
            self.called_as(),
            format!("{name}.{namespace}.svc.cluster.local"),
        ]
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A webhook's Service and the Secret, in the same namespace, with its serving pair.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// The Service whose names the pair has to cover.
    pub service: ServiceName,
    /// `metadata.name` of the Secret.
    pub secret: String,
}

impl Endpoint {
    /// `service` with its pair in the Secret `secret`.
    pub fn new(service: ServiceName, secret: impl Into<String>) -> Self {
        Self {
            service,
            secret: secret.into(),
        }
    }
}

/// The Service of the webhooks of the custom resources.
pub const OPERATOR_SERVICE: &str = "operator-webhook-service";
/// The Service of the injector.
pub const INJECTOR_SERVICE: &str = "network-resources-injector-service";

/// The endpoints of both Services in a namespace: the operator webhook's and the injector's, with their Secrets.
pub fn endpoints(namespace: &str, operator_secret: &str, injector_secret: &str) -> [Endpoint; 2] {
    [
        Endpoint::new(
            ServiceName::new(OPERATOR_SERVICE, namespace),
            operator_secret,
        ),
        Endpoint::new(
            ServiceName::new(INJECTOR_SERVICE, namespace),
            injector_secret,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_known_by_four_names() {
        let service = ServiceName::new("operator-webhook-service", "sriov");
        assert_eq!(
            service.dns_names(),
            [
                "operator-webhook-service",
                "operator-webhook-service.sriov",
                "operator-webhook-service.sriov.svc",
                "operator-webhook-service.sriov.svc.cluster.local",
            ]
        );
        assert_eq!(service.called_as(), "operator-webhook-service.sriov.svc");
    }
}
