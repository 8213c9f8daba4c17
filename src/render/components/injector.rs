//! The webhook that injects network resources into pods, and the `ConfigMap` with its switches.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

use super::{
    ComponentError, ComponentInput, Facts, Owners, Renderer,
    webhook::{Webhook, WebhookInput},
};
use crate::render::catalogue::{ADMISSION, APPS, CORE, NETWORKING, ObjectName, RBAC, object};
use crate::{
    features::Feature,
    render::{RenderError, conditions::MatchCondition},
    settings::{FailurePolicy, InjectorSettings},
};

/// Input of `templates/injector`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Injector {
    /// Registration and backend.
    #[serde(flatten)]
    pub webhook: WebhookInput,
    /// What happens to a pod without an answer.
    pub failure_policy: FailurePolicy,
    /// How long the API server waits, in seconds.
    pub timeout_seconds: u32,
    /// Which pods reach the webhook, under the match-condition gate; otherwise all do.
    pub match_conditions: Option<Vec<MatchCondition>>,
    /// The namespaces whose pods never reach it, sorted.
    pub exempt_namespaces: BTreeSet<String>,
}

impl ComponentInput for Injector {
    const NAME: &'static str = "injector";
    const OBJECTS: &'static [ObjectName] = &[
        object(CORE, "Service", "network-resources-injector-service"),
        object(CORE, "ServiceAccount", "network-resources-injector-sa"),
        object(RBAC, "ClusterRole", "network-resources-injector"),
        object(
            RBAC,
            "ClusterRoleBinding",
            "network-resources-injector-role-binding",
        ),
        object(RBAC, "Role", "network-resources-injector"),
        object(RBAC, "RoleBinding", "network-resources-injector"),
        object(
            NETWORKING,
            "NetworkPolicy",
            "network-resources-injector-allow-traffic-api-server",
        ),
        object(APPS, "DaemonSet", "network-resources-injector"),
        object(
            ADMISSION,
            "MutatingWebhookConfiguration",
            "network-resources-injector-config",
        ),
    ];

    fn from_facts(facts: &Facts<'_>) -> Result<Option<Self>, ComponentError> {
        if facts.config.enable_injector != Some(true) {
            return Ok(None);
        }
        let components = &facts.settings.components;
        let registered = &components.injector_webhook;
        let webhook = WebhookInput::new(
            facts,
            Webhook {
                registration: facts.injector_registration,
                secret_name: &facts.settings.admission.secret_names.injector,
                image: &components.images.injector,
                image_variable: "NETWORK_RESOURCES_INJECTOR_IMAGE",
                api_server_port: &components.injector_api_server_port,
                arguments: arguments(&facts.settings.admission.injector),
            },
        )?;
        let gate = facts
            .features
            .is_enabled(Feature::ResourceInjectorMatchCondition);
        let by_gate = if gate {
            FailurePolicy::Fail
        } else {
            FailurePolicy::Ignore
        };
        Ok(Some(Self {
            webhook,
            failure_policy: facts
                .injector_registration
                .failure_policy
                .or(registered.failure_policy)
                .unwrap_or(by_gate),
            timeout_seconds: registered.timeout_seconds,
            match_conditions: gate.then(|| {
                vec![MatchCondition {
                    name: "include-networks-annotation",
                    expression: facts.injector_condition.to_owned(),
                }]
            }),
            exempt_namespaces: [facts.namespace(), "kube-system".to_owned()]
                .into_iter()
                .chain(registered.exempt_namespaces.iter().cloned())
                .collect(),
        }))
    }

    fn created_once(
        &self,
        renderer: &Renderer,
        owners: &Owners,
    ) -> Result<Vec<Value>, RenderError> {
        let namespace = self.webhook.namespace.clone();
        renderer.switches(&Switches { namespace }, owners)
    }
}

/// The injector's settings for a process of its own.
fn arguments(injector: &InjectorSettings) -> Vec<String> {
    vec![
        format!(
            "--network-resource-name-keys={}",
            injector.resource_name_keys.join(",")
        ),
        format!("--honor-resources={}", injector.honor_resources),
        format!(
            "--inject-hugepage-down-api={}",
            injector.inject_hugepage_down_api
        ),
        format!("--multus-namespace={}", injector.multus_namespace),
    ]
}

/// Input of `templates/injector-switches`: a `ConfigMap` that belongs to the users once it is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Switches {
    /// The operator's namespace.
    pub namespace: String,
}

impl Switches {
    /// The directory of its template.
    pub(crate) const DIRECTORY: &'static str = "injector-switches";
}
