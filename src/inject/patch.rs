//! The JSON patch (RFC 6902) that an injection amounts to, and the check that it fits its pod.
//!
//! A patch only ever adds: a member to a map, an element to the end of a list, or a map or list where there is none.
//! One that does not fit makes the API server refuse the pod even where a failed call would not, so none leaves
//! unchecked.

use serde::Serialize;
use serde_json::Value;

use super::pod::{PodReview, Spec};

/// An operation; `add` is the only one there is.
#[derive(Debug)]
struct Add {
    path: String,
    /// JSON.
    value: String,
}

/// A patch under construction. Values are written as JSON when they are added: a tree of them would only be built to be
/// written.
#[derive(Debug, Default)]
pub(super) struct Patch {
    operations: Vec<Add>,
    /// The first value that could not be written.
    unwritten: Option<serde_json::Error>,
}

/// A patch of ours that would not apply to the pod it was made for: a fault of this program.
#[derive(Debug, thiserror::Error)]
pub(super) enum Misfit {
    #[error("the patch does not fit the pod: nothing can be added at {0}")]
    Path(String),
    #[error("the patch cannot be written: {0}")]
    Text(#[from] serde_json::Error),
}

/// What can be added to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// An object with fields: one can be added where there is none.
    Fields,
    /// An object with free keys: one can be added or replaced.
    Map,
    /// A list: an element can be added at its end.
    List,
}

impl Patch {
    pub(super) fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Adds `value` at a JSON pointer.
    pub(super) fn add(&mut self, path: String, value: &impl Serialize) {
        match serde_json::to_string(value) {
            Ok(value) => self.operations.push(Add { path, value }),
            Err(error) => drop(self.unwritten.get_or_insert(error)),
        }
    }

    /// Adds `value` to the map at `path` under `key`, whatever characters that has.
    pub(super) fn add_member(&mut self, path: &str, key: &str, value: &impl Serialize) {
        let key = key.replace('~', "~0").replace('/', "~1");
        self.add(format!("{path}/{key}"), value);
    }

    /// Adds `value` to the end of the list at `path`, which is made where the pod has none.
    pub(super) fn push(&mut self, path: String, exists: bool, value: &impl Serialize) {
        if exists {
            self.add(path + "/-", value);
        } else {
            self.add(path, &[value]);
        }
    }

    /// The text of the patch, once it is sure to apply to `pod`.
    pub(super) fn fitted(
        self,
        pod: &PodReview<'_>,
        spec: Option<&Spec<'_>>,
    ) -> Result<Vec<u8>, Misfit> {
        self.fits(pod, spec)?;
        let text = self.text()?;
        debug_assert!(applies_to_whole(&text, pod), "a patch that fits applies");
        Ok(text)
    }

