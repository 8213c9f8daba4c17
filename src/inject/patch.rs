//! The JSON patch (RFC 6902) that an injection amounts to.
//!
//! A patch sets members of maps, adds elements to the end of lists, and makes a map or list where there is none. One that
//! does not apply makes the API server refuse the pod even where a failed call would not. So parts are named by
//! [`Part`], not by paths that somebody puts together, and in debug builds each patch is applied before it leaves.

use serde::Serialize;
use serde_json::Value;

use super::{pod::PodReview, spec::Place};

/// Bytes of most patches.
const USUAL: usize = 2048;

/// A part of a pod that can be added to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part {
    Annotations,
    NodeSelector,
    Volumes,
    Env(Place),
    VolumeMounts(Place),
    Resources(Place),
    Limits(Place),
    Requests(Place),
}

impl Part {
    /// Writes its JSON pointer.
    fn point(self, pointer: &mut String) {
        let (Place { list, index }, field) = match self {
            Self::Annotations => return pointer.push_str("/metadata/annotations"),
            Self::NodeSelector => return pointer.push_str("/spec/nodeSelector"),
            Self::Volumes => return pointer.push_str("/spec/volumes"),
            Self::Env(place) => (place, "env"),
            Self::VolumeMounts(place) => (place, "volumeMounts"),
            Self::Resources(place) => (place, "resources"),
            Self::Limits(place) => (place, "resources/limits"),
            Self::Requests(place) => (place, "resources/requests"),
        };
        for part in ["/spec/", list, "/", &index.to_string(), "/", field] {
            pointer.push_str(part);
        }
    }
}

/// A patch under construction. Each operation is written when it is added: a tree of them would only be built to be
/// written.
#[derive(Debug, Default)]
pub(super) struct Patch {
    /// The operations, each with the comma or bracket before it. `add` is the only one there is.
    text: Vec<u8>,
    /// Where the operation at hand adds something.
    pointer: String,
    /// The first value that could not be written.
    unwritten: Option<serde_json::Error>,
}

impl Patch {
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Makes a part that the pod lacks.
    pub(super) fn make(&mut self, part: Part, value: &impl Serialize) {
        self.at(part);
        self.add(value);
    }

    /// Adds `value` to a map under `key`, whatever characters that has.
    pub(super) fn add_member(&mut self, map: Part, key: &str, value: &impl Serialize) {
        self.at(map);
        self.pointer.push('/');
        let mut rest = key;
        while let Some(at) = rest.bytes().position(|byte| byte == b'~' || byte == b'/') {
            let (plain, escaped) = rest.split_at(at);
            self.pointer.push_str(plain);
            self.pointer
                .push_str(if escaped.starts_with('~') { "~0" } else { "~1" });
            rest = &escaped[1..];
        }
        self.pointer.push_str(rest);
        self.add(value);
    }

    /// Adds `value` to the end of a list, which is made where the pod has none. That once: what is made counts as lacking
    /// still.
    pub(super) fn push(&mut self, list: Part, exists: bool, value: &impl Serialize) {
        self.at(list);
        if exists {
            self.pointer.push_str("/-");
            self.add(value);
        } else {
            self.add(&[value]);
        }
    }

    fn at(&mut self, part: Part) {
        self.pointer.clear();
        part.point(&mut self.pointer);
    }

    fn add(&mut self, value: &impl Serialize) {
        if let Err(error) = self.write(value) {
            self.unwritten.get_or_insert(error);
        }
    }

    fn write(&mut self, value: &impl Serialize) -> Result<(), serde_json::Error> {
        if self.text.is_empty() {
            self.text.reserve(USUAL);
        }
        let text = &mut self.text;
        text.push(if text.is_empty() { b'[' } else { b',' });
        text.extend_from_slice(br#"{"op":"add","path":"#);
        serde_json::to_writer(&mut *text, &self.pointer)?;
        text.extend_from_slice(br#","value":"#);
        serde_json::to_writer(&mut *text, value)?;
        text.push(b'}');
        Ok(())
    }

    /// The text of the patch, which is for `pod`.
    pub(super) fn text(self, pod: &PodReview<'_>) -> Result<Vec<u8>, serde_json::Error> {
        if let Some(error) = self.unwritten {
            return Err(error);
        }
        let mut text = self.text;
        text.push(b']');
        debug_assert!(applies(&text, pod), "a patch applies to its pod");
        Ok(text)
    }
}

/// Whether a patch applies, by a library and over the whole pod. Too slow for a served review. A pod that the library cannot
/// hold, such as one with a number or a depth beyond its limits where injection does not look, is no answer.
fn applies(patch: &[u8], pod: &PodReview<'_>) -> bool {
    let Ok(mut whole) = serde_json::from_str::<Value>(&pod.text()) else {
        return true;
    };
    let patch = serde_json::from_slice::<json_patch::Patch>(patch);
    patch.is_ok_and(|patch| json_patch::patch(&mut whole, &patch).is_ok())
}

#[cfg(test)]
mod tests {
    use serde_json::{json, value::to_raw_value};

    use super::*;

    fn text(pod: &Value, build: impl FnOnce(&mut Patch, Place)) -> String {
        let pod = to_raw_value(pod).unwrap();
        let review = PodReview::new("default", &pod).unwrap();
        let spec = review.spec().unwrap().unwrap();
        let (place, _) = spec.first_container().unwrap();
        let mut patch = Patch::default();
        build(&mut patch, place);
        String::from_utf8(patch.text(&review).unwrap()).unwrap()
    }

    fn pod() -> Value {
        json!({ "metadata": { "annotations": {} }, "spec": { "containers": [{}] } })
    }

    #[test]
    fn keys_are_escaped() {
        let text = text(&pod(), |patch, _| {
            patch.add_member(Part::Annotations, "x~y/\"z", &1);
        });
        assert_eq!(
            text,
            r#"[{"op":"add","path":"/metadata/annotations/x~0y~1\"z","value":1}]"#
        );
    }

    #[test]
    fn lists_are_made_or_grow_at_their_end() {
        let text = text(&pod(), |patch, place| {
            patch.push(Part::Volumes, false, &1);
            patch.push(Part::Volumes, true, &2);
            patch.push(Part::Env(place), false, &3);
        });
        assert_eq!(
            text,
            r#"[{"op":"add","path":"/spec/volumes","value":[1]},{"op":"add","path":"/spec/volumes/-","value":2},{"op":"add","path":"/spec/containers/0/env","value":[3]}]"#
        );
    }

    #[test]
    #[should_panic(expected = "a patch applies to its pod")]
    fn what_does_not_apply_does_not_leave_a_debug_build() {
        text(&pod(), |patch, _| {
            patch.add_member(Part::NodeSelector, "a", &"b");
        });
    }
}
