//! The webhooks that default and validate the custom resources.

use serde::Serialize;

use super::{
    ComponentError, ComponentInput, Facts,
    webhook::{Webhook, WebhookInput},
};
use crate::render::catalogue::{ADMISSION, APPS, CORE, NETWORKING, ObjectName, RBAC, object};
use crate::{
    render::conditions::{self, MatchCondition},
    settings::FailurePolicy,
};

/// Input of `templates/operator-webhook`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OperatorWebhook {
    /// Registration and backend.
    #[serde(flatten)]
    pub webhook: WebhookInput,
    /// Fail, but for as long as nobody could answer.
    pub failure_policy: FailurePolicy,
    /// `caBundle` of the validating configuration; others may fill in one before the other.
    pub validating_ca_bundle: Option<String>,
    /// The validating configuration's policy.
    pub validating_failure_policy: FailurePolicy,
    /// Which requests reach the webhooks.
    pub match_conditions: Vec<MatchCondition>,
}

impl ComponentInput for OperatorWebhook {
    const NAME: &'static str = "operator-webhook";
    const OBJECTS: &'static [ObjectName] = &[
        object(CORE, "Service", "operator-webhook-service"),
        object(CORE, "ServiceAccount", "operator-webhook-sa"),
        object(RBAC, "ClusterRole", "operator-webhook"),
        object(RBAC, "ClusterRoleBinding", "operator-webhook-role-binding"),
        object(RBAC, "Role", "operator-webhook"),
        object(RBAC, "RoleBinding", "operator-webhook"),
        object(
            NETWORKING,
            "NetworkPolicy",
            "operator-webhook-allow-traffic-api-server",
        ),
        object(APPS, "DaemonSet", "operator-webhook"),
        object(
            ADMISSION,
            "MutatingWebhookConfiguration",
            "sriov-operator-webhook-config",
        ),
        object(
            ADMISSION,
            "ValidatingWebhookConfiguration",
            "sriov-operator-webhook-config",
        ),
    ];

    fn from_facts(facts: &Facts<'_>) -> Result<Option<Self>, ComponentError> {
        if facts.config.enable_operator_webhook != Some(true) {
            return Ok(None);
        }
        let components = &facts.settings.components;
        let webhook = WebhookInput::new(
            facts,
            Webhook {
                registration: facts.operator_registration,
                secret_name: &facts.settings.admission.secret_names.operator,
                image: &components.images.operator_webhook,
                image_variable: "SRIOV_NETWORK_WEBHOOK_IMAGE",
                api_server_port: &components.operator_api_server_port,
                arguments: Vec::new(),
            },
        )?;
        Ok(Some(Self {
            webhook,
            failure_policy: facts
                .operator_registration
                .failure_policy
                .unwrap_or(FailurePolicy::Fail),
            validating_ca_bundle: facts.validating_registration.encoded_bundle(),
            validating_failure_policy: facts
                .validating_registration
                .failure_policy
                .unwrap_or(FailurePolicy::Fail),
            match_conditions: conditions::custom_resources(),
        }))
    }
}
