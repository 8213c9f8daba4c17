//! The seven `CustomResourceDefinition`s, made from the types.
//!
//! schemars describes what serde accepts; the API server wants a structural schema of the `OpenAPI` v3 dialect.
//! [`structural`] is the bridge: no `null`, no formats beyond those the reference definitions have, no titles.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Resource;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use super::{
    GROUP, OVSNetwork, OVSNetworkSpec, SriovIBNetwork, SriovIBNetworkSpec, SriovNetwork,
    SriovNetworkNodePolicy, SriovNetworkNodePolicySpec, SriovNetworkNodeState,
    SriovNetworkNodeStateSpec, SriovNetworkNodeStateStatus, SriovNetworkPoolConfig,
    SriovNetworkPoolConfigSpec, SriovNetworkSpec, SriovOperatorConfig, SriovOperatorConfigSpec,
    VERSION,
    condition::{ConditionsStatus, EmptyStatus},
    operator_config::SriovOperatorConfigStatus,
};

/// Marks an integer whose definition carries the format `int64`: the reference definitions have it on
/// `observedGeneration` only, and schemars writes a format on every integer.
pub(super) const INT64_MARKER: &str = "x-int64";

/// A printer column: its header, its type and where the value is.
type Column = (&'static str, &'static str, &'static str);

const READY: Column = (
    "Ready",
    "string",
    r#".status.conditions[?(@.type=="Ready")].status"#,
);
const AGE: Column = ("Age", "date", ".metadata.creationTimestamp");
const NODE_STATE_COLUMNS: [Column; 4] = [
    ("Sync Status", "string", ".status.syncStatus"),
    (
        "Desired Sync State",
        "string",
        r".metadata.annotations.sriovnetwork\.openshift\.io/desired-state",
    ),
    (
        "Current Sync State",
        "string",
        r".metadata.annotations.sriovnetwork\.openshift\.io/current-state",
    ),
    AGE,
];

/// All definitions, ordered by name, as the API server takes them.
pub fn all() -> Vec<Value> {
    vec![
        crd::<OVSNetwork, OVSNetworkSpec, ConditionsStatus>(
            "A network that pods attach to through virtual functions behind an Open vSwitch bridge.",
            &[READY, AGE],
        ),
        crd::<SriovIBNetwork, SriovIBNetworkSpec, ConditionsStatus>(
            "An InfiniBand network that pods attach to through virtual functions.",
            &[READY, AGE],
        ),
        crd::<SriovNetworkNodePolicy, SriovNetworkNodePolicySpec, EmptyStatus>(
            "Splits the selected NICs of the selected nodes into virtual functions and names the resource they are offered as.",
            &[],
        ),
        crd::<SriovNetworkNodeState, SriovNetworkNodeStateSpec, SriovNetworkNodeStateStatus>(
            "The SR-IOV state of the node of the same name.",
            &NODE_STATE_COLUMNS,
        ),
        crd::<SriovNetworkPoolConfig, SriovNetworkPoolConfigSpec, EmptyStatus>(
            "Settings of a pool of nodes: how many may be configured at a time, RDMA mode, OVS hardware offload.",
            &[],
        ),
        crd::<SriovNetwork, SriovNetworkSpec, ConditionsStatus>(
            "An Ethernet network that pods attach to through virtual functions.",
            &[READY, AGE],
        ),
        crd::<SriovOperatorConfig, SriovOperatorConfigSpec, SriovOperatorConfigStatus>(
            "Configures the operator: which components run, where and how. Only the object named default in the operator's namespace counts.",
            &[READY, AGE],
        ),
    ]
}

/// The definition of one kind.
fn crd<K, Spec, Status>(description: &str, columns: &[Column]) -> Value
where
    K: Resource<DynamicType = ()>,
    Spec: JsonSchema,
    Status: JsonSchema,
{
    let (kind, plural) = (K::kind(&()), K::plural(&()));
    let columns: Vec<Value> = columns
        .iter()
        .map(|(name, type_, path)| json!({"name": name, "type": type_, "jsonPath": path}))
        .collect();
    let mut version = json!({
        "name": VERSION,
        "served": true,
        "storage": true,
        "schema": {"openAPIV3Schema": {
            "description": description,
            "type": "object",
            "properties": {
                "apiVersion": {"type": "string", "description": "Version of the schema of this object."},
                "kind": {"type": "string", "description": "Kind of this object."},
                "metadata": {"type": "object"},
                "spec": schema::<Spec>(),
                "status": schema::<Status>(),
            },
        }},
        "subresources": {"status": {}},
    });
    if !columns.is_empty() {
        version["additionalPrinterColumns"] = Value::Array(columns);
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{GROUP}")},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": kind,
                "listKind": format!("{kind}List"),
                "plural": plural,
                "singular": kind.to_lowercase(),
            },
            "scope": "Namespaced",
            "versions": [version],
        },
    })
}

/// The definitions as typed objects.
///
/// # Errors
/// When a definition is not one that the API server's types hold, which a test excludes.
pub fn typed() -> Result<Vec<CustomResourceDefinition>, serde_json::Error> {
    all().into_iter().map(serde_json::from_value).collect()
}

fn schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft07().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    structural(
        settings
            .into_generator()
            .into_root_schema_for::<T>()
            .to_value(),
    )
}

/// Rewrites a JSON schema into a structural one, recursively.
fn structural(schema: Value) -> Value {
    match schema {
        Value::Object(object) => Value::Object(structural_object(object)),
        other => other,
    }
}

fn structural_object(mut object: Map<String, Value>) -> Map<String, Value> {
    if let Some(inner) = optional_inner(&object) {
        object.remove("anyOf");
        for (key, value) in inner {
            object.entry(key).or_insert(value);
        }
    }
    for dropped in ["title", "$schema"] {
        object.remove(dropped);
    }
    if object.get("default").is_some_and(Value::is_null) {
        object.remove("default");
    }
    let keep_int64 = object.remove(INT64_MARKER).is_some();
    if object
        .get("format")
        .is_some_and(|format| format != "date-time" && !(keep_int64 && format == "int64"))
    {
        object.remove("format");
    }
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|type_| type_ != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            object.insert("type".into(), only);
        }
    }
    for (key, value) in &mut object {
        match (key.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                for property in properties.values_mut() {
                    *property = structural(property.take());
                }
            }
            ("items" | "additionalProperties", inner) => *inner = structural(inner.take()),
            _ => {}
        }
    }
    object
}

/// What `Option` wraps: schemars writes `anyOf: [inner, null]` around a schema that is not a plain type.
fn optional_inner(object: &Map<String, Value>) -> Option<Map<String, Value>> {
    let any_of = object.get("anyOf")?.as_array()?;
    match any_of.as_slice() {
        [Value::Object(inner), Value::Object(null)]
            if null.get("type").is_some_and(|type_| type_ == "null") =>
        {
            Some(inner.clone())
        }
        _ => None,
    }
}
