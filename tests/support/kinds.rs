//! The kinds that tests touch and where the API server serves them: a table instead of discovery, so that a test
//! says what it means.

use anyhow::{Context, Result};
use serde_json::Value;

use super::NAMESPACE;

/// One kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    /// `apiVersion` in manifests.
    pub(crate) api_version: &'static str,
    /// `kind` in manifests.
    pub(crate) name: &'static str,
    /// In paths.
    pub(crate) plural: &'static str,
    namespaced: bool,
}

macro_rules! kinds {
    ($($name:ident = $api_version:literal $kind:literal $plural:literal $namespaced:literal;)*) => {
        $(
            pub(crate) const $name: Kind = Kind {
                api_version: $api_version,
                name: $kind,
                plural: $plural,
                namespaced: $namespaced,
            };
        )*
        const ALL: &[Kind] = &[$($name),*];
    };
}

kinds! {
    NAMESPACES = "v1" "Namespace" "namespaces" false;
    NODE = "v1" "Node" "nodes" false;
    POD = "v1" "Pod" "pods" true;
    SERVICE = "v1" "Service" "services" true;
    SECRET = "v1" "Secret" "secrets" true;
    CONFIG_MAP = "v1" "ConfigMap" "configmaps" true;
    ACCOUNT = "v1" "ServiceAccount" "serviceaccounts" true;
    EVENT = "v1" "Event" "events" true;
    NEW_EVENT = "events.k8s.io/v1" "Event" "events" true;
    PROMETHEUS_RULE = "monitoring.coreos.com/v1" "PrometheusRule" "prometheusrules" true;
    ADMISSION_POLICY = "admissionregistration.k8s.io/v1" "ValidatingAdmissionPolicy" "validatingadmissionpolicies" false;
    ADMISSION_POLICY_BINDING = "admissionregistration.k8s.io/v1" "ValidatingAdmissionPolicyBinding" "validatingadmissionpolicybindings" false;
    SERVICE_MONITOR = "monitoring.coreos.com/v1" "ServiceMonitor" "servicemonitors" true;
    MACHINE_CONFIG = "machineconfiguration.openshift.io/v1" "MachineConfig" "machineconfigs" false;
    INFRASTRUCTURE = "config.openshift.io/v1" "Infrastructure" "infrastructures" false;
    API_SERVER = "config.openshift.io/v1" "APIServer" "apiservers" false;
    DAEMON_SET = "apps/v1" "DaemonSet" "daemonsets" true;
    DEPLOYMENT = "apps/v1" "Deployment" "deployments" true;
    DISRUPTION_BUDGET = "policy/v1" "PodDisruptionBudget" "poddisruptionbudgets" true;
    ENDPOINT_SLICE = "discovery.k8s.io/v1" "EndpointSlice" "endpointslices" true;
    LEASE = "coordination.k8s.io/v1" "Lease" "leases" true;
    NETWORK_POLICY = "networking.k8s.io/v1" "NetworkPolicy" "networkpolicies" true;
    ROLE = "rbac.authorization.k8s.io/v1" "Role" "roles" true;
    ROLE_BINDING = "rbac.authorization.k8s.io/v1" "RoleBinding" "rolebindings" true;
    CLUSTER_ROLE = "rbac.authorization.k8s.io/v1" "ClusterRole" "clusterroles" false;
    CLUSTER_ROLE_BINDING = "rbac.authorization.k8s.io/v1" "ClusterRoleBinding" "clusterrolebindings" false;
    CRD = "apiextensions.k8s.io/v1" "CustomResourceDefinition" "customresourcedefinitions" false;
    MUTATING = "admissionregistration.k8s.io/v1" "MutatingWebhookConfiguration" "mutatingwebhookconfigurations" false;
    VALIDATING = "admissionregistration.k8s.io/v1" "ValidatingWebhookConfiguration" "validatingwebhookconfigurations" false;
    NAD = "k8s.cni.cncf.io/v1" "NetworkAttachmentDefinition" "network-attachment-definitions" true;
    MACHINE_CONFIG_POOL = "machineconfiguration.openshift.io/v1" "MachineConfigPool" "machineconfigpools" false;
    CONFIG = "sriovnetwork.openshift.io/v1" "SriovOperatorConfig" "sriovoperatorconfigs" true;
    POLICY = "sriovnetwork.openshift.io/v1" "SriovNetworkNodePolicy" "sriovnetworknodepolicies" true;
    NODE_STATE = "sriovnetwork.openshift.io/v1" "SriovNetworkNodeState" "sriovnetworknodestates" true;
    POOL = "sriovnetwork.openshift.io/v1" "SriovNetworkPoolConfig" "sriovnetworkpoolconfigs" true;
    NETWORK = "sriovnetwork.openshift.io/v1" "SriovNetwork" "sriovnetworks" true;
    IB_NETWORK = "sriovnetwork.openshift.io/v1" "SriovIBNetwork" "sriovibnetworks" true;
    OVS_NETWORK = "sriovnetwork.openshift.io/v1" "OVSNetwork" "ovsnetworks" true;
}

impl Kind {
    /// The kind of a manifest.
    pub(crate) fn of(object: &Value) -> Result<Self> {
        let (api_version, kind) = (text(object, "/apiVersion"), text(object, "/kind"));
        ALL.iter()
            .find(|known| known.api_version == api_version && known.name == kind)
            .copied()
            .with_context(|| format!("{api_version} {kind} is not in the table of kinds"))
    }

    /// Whether its objects live in a namespace.
    pub(crate) const fn is_namespaced(self) -> bool {
        self.namespaced
    }

    /// The collection's path; namespaced kinds without a namespace are looked for in the operator's.
    pub(crate) fn collection(self, namespace: Option<&str>) -> String {
        let prefix = if self.api_version.contains('/') {
            "/apis"
        } else {
            "/api"
        };
        if self.namespaced {
            let namespace = namespace.unwrap_or(NAMESPACE);
            format!(
                "{prefix}/{}/namespaces/{namespace}/{}",
                self.api_version, self.plural
            )
        } else {
            format!("{prefix}/{}/{}", self.api_version, self.plural)
        }
    }
}

/// A text at a JSON pointer, empty when it is not there.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}