    fn text(self) -> Result<Vec<u8>, serde_json::Error> {
        if let Some(error) = self.unwritten {
            return Err(error);
        }
        let mut text = Vec::with_capacity(1024);
        for Add { path, value } in &self.operations {
            text.push(if text.is_empty() { b'[' } else { b',' });
            text.extend_from_slice(br#"{"op":"add","path":"#);
            serde_json::to_writer(&mut text, path)?;
            text.extend_from_slice(br#","value":"#);
            text.extend_from_slice(value.as_bytes());
            text.push(b'}');
        }
        text.push(b']');
        Ok(text)
    }

    /// Walks through the operations, over what the pod has and what earlier operations made.
    fn fits(&self, pod: &PodReview<'_>, spec: Option<&Spec<'_>>) -> Result<(), Misfit> {
        let mut made: Vec<&str> = Vec::new();
        for Add { path, .. } in &self.operations {
            let shape_at = |pointer: &str| {
                let shape = shape(pointer)?;
                (made.contains(&pointer) || exists(pod, spec, pointer)).then_some(shape)
            };
            let fits = path
                .rsplit_once('/')
                .is_some_and(|(parent, last)| match shape_at(parent) {
                    Some(Shape::Map) => true,
                    Some(Shape::List) => last == "-",
                    Some(Shape::Fields) => shape(path).is_some() && shape_at(path).is_none(),
                    None => false,
                });
            if !fits {
                return Err(Misfit::Path(path.clone()));
            }
            made.push(path);
        }
        Ok(())
    }
}

/// The shape of a part that a patch may add to or make; nothing for all other parts of a pod.
fn shape(pointer: &str) -> Option<Shape> {
    let mut names = pointer.split('/').skip(1);
    let mut next = || names.next().unwrap_or_default();
    let shape = match (next(), next(), next(), next(), next()) {
        ("metadata" | "spec", "", ..) => Shape::Fields,
        ("metadata", "annotations", "", ..) | ("spec", "nodeSelector", "", ..) => Shape::Map,
        ("spec", "volumes", "", ..) => Shape::List,
        ("spec", "containers" | "initContainers", index, field, member) if !index.is_empty() => {
            match (field, member) {
                ("" | "resources", "") => Shape::Fields,
                ("env" | "volumeMounts", "") => Shape::List,
                ("resources", "requests" | "limits") => Shape::Map,
                _ => return None,
            }
        }
        _ => return None,
    };
    names.next().is_none().then_some(shape)
}

/// Whether the pod has the part at `pointer`, of those that have a [`shape`].
fn exists(pod: &PodReview<'_>, spec: Option<&Spec<'_>>, pointer: &str) -> bool {
    let mut names = pointer.split('/').skip(1);
    let mut next = || names.next().unwrap_or_default();
    let metadata = pod.metadata.as_ref();
    match (next(), next(), next(), next(), next()) {
        ("metadata", "", ..) => metadata.is_some(),
        ("metadata", ..) => metadata.is_some_and(|metadata| metadata.annotations.is_some()),
        (_, "", ..) => spec.is_some(),
        (_, "nodeSelector", ..) => spec.is_some_and(|spec| spec.node_selector.is_some()),
        (_, "volumes", ..) => spec.is_some_and(|spec| spec.volumes.is_some()),
        (_, list, index, field, member) => {
            let index = index.parse().ok();
            let container = spec
                .zip(index)
                .and_then(|(spec, index)| spec.container(list, index));
            container.is_some_and(|container| match field {
                "" => true,
                "env" => container.env.is_some(),
                "volumeMounts" => container.volume_mounts.is_some(),
                _ => container
                    .resources
                    .as_ref()
                    .is_some_and(|resources| match member {
                        "" => true,
                        "requests" => resources.requests.is_some(),
                        _ => resources.limits.is_some(),
                    }),
            })
        }
    }
}

/// The same question, answered by a library and over the whole pod. Too slow for a served review.
fn applies_to_whole(patch: &[u8], pod: &PodReview<'_>) -> bool {
    let patch = serde_json::from_slice::<json_patch::Patch>(patch);
    let whole = serde_json::from_str::<Value>(&pod.text());
    match (patch, whole) {
        (Ok(patch), Ok(mut whole)) => json_patch::patch(&mut whole, &patch).is_ok(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{json, value::to_raw_value};

    use super::*;

    fn fits(operations: &[(&str, Value)]) -> bool {
        let pod = to_raw_value(&json!({
            "metadata": {"annotations": {"a": "b"}},
            "spec": {
                "volumes": null,
                "nodeSelector": {},
                "containers": [{"name": "c", "env": [], "resources": {"limits": {}}}, {"name": "d"}],
            },
        }))
        .unwrap();
        let review = PodReview::new("default", &pod).unwrap();
        let spec = review.spec().unwrap();
        let mut patch = Patch::default();
        for (path, value) in operations {
            patch.add((*path).to_owned(), value);
        }
        let fits = patch.fits(&review, spec.as_ref()).is_ok();
        let text = patch.text().unwrap();
        assert!(!fits || applies_to_whole(&text, &review), "{operations:?}");
        fits
    }

    #[test]
    fn what_fits() {
        for operations in [
            vec![
                ("/metadata/annotations/a", json!("c")),
                ("/metadata/annotations/x~1y", json!("c")),
            ],
            vec![("/spec/nodeSelector/a", json!("b"))],
            vec![("/spec/volumes", json!([])), ("/spec/volumes/-", json!({}))],
            vec![("/spec/containers/0/env/-", json!({}))],
            vec![
                ("/spec/containers/1/env", json!([])),
                ("/spec/containers/1/env/-", json!({})),
            ],
            vec![("/spec/containers/0/resources/limits/a", json!("1"))],
            vec![("/spec/containers/0/resources/requests", json!({"a": "1"}))],
            vec![("/spec/containers/1/resources", json!({"requests": {}}))],
        ] {
            assert!(fits(&operations), "{operations:?}");
        }
    }

    #[test]
    fn what_does_not_fit() {
        for (path, value) in [
            ("", json!({})),
            ("/spec", json!({})),
            ("/spec/containers", json!([])),
            ("/spec/containers/0", json!({})),
            ("/spec/containers/0/name", json!("x")),
            ("/spec/containers/0/env", json!([])),
            ("/spec/containers/0/env/0", json!({})),
            ("/spec/containers/0/resources", json!({})),
            ("/spec/containers/0/resources/requests/a", json!("1")),
            ("/spec/containers/1/resources/requests", json!({})),
            ("/spec/containers/1/env/-", json!({})),
            ("/spec/containers/2/env", json!([])),
            ("/spec/containers/-/env", json!([])),
            ("/spec/initContainers/0/env", json!([])),
            ("/spec/volumes/-", json!({})),
            ("/spec/nodeSelector", json!({})),
            ("/spec/nodeSelector/a/b", json!("c")),
            ("/metadata/annotations", json!({})),
            ("/metadata/labels", json!({})),
            ("/status", json!({})),
        ] {
            assert!(!fits(&[(path, value)]), "{path}");
        }
    }

    #[test]
    fn keys_are_escaped() {
        let mut patch = Patch::default();
        patch.add_member("/a", "x~y/z", &1);
        patch.push("/b".to_owned(), false, &1);
        patch.push("/b".to_owned(), true, &2);
        let text = String::from_utf8(patch.text().unwrap()).unwrap();
        assert_eq!(
            text,
            r#"[{"op":"add","path":"/a/x~0y~1z","value":1},{"op":"add","path":"/b","value":[1]},{"op":"add","path":"/b/-","value":2}]"#
        );
    }
}
