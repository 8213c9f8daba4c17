//! The closed set of kinds that are applied, and how each is watched.

use kube::api::ApiResource;

/// How the objects of a kind are watched, which decides the rights that the operator needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// Those with our managed-by label, in our namespace.
    LabelledInNamespace,
    /// Those with our managed-by label, in the whole cluster.
    LabelledInCluster,
    /// Each by its name, in the whole cluster: rights on such a kind are given by name.
    ByName,
}

/// A kind that is applied.
#[derive(Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    /// API group, empty for the core group.
    pub group: &'static str,
    /// API version within the group.
    pub version: &'static str,
    /// Name of the kind.
    pub kind: &'static str,
    /// Plural, as it stands in paths.
    pub plural: &'static str,
    /// Whether its objects live in a namespace.
    pub namespaced: bool,
}

const fn namespaced(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
) -> Kind {
    Kind {
        group,
        version,
        kind,
        plural,
        namespaced: true,
    }
}

const fn cluster(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
) -> Kind {
    Kind {
        group,
        version,
        kind,
        plural,
        namespaced: false,
    }
}

const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

/// Every kind that templates make.
pub(super) static KINDS: [Kind; 14] = [
    namespaced("", "v1", "Service", "services"),
    namespaced("", "v1", "ServiceAccount", "serviceaccounts"),
    namespaced("", "v1", "ConfigMap", "configmaps"),
    namespaced(RBAC, "v1", "Role", "roles"),
    namespaced(RBAC, "v1", "RoleBinding", "rolebindings"),
    namespaced(
        "networking.k8s.io",
        "v1",
        "NetworkPolicy",
        "networkpolicies",
    ),
    namespaced("apps", "v1", "DaemonSet", "daemonsets"),
    namespaced(
        "monitoring.coreos.com",
        "v1",
        "ServiceMonitor",
        "servicemonitors",
    ),
    namespaced(
        "monitoring.coreos.com",
        "v1",
        "PrometheusRule",
        "prometheusrules",
    ),
    cluster(RBAC, "v1", "ClusterRole", "clusterroles"),
    cluster(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings"),
    cluster(
        ADMISSION,
        "v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
    ),
    cluster(
        ADMISSION,
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
    ),
    cluster(
        "machineconfiguration.openshift.io",
        "v1",
        "MachineConfig",
        "machineconfigs",
    ),
];

impl Kind {
    /// The kind of that `apiVersion` and `kind`, if it is one that is applied.
    pub fn find(api_version: &str, kind: &str) -> Option<&'static Self> {
        KINDS
            .iter()
            .find(|known| known.kind == kind && known.api_version() == api_version)
    }

    /// `group/version`, or the version alone in the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// How its objects are watched.
    pub fn watched(&self) -> Watched {
        match (self.namespaced, self.group) {
            (true, _) => Watched::LabelledInNamespace,
            (false, RBAC) => Watched::LabelledInCluster,
            (false, _) => Watched::ByName,
        }
    }

    /// The kind as kube's dynamic API takes it.
    pub fn api_resource(&self) -> ApiResource {
        ApiResource {
            group: self.group.to_owned(),
            version: self.version.to_owned(),
            api_version: self.api_version(),
            kind: self.kind.to_owned(),
            plural: self.plural.to_owned(),
        }
    }
}
