//! The targets: one function for each way in, with what it promises whatever comes.

use std::sync::{Arc, LazyLock};

use axum::{Router, body::Body};
use base64::{Engine, prelude::BASE64_STANDARD};
use http_body_util::BodyExt;
use serde_json::{Value, json, value::to_raw_value};
use sriov_operator::{
    admission::{self, Handlers, Limits},
    api::SriovOperatorConfigSpec,
    features::Features,
    inject::{Outcome, PodReview, Switches, match_condition, selection},
    policy::{self, Kind, Operation, Subject, schema::Schema},
    render::{self, Desired, Facts, Owners, Registration, Renderer},
    server::metrics::Metrics,
    settings::{Flags, Settings},
};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::world::{NAMESPACE, World};

const PATHS: [&str; 3] = [
    "/mutate",
    "/mutating-custom-resource",
    "/validating-custom-resource",
];

static WORLD: LazyLock<Arc<World>> = LazyLock::new(|| Arc::new(World::recorded()));

/// Bytes at one of the routes. Whatever they are, there is an answer: a review with the uid of the question, or an error
/// with a `Status` that says what is wrong. Nothing panics, and a patch applies to the object that was sent.
pub(crate) fn review(route: usize, body: &[u8]) {
    static ROUTER: LazyLock<Router> = LazyLock::new(|| {
        let handlers = Handlers {
            custom_resources: Some(Arc::clone(&*WORLD) as _),
            pods: Some(Arc::clone(&*WORLD) as _),
        };
        let metrics = Metrics::new();
        admission::router(
            &handlers,
            Limits::default(),
            CancellationToken::new(),
            &metrics,
        )
    });
    static RUNTIME: LazyLock<tokio::runtime::Runtime> = LazyLock::new(|| {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    });
    let request = http::Request::post(PATHS[route])
        .header("Content-Type", "application/json")
        .body(Body::from(body.to_vec()))
        .unwrap();
    let (code, answer) = RUNTIME.block_on(async {
        let response = ROUTER.clone().oneshot(request).await.unwrap();
        let code = response.status().as_u16();
        (
            code,
            response.into_body().collect().await.unwrap().to_bytes(),
        )
    });
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    if code != 200 {
        assert_eq!(code, 400, "{answer}");
        assert_eq!(answer["kind"], "Status", "{answer}");
        assert!(!answer["message"].as_str().unwrap().is_empty());
        return;
    }
    let asked: Option<Value> = serde_json::from_slice(body).ok();
    let response = &answer["response"];
    if let Some(uid) = asked
        .as_ref()
        .and_then(|asked| asked["request"]["uid"].as_str())
    {
        assert_eq!(response["uid"], uid);
    } else {
        // What does not decode is answered with what was found of its uid.
        let uid = response["uid"].as_str().unwrap().as_bytes();
        assert!(body.windows(uid.len()).any(|part| part == uid));
    }
    if response["allowed"] == true {
        assert!(response.get("status").is_none());
        if let Some(encoded) = response["patch"].as_str() {
            assert_eq!(response["patchType"], "JSONPatch");
            let patch = BASE64_STANDARD.decode(encoded).unwrap();
            // What is no JSON in a part that nobody uses is not noticed.
            if let Some(asked) = asked {
                apply(&patch, &asked["request"]["object"]);
            }
        }
    } else {
        let status = &response["status"];
        assert_ne!(status["code"], 500, "a fault of ours: {status}");
        assert!(!status["message"].as_str().unwrap().is_empty());
    }
    for warning in response["warnings"].as_array().into_iter().flatten() {
        assert_warning(warning.as_str().unwrap());
    }
}

/// A text as the value of an annotation. What it selects has names that are safe in a path.
pub(crate) fn selection(text: &str) {
    match selection::parse(text) {
        Ok(selections) => {
            for selected in selections.networks {
                for name in selected.namespace.iter().chain([&selected.name]) {
                    let safe = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
                    assert!(
                        !name.is_empty() && name.len() <= 63 && name.chars().all(safe),
                        "{name:?}"
                    );
                }
            }
        }
        Err(faults) => assert!(!faults.is_empty()),
    }
}

/// A pod. A patch applies to it, and the pod that comes of it is left alone.
pub(crate) fn injection(pod: &Value, [hugepages, honor_existing]: [bool; 2]) {
    let switches = Switches {
        hugepages,
        honor_existing,
        injections: WORLD.switches.injections.clone(),
    };
    let decide = |pod: &Value| {
        let raw = to_raw_value(pod).unwrap();
        PodReview::new("default", &raw)
            .ok()
            .map(|pod| WORLD.inject(&pod, &switches))
    };
    match decide(pod) {
        Some(Outcome::Patched { patch, warnings }) => {
            let patched = apply(&patch, pod);
            let again = decide(&patched);
            assert!(
                matches!(again, Some(Outcome::Unchanged { .. })),
                "{patched}: {again:?}"
            );
            assert_warnings(&warnings);
        }
        Some(Outcome::Unchanged { warnings }) => {
            assert_warnings(&warnings);
        }
        Some(Outcome::Denied { message, .. }) => {
            assert!(!message.is_empty() && !message.contains(char::is_control));
        }
        Some(other) => panic!("{other:?}"),
        None => {}
    }
    assert!(!match_condition(&switches).is_empty());
}

