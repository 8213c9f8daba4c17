//! From a review of a pod to `inject` over the stores, and back to a decision. NADs that the watch has not shown are read
//! live, once. It holds no rule about what is injected: those are in [`inject`].

use std::sync::Arc;

use futures::{FutureExt, future::BoxFuture};
use tracing::{Instrument, debug_span};

use super::{
    decision::{Decision, Denial, Undecided},
    handlers::{Pods, Verdict},
    review::{Object, Operation, Request},
};
use crate::{
    inject::{self, Live, Options, Outcome, PodReview},
    settings::FailurePolicy,
    stores::PodStores,
};

/// The injector over the stores of a process.
pub struct StoredPods {
    stores: Arc<PodStores>,
    options: Options,
    failure_policy: Box<dyn Fn() -> FailurePolicy + Send + Sync>,
}

impl StoredPods {
    /// Injects by `options` and what `stores` hold. `failure_policy` is asked for that of the registered configuration.
    pub fn new(
        stores: Arc<PodStores>,
        options: Options,
        failure_policy: impl Fn() -> FailurePolicy + Send + Sync + 'static,
    ) -> Self {
        Self {
            stores,
            options,
            failure_policy: Box::new(failure_policy),
        }
    }

    async fn decide(&self, request: &Request<'_>) -> Verdict {
        let pod = match subject(request) {
            Some(Ok(pod)) => pod,
            Some(Err(denial)) => return Ok(Decision::deny(denial)),
            None => return Ok(Decision::allow()),
        };
        let loaded = self.stores.switches();
        let switches = &loaded.switches;
        let look = |read: Option<&inject::Nads>| {
            self.stores
                .look(|index| match read {
                    None => inject::decide(&pod, index, switches, &self.options),
                    Some(read) => {
                        inject::decide(&pod, &Live { index, read }, switches, &self.options)
                    }
                })
                .map_err(|error| Undecided::Unavailable(error.to_string()))
        };
        let mut outcome = look(None)?;
        if let Outcome::Unknown(keys) = &outcome {
            let span = debug_span!("read networks", count = keys.len());
            let read = self.stores.read(keys).instrument(span).await;
            let read = read.map_err(|error| Undecided::Unavailable(error.to_string()))?;
            outcome = look(Some(&read))?;
        }
        verdict(outcome)
    }
}

impl Pods for StoredPods {
    fn inject<'a>(&'a self, request: &'a Request<'a>) -> BoxFuture<'a, Verdict> {
        self.decide(request).boxed()
    }

    fn failure_policy(&self) -> FailurePolicy {
        (self.failure_policy)()
    }
}

/// What there is to inject into: a pod that is created. Anything else is allowed.
fn subject<'a>(request: &'a Request<'_>) -> Option<Result<PodReview<'a>, Denial>> {
    let is_pod = request.kind.group.is_empty() && request.kind.kind == "Pod";
    if !is_pod || request.operation != Operation::Create || !request.sub_resource.is_empty() {
        return None;
    }
    let Some(Object::Parts { metadata, spec }) = request.object else {
        return Some(Err(Denial::bad_request("the review has no pod")));
    };
    let pod = PodReview::of(&request.namespace, metadata, spec);
    Some(pod.map_err(|error| Denial::bad_request(error.to_string())))
}

/// A refusal is answered with code 400, as the reference system's users know it: `Invalid` would make kubectl hide the
/// message, which no field of the pod explains better.
fn verdict(outcome: Outcome) -> Verdict {
    match outcome {
        Outcome::Unchanged { warnings } => Ok(Decision::allow_with(None, warnings)),
        Outcome::Patched { patch, warnings } => Ok(Decision::allow_with(Some(patch), warnings)),
        Outcome::Denied { message, warnings } => {
            Ok(Decision::deny_with(Denial::bad_request(message), warnings))
        }
        Outcome::Fault { message, .. } => Err(Undecided::Fault(message)),
        // Whatever was read live is known.
        Outcome::Unknown(_) => Err(Undecided::Fault(
            "networks are unknown although they were read".to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::admission::review;

    fn body(change: impl FnOnce(&mut Value)) -> Vec<u8> {
        let mut request = json!({
            "uid": "u-1", "operation": "CREATE", "namespace": "ns",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "object": {"metadata": {"generateName": "p-"}, "spec": {"containers": []}},
        });
        change(&mut request);
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
            .to_string()
            .into_bytes()
    }

    #[test]
    fn pods_that_are_created_are_judged() {
        let body = body(|_| ());
        let request = review::decode(&body).unwrap();
        assert!(subject(&request).unwrap().is_ok());
    }

    #[test]
    fn all_else_is_let_through() {
        for body in [
            body(|request| request["operation"] = "UPDATE".into()),
            body(|request| request["operation"] = "DELETE".into()),
            body(|request| request["subResource"] = "ephemeralcontainers".into()),
            body(|request| request["kind"]["kind"] = "Deployment".into()),
            body(|request| request["kind"]["group"] = "example.org".into()),
        ] {
            let request = review::decode(&body).unwrap();
            assert!(subject(&request).is_none());
        }
    }

    #[test]
    fn what_is_no_pod_is_denied() {
        for object in [json!(null), json!(5), json!([]), json!({"metadata": "x"})] {
            let body = body(|request| request["object"] = object.clone());
            let request = review::decode(&body).unwrap();
            let denial = subject(&request).unwrap().unwrap_err();
            assert_eq!(denial.code, 400, "{object}");
        }
    }

    #[test]
    fn a_patch_that_cannot_be_written_is_ours_to_answer_for() {
        let fault = Outcome::Fault {
            message: "key must be a string".into(),
            warnings: Vec::new(),
        };
        assert_eq!(
            verdict(fault),
            Err(Undecided::Fault("key must be a string".into()))
        );
    }
}
