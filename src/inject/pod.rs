//! The pod of a review, decoded only where injection looks, borrowed from the review's text.
//!
//! Reading happens in two steps: metadata at once, since it decides whether there is anything to do, and the spec only
//! when there is. Nothing here changes a pod, and nothing is ever written back from these types: they drop what they
//! do not know.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    borrowed::{Entries, Fields, Raw, Text},
    label::LONGEST_LABEL,
    message::{json_fault, quote},
    spec::Spec,
};
use crate::scan::{Scanner, once};

/// The pod of a review cannot be read. The API server has decoded it before, so only other callers meet this.
#[derive(Debug, thiserror::Error)]
#[error("the pod cannot be read: {0}")]
pub struct Unreadable(pub(super) String);

impl From<serde_json::Error> for Unreadable {
    fn from(error: serde_json::Error) -> Self {
        Self(json_fault(&error))
    }
}

/// A pod to inject into, with the namespace it is created in.
#[derive(Debug)]
pub struct PodReview<'a> {
    pub(super) namespace: Cow<'a, str>,
    pub(super) metadata: Option<Metadata<'a>>,
    metadata_text: Option<&'a str>,
    spec_text: Option<&'a str>,
}

impl<'a> PodReview<'a> {
    /// The pod of this JSON text.
    pub fn new(namespace: &'a str, object: &'a RawValue) -> Result<Self, Unreadable> {
        #[derive(Deserialize)]
        struct Parts<'a> {
            #[serde(borrow)]
            metadata: Option<&'a RawValue>,
            #[serde(borrow)]
            spec: Option<&'a RawValue>,
        }
        let Fields(Parts { metadata, spec }) = serde_json::from_str(object.get())?;
        Self::of(
            namespace,
            metadata.map(RawValue::get),
            spec.map(RawValue::get),
        )
    }

    /// The pod of these parts, JSON texts; reads the metadata. `namespace` is the request's, since the pods of a controller carry
    /// none of their own; where it is empty (no API server sends that) the pod's own counts, then `default`.
    pub fn of(
        namespace: &'a str,
        metadata_text: Option<&'a str>,
        spec_text: Option<&'a str>,
    ) -> Result<Self, Unreadable> {
        let metadata = metadata_text.map(Metadata::read).transpose()?;
        let own = || metadata.as_ref()?.namespace.as_ref();
        let namespace = match (namespace, own()) {
            ("", Some(own)) if !own.is_empty() => own.0.clone(),
            ("", _) => Cow::Borrowed("default"),
            (namespace, _) => Cow::Borrowed(namespace),
        };
        // It becomes part of every name that is looked up, and of what is said about it.
        if namespace.len() > LONGEST_LABEL {
            return Err(Unreadable(format!(
                "its namespace {} has {} bytes, and none has more than {LONGEST_LABEL}",
                quote(&namespace),
                namespace.len()
            )));
        }
        Ok(Self {
            namespace,
            metadata,
            metadata_text,
            spec_text,
        })
    }

    /// The parts of the pod as one JSON text.
    pub(super) fn text(&self) -> String {
        let parts = [("metadata", self.metadata_text), ("spec", self.spec_text)];
        let parts: Vec<String> = parts
            .iter()
            .filter_map(|(name, part)| Some(format!(r#""{name}":{}"#, (*part)?)))
            .collect();
        format!("{{{}}}", parts.join(","))
    }

    /// The value of the pod's own annotation.
    pub(super) fn annotation(&self, key: &str) -> Result<Option<Cow<'a, str>>, Unreadable> {
        let annotations = self
            .metadata
            .as_ref()
            .and_then(|metadata| metadata.annotations.as_ref());
        let Some(raw) = annotations.and_then(|annotations| annotations.get(key)) else {
            return Ok(None);
        };
        let Text(text) = serde_json::from_str(raw.0)?;
        Ok(Some(text))
    }

    /// The pod's labels.
    pub(super) fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let labels = self
            .metadata
            .as_ref()
            .and_then(|metadata| metadata.labels.as_ref());
        let pairs = labels.into_iter().flat_map(Entries::iter);
        pairs.map(|(key, value)| (key, &**value))
    }

    /// Whether the pod has annotations of its own.
    pub(super) fn is_annotated(&self) -> bool {
        let annotations = self
            .metadata
            .as_ref()
            .and_then(|metadata| metadata.annotations.as_ref());
        annotations.is_some_and(|annotations| annotations.iter().next().is_some())
    }

    /// The parts of the spec that injection looks at.
    pub(super) fn spec(&self) -> Result<Option<Spec<'a>>, Unreadable> {
        self.spec_text.map(Spec::read).transpose()
    }
}

