//! Fixtures: the recorded cluster, and a way to ask for verdicts that reads like a sentence.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::{
    features::Feature,
    policy::{Cluster, Kind, Operation, Rules, Subject, Verdict, View, validate},
};

pub(in crate::policy) const NAMESPACE: &str = "sriov-network-operator";

/// A file of `tests/data/conformance`.
pub(in crate::policy) fn recorded(file: &str) -> Value {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/conformance")
        .join(file);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Objects of the recorded cluster.
pub(in crate::policy) fn world_objects() -> Vec<Value> {
    recorded("world.json")["objects"]
        .as_array()
        .unwrap()
        .clone()
}

/// A cluster of these objects, none of which may be malformed.
pub(in crate::policy) fn cluster_of<'a>(objects: impl IntoIterator<Item = &'a Value>) -> Cluster {
    let mut cluster = Cluster::default();
    for object in objects {
        assert_eq!(cluster.insert_object(object, NAMESPACE), []);
    }
    cluster
}

/// The recorded cluster.
pub(in crate::policy) fn world() -> Cluster {
    cluster_of(&world_objects())
}

pub(in crate::policy) fn rules() -> Rules {
    Rules {
        namespace: NAMESPACE.into(),
        dev_mode: false,
        known_gates: Feature::KNOWN.iter().map(|gate| gate.name()).collect(),
    }
}

/// An object to ask about, and what to do to it.
#[derive(Clone)]
pub(in crate::policy) struct Asked {
    pub(in crate::policy) kind: Kind,
    pub(in crate::policy) object: Value,
    pub(in crate::policy) old: Option<Value>,
    pub(in crate::policy) operation: Operation,
}

impl Asked {
    pub(in crate::policy) fn create(kind: Kind, name: &str, spec: Value) -> Self {
        let mut object = json!({
            "apiVersion": "sriovnetwork.openshift.io/v1",
            "kind": kind.as_str(),
            "metadata": {"name": name, "namespace": NAMESPACE},
        });
        object["spec"] = spec;
        Self {
            kind,
            object,
            old: None,
            operation: Operation::Create,
        }
    }

    pub(in crate::policy) fn update(kind: Kind, name: &str, old: Value, new: Value) -> Self {
        Self {
            old: Some(Self::create(kind, name, old).object),
            operation: Operation::Update,
            ..Self::create(kind, name, new)
        }
    }

    pub(in crate::policy) fn in_namespace(mut self, namespace: &str) -> Self {
        self.object["metadata"]["namespace"] = namespace.into();
        self
    }

    pub(in crate::policy) fn subject<'a>(
        &'a self,
        texts: &'a (String, Option<String>),
    ) -> Subject<'a> {
        let text = |field: &str| self.object["metadata"][field].as_str().unwrap_or_default();
        Subject {
            kind: self.kind,
            operation: self.operation,
            name: text("name"),
            namespace: text("namespace"),
            object: (self.operation != Operation::Delete).then_some(&texts.0),
            old: texts.1.as_deref(),
        }
    }

    pub(in crate::policy) fn texts(&self) -> (String, Option<String>) {
        (
            self.object.to_string(),
            self.old.as_ref().map(Value::to_string),
        )
    }

    pub(in crate::policy) fn verdict<'a>(
        &self,
        view: impl Into<View<'a>>,
        rules: &Rules,
    ) -> Verdict {
        let texts = self.texts();
        validate(&self.subject(&texts), view.into(), rules)
    }
}

/// Fails unless the object is allowed, and each of `warnings` is part of a warning.
#[track_caller]
pub(in crate::policy) fn assert_allowed(verdict: &Verdict, warnings: &[&str]) {
    assert!(verdict.allowed(), "refused: {}", verdict.status_message());
    let told = verdict.warnings();
    for warning in warnings {
        assert!(
            told.iter().any(|t| t.contains(warning)),
            "no warning has {warning:?}: {told:#?}"
        );
    }
}

/// Fails when there is a warning.
#[track_caller]
pub(in crate::policy) fn assert_no_warnings(verdict: &Verdict) {
    let told = verdict.warnings();
    assert!(told.is_empty(), "{told:#?}");
}

/// Fails unless the object is refused and the message has every one of `parts`.
#[track_caller]
pub(in crate::policy) fn assert_refused(verdict: &Verdict, parts: &[&str]) {
    assert!(
        !verdict.allowed(),
        "allowed, with warnings {:#?}",
        verdict.warnings()
    );
    let message = verdict.status_message();
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in: {message}");
    }
}
