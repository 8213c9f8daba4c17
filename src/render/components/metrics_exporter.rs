//! The metrics exporter, the proxy before it, and what tells Prometheus of them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{ComponentError, ComponentInput, Facts, Workload, required_image};
use crate::render::catalogue::{APPS, CORE, MONITORING, ObjectName, RBAC, object};
use crate::{
    features::Feature,
    render::Warning,
    settings::{CertificateMode, tls::TlsWarning},
};

/// Input of `templates/metrics-exporter`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MetricsExporter {
    /// The operator's namespace.
    pub namespace: String,
    /// Image and what goes with it.
    #[serde(flatten)]
    pub workload: Workload,
    /// The image of kube-rbac-proxy.
    pub proxy_image: String,
    /// TLS arguments of kube-rbac-proxy.
    pub proxy_tls_arguments: Vec<String>,
    /// The port of both: the exporter on loopback, the proxy on the host's address.
    pub port: u16,
    /// The Secret with the proxy's serving pair.
    pub secret_name: String,
    /// Whether OpenShift's service CA writes that Secret.
    pub service_ca: bool,
    /// Where it runs.
    pub node_selector: BTreeMap<String, String>,
    /// `None` without the Prometheus operator.
    pub prometheus: Option<PrometheusInput>,
    /// TLS wishes that the proxy cannot follow.
    #[serde(skip)]
    pub tls_warnings: Vec<TlsWarning>,
}

/// Prometheus as the templates see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PrometheusInput {
    /// The `ServiceAccount` that reads the metrics.
    pub service_account: String,
    /// Its namespace.
    pub namespace: String,
    /// Whether a `PrometheusRule` is made.
    pub deploy_rules: bool,
}

impl ComponentInput for MetricsExporter {
    const NAME: &'static str = "metrics-exporter";
    const OBJECTS: &'static [ObjectName] = &[
        object(CORE, "ServiceAccount", "metrics-exporter-sa"),
        object(RBAC, "Role", "metrics-exporter-role"),
        object(RBAC, "RoleBinding", "metrics-exporter-rb"),
        object(RBAC, "ClusterRole", "sriov-metrics-kube-rbac-role"),
        object(
            RBAC,
            "ClusterRoleBinding",
            "sriov-metrics-kube-rbac-rolebinding",
        ),
        object(CORE, "Service", "sriov-network-metrics-exporter-service"),
        object(APPS, "DaemonSet", "sriov-network-metrics-exporter"),
        object(RBAC, "Role", "prometheus-k8s"),
        object(RBAC, "RoleBinding", "prometheus-k8s"),
        object(
            MONITORING,
            "ServiceMonitor",
            "sriov-network-metrics-exporter",
        ),
        object(MONITORING, "PrometheusRule", "sriov-vf-rules"),
    ];

    fn from_facts(facts: &Facts<'_>) -> Result<Option<Self>, ComponentError> {
        if !facts.features.is_enabled(Feature::MetricsExporter) {
            return Ok(None);
        }
        let settings = &facts.settings.components;
        let exporter = &settings.metrics_exporter;
        let (proxy_tls_arguments, tls_warnings) = facts.tls().proxy_arguments();
        Ok(Some(Self {
            namespace: facts.namespace(),
            workload: Workload::new(
                facts,
                &settings.images.metrics_exporter,
                "METRICS_EXPORTER_IMAGE",
            )?,
            proxy_image: required_image(
                &settings.images.kube_rbac_proxy,
                "METRICS_EXPORTER_KUBE_RBAC_PROXY_IMAGE",
            )?,
            proxy_tls_arguments,
            port: exporter.port,
            secret_name: exporter.secret_name.clone(),
            service_ca: facts.settings.certificate_mode == CertificateMode::ServiceCa,
            node_selector: facts.worker_selector(),
            prometheus: exporter
                .prometheus
                .as_ref()
                .map(|prometheus| PrometheusInput {
                    service_account: prometheus.service_account.clone(),
                    namespace: prometheus.namespace.clone(),
                    deploy_rules: prometheus.deploy_rules,
                }),
            tls_warnings,
        }))
    }

    fn warnings(&self) -> Vec<Warning> {
        self.tls_warnings
            .iter()
            .cloned()
            .map(Warning::ProxyTls)
            .collect()
    }
}
