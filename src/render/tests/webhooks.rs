//! How the webhooks are registered and who answers them.

use serde_json::{Value, json};

use super::{
    super::{Component, Registration},
    World,
};
use crate::{
    inject::{Switches, match_condition},
    settings::FailurePolicy,
};

#[test]
fn in_process_webhooks_are_a_service_and_their_configurations() {
    let world = World::new().with("WEBHOOK_BIND_ADDRESS", ":9443");
    assert_eq!(
        world.names(Component::OperatorWebhook),
        [
            "Service/operator-webhook-service",
            "MutatingWebhookConfiguration/sriov-operator-webhook-config",
            "ValidatingWebhookConfiguration/sriov-operator-webhook-config",
        ]
    );
    assert_eq!(
        world.names(Component::Injector),
        [
            "Service/network-resources-injector-service",
            "MutatingWebhookConfiguration/network-resources-injector-config",
        ]
    );
    let service = world.object(Component::Injector, "Service");
    assert_eq!(service["spec"]["ports"][0]["targetPort"], 9443);
    assert_eq!(
        service["spec"]["selector"],
        json!({"app.kubernetes.io/name": "sriov-operator"})
    );
}

#[test]
fn a_configuration_follows_its_backend_in_both_serving_modes() {
    for serving in ["in-process", "dedicated"] {
        let world = World::new().with("ADMISSION_SERVING", serving);
        for component in [Component::OperatorWebhook, Component::Injector] {
            let names = world.names(component);
            let first = names.iter().position(|name| name.contains("Webhook"));
            let last = names.iter().rposition(|name| !name.contains("Webhook"));
            assert!(first > last, "{names:?}");
        }
    }
}

#[test]
fn who_fills_in_the_bundle_decides_whether_it_is_rendered() {
    let configuration =
        |world: &World| world.object(Component::Injector, "MutatingWebhookConfiguration");
    let own = configuration(&World::new());
    assert_eq!(
        own["webhooks"][0]["clientConfig"]["caBundle"],
        "dGhlIGJ1bmRsZQo="
    );
    assert_eq!(own["metadata"].get("annotations"), None);

    let mut world = World::new()
        .with(
            "ADMISSION_CONTROLLERS_CERTIFICATES_CERT_MANAGER_ENABLED",
            "true",
        )
        .with(
            "ADMISSION_CONTROLLERS_CERTIFICATES_INJECTOR_SECRET_NAME",
            "pair",
        );
    world.injector = Registration {
        ca_bundle: None,
        failure_policy: Some(FailurePolicy::Ignore),
    };
    let cert_manager = configuration(&world);
    let client = cert_manager["webhooks"][0]["clientConfig"]
        .as_object()
        .unwrap();
    assert!(
        !client.contains_key("caBundle"),
        "an empty one would wipe that of the CA injector"
    );
    assert_eq!(
        cert_manager["metadata"]["annotations"],
        json!({"cert-manager.io/inject-ca-from": "sriov/pair"})
    );

    let openshift = World::new().openshift();
    assert_eq!(
        configuration(&openshift)["metadata"]["annotations"],
        json!({"service.beta.openshift.io/inject-cabundle": "true"})
    );
    let service = openshift.object(Component::OperatorWebhook, "Service");
    assert_eq!(
        service["metadata"]["annotations"],
        json!({"service.alpha.openshift.io/serving-cert-secret-name": "operator-webhook-cert"})
    );
}

#[test]
fn the_injectors_failure_policy() {
    let policy = |world: &World| {
        world.object(Component::Injector, "MutatingWebhookConfiguration")["webhooks"][0]
            ["failurePolicy"]
            .clone()
    };
    let gate = "resourceInjectorMatchCondition";
    assert_eq!(policy(&World::new()), "Ignore");
    assert_eq!(policy(&World::new().gate(gate, true)), "Fail");
    let setting = "INJECTOR_FAILURE_POLICY";
    assert_eq!(policy(&World::new().with(setting, "Fail")), "Fail");
    let mut unanswered = World::new().gate(gate, true).with(setting, "Fail");
    unanswered.injector.failure_policy = Some(FailurePolicy::Ignore);
    assert_eq!(policy(&unanswered), "Ignore");
}

#[test]
fn pods_of_the_system_are_exempt() {
    let world = World::new().with("INJECTOR_EXEMPT_NAMESPACES", "b,a,kube-system");
    let configuration = world.object(Component::Injector, "MutatingWebhookConfiguration");
    assert_eq!(
        configuration["webhooks"][0]["namespaceSelector"]["matchExpressions"][0]["values"],
        json!(["a", "b", "kube-system", "sriov"])
    );
}

#[test]
fn the_match_conditions_gate_adds_a_condition() {
    let conditions = |world: &World| {
        world.object(Component::Injector, "MutatingWebhookConfiguration")["webhooks"][0]
            ["matchConditions"]
            .clone()
    };
    assert_eq!(conditions(&World::new()), Value::Null);
    let gated = World::new().gate("resourceInjectorMatchCondition", true);
    assert_eq!(conditions(&gated)[0]["name"], "include-networks-annotation");
    assert_eq!(
        conditions(&gated)[0]["expression"],
        match_condition(&Switches::default())
    );
}

#[test]
fn the_switches_are_made_once_and_apart() {
    let rendered = World::new().rendered(Component::Injector);
    assert!(
        !rendered
            .objects
            .iter()
            .any(|object| object["kind"] == "ConfigMap")
    );
    let switches: Value = serde_json::from_str(
        rendered.created_once[0]["data"]["config.json"]
            .as_str()
            .unwrap(),
    )
    .unwrap();
    assert_eq!(
        switches,
        json!({"features": {"enableHugePageDownApi": true}})
    );
}
