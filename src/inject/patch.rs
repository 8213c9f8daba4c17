//! The JSON patch (RFC 6902) that an injection amounts to, and the check that it fits its pod.
//!
//! A patch only ever adds: a member to a map, an element to the end of a list, or a map or list where there is none.
//! One that does not fit makes the API server refuse the pod even where a failed call would not, so none leaves
//! unchecked.

use std::collections::HashSet;

use serde::Serialize;
use serde_json::Value;

use super::{pod::PodReview, spec::Spec};

/// Bytes of most patches.
const USUAL: usize = 2048;

/// A patch under construction. Each operation is written when it is added: a tree of them would only be built to be
/// written.
#[derive(Debug, Default)]
pub(super) struct Patch {
    /// The operations, each with the comma or bracket before it. `add` is the only one there is.
    text: Vec<u8>,
    /// Where each adds something.
    paths: Vec<String>,
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
        self.paths.is_empty()
    }

    /// Adds `value` at a JSON pointer.
    pub(super) fn add(&mut self, path: String, value: &impl Serialize) {
        if let Err(error) = self.write(&path, value) {
            self.unwritten.get_or_insert(error);
        }
        self.paths.push(path);
    }

    fn write(&mut self, path: &str, value: &impl Serialize) -> Result<(), serde_json::Error> {
        if self.text.is_empty() {
            self.text.reserve(USUAL);
        }
        let text = &mut self.text;
        text.push(if text.is_empty() { b'[' } else { b',' });
        text.extend_from_slice(br#"{"op":"add","path":"#);
        serde_json::to_writer(&mut *text, path)?;
        text.extend_from_slice(br#","value":"#);
        serde_json::to_writer(&mut *text, value)?;
        text.push(b'}');
        Ok(())
    }

    /// Adds `value` to the map at `path` under `key`, whatever characters that has.
    pub(super) fn add_member(&mut self, path: &str, key: &str, value: &impl Serialize) {
        let mut pointer = String::with_capacity(path.len() + key.len() + 8);
        pointer.push_str(path);
        pointer.push('/');
        for character in key.chars() {
            match character {
                '~' => pointer.push_str("~0"),
                '/' => pointer.push_str("~1"),
                other => pointer.push(other),
            }
        }
        self.add(pointer, value);
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
        let mut text = self.text;
        text.push(b']');
        self.unwritten.map_or(Ok(text), Err)
    }

    /// Walks through the operations, over what the pod has and what earlier operations made.
    fn fits(&self, pod: &PodReview<'_>, spec: Option<&Spec<'_>>) -> Result<(), Misfit> {
        let mut made: HashSet<&str> = HashSet::new();
        for path in &self.paths {
            let names: Vec<&str> = path.split('/').skip(1).collect();
            let shape_at = |path: &str, names: &[&str]| {
                let shape = shape(names)?;
                (made.contains(path) || exists(pod, spec, names)).then_some(shape)
            };
            let ends = path.rsplit_once('/').zip(names.split_last());
            let fits =
                ends.is_some_and(
                    |((parent, last), (_, above))| match shape_at(parent, above) {
                        Some(Shape::Map) => true,
                        Some(Shape::List) => last == "-",
                        Some(Shape::Fields) => {
                            shape(&names).is_some() && shape_at(path, &names).is_none()
                        }
                        None => false,
                    },
                );
            if !fits {
                return Err(Misfit::Path(path.clone()));
            }
            made.insert(path);
        }
        Ok(())
    }
}

/// The shape of a part that a patch may add to or make, by the names on the way to it; nothing for all other parts of a
/// pod.
fn shape(names: &[&str]) -> Option<Shape> {
    match names {
        ["metadata" | "spec"] => Some(Shape::Fields),
        ["metadata", "annotations"] | ["spec", "nodeSelector"] => Some(Shape::Map),
        ["spec", "volumes"] => Some(Shape::List),
        ["spec", "containers" | "initContainers", _, field @ ..] => match field {
            [] | ["resources"] => Some(Shape::Fields),
            ["env" | "volumeMounts"] => Some(Shape::List),
            ["resources", "requests" | "limits"] => Some(Shape::Map),
            _ => None,
        },
        _ => None,
    }
}

/// Whether the pod has a part, of those that have a [`shape`].
fn exists(pod: &PodReview<'_>, spec: Option<&Spec<'_>>, names: &[&str]) -> bool {
    let metadata = pod.metadata.as_ref();
    match names {
        ["metadata"] => metadata.is_some(),
        ["metadata", ..] => metadata.is_some_and(|metadata| metadata.annotations.is_some()),
        ["spec"] => spec.is_some(),
        ["spec", "nodeSelector"] => spec.is_some_and(|spec| spec.node_selector.is_some()),
        ["spec", "volumes"] => spec.is_some_and(|spec| spec.volumes.is_some()),
        [_, list, index, field @ ..] => {
            let index = index.parse().ok();
            let container = spec
                .zip(index)
                .and_then(|(spec, index)| spec.container(list, index));
            container.is_some_and(|container| {
                let resources = container.resources.as_ref();
                match field {
                    [] => true,
                    ["env"] => container.env.is_some(),
                    ["volumeMounts"] => container.volume_mounts.is_some(),
                    ["resources"] => resources.is_some(),
                    [_, "requests"] => resources.is_some_and(|it| it.requests.is_some()),
                    _ => resources.is_some_and(|it| it.limits.is_some()),
                }
            })
        }
        _ => false,
    }
}

/// The same question, answered by a library and over the whole pod. Too slow for a served review. A pod that the library
/// cannot hold, such as one with a number or a depth beyond its limits where injection does not look, is no answer.
fn applies_to_whole(patch: &[u8], pod: &PodReview<'_>) -> bool {
    let Ok(mut whole) = serde_json::from_str::<Value>(&pod.text()) else {
        return true;
    };
    let patch = serde_json::from_slice::<json_patch::Patch>(patch);
    patch.is_ok_and(|patch| json_patch::patch(&mut whole, &patch).is_ok())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

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
    fn many_containers_are_checked_in_linear_time() {
        const CONTAINERS: usize = 40_000;
        let pod =
            to_raw_value(&json!({"spec": {"containers": vec![json!({}); CONTAINERS]}})).unwrap();
        let review = PodReview::new("default", &pod).unwrap();
        let spec = review.spec().unwrap();
        let mut patch = Patch::default();
        for index in 0..CONTAINERS {
            for list in ["env", "volumeMounts"] {
                let place = format!("/spec/containers/{index}/{list}");
                patch.push(place.clone(), false, &0);
                patch.push(place, true, &0);
            }
        }
        let began = Instant::now();
        patch.fits(&review, spec.as_ref()).unwrap();
        // A search through all that was added before, for each addition, takes minutes.
        assert!(began.elapsed() < Duration::from_secs(20));
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
