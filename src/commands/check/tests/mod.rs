//! `check` from its input to its findings.

use std::path::{Path, PathBuf};

use clap::Parser;
use proptest::{collection::vec, option, prelude::*, sample::select};
use serde_json::{Value, json};

use super::{
    judge::{Finding, Judgement},
    *,
};
use crate::policy::{self, Cluster, Kind, Operation, Subject};

mod agreement;
mod shown;
mod unusable;

const NAMESPACE: &str = "sriov-network-operator";

fn data(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(file)
}

fn recorded(file: &str) -> Value {
    let path = data("conformance").join(file);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// A judge of what is created or changed in the recorded cluster.
fn judge() -> Judge {
    let mut state = State::new(NAMESPACE);
    for object in recorded("world.json")["objects"].as_array().unwrap() {
        state.insert(object);
    }
    Judge::new(rules(), "openshift.io", inject::Options::default(), state)
}

fn judged(judge: &mut Judge, object: &Value) -> Judgement {
    judge.judge(&Document {
        source: "test".to_owned(),
        object: object.clone(),
    })
}

fn policy(name: &str, pf_name: &str) -> Value {
    json!({
        "apiVersion": "sriovnetwork.openshift.io/v1", "kind": "SriovNetworkNodePolicy",
        "metadata": {"name": name},
        "spec": {
            "resourceName": "fast", "nodeSelector": {"node-role.kubernetes.io/worker": ""}, "numVfs": 8,
            "nicSelector": {"pfNames": [pf_name]},
        },
    })
}

/// Runs `check` with a file of these documents against the seed of the tests.
fn run(documents: &[Value], arguments: &[&str]) -> Result<bool> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("objects.yaml");
    let texts = documents
        .iter()
        .map(|it| serde_saphyr::to_string(it).unwrap());
    std::fs::write(&file, texts.collect::<Vec<_>>().join("---\n"))?;
    let seed = format!("--cluster-state={}", data("seed.yaml").display());
    let file = file.display().to_string();
    let mut line = vec!["check", &seed, &file];
    line.extend(arguments);
    command(&line).report()
}

fn command(line: &[&str]) -> Check {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        check: Check,
    }
    Line::try_parse_from(line).unwrap().check
}

fn made_of(documents: &[Value]) -> (Vec<Judgement>, Vec<made::NodeState>) {
    let mut state = State::new(NAMESPACE);
    for document in input::read(&[data("seed.yaml")], Limit::Dump).unwrap() {
        state.insert(&document.object);
    }
    let mut judge = Judge::new(rules(), "example.com", inject::Options::default(), state);
    let documents: Vec<Document> = documents
        .iter()
        .map(|object| Document {
            source: "test".to_owned(),
            object: object.clone(),
        })
        .collect();
    let judgements = judge.all(&documents);
    let states = judge.node_states(&judgements);
    (judgements, states)
}

fn printed(report: &Report<'_>, format: Format) -> String {
    let mut out = Vec::new();
    report.print(&mut out, format).unwrap();
    String::from_utf8(out).unwrap()
}

fn rules() -> Rules {
    command(&["check", "x"]).rules()
}
