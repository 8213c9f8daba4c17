//! The definitions against the reference's, and objects as upstream clients wrote them.

use serde_json::{Value, json};

use super::{
    SriovNetwork, SriovNetworkNodePolicy, SriovNetworkNodeState, SriovOperatorConfig, crd,
};

/// The reference's schemas in a compact form: `{crd name: {columns, names, scope, spec, status, subresources, version}}`.
const REFERENCE: &str = include_str!("../../tests/data/crd-schemas.json");

/// Removes descriptions and sorts what has no order, so that two schemas compare by meaning.
fn meaning(schema: &Value) -> Value {
    match schema {
        Value::Object(object) => Value::Object(
            object
                .iter()
                .filter(|(key, value)| !(key.as_str() == "description" && value.is_string()))
                .map(|(key, value)| {
                    let value = match (key.as_str(), value) {
                        ("enum" | "required", Value::Array(items)) => {
                            let mut items = items.clone();
                            items.sort_by_key(ToString::to_string);
                            Value::Array(items)
                        }
                        // The compact form writes a format in place of the type, and names the choice.
                        ("anyOf", _) if object.contains_key("x-kubernetes-int-or-string") => {
                            json!("int-or-string")
                        }
                        ("type", Value::String(type_))
                            if type_ == "string" && object.get("format").is_some() =>
                        {
                            object["format"].clone()
                        }
                        _ => meaning(value),
                    };
                    (key.clone(), value)
                })
                .filter(|(key, _)| !matches!(key.as_str(), "format" | "x-kubernetes-map-type"))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(meaning).collect()),
        other => other.clone(),
    }
}

#[test]
fn definitions_mean_what_the_references_mean() {
    let reference: Value = serde_json::from_str(REFERENCE).unwrap();
    assert_eq!(crd::all().len(), reference.as_object().unwrap().len());
    for definition in crd::all() {
        let name = definition["metadata"]["name"].as_str().unwrap();
        let expected = &reference[name];
        let version = &definition["spec"]["versions"][0];
        let schema = &version["schema"]["openAPIV3Schema"];
        for part in ["spec", "status"] {
            assert_eq!(
                serde_json::to_string_pretty(&meaning(&schema["properties"][part])).unwrap(),
                serde_json::to_string_pretty(&meaning(&expected[part])).unwrap(),
                "{part} of {name}"
            );
        }
        let mut columns: Vec<&str> = version["additionalPrinterColumns"]
            .as_array()
            .map(|columns| {
                columns
                    .iter()
                    .map(|column| column["name"].as_str().unwrap())
                    .collect()
            })
            .unwrap_or_default();
        columns.sort_unstable();
        assert_eq!(json!(columns), expected["columns"], "{name}");
        for key in ["kind", "plural", "singular"] {
            assert_eq!(
                definition["spec"]["names"][key], expected["names"][key],
                "{name}"
            );
        }
        assert_eq!(definition["spec"]["scope"], expected["scope"]);
        assert_eq!(version["name"], expected["version"]);
        assert!(version["subresources"]["status"].is_object());
    }
    crd::typed().unwrap();
}

#[test]
fn every_field_has_a_description() {
    fn walk(path: &str, schema: &Value) {
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            let described = property["description"]
                .as_str()
                .is_some_and(|text| !text.is_empty());
            assert!(
                described || name == "metadata" || path.ends_with("apiVersion"),
                "{path} has no description"
            );
            walk(&path, property);
            walk(&path, &property["items"]);
        }
    }
    for definition in crd::all() {
        walk(
            "",
            &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"],
        );
    }
}

#[test]
fn objects_without_a_spec_or_with_fields_of_others_decode() {
    let config: SriovOperatorConfig = serde_json::from_value(json!({
        "apiVersion": "sriovnetwork.openshift.io/v1", "kind": "SriovOperatorConfig", "metadata": {"name": "default"},
        "surprise": {"a": 1}
    }))
    .unwrap();
    assert_eq!(config.spec.log_level, None);
    let policy: SriovNetworkNodePolicy =
        serde_json::from_value(json!({"metadata": {"name": "p"}})).unwrap();
    assert!(policy.spec.is_none());
    let network: SriovNetwork = serde_json::from_value(
        json!({"metadata": {}, "spec": {"resourceName": "r", "logLevel": ""}, "status": {}}),
    )
    .unwrap();
    assert_eq!(network.spec.unwrap().log_level.as_deref(), Some(""));
    let state: SriovNetworkNodeState = serde_json::from_value(json!({
        "metadata": {"name": "n"}, "spec": {"bridges": {}, "system": {}},
        "status": {"bridges": {}, "system": {}, "interfaces": [{"pciAddress": "0000:18:00.0", "totalvfs": 64, "new": true}]}
    }))
    .unwrap();
    assert_eq!(
        state.status.unwrap().interfaces.unwrap()[0].total_vfs,
        Some(64)
    );
}

#[test]
fn explicit_false_and_zero_survive_a_round_trip() {
    let object = json!({
        "apiVersion": "sriovnetwork.openshift.io/v1", "kind": "SriovOperatorConfig",
        "metadata": {"name": "default"},
        "spec": {"enableInjector": false, "disableDrain": false, "logLevel": 0, "featureGates": {"metricsExporter": false}}
    });
    let config: SriovOperatorConfig = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(serde_json::to_value(config).unwrap(), object);
}