/// An object of any kind as every kind, created and updated, over a cluster that holds something odd.
pub(crate) fn validation(object: &Value, old: &Value, stored: &Value) {
    let mut cluster = WORLD.cluster.clone();
    cluster.insert_object(stored, NAMESPACE);
    let (text, old) = (object.to_string(), old.to_string());
    for kind in Kind::ALL {
        let schema = Schema::of(kind);
        let mut completed = object.clone();
        schema.complete(&mut completed);
        schema.unknown_fields(&completed);
        for fault in schema.faults(&completed) {
            assert!(!fault.to_string().contains(char::is_control));
        }
        for (operation, old) in [
            (Operation::Create, None),
            (Operation::Update, Some(old.as_str())),
        ] {
            let subject = Subject {
                kind,
                operation,
                name: "name",
                namespace: NAMESPACE,
                object: Some(&text),
                old,
            };
            if let Some(patch) = policy::default_node_policy(&subject) {
                apply(&patch, object);
            }
            let verdict = policy::validate(&subject, (&cluster).into(), &WORLD.rules);
            assert_eq!(verdict.allowed(), verdict.causes().is_empty());
            assert!(!verdict.status_message().contains(char::is_control));
            for cause in verdict.causes() {
                assert!(!cause.field.is_empty() && !cause.message.is_empty());
            }
            assert_warnings(&verdict.warnings());
            if let Some(policy) = verdict.admitted() {
                policy::claims(policy, (&cluster).into(), &WORLD.rules);
            }
        }
    }
}

/// A config. Each component is rendered or says why not; what is rendered can be applied: it has an identity and no null.
pub(crate) fn rendering(config: &Value, openshift: bool) {
    static RENDERER: LazyLock<Renderer> = LazyLock::new(|| Renderer::embedded().unwrap());
    let Ok(spec) = serde_json::from_value::<SriovOperatorConfigSpec>(config["spec"].clone()) else {
        return;
    };
    let images = [
        "SRIOV_NETWORK_CONFIG_DAEMON_IMAGE",
        "SRIOV_CNI_IMAGE",
        "SRIOV_INFINIBAND_CNI_IMAGE",
        "SRIOV_DEVICE_PLUGIN_IMAGE",
        "SRIOV_NETWORK_WEBHOOK_IMAGE",
        "NETWORK_RESOURCES_INJECTOR_IMAGE",
        "METRICS_EXPORTER_IMAGE",
        "METRICS_EXPORTER_KUBE_RBAC_PROXY_IMAGE",
    ];
    let cluster_type = if openshift { "openshift" } else { "kubernetes" };
    let environment = images.map(|name| (name, "example.com/image")).into_iter();
    let environment = environment.chain([
        ("NAMESPACE", NAMESPACE),
        ("CLUSTER_TYPE", cluster_type),
        ("RESOURCE_PREFIX", "openshift.io"),
    ]);
    let settings = Settings::read(&Flags::default(), environment).unwrap();
    let features = Features::new(spec.feature_gates.iter().flatten());
    let registration = Registration::default();
    let facts = Facts {
        config: &spec,
        settings: &settings,
        features: &features,
        hypershift: false,
        cluster_tls: None,
        operator_registration: &registration,
        validating_registration: &registration,
        injector_registration: &registration,
        injector_condition: &match_condition(&WORLD.switches),
    };
    for (component, outcome) in render::all(&RENDERER, &facts, &Owners::default()) {
        match outcome {
            Ok(Desired::On(rendered)) => {
                for object in rendered.objects.iter().chain(&rendered.created_once) {
                    assert!(object["kind"].is_string() && object["metadata"]["name"].is_string());
                    assert!(!has_null(object), "{component}: {object}");
                }
            }
            Ok(Desired::Off) => {}
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(fields) => fields.values().any(has_null),
        _ => false,
    }
}

/// The object with a patch applied, which has to do something.
fn apply(patch: &[u8], object: &Value) -> Value {
    let patch: json_patch::Patch = serde_json::from_slice(patch).unwrap();
    assert!(!patch.is_empty(), "an empty patch is none");
    let mut patched = object.clone();
    json_patch::patch(&mut patched, &patch)
        .unwrap_or_else(|error| panic!("{error}: {} on {object}", json!(patch)));
    patched
}

fn assert_warnings(warnings: &[String]) {
    for warning in warnings {
        assert_warning(warning);
    }
}

fn assert_warning(warning: &str) {
    assert!(
        warning.len() <= 256 && !warning.contains(char::is_control),
        "{warning:?}"
    );
}
