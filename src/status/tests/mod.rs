//! What is told of an installation, and what to do about what is wrong.

use std::{collections::BTreeMap, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Gathered, Part, Report, report::UNKNOWN_KIND};
use crate::{
    certs::{
        keeper::secrets::AUTHORITY_SECRET,
        lifetimes::after,
        published::Configuration,
        testing::{HOUR, authority, leaf, now},
    },
    networks::NetworkKind,
    settings::SecretNames,
};

mod nodes;
mod problems;
mod screen;

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn denied<T>() -> Part<T> {
    Part::Unreadable {
        unreadable: "you have no right to read it".to_owned(),
    }
}

fn condition(type_: &str, status: &str, message: &str) -> Value {
    json!({
        "type": type_, "status": status, "reason": "R", "message": message,
        "lastTransitionTime": "2027-01-15T07:00:00Z", "observedGeneration": 3,
    })
}

fn config(conditions: &[Value]) -> Value {
    json!({
        "metadata": {"name": "default", "generation": 3, "finalizers": ["f"]},
        "spec": {"enableOperatorWebhook": true, "featureGates": {"metricsExporter": true}},
        "status": {"conditions": conditions},
    })
}

/// An installation in which all is well: the operator webhook served in process, the injector off.
fn world() -> Gathered {
    let authority = authority();
    let pair = leaf(&authority);
    let bundle = STANDARD.encode(authority.certificate().to_pem());
    let configuration = |name: &str| {
        json!({
            "metadata": {"name": name},
            "webhooks": [{
                "failurePolicy": "Fail", "timeoutSeconds": 10,
                "clientConfig": {"caBundle": bundle, "service": {"namespace": "sriov"}},
            }],
        })
    };
    let data = |entries: &[(&str, String)]| {
        let entries = entries
            .iter()
            .map(|(key, text)| ((*key).to_owned(), json!(STANDARD.encode(text))));
        json!({"metadata": {}, "data": Value::Object(entries.collect())})
    };
    let key = String::from_utf8(pair.key().expose().to_vec()).unwrap();
    let serving = data(&[("tls.crt", pair.certificate().to_pem()), ("tls.key", key)]);
    let pod = json!({
        "metadata": {"name": "operator-1", "labels": {"app.kubernetes.io/name": "sriov-operator"}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    });
    Gathered {
        now: now(),
        namespace: "sriov".to_owned(),
        secret_names: SecretNames {
            operator: "operator-webhook-cert".to_owned(),
            injector: "network-resources-injector-cert".to_owned(),
        },
        config: Part::Read(Some(object(config(&[condition("Ready", "True", "")])))),
        daemon_sets: Part::Read(vec![
            daemon_set("sriov-network-config-daemon"),
            daemon_set("sriov-device-plugin"),
        ]),
        deployments: Part::Read(vec![object(json!({
            "metadata": {"name": "op"},
            "spec": {
                "replicas": 2, "selector": {},
                "template": {"metadata": {"labels": {"app.kubernetes.io/name": "sriov-operator"}}},
            },
            "status": {"readyReplicas": 2},
        }))]),
        pods: Part::Read(vec![object(pod)]),
        services: Part::Read(vec![object(json!({
            "metadata": {"name": "operator-webhook-service"},
            "spec": {"selector": {"app.kubernetes.io/name": "sriov-operator"}},
        }))]),
        configurations: BTreeMap::from([
            (
                Configuration::OperatorMutating,
                Part::Read(Some(configuration("sriov-operator-webhook-config"))),
            ),
            (
                Configuration::OperatorValidating,
                Part::Read(Some(configuration("sriov-operator-webhook-config"))),
            ),
            (Configuration::Injector, Part::Read(None)),
        ]),
        secrets: BTreeMap::from([
            (
                "operator-webhook-cert".to_owned(),
                Part::Read(Some(object(serving))),
            ),
            (
                "network-resources-injector-cert".to_owned(),
                Part::Read(None),
            ),
            (
                AUTHORITY_SECRET.to_owned(),
                Part::Read(Some(object(data(&[(
                    "ca.crt",
                    authority.certificate().to_pem(),
                )])))),
            ),
        ]),
        lease: Part::Read(Some(Box::new(object(lease("operator-1_1_f", now()))))),
        policies: Part::Read(vec![
            policy("b", &json!(10)),
            policy("z", &json!(99)),
            policy("a", &json!(10)),
            policy("without", &Value::Null),
        ]),
        node_states: Part::Read(vec![
            object(json!({"metadata": {"name": "bm-0"}, "status": {"syncStatus": "Succeeded"}})),
            object(json!({"metadata": {"name": "bm-1"}})),
        ]),
        networks: NetworkKind::ALL
            .map(|kind| (kind, Part::Read(Vec::new())))
            .into(),
        definitions: Part::Read(Vec::new()),
        machine_pools: Part::Unreadable {
            unreadable: UNKNOWN_KIND.to_owned(),
        },
        machine_configs: denied(),
    }
}

fn network<T: DeserializeOwned>(name: &str, target: &str, conditions: &Value) -> T {
    object(json!({
        "metadata": {"name": name, "namespace": "sriov"},
        "spec": {"resourceName": "fast", "networkNamespace": target},
        "status": {"conditions": conditions},
    }))
}

fn daemon_set<T: DeserializeOwned>(name: &str) -> T {
    object(json!({
        "metadata": {"name": name},
        "status": {
            "desiredNumberScheduled": 3, "numberReady": 3,
            "currentNumberScheduled": 3, "numberMisscheduled": 0,
        },
    }))
}

fn policy<T: DeserializeOwned>(name: &str, priority: &Value) -> T {
    object(json!({
        "metadata": {"name": name},
        "spec": {
            "priority": priority, "resourceName": "r", "numVfs": 4,
            "nicSelector": {"pfNames": ["ens1f0#0-3"], "vendor": "8086"},
            "nodeSelector": {"node-role.kubernetes.io/worker": "", "zone": "a"},
        },
    }))
}

fn lease(holder: &str, renewed: Timestamp) -> Value {
    json!({
        "metadata": {},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": format!("{renewed:.6}")},
    })
}

/// What is wrong in the world after a change, problem and remedy on one line each.
fn problems(change: impl FnOnce(&mut Gathered)) -> Vec<String> {
    let mut world = world();
    change(&mut world);
    let problems = Report::new(&world).problems;
    let lines = problems.iter();
    lines
        .map(|problem| format!("{} -> {}", problem.what, problem.remedy))
        .collect()
}

/// Asserts that there is one problem, which says all of this.
fn one_problem(said: &[&str], change: impl FnOnce(&mut Gathered)) {
    let problems = problems(change);
    assert_eq!(problems.len(), 1, "{problems:#?}");
    for said in said {
        assert!(problems[0].contains(said), "{said} in {problems:#?}");
    }
}
