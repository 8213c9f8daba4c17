//! One object after the other: what the API server does to it, what the webhooks say. The rules are those of `policy` and
//! `inject`; here is only their order.

use serde::Serialize;
use serde_json::{Value, json, value::to_raw_value};

use super::{
    input::Document,
    made::{self, NodeState},
    state::State,
};
use crate::{
    api,
    inject::{self, Live, Nads, Outcome, PodReview},
    networks::{self, NetworkKind, NetworkRef},
    policy::{
        self, Cause, Fault, Kind, NicClaim, Operation, ParsedPolicy, Rules, Subject, Verdict,
        labels, schema::Schema,
    },
};

/// Namespace of a pod that names none.
const DEFAULT_NAMESPACE: &str = "default";

/// What is said about one object.
#[derive(Debug, Serialize)]
pub(super) struct Judgement {
    /// The file it stands in.
    pub(super) source: String,
    pub(super) kind: String,
    pub(super) namespace: String,
    /// Empty when the API server is to generate it.
    pub(super) name: String,
    pub(super) allowed: bool,
    pub(super) faults: Vec<Finding>,
    pub(super) warnings: Vec<String>,
    /// Of a policy: what it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) claims: Option<Vec<NicClaim>>,
    /// Of a network: the network attachment definition that it comes to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) definition: Option<Value>,
    /// Of a pod: the operations of the JSON patch that it would get.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) patch: Option<Vec<Value>>,
}

/// A fault, as `status.details.causes` has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// Field path; empty where the message names the annotation instead.
    pub(super) field: String,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl From<Cause> for Finding {
    fn from(cause: Cause) -> Self {
        Self {
            field: cause.field,
            reason: cause.reason,
            message: cause.message,
        }
    }
}

impl From<Fault> for Finding {
    fn from(fault: Fault) -> Self {
        Self {
            field: fault.field().to_owned(),
            reason: fault.kind().reason(),
            message: fault.message(),
        }
    }
}

/// Judges objects against a state that grows with them.
pub(super) struct Judge {
    rules: Rules,
    /// The prefix of resource names.
    resource_prefix: String,
    options: inject::Options,
    state: State,
}

impl Judge {
    pub(super) fn new(
        rules: Rules,
        resource_prefix: &str,
        options: inject::Options,
        state: State,
    ) -> Self {
        Self {
            rules,
            resource_prefix: resource_prefix.to_owned(),
            options,
            state,
        }
    }

    /// Judges those of the documents that admission is asked about, in their order; those that describe the cluster
    /// count for all of them.
    pub(super) fn all(&mut self, documents: &[Document]) -> Vec<Judgement> {
        let (judged, cluster): (Vec<&Document>, Vec<&Document>) = documents
            .iter()
            .partition(|document| is_judged(&document.object));
        for document in cluster {
            self.state.insert(&document.object);
        }
        judged
            .into_iter()
            .map(|document| self.judge(document))
            .collect()
    }

    /// The states of the nodes that what was judged touches.
    pub(super) fn node_states(&self, judged: &[Judgement]) -> Vec<NodeState> {
        made::node_states(&self.state, judged)
    }

    /// What of the cluster could not be understood.
    pub(super) fn set_aside(&self) -> &[String] {
        self.state.set_aside()
    }