/// `metadata`. Annotation values stay undecoded: most are long, and none of ours.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Metadata<'a> {
    #[serde(borrow)]
    namespace: Option<Text<'a>>,
    #[serde(borrow)]
    labels: Option<Entries<'a, Text<'a>>>,
    #[serde(borrow)]
    pub(super) annotations: Option<Entries<'a, Raw<'a>>>,
}

impl<'a> Metadata<'a> {
    fn read(text: &'a str) -> Result<Self, Unreadable> {
        if let Some(metadata) = Self::scan(text) {
            return Ok(metadata);
        }
        // Whatever is odd about it, the decoder knows what to make of it, or says so.
        let Fields(metadata) = serde_json::from_str(text)?;
        Ok(metadata)
    }

    /// What every API server sends.
    fn scan(text: &'a str) -> Option<Self> {
        let mut metadata = Self::default();
        Scanner::new(text).members(|key, scanner| match key {
            "namespace" => once(
                &mut metadata.namespace,
                serde_json::from_str(scanner.value()?).ok()?,
            ),
            "labels" => once(
                &mut metadata.labels,
                serde_json::from_str(scanner.value()?).ok()?,
            ),
            "annotations" => once(&mut metadata.annotations, Entries::scan(scanner)?),
            _ => scanner.value().map(drop),
        })?;
        Some(metadata)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec_fault(spec: &str) -> String {
        let pod = PodReview::of("ns", None, Some(spec)).unwrap();
        pod.spec().unwrap_err().to_string()
    }

    #[test]
    fn a_field_that_is_given_twice_is_refused() {
        for field in ["nodeSelector", "volumes", "containers", "initContainers"] {
            let fault = spec_fault(&format!(r#"{{"{field}":null,"{field}":null}}"#));
            assert_eq!(
                fault,
                format!("the pod cannot be read: {field} is given twice")
            );
        }
        for (field, value) in [
            ("name", r#""c""#),
            ("restartPolicy", "null"),
            ("env", "null"),
            ("resources", "null"),
            ("volumeMounts", "null"),
            ("volumeDevices", "null"),
        ] {
            let twice = format!(r#""{field}":{value},"{field}":{value}"#);
            let fault = spec_fault(&format!(r#"{{"containers":[{{{twice}}}]}}"#));
            assert_eq!(
                fault,
                format!("the pod cannot be read: {field} is given twice")
            );
        }
    }

    #[test]
    fn what_is_wrong_with_a_spec_is_told_as_it_is() {
        for (spec, fault) in [
            ("[]", "spec is not an object"),
            (r#"{"containers":{}}"#, "spec.containers is not a list"),
            (r#"{"containers":[5]}"#, "a container is not an object"),
            (
                r#"{"\u0063ontainers":[]}"#,
                "spec has a field whose name is written with escapes",
            ),
            (
                r#"{"containers":[{"\u006eame":"c"}]}"#,
                "a container has a field whose name is written with escapes",
            ),
            (
                r#"{"containers":[],}"#,
                "spec is not JSON: key must be a string at line 1 column 18",
            ),
            (r#"{"containers":[{},]}"#, "a container is not JSON"),
        ] {
            let told = spec_fault(spec);
            assert_eq!(told, format!("the pod cannot be read: {fault}"), "{spec}");
        }
    }

    #[test]
    fn a_namespace_that_cannot_be_one_is_refused_briefly() {
        let long = "n".repeat(100_000);
        let metadata = format!(r#"{{"namespace":"{long}"}}"#);
        for (namespace, metadata) in [(long.as_str(), None), ("", Some(metadata.as_str()))] {
            let fault = PodReview::of(namespace, metadata, None).unwrap_err();
            let fault = fault.to_string();
            assert!(fault.contains("has 100000 bytes"), "{fault}");
            assert!(fault.len() < 256, "{fault}");
        }
        assert!(PodReview::of(&long[..LONGEST_LABEL], None, None).is_ok());
    }
}
