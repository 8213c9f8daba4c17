//! What the API server itself holds against a custom resource, by the schema of its kind: for `sriov-operator check`,
//! which has no API server to ask. It follows the keywords that our definitions use, and no others.
//!
//! The API server does three things with an object before a webhook judges it: it drops what is null, fills in the
//! schema's defaults, and refuses what the schema does not allow. Fields that the schema does not know are dropped.

use std::{collections::HashMap, sync::LazyLock};

use serde_json::{Map, Value};

use super::{Kind, fault::Fault, fault::entry_path};
use crate::api::crd;

/// The schema of one kind, of what its author writes: the status is others' business.
#[derive(Debug)]
pub struct Schema(Value);

/// Those of all kinds, by name.
static SCHEMAS: LazyLock<HashMap<String, Schema>> = LazyLock::new(|| {
    let named = crd::all().into_iter().map(|mut definition| {
        let mut schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].take();
        schema["properties"]["status"] = Value::Object(Map::new());
        let kind = definition["spec"]["names"]["kind"].as_str();
        (kind.unwrap_or_default().to_owned(), Schema(schema))
    });
    named.collect()
});
/// Allows everything. No kind is without a definition, which a test sees to.
static OPEN: Schema = Schema(Value::Null);

impl Schema {
    /// The schema of a kind.
    pub fn of(kind: Kind) -> &'static Self {
        SCHEMAS.get(kind.as_str()).unwrap_or(&OPEN)
    }

    /// Drops nulls and fills in defaults, as the API server does before admission.
    pub fn complete(&self, object: &mut Value) {
        complete(&self.0, object);
    }

    /// What the schema refuses.
    pub fn faults(&self, object: &Value) -> Vec<Fault> {
        let mut faults = Vec::new();
        let mut at = Path::default();
        check(&self.0, object, &mut at, &mut faults);
        faults
    }

    /// Paths of fields that the schema does not know. kubectl refuses them unless told otherwise, other clients lose them.
    pub fn unknown_fields(&self, object: &Value) -> Vec<String> {
        let mut unknown = Vec::new();
        let mut at = Path::default();
        find_unknown(&self.0, object, &mut at, &mut unknown);
        unknown
    }
}

/// Where in the object the walk is.
#[derive(Default)]
struct Path(Vec<String>);

impl Path {
    fn inside<R>(&mut self, step: String, walk: impl FnOnce(&mut Self) -> R) -> R {
        self.0.push(step);
        let result = walk(self);
        self.0.pop();
        result
    }

    fn field<R>(&mut self, name: &str, walk: impl FnOnce(&mut Self) -> R) -> R {
        self.inside(self.child(name), walk)
    }

    fn child(&self, name: &str) -> String {
        match self.0.last() {
            Some(parent) => format!("{parent}.{name}"),
            None => name.to_owned(),
        }
    }

    fn text(&self) -> &str {
        self.0.last().map_or("", String::as_str)
    }
}

fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties").and_then(Value::as_object)
}

/// The schema of the values of a map.
fn values(schema: &Value) -> Option<&Value> {
    schema.get("additionalProperties").filter(|s| s.is_object())
}

fn complete(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(known) = properties(schema) {
                fields.retain(|name, value| !(value.is_null() && known.contains_key(name)));
                for (name, schema) in known {
                    if let Some(default) = schema.get("default") {
                        fields
                            .entry(name.as_str())
                            .or_insert_with(|| default.clone());
                    }
                    if let Some(value) = fields.get_mut(name) {
                        complete(schema, value);
                    }
                }
            } else if let Some(schema) = values(schema) {
                for value in fields.values_mut() {
                    complete(schema, value);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for item in items {
                    complete(schema, item);
                }
            }
        }
        _ => {}
    }
}

