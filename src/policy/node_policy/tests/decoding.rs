//! What of a policy is not there or does not decode.

use serde_json::{Value, json};

use super::{ask, judged};
use crate::policy::{
    Kind,
    tests::support::{Asked, assert_refused, rules, world},
};

#[test]
fn a_policy_without_spec_lacks_everything() {
    let mut asked = ask(json!({}));
    for absent in [None, Some(Value::Null), Some(json!({}))] {
        match absent {
            None => drop(asked.object.as_object_mut().unwrap().remove("spec")),
            Some(spec) => asked.object["spec"] = spec,
        }
        let verdict = asked.verdict(&world(), &rules());
        let fields: Vec<&str> = verdict
            .faults()
            .iter()
            .map(crate::policy::Fault::field)
            .collect();
        assert_eq!(
            fields,
            [
                "spec.resourceName",
                "spec.nodeSelector",
                "spec.numVfs",
                "spec.nicSelector"
            ]
        );
    }
}

#[test]
fn what_does_not_decode_is_a_fault_with_a_path() {
    for (change, says) in [
        (
            json!({"numVfs": "4"}),
            "spec.numVfs: Invalid value: \"4\": invalid type: string",
        ),
        (
            json!({"nicSelector": {"pfNames": ["a", 5]}}),
            "spec.nicSelector.pfNames[1]: Invalid value: 5",
        ),
        (
            json!({"nicSelector": "text"}),
            "spec.nicSelector: Invalid value",
        ),
    ] {
        assert_refused(&judged(change), &[says]);
    }
    let text = Asked::create(Kind::NodePolicy, "new", json!("text"));
    assert_refused(
        &text.verdict(&world(), &rules()),
        &["spec: Invalid value: \"text\""],
    );
}

#[test]
fn what_does_not_decode_is_told_briefly_however_long_it_is() {
    let verdict = judged(json!({"numVfs": "4".repeat(100_000)}));
    assert_refused(&verdict, &["invalid type: string"]);
    assert!(verdict.status_message().len() < 1000);
}
