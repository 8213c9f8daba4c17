//! The recorded cluster behind the admission routes, without an API server.

use futures::{FutureExt, future::BoxFuture};
use sriov_operator::{
    admission::{
        Cause, CustomResources, Decision, Denial, Details, Object, Operation, Pods, Request,
        Verdict,
    },
    features::Feature,
    inject::{self, CONFIG_KEY, Live, Loaded, Nad, Nads, Outcome, PodReview, Switches},
    policy::{self, Cluster, Kind, Rules, Subject},
    settings::FailurePolicy,
};

use crate::corpus;

pub(crate) const NAMESPACE: &str = "sriov-network-operator";

pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) nads: Nads,
    pub(crate) switches: Switches,
    pub(crate) rules: Rules,
}

impl World {
    pub(crate) fn recorded() -> Self {
        let mut world = Self {
            cluster: Cluster::default(),
            nads: Nads::default(),
            switches: Switches::default(),
            rules: Rules {
                namespace: NAMESPACE.to_owned(),
                dev_mode: false,
                known_gates: Feature::KNOWN.iter().map(|gate| gate.name()).collect(),
            },
        };
        for object in corpus::stored() {
            let metadata = &object["metadata"];
            match object["kind"].as_str().unwrap() {
                "NetworkAttachmentDefinition" => {
                    let keys = ["k8s.v1.cni.cncf.io/resourceName".to_owned()];
                    let nad = Nad::new(&keys, |key| metadata["annotations"][key].as_str());
                    let text = |field: &str| metadata[field].as_str().unwrap();
                    world.nads.insert(text("namespace"), text("name"), nad);
                }
                "ConfigMap" if metadata["name"] == "nri-control-switches" => {
                    let text = object["data"][CONFIG_KEY].as_str();
                    world.switches = Loaded::parse(text, &Switches::default()).switches;
                }
                _ => assert_eq!(world.cluster.insert_object(object, NAMESPACE), []),
            }
        }
        world
    }

    /// What becomes of a pod when nothing but the recorded networks exists.
    pub(crate) fn inject(&self, pod: &PodReview<'_>, switches: &Switches) -> Outcome {
        let nads = Live {
            index: &self.nads,
            read: &Nads::default(),
        };
        inject::decide(pod, &nads, switches, &inject::Options::default())
    }
}

impl CustomResources for World {
    fn set_defaults<'a>(&'a self, request: &'a Request<'a>) -> BoxFuture<'a, Verdict> {
        let texts = texts(request);
        let patch = subject(request, &texts)
            .as_ref()
            .and_then(policy::default_node_policy);
        std::future::ready(Ok(Decision::allow_with(patch, Vec::new()))).boxed()
    }

    fn validate<'a>(&'a self, request: &'a Request<'a>) -> BoxFuture<'a, Verdict> {
        let texts = texts(request);
        let decision = match subject(request, &texts) {
            None => Decision::allow(),
            Some(subject) => {
                let verdict = policy::validate(&subject, (&self.cluster).into(), &self.rules);
                if verdict.allowed() {
                    Decision::allow_with(None, verdict.warnings())
                } else {
                    Decision::deny_with(denial(&verdict), verdict.warnings())
                }
            }
        };
        std::future::ready(Ok(decision)).boxed()
    }
}

impl Pods for World {
    fn inject<'a>(&'a self, request: &'a Request<'a>) -> BoxFuture<'a, Verdict> {
        std::future::ready(Ok(self.pod(request))).boxed()
    }

    fn failure_policy(&self) -> FailurePolicy {
        FailurePolicy::Fail
    }
}

impl World {
    fn pod(&self, request: &Request<'_>) -> Decision {
        let Some(Object::Parts { metadata, spec }) = request.object else {
            return Decision::allow();
        };
        let pod = match PodReview::of(&request.namespace, metadata, spec) {
            Ok(pod) => pod,
            Err(error) => return Decision::deny(Denial::bad_request(error.to_string())),
        };
        match self.inject(&pod, &self.switches) {
            Outcome::Unchanged { warnings } => Decision::allow_with(None, warnings),
            Outcome::Patched { patch, warnings } => Decision::allow_with(Some(patch), warnings),
            Outcome::Denied { message, warnings } => {
                Decision::deny_with(Denial::bad_request(message), warnings)
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Both versions of the object.
type Texts = [Option<String>; 2];

fn texts(request: &Request<'_>) -> Texts {
    [&request.object, &request.old_object].map(|object| object.as_ref().map(Object::text))
}

fn subject<'a>(request: &'a Request<'_>, [object, old]: &'a Texts) -> Option<Subject<'a>> {
    Some(Subject {
        kind: Kind::parse(&request.kind.kind)?,
        operation: match request.operation {
            Operation::Create => policy::Operation::Create,
            Operation::Update => policy::Operation::Update,
            Operation::Delete | Operation::Connect => return None,
        },
        name: &request.name,
        namespace: &request.namespace,
        object: object.as_deref(),
        old: old.as_deref(),
    })
}

fn denial(verdict: &policy::Verdict) -> Denial {
    let causes = verdict.causes().into_iter().map(|cause| Cause {
        reason: cause.reason.into(),
        message: cause.message,
        field: cause.field,
    });
    let details = Details {
        causes: causes.collect(),
        ..Details::default()
    };
    Denial::invalid(verdict.status_message(), details)
}