    pub(super) fn judge(&mut self, document: &Document) -> Judgement {
        let mut object = document.object.clone();
        let text = |object: &Value, field: &str| {
            object["metadata"][field]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        let custom = Kind::parse(&kind);
        if text(&object, "namespace").is_empty() && object["metadata"].is_object() {
            object["metadata"]["namespace"] = match custom {
                Some(_) => self.rules.namespace.as_str().into(),
                None => DEFAULT_NAMESPACE.into(),
            };
        }
        let mut judgement = Judgement {
            source: document.source.clone(),
            namespace: text(&object, "namespace"),
            name: text(&object, "name"),
            kind,
            allowed: true,
            faults: metadata_faults(&object),
            warnings: Vec::new(),
            claims: None,
            definition: None,
            patch: None,
        };
        match custom {
            Some(kind) => self.custom_resource(kind, &mut object, &mut judgement),
            None => self.pod(&object, &mut judgement),
        }
        judgement.allowed = judgement.faults.is_empty();
        if judgement.allowed && custom.is_some() {
            self.state.insert(&object);
        }
        judgement
    }

    fn custom_resource(&self, kind: Kind, object: &mut Value, judgement: &mut Judgement) {
        if object["apiVersion"] != api::API_VERSION {
            let version = object["apiVersion"].as_str().unwrap_or_default();
            let fault = Fault::not_supported("apiVersion", version, &[api::API_VERSION]);
            judgement.faults.push(fault.into());
            return;
        }
        let schema = Schema::of(kind);
        schema.complete(object);
        let faults = schema.faults(object);
        judgement
            .faults
            .extend(faults.into_iter().map(Finding::from));
        for field in schema.unknown_fields(object) {
            judgement
                .warnings
                .push(format!("{field}: unknown, and has no effect"));
        }
        let old = self.state.stored(object).map(|stored| {
            let mut stored = stored.clone();
            schema.complete(&mut stored);
            stored.to_string()
        });
        let verdict = self.verdict(kind, object, old.as_deref(), judgement);
        // What the schema refuses does not decode either, which is the same fault.
        let refused: Vec<String> = judgement
            .faults
            .iter()
            .map(|fault| fault.field.clone())
            .collect();
        let others = verdict
            .causes()
            .into_iter()
            .filter(|cause| !refused.contains(&cause.field));
        judgement.faults.extend(others.map(Finding::from));
        judgement.warnings.extend(verdict.warnings());
        if judgement.faults.is_empty() {
            judgement.definition = self.definition(kind, object, judgement);
        }
        if kind == Kind::NodePolicy && judgement.namespace == self.rules.namespace {
            judgement.claims = serde_json::from_value(object.clone())
                .ok()
                .and_then(|policy| ParsedPolicy::new(&policy).ok())
                .map(|policy| policy::claims(&policy, (&self.state.cluster).into(), &self.rules));
        }
    }

    /// The network attachment definition of a network, as the controller makes it.
    fn definition(&self, kind: Kind, object: &Value, judgement: &Judgement) -> Option<Value> {
        let network = NetworkRef {
            kind: NetworkKind::parse(kind.as_str())?,
            namespace: judgement.namespace.clone(),
            name: judgement.name.clone(),
        };
        let setting = networks::Setting {
            namespace: self.rules.namespace.clone(),
            resource_prefix: self.resource_prefix.clone(),
        };
        let stored = self.state.stored(object);
        let uid = stored.and_then(|stored| stored["metadata"]["uid"].as_str());
        let attachment = networks::attachment(&network, uid, &object["spec"], &setting);
        attachment.ok().map(|attachment| attachment.object())
    }

    /// What both webhooks make of it; the object gets the defaults of the first.
    fn verdict(
        &self,
        kind: Kind,
        object: &mut Value,
        old: Option<&str>,
        judgement: &Judgement,
    ) -> Verdict {
        let operation = match old {
            Some(_) => Operation::Update,
            None => Operation::Create,
        };
        let subject = |object: &str, judge: &mut dyn FnMut(&Subject<'_>)| {
            judge(&Subject {
                kind,
                operation,
                name: &judgement.name,
                namespace: &judgement.namespace,
                object: Some(object),
                old,
            });
        };
        subject(&object.to_string(), &mut |subject| {
            let patch = policy::default_node_policy(subject)
                .and_then(|patch| serde_json::from_slice::<json_patch::Patch>(&patch).ok());
            if let Some(patch) = patch {
                // It was made for this object, and leaves it alone where it does not apply.
                let _ = json_patch::patch(object, &patch);
            }
        });
        let mut verdict = Verdict::default();
        subject(&object.to_string(), &mut |subject| {
            verdict = policy::validate(subject, (&self.state.cluster).into(), &self.rules);
        });
        verdict
    }

    fn pod(&self, object: &Value, judgement: &mut Judgement) {
        let mut refuse = |message: String| {
            judgement.faults.push(Finding {
                field: String::new(),
                reason: "BadRequest",
                message,
            });
        };
        let raw = match to_raw_value(object) {
            Ok(raw) => raw,
            Err(error) => return refuse(error.to_string()),
        };
        let pod = match PodReview::new(&judgement.namespace, &raw) {
            Ok(pod) => pod,
            Err(error) => return refuse(error.to_string()),
        };
        // What is not in the state does not exist.
        let nads = Live {
            index: &self.state.nads,
            read: &Nads::default(),
        };
        match inject::decide(&pod, &nads, &self.state.switches, &self.options) {
            Outcome::Unchanged { warnings } => judgement.warnings = warnings,
            Outcome::Patched { patch, warnings } => {
                judgement.patch = serde_json::from_slice(&patch).ok();
                judgement.warnings = warnings;
            }
            Outcome::Denied { message, warnings } | Outcome::Fault { message, warnings } => {
                refuse(message);
                judgement.warnings = warnings;
            }
            Outcome::Unknown(keys) => {
                let names: Vec<String> = keys.iter().map(ToString::to_string).collect();
                refuse(format!("unknown networks: {}", names.join(", ")));
            }
        }
    }
}

/// Whether admission is asked about objects of this kind.
fn is_judged(object: &Value) -> bool {
    let kind = object["kind"].as_str().unwrap_or_default();
    Kind::parse(kind).is_some() || (kind == "Pod" && object["apiVersion"] == json!("v1"))
}

/// What the API server says about the name of any object.
fn metadata_faults(object: &Value) -> Vec<Finding> {
    let metadata = &object["metadata"];
    let fault = match (metadata["name"].as_str(), metadata["generateName"].as_str()) {
        (Some(name), _) if labels::is_dns_subdomain(name) => return Vec::new(),
        (Some(name), _) if !name.is_empty() => Fault::invalid(
            "metadata.name",
            name,
            "must be lower-case letters, digits, '-' and '.', and begin and end with a letter or digit",
        ),
        (_, Some(prefix)) if !prefix.is_empty() => return Vec::new(),
        _ => Fault::required("metadata.name", "name or generateName is required"),
    };
    vec![fault.into()]
}