fn check(schema: &Value, value: &Value, at: &mut Path, faults: &mut Vec<Fault>) {
    if let Some(legal) = wrong_type(schema, value) {
        faults.push(Fault::invalid(
            at.text(),
            value,
            format!("must be of type {legal}"),
        ));
        return;
    }
    check_scalar(schema, value, at, faults);
    match value {
        Value::Object(fields) => {
            let required = schema.get("required").and_then(Value::as_array);
            for name in required.into_iter().flatten().filter_map(Value::as_str) {
                if !fields.contains_key(name) {
                    let purpose = schema["properties"][name]["description"].as_str();
                    let purpose = purpose.unwrap_or("must be set").trim_end_matches('.');
                    faults.push(Fault::required(at.child(name), purpose));
                }
            }
            for (name, value) in fields {
                if let Some(schema) = properties(schema).and_then(|known| known.get(name)) {
                    at.field(name, |at| check(schema, value, at, faults));
                } else if let Some(schema) = values(schema) {
                    let step = entry_path(at.text(), name);
                    at.inside(step, |at| check(schema, value, at, faults));
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for (index, item) in items.iter().enumerate() {
                    let step = format!("{}[{index}]", at.text());
                    at.inside(step, |at| check(schema, item, at, faults));
                }
            }
        }
        _ => {}
    }
}

/// The legal type, where the value has another.
fn wrong_type<'s>(schema: &'s Value, value: &Value) -> Option<&'s str> {
    if schema.get("x-kubernetes-int-or-string").is_some() {
        let legal = value.is_string() || is_integer(value);
        return (!legal).then_some("integer or string");
    }
    let legal = schema.get("type")?.as_str()?;
    let fits = match legal {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => is_integer(value),
        "number" => value.is_number(),
        _ => true,
    };
    (!fits).then_some(legal)
}

fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.is_u64()
}

/// Enumerations, bounds of numbers and lengths of texts.
fn check_scalar(schema: &Value, value: &Value, at: &Path, faults: &mut Vec<Fault>) {
    if let Some(legal) = schema.get("enum").and_then(Value::as_array)
        && !legal.contains(value)
    {
        let legal: Vec<&str> = legal.iter().filter_map(Value::as_str).collect();
        let text = value.as_str().unwrap_or_default();
        faults.push(Fault::not_supported(at.text(), text, &legal));
    }
    let mut refuse = |why: String| faults.push(Fault::invalid(at.text(), value, why));
    if let Some(number) = value.as_i64() {
        if let Some(least) = schema.get("minimum").and_then(Value::as_i64)
            && number < least
        {
            refuse(format!("must be at least {least}"));
        }
        if let Some(most) = schema.get("maximum").and_then(Value::as_i64)
            && number > most
        {
            refuse(format!("must be at most {most}"));
        }
    } else if value.is_u64() && schema.get("maximum").is_some() {
        refuse("is far too large".to_owned());
    }
    if let Some(text) = value.as_str() {
        let length = text.chars().count() as u64;
        if let Some(least) = schema.get("minLength").and_then(Value::as_u64)
            && length < least
        {
            refuse(format!("must have at least {least} characters"));
        }
        if let Some(most) = schema.get("maxLength").and_then(Value::as_u64)
            && length > most
        {
            refuse(format!("must have at most {most} characters"));
        }
    }
}

