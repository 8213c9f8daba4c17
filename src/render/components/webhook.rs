//! What both webhooks share: how they are registered, and the workload that serves them in dedicated mode.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{ComponentError, Facts, Workload};
use crate::{
    render::Registration,
    settings::{AdmissionServing, CertificateMode, LogFormat, PolicyPort, format_duration},
};

/// The port on which a dedicated workload answers the API server.
const DEDICATED_PORT: u16 = 6443;

/// A webhook as its templates see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WebhookInput {
    /// The operator's namespace.
    pub namespace: String,
    /// The port that the Service leads to.
    pub target_port: u16,
    /// Annotations of the Service: who writes the Secret with the serving pair.
    pub service_annotations: BTreeMap<&'static str, String>,
    /// Annotations of the configurations: who fills in `caBundle`.
    pub configuration_annotations: BTreeMap<&'static str, String>,
    /// `caBundle`, base64 of PEM; `None` leaves the field to others.
    pub ca_bundle: Option<String>,
    /// The workload that serves it; `None` when this process does.
    pub dedicated: Option<DedicatedWebhook>,
}

/// The workload that serves a webhook in dedicated mode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DedicatedWebhook {
    /// Image and what goes with it: `sriov-operator` itself.
    #[serde(flatten)]
    pub workload: Workload,
    /// The arguments that follow from the settings.
    pub arguments: Vec<String>,
    /// `DEV_MODE`.
    pub dev_mode: String,
    /// The Secret with its serving pair, the only one that it may read.
    pub secret_name: String,
    /// The API server's port.
    pub api_server_port: PolicyPort,
    /// Whether it prefers control-plane nodes and tolerates what they repel; there are none on Hypershift.
    pub prefers_control_plane: bool,
}

/// What differs between the two webhooks.
pub(super) struct Webhook<'a> {
    pub(super) registration: &'a Registration,
    pub(super) secret_name: &'a str,
    pub(super) image: &'a str,
    pub(super) image_variable: &'static str,
    pub(super) api_server_port: &'a PolicyPort,
    pub(super) arguments: Vec<String>,
}

impl WebhookInput {
    pub(super) fn new(facts: &Facts<'_>, webhook: Webhook<'_>) -> Result<Self, ComponentError> {
        let settings = facts.settings;
        let namespace = facts.namespace();
        let secret_name = webhook.secret_name;
        let mut service_annotations = BTreeMap::new();
        let mut configuration_annotations = BTreeMap::new();
        match settings.certificate_mode {
            CertificateMode::ServiceCa => {
                service_annotations.insert(
                    "service.alpha.openshift.io/serving-cert-secret-name",
                    secret_name.to_owned(),
                );
                configuration_annotations.insert(
                    "service.beta.openshift.io/inject-cabundle",
                    "true".to_owned(),
                );
            }
            CertificateMode::CertManager => {
                configuration_annotations.insert(
                    "cert-manager.io/inject-ca-from",
                    format!("{namespace}/{secret_name}"),
                );
            }
            CertificateMode::SelfSigned | CertificateMode::Provided(_) => {}
        }
        let ca_bundle = webhook.registration.encoded_bundle();
        let dedicated = match settings.components.serving {
            AdmissionServing::InProcess => None,
            AdmissionServing::Dedicated => Some(dedicated(facts, webhook)?),
        };
        let target_port = match dedicated {
            Some(_) => DEDICATED_PORT,
            None => settings.admission.bind_address.port,
        };
        Ok(Self {
            namespace,
            target_port,
            service_annotations,
            configuration_annotations,
            ca_bundle,
            dedicated,
        })
    }
}

fn dedicated(facts: &Facts<'_>, webhook: Webhook<'_>) -> Result<DedicatedWebhook, ComponentError> {
    let process = &facts.settings.process;
    let mut arguments = vec![
        format!(
            "--shutdown-delay={}",
            format_duration(process.shutdown_delay)
        ),
        match process.log_format {
            LogFormat::Text => "--log-format=text".to_owned(),
            LogFormat::Json => "--log-format=json".to_owned(),
        },
    ];
    arguments.extend(facts.tls().webhook_arguments());
    arguments.extend(webhook.arguments);
    Ok(DedicatedWebhook {
        workload: Workload::new(facts, webhook.image, webhook.image_variable)?,
        arguments,
        dev_mode: facts.settings.admission.dev_mode.as_str().to_owned(),
        secret_name: webhook.secret_name.to_owned(),
        api_server_port: webhook.api_server_port.clone(),
        prefers_control_plane: !facts.hypershift,
    })
}
