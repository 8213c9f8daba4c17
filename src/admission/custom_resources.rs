//! From a review of a custom resource to `policy` over the stores, and back to a decision. It holds no rule about what is
//! legal: those are in [`policy`].

use std::{borrow::Cow, sync::Arc};

use futures::{FutureExt, future::BoxFuture};

use super::{
    decision::{Cause, Decision, Denial, Details, Undecided},
    handlers::{CustomResources, Verdict},
    review::{Object, Operation, Request},
};
use crate::{
    api,
    brief::{LONGEST_NAME, brief},
    policy::{self, Kind, Rules, Subject},
    stores::ClusterStores,
};

/// The operator webhook over the stores of a process.
pub struct StoredCustomResources {
    stores: Arc<ClusterStores>,
    rules: Rules,
}

impl StoredCustomResources {
    /// Judges by `rules` and what `stores` hold.
    pub fn new(stores: Arc<ClusterStores>, rules: Rules) -> Self {
        Self { stores, rules }
    }

    async fn judge(&self, request: &Request<'_>) -> Verdict {
        // Deletions in particular need no store, so nothing stands in their way.
        let texts = Texts::of(request);
        let Some(subject) = subject(request, &texts) else {
            return Ok(Decision::allow());
        };
        let verdict = self
            .stores
            .validate(&subject, &self.rules, request.dry_run)
            .await
            .map_err(|error| Undecided::Unavailable(error.to_string()))?;
        Ok(decision(&subject, &verdict))
    }
}

impl CustomResources for StoredCustomResources {
    fn set_defaults<'a>(&'a self, request: &'a Request<'a>) -> BoxFuture<'a, Verdict> {
        let texts = Texts::of(request);
        let patch = subject(request, &texts)
            .as_ref()
            .and_then(policy::default_node_policy);
        std::future::ready(Ok(Decision::allow_with(patch, Vec::new()))).boxed()
    }

    fn validate<'a>(&'a self, request: &'a Request<'a>) -> BoxFuture<'a, Verdict> {
        self.judge(request).boxed()
    }
}

/// Both versions of the object as JSON. Small, and far from as many as pods.
struct Texts {
    object: Option<String>,
    old: Option<String>,
}

impl Texts {
    fn of(request: &Request<'_>) -> Self {
        Self {
            object: request.object.as_ref().map(Object::text),
            old: request.old_object.as_ref().map(Object::text),
        }
    }
}

/// What there is to judge: one of our kinds, created or updated as a whole. Anything else is allowed.
fn subject<'a>(request: &'a Request<'_>, texts: &'a Texts) -> Option<Subject<'a>> {
    let operation = match request.operation {
        Operation::Create => policy::Operation::Create,
        Operation::Update => policy::Operation::Update,
        Operation::Delete | Operation::Connect => return None,
    };
    if request.kind.group != api::GROUP || !request.sub_resource.is_empty() {
        return None;
    }
    Some(Subject {
        kind: Kind::parse(&request.kind.kind)?,
        operation,
        name: &request.name,
        namespace: &request.namespace,
        object: texts.object.as_deref(),
        old: texts.old.as_deref(),
    })
}

fn decision(subject: &Subject<'_>, verdict: &policy::Verdict) -> Decision {
    let warnings = verdict.warnings();
    if verdict.allowed() {
        return Decision::allow_with(None, warnings);
    }
    let message = verdict.status_message();
    let details = Details {
        group: api::GROUP.to_owned(),
        kind: subject.kind.as_str().to_owned(),
        name: brief(subject.name, LONGEST_NAME).into_owned(),
        causes: verdict.causes().into_iter().map(cause).collect(),
    };
    let denial = if verdict.forbidden() {
        Denial {
            details: Some(details),
            ..Denial::forbidden(message)
        }
    } else {
        Denial::invalid(message, details)
    };
    Decision::deny_with(denial, warnings)
}

fn cause(cause: policy::Cause) -> Cause {
    Cause {
        reason: Cow::Borrowed(cause.reason),
        message: cause.message,
        field: cause.field,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        admission::review,
        policy::{Cluster, View},
    };

    fn body(request: &Value) -> Vec<u8> {
        let mut request = request.clone();
        request["uid"] = "u-1".into();
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
            .to_string()
            .into_bytes()
    }

    fn about_policy(operation: &str) -> Value {
        json!({
            "operation": operation, "name": "p", "namespace": "sriov-network-operator",
            "kind": {"group": "sriovnetwork.openshift.io", "version": "v1", "kind": "SriovNetworkNodePolicy"},
            "object": {"metadata": {"name": "p"}, "spec": {"resourceName": "r", "numVfs": 0}},
        })
    }

    #[test]
    fn creations_and_updates_of_our_kinds_are_judged() {
        for operation in ["CREATE", "UPDATE"] {
            let body = body(&about_policy(operation));
            let request = review::decode(&body).unwrap();
            let texts = Texts::of(&request);
            let subject = subject(&request, &texts).unwrap();
            assert_eq!(subject.kind, Kind::NodePolicy);
            assert_eq!(subject.name, "p");
            assert_eq!(subject.namespace, "sriov-network-operator");
            assert!(subject.object.is_some());
        }
    }

    #[test]
    fn all_else_is_let_through() {
        let with = |key: &str, value: Value| {
            let mut request = about_policy("CREATE");
            request[key] = value;
            request
        };
        for request in [
            about_policy("DELETE"),
            with("subResource", "status".into()),
            with("kind", json!({"group": "", "version": "v1", "kind": "Pod"})),
            with(
                "kind",
                json!({"group": "example.org", "version": "v1", "kind": "SriovNetworkNodePolicy"}),
            ),
        ] {
            let body = body(&request);
            assert!(
                {
                    let request = review::decode(&body).unwrap();
                    subject(&request, &Texts::of(&request)).is_none()
                },
                "{request}"
            );
        }
    }

    #[test]
    fn a_refusal_tells_everything_twice() {
        let body = body(&about_policy("CREATE"));
        let request = review::decode(&body).unwrap();
        let texts = Texts::of(&request);
        let subject = subject(&request, &texts).unwrap();
        let cluster = Cluster::default();
        let rules = Rules {
            namespace: "sriov-network-operator".into(),
            dev_mode: false,
            known_gates: Vec::new(),
        };
        let verdict = policy::validate(&subject, View::from(&cluster), &rules);
        let Decision::Deny { denial, .. } = decision(&subject, &verdict) else {
            panic!("allowed");
        };
        assert_eq!((denial.code, &*denial.reason), (422, "Invalid"));
        let details = denial.details.unwrap();
        assert_eq!(details.group, "sriovnetwork.openshift.io");
        assert_eq!(details.kind, "SriovNetworkNodePolicy");
        assert_eq!(details.name, "p");
        assert!(!details.causes.is_empty());
        for cause in &details.causes {
            assert!(denial.message.contains(&cause.field), "{}", denial.message);
            assert!(
                denial.message.contains(&cause.message),
                "{}",
                denial.message
            );
        }
    }
}
