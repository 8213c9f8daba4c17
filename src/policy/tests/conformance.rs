//! The recorded admission cases of these kinds: verdicts, warnings, and policies as they come out of defaulting.

use serde_json::Value;

use super::support::{Asked, recorded, rules, world, world_objects};
use crate::policy::{Kind, Operation, default_node_policy};

/// What the API server does before it asks: fills in the defaults of the schema.
fn apply_schema_defaults(kind: Kind, object: &mut Value) {
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    match kind {
        Kind::NodePolicy => {
            spec.entry("deviceType")
                .or_insert_with(|| "netdevice".into());
        }
        Kind::Network => {
            spec.entry("logLevel").or_insert_with(|| "info".into());
        }
        _ => {}
    }
}

/// A case as the webhooks see it: the stored object beside it, the schema's defaults and ours filled in.
fn asked(case: &Value) -> Asked {
    let mut object = case["object"].clone();
    let kind = Kind::parse(object["kind"].as_str().unwrap()).unwrap();
    let operation = Operation::parse(case["operation"].as_str().unwrap()).unwrap();
    apply_schema_defaults(kind, &mut object);
    let old = (operation != Operation::Create).then(|| {
        let identity = |o: &Value| {
            (
                o["kind"].clone(),
                o["metadata"]["namespace"].clone(),
                o["metadata"]["name"].clone(),
            )
        };
        let mut stored = world_objects()
            .into_iter()
            .find(|stored| identity(stored) == identity(&object))
            .unwrap();
        apply_schema_defaults(kind, &mut stored);
        stored
    });
    let mut asked = Asked {
        kind,
        object,
        old,
        operation,
    };
    let texts = asked.texts();
    let patch = default_node_policy(&asked.subject(&texts));
    if let Some(patch) = patch {
        let patch: json_patch::Patch = serde_json::from_slice(&patch).unwrap();
        json_patch::patch(&mut asked.object, &patch).unwrap();
    }
    asked
}

fn run(file: &str) {
    let cluster = world();
    let mut wrong = Vec::new();
    let cases = recorded(file);
    for case in cases.as_array().unwrap() {
        let id = case["id"].as_str().unwrap();
        let expect = &case["expect"];
        let asked = asked(case);
        let verdict = asked.verdict(&cluster, &rules());
        // The API server refuses these by itself and never asks; they only must not break anything.
        if expect["by"] == "apiserver" {
            continue;
        }
        if verdict.allowed() != expect["allowed"].as_bool().unwrap() {
            wrong.push(format!(
                "{id}: allowed {}: {}",
                verdict.allowed(),
                verdict.status_message()
            ));
        }
        if let Some(fault) = verdict.faults().iter().find(|fault| {
            !["spec.", "metadata."]
                .iter()
                .any(|start| fault.field().starts_with(start))
        }) {
            wrong.push(format!("{id}: no field path in {fault}"));
        }
        if expect["warns"] == true && verdict.warnings().is_empty() {
            wrong.push(format!("{id}: no warning"));
        }
        if asked.kind == Kind::NodePolicy
            && asked.operation != Operation::Delete
            && let Some(result) = expect.get("result")
            && asked.object["spec"] != result["spec"]
        {
            wrong.push(format!("{id}: comes out as {}", asked.object["spec"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn policies() {
    run("policy.json");
}

#[test]
fn configs() {
    run("config.json");
}

#[test]
fn pools() {
    run("pool.json");
}

#[test]
fn networks() {
    run("net-sn.json");
    run("net-ib.json");
    run("net-ovs.json");
}