fn find_unknown(schema: &Value, value: &Value, at: &mut Path, unknown: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            // What has neither properties nor a schema for its values is open, such as metadata.
            if let Some(known) = properties(schema) {
                for (name, value) in fields {
                    match known.get(name) {
                        Some(schema) => {
                            at.field(name, |at| find_unknown(schema, value, at, unknown));
                        }
                        None => unknown.push(at.child(name)),
                    }
                }
            } else if let Some(schema) = values(schema) {
                for (name, value) in fields {
                    let step = entry_path(at.text(), name);
                    at.inside(step, |at| find_unknown(schema, value, at, unknown));
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for (index, item) in items.iter().enumerate() {
                    let step = format!("{}[{index}]", at.text());
                    at.inside(step, |at| find_unknown(schema, item, at, unknown));
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy(spec: Value) -> Value {
        let mut object = json!({
            "apiVersion": "sriovnetwork.openshift.io/v1", "kind": "SriovNetworkNodePolicy",
            "metadata": {"name": "p", "labels": {"a": "b"}},
        });
        object["spec"] = spec;
        object
    }

    fn good() -> Value {
        json!({"resourceName": "r", "nodeSelector": {}, "numVfs": 4, "nicSelector": {"pfNames": ["ens1f0"]}})
    }

    fn faults(kind: Kind, object: &Value) -> Vec<String> {
        let faults = Schema::of(kind).faults(object);
        faults.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_kind_has_a_schema() {
        for kind in Kind::ALL {
            let schema = Schema::of(kind);
            assert!(
                properties(&schema.0).unwrap().contains_key("spec"),
                "{kind:?}"
            );
            assert_eq!(
                schema.faults(&json!({"metadata": {}, "status": 5})),
                [],
                "{kind:?}"
            );
        }
    }

    #[test]
    fn what_fits_has_no_fault() {
        assert_eq!(
            faults(Kind::NodePolicy, &policy(good())),
            Vec::<String>::new()
        );
    }

    #[test]
    fn every_fault_is_told_at_its_field() {
        let mut spec = good();
        spec["numVfs"] = json!("4");
        spec["priority"] = json!(100);
        spec["mtu"] = json!(0);
        spec["deviceType"] = json!("vfio");
        spec["nodeSelector"] = json!({"role": 1});
        spec["nicSelector"] = json!({"pfNames": ["a", 2], "rootDevices": "x"});
        spec.as_object_mut().unwrap().remove("resourceName");
        let told = faults(Kind::NodePolicy, &policy(spec));
        for expected in [
            r#"spec.numVfs: Invalid value: "4": must be of type integer"#,
            "spec.priority: Invalid value: 100: must be at most 99",
            "spec.mtu: Invalid value: 0: must be at least 1",
            r#"spec.deviceType: Unsupported value: "vfio": supported values: "netdevice", "vfio-pci""#,
            "spec.nodeSelector[role]: Invalid value: 1: must be of type string",
            "spec.nicSelector.pfNames[1]: Invalid value: 2: must be of type string",
            r#"spec.nicSelector.rootDevices: Invalid value: "x": must be of type array"#,
            "spec.resourceName: Required value: Name of the resource",
        ] {
            assert!(
                told.iter().any(|fault| fault.starts_with(expected)),
                "{expected} is not in {told:#?}"
            );
        }
        assert_eq!(told.len(), 8);
    }

    #[test]
    fn a_number_or_a_text_may_stand_where_both_may() {
        let pool = |value: Value| json!({"spec": {"maxUnavailable": value}});
        for legal in [json!(1), json!("50%")] {
            assert_eq!(faults(Kind::PoolConfig, &pool(legal)), Vec::<String>::new());
        }
        for bad in [json!(1.5), json!(true), json!([])] {
            assert_eq!(faults(Kind::PoolConfig, &pool(bad)).len(), 1);
        }
    }

    #[test]
    fn nulls_go_and_defaults_come() {
        let mut spec = good();
        spec["mtu"] = Value::Null;
        spec["deviceType"] = Value::Null;
        let mut object = policy(spec);
        Schema::of(Kind::NodePolicy).complete(&mut object);
        assert_eq!(object["spec"]["deviceType"], "netdevice");
        assert_eq!(object["spec"].get("mtu"), None);
    }

    #[test]
    fn fields_that_nobody_knows_are_named() {
        let mut spec = good();
        spec["nicSelector"]["pfName"] = json!(["ens1f0"]);
        spec["bridge"] = json!({"ovs": {"bridge": {"externalIDs": {"free": "key"}, "x": 1}}});
        let mut object = policy(spec);
        object["extra"] = json!({});
        let mut unknown = Schema::of(Kind::NodePolicy).unknown_fields(&object);
        unknown.sort();
        assert_eq!(
            unknown,
            [
                "extra",
                "spec.bridge.ovs.bridge.x",
                "spec.nicSelector.pfName"
            ]
        );
    }
}
