//! Decodes an `AdmissionReview` v1, borrowing from the body: objects stay the bytes that the API server sent, so that whoever
//! judges them decodes only what it uses, and a bad object never costs the uid.

use std::{borrow::Cow, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{self, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{
    refusal::{Refusal, shown},
    uid,
};
use crate::{
    brief::{LINE_BYTES, brief},
    scan::Scanner,
};

/// What the API server asks about: `AdmissionReview.request`, cut down to what is used.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request<'a> {
    /// Identifies the request and its answer. Never empty.
    #[serde(borrow, default, deserialize_with = "text")]
    pub uid: Cow<'a, str>,
    /// What the object is, as the webhook's rule names it.
    #[serde(borrow, default)]
    pub kind: GroupVersionKind<'a>,
    /// Where the object lives, as the webhook's rule names it.
    #[serde(borrow, default)]
    pub resource: GroupVersionResource<'a>,
    /// Such as `status`; empty for the object itself.
    #[serde(borrow, default, deserialize_with = "text")]
    pub sub_resource: Cow<'a, str>,
    /// Empty when the API server is still to generate it.
    #[serde(borrow, default, deserialize_with = "text")]
    pub name: Cow<'a, str>,
    /// The namespace of the request, which the object's own metadata may lack. Empty for cluster-wide kinds.
    #[serde(borrow, default, deserialize_with = "text")]
    pub namespace: Cow<'a, str>,
    /// What is done to the object.
    pub operation: Operation,
    /// Nothing is to be remembered about a request that is a dry run.
    #[serde(default, deserialize_with = "flag")]
    pub dry_run: bool,
    /// The object as it would be stored; `None` on DELETE.
    #[serde(borrow, default)]
    pub object: Option<Object<'a>>,
    /// The object as it is stored; `None` on CREATE.
    #[serde(borrow, default)]
    pub old_object: Option<Object<'a>>,
}

/// An object of a review, taken apart while the review is read: whoever judges it decodes what it uses, and nobody goes
/// over all of it again.
#[derive(Clone, Copy, Debug)]
pub enum Object<'a> {
    /// A JSON object. A part that is absent or null is `None`; there are no others that count.
    Parts {
        /// The text of `metadata`.
        metadata: Option<&'a str>,
        /// The text of `spec`.
        spec: Option<&'a str>,
    },
    /// Some other JSON value, which no API server sends.
    Odd,
}

impl<'a> Object<'a> {
    /// Puts the parts of the object at a place into `found`; leaves that alone where it is null.
    fn scan(scanner: &mut Scanner<'a>, found: &mut Option<Self>) -> Option<()> {
        if scanner.passes_null() {
            return Some(());
        }
        let (mut metadata, mut spec) = (None, None);
        scanner.members(|key, scanner| match key {
            "metadata" => once(&mut metadata, scanner.value()?),
            "spec" => once(&mut spec, scanner.value()?),
            _ => scanner.value().map(drop),
        })?;
        let parts = Self::Parts {
            metadata: given(metadata),
            spec: given(spec),
        };
        once(found, parts)
    }

    /// The object as JSON, as far as it counts.
    pub fn text(&self) -> String {
        match self {
            Self::Parts { metadata, spec } => {
                let (metadata, spec) = (metadata.unwrap_or("null"), spec.unwrap_or("null"));
                format!(r#"{{"metadata":{metadata},"spec":{spec}}}"#)
            }
            Self::Odd => "[]".to_owned(),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(field_identifier, rename_all = "lowercase")]
        enum Field {
            Metadata,
            Spec,
            #[serde(other)]
            Other,
        }

        struct Parts<'a>(PhantomData<&'a ()>);

        impl<'de: 'a, 'a> Visitor<'de> for Parts<'a> {
            type Value = Object<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let (mut metadata, mut spec) = (None, None);
                while let Some(field) = map.next_key()? {
                    let (slot, name) = match field {
                        Field::Metadata => (&mut metadata, "metadata"),
                        Field::Spec => (&mut spec, "spec"),
                        Field::Other => {
                            map.next_value::<IgnoredAny>()?;
                            continue;
                        }
                    };
                    if slot
                        .replace(map.next_value::<Option<&RawValue>>()?)
                        .is_some()
                    {
                        return Err(de::Error::duplicate_field(name));
                    }
                }
                Ok(Object::Parts {
                    metadata: metadata.flatten().map(RawValue::get),
                    spec: spec.flatten().map(RawValue::get),
                })
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                while items.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Object::Odd)
            }

            fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
                Ok(Object::Odd)
            }

            fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
                Ok(Object::Odd)
            }

            fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
                Ok(Object::Odd)
            }

            fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
                Ok(Object::Odd)
            }

            fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
                Ok(Object::Odd)
            }
        }

        deserializer.deserialize_any(Parts(PhantomData))
    }
}

/// `metav1.GroupVersionKind`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct GroupVersionKind<'a> {
    /// Empty for the core group.
    #[serde(borrow, default, deserialize_with = "text")]
    pub group: Cow<'a, str>,
    /// Such as `v1`.
    #[serde(borrow, default, deserialize_with = "text")]
    pub version: Cow<'a, str>,
    /// Such as `Pod`.
    #[serde(borrow, default, deserialize_with = "text")]
    pub kind: Cow<'a, str>,
}

/// `metav1.GroupVersionResource`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct GroupVersionResource<'a> {
    /// Empty for the core group.
    #[serde(borrow, default, deserialize_with = "text")]
    pub group: Cow<'a, str>,
    /// Such as `v1`.
    #[serde(borrow, default, deserialize_with = "text")]
    pub version: Cow<'a, str>,
    /// Such as `pods`.
    #[serde(borrow, default, deserialize_with = "text")]
    pub resource: Cow<'a, str>,
}

/// What is done to the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// A new object.
    Create,
    /// A stored object changes.
    Update,
    /// A stored object goes.
    Delete,
    /// A connection to a subresource, such as `exec`.
    Connect,
}

impl Operation {
    /// As the API server writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// Why there is no [`Request`].
#[derive(Debug)]
pub(super) enum Failure {
    /// It can still be answered as a review, since its uid is known.
    Answerable {
        /// The uid to answer with.
        uid: String,
        /// What is wrong, as a sentence.
        message: String,
    },
    /// It cannot.
    Refused(Refusal),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a> {
    #[serde(borrow, default, deserialize_with = "text")]
    api_version: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "text")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    request: Option<&'a RawValue>,
}

/// Decodes one review. Whatever `body` holds, it does not panic, and a uid that can be found is kept.
pub(super) fn decode(body: &[u8]) -> Result<Request<'_>, Failure> {
    let request = at_once(body).map_or_else(|| step_by_step(body), Ok)?;
    if request.uid.len() > uid::LONGEST {
        return Err(Failure::Refused(Refusal::LongUid(request.uid.len())));
    }
    Ok(request)
}

/// Decodes what every API server sends, in one pass over the body. Nothing where anything is odd.
fn at_once(body: &[u8]) -> Option<Request<'_>> {
    let mut scanner = Scanner::new(std::str::from_utf8(body).ok()?);
    let (mut version, mut kind, mut request) = (None, None, None);
    scanner.members(|key, scanner| match key {
        "apiVersion" => once(&mut version, scanner.value()?),
        "kind" => once(&mut kind, scanner.value()?),
        "request" => once(&mut request, scan_request(scanner)?),
        _ => scanner.value().map(drop),
    })?;
    let is_review = version == Some("\"admission.k8s.io/v1\"")
        && kind == Some("\"AdmissionReview\"")
        && scanner.is_at_end();
    request.filter(|request: &Request<'_>| is_review && !request.uid.is_empty())
}

fn scan_request<'a>(scanner: &mut Scanner<'a>) -> Option<Request<'a>> {
    let (mut uid, mut kind, mut resource, mut sub_resource) = (None, None, None, None);
    let (mut name, mut namespace, mut operation, mut dry_run) = (None, None, None, None);
    let (mut object, mut old_object) = (None, None);
    let (mut has_object, mut has_old_object) = (None, None);
    scanner.members(|key, scanner| match key {
        "uid" => once(&mut uid, scanner.value()?),
        "kind" => once(&mut kind, scanner.value()?),
        "resource" => once(&mut resource, scanner.value()?),
        "subResource" => once(&mut sub_resource, scanner.value()?),
        "name" => once(&mut name, scanner.value()?),
        "namespace" => once(&mut namespace, scanner.value()?),
        "operation" => once(&mut operation, scanner.value()?),
        "dryRun" => once(&mut dry_run, scanner.value()?),
        "object" => {
            once(&mut has_object, ())?;
            Object::scan(scanner, &mut object)
        }
        "oldObject" => {
            once(&mut has_old_object, ())?;
            Object::scan(scanner, &mut old_object)
        }
        _ => scanner.value().map(drop),
    })?;
    Some(Request {
        uid: scanned_text(uid)?,
        kind: scanned(kind)?,
        resource: scanned(resource)?,
        sub_resource: scanned_text(sub_resource)?,
        name: scanned_text(name)?,
        namespace: scanned_text(namespace)?,
        operation: serde_json::from_str(operation?).ok()?,
        dry_run: scanned(given(dry_run))?,
        object,
        old_object,
    })
}

/// What is given twice is odd.
fn once<T>(slot: &mut Option<T>, value: T) -> Option<()> {
    slot.replace(value).is_none().then_some(())
}

/// A value that is there; what is null counts as absent where the API server has it so.
fn given(value: Option<&str>) -> Option<&str> {
    value.filter(|text| *text != "null")
}

/// What is decoded of a value that may be absent.
fn scanned<'a, T: Deserialize<'a> + Default>(value: Option<&'a str>) -> Option<T> {
    match value {
        None => Some(T::default()),
        Some(value) => serde_json::from_str(value).ok(),
    }
}

fn scanned_text(value: Option<&str>) -> Option<Cow<'_, str>> {
    #[derive(Default, Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    scanned(given(value)).map(|Text(text)| text)
}

/// Decodes a review from outside to inside, to say what is wrong with it.
fn step_by_step(body: &[u8]) -> Result<Request<'_>, Failure> {
    let envelope: Envelope<'_> =
        serde_json::from_slice(body).map_err(|error| undecodable(body, "the review", &error))?;
    match (envelope.kind.as_ref(), envelope.api_version.as_ref()) {
        ("AdmissionReview", "admission.k8s.io/v1") => {}
        ("AdmissionReview", version) => {
            return Err(Failure::Refused(Refusal::Version(shown(version))));
        }
        (kind, _) => return Err(Failure::Refused(Refusal::Kind(shown(kind)))),
    }
    let raw = envelope
        .request
        .ok_or(Failure::Refused(Refusal::NoRequest))?;
    let request: Request<'_> = serde_json::from_str(raw.get())
        .map_err(|error| undecodable(body, "the review's request", &error))?;
    if request.uid.is_empty() {
        return Err(Failure::Refused(Refusal::NoUid));
    }
    Ok(request)
}

fn undecodable(body: &[u8], what: &str, error: &serde_json::Error) -> Failure {
    let message = format!(
        "{what} does not decode: {}",
        brief(&error.to_string(), LINE_BYTES)
    );
    match uid::find(body) {
        Some(uid) => Failure::Answerable { uid, message },
        None => Failure::Refused(Refusal::Undecodable(message)),
    }
}

/// A string that may be `null`, borrowed when it holds no escape.
fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Cow<'de, str>, D::Error> {
    struct Text;

    impl<'de> Visitor<'de> for Text {
        type Value = Cow<'de, str>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(Cow::Borrowed(""))
        }

        fn visit_none<E>(self) -> Result<Self::Value, E> {
            Ok(Cow::Borrowed(""))
        }

        fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<Self::Value, D::Error> {
            inner.deserialize_str(self)
        }

        fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Self::Value, E> {
            Ok(Cow::Borrowed(value))
        }

        fn visit_str<E: de::Error>(self, value: &str) -> Result<Self::Value, E> {
            Ok(Cow::Owned(value.to_owned()))
        }
    }

    deserializer.deserialize_option(Text)
}

/// A boolean that may be `null`.
fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn review(request: &serde_json::Value) -> String {
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
            .to_string()
    }

    #[test]
    fn a_whole_review_decodes_without_copies() {
        let body = review(&json!({
            "uid": "u-1",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
            "name": "p", "namespace": "ns", "operation": "UPDATE",
            "userInfo": {"username": "u"}, "dryRun": true,
            "object": {"spec": {"z": 1, "a": 2.0}}, "oldObject": {"spec": {}},
            "options": {"kind": "CreateOptions"},
        }));
        let request = decode(body.as_bytes()).unwrap();
        assert!(matches!(request.uid, Cow::Borrowed("u-1")));
        assert_eq!(request.kind.kind, "Pod");
        assert_eq!(request.resource.resource, "pods");
        assert_eq!((&*request.name, &*request.namespace), ("p", "ns"));
        assert_eq!(request.operation, Operation::Update);
        assert!(request.dry_run);
        let Some(Object::Parts {
            metadata: None,
            spec: Some(spec),
        }) = request.object
        else {
            panic!("{:?}", request.object);
        };
        assert!(
            body.as_bytes()
                .as_ptr_range()
                .contains(&spec.as_bytes().as_ptr()),
            "its parts are the body's own bytes"
        );
        let old = request.old_object.unwrap().text();
        assert_eq!(old, r#"{"metadata":null,"spec":{}}"#);
    }

    #[test]
    fn what_is_no_object_is_odd_and_costs_no_uid() {
        for object in ["5", "-5", "0.5", "true", "\"x\"", "[1, {}]"] {
            let body = format!(
                r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview",
                "request":{{"uid":"u-1","operation":"CREATE","object":{object}}}}}"#
            );
            let request = decode(body.as_bytes()).unwrap();
            assert!(matches!(request.object, Some(Object::Odd)), "{object}");
        }
    }

    #[test]
    fn null_and_absent_are_the_same() {
        let body = review(&json!({
            "uid": "u-1", "operation": "DELETE", "name": null, "namespace": null, "dryRun": null,
            "object": null, "oldObject": {},
        }));
        let request = decode(body.as_bytes()).unwrap();
        assert_eq!(request.name, "");
        assert!(!request.dry_run);
        assert!(request.object.is_none());
        assert!(request.old_object.is_some());
    }

    #[test]
    fn what_is_given_twice_is_refused_whatever_it_is() {
        for twice in [
            r#""object":{"metadata":{"name":"p"},"metadata":null}"#,
            r#""object":{"spec":{},"spec":null}"#,
            r#""object":{"spec":null,"spec":{}}"#,
            r#""object":{},"object":null"#,
            r#""object":null,"object":{}"#,
            r#""oldObject":{"spec":{},"\u0073pec":null}"#,
            r#""name":"a","name":null"#,
        ] {
            let body = format!(
                r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview",
                "request":{{"uid":"u-1","operation":"CREATE",{twice}}}}}"#
            );
            match decode(body.as_bytes()) {
                Err(Failure::Answerable { message, .. }) => {
                    assert!(message.contains("duplicate field"), "{message}");
                }
                other => panic!("{twice}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_kind_that_is_null_is_refused_at_once_and_step_by_step() {
        for odd in ["", r#","\u006eame":"p""#] {
            for field in ["kind", "resource"] {
                let body = format!(
                    r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview",
                    "request":{{"uid":"u-1","operation":"CREATE","{field}":null{odd}}}}}"#
                );
                let failure = decode(body.as_bytes()).unwrap_err();
                assert!(matches!(failure, Failure::Answerable { .. }), "{body}");
            }
        }
    }

    #[test]
    fn what_is_wrong_is_told_briefly_however_long_it_is() {
        let long = "n".repeat(100_000);
        let body = review(&json!({"uid": "u-1", "operation": long}));
        let Err(Failure::Answerable { message, .. }) = decode(body.as_bytes()) else {
            panic!("accepted");
        };
        assert!(
            message.contains("unknown variant `nnn") && message.len() < 400,
            "{message}"
        );
    }

    #[test]
    fn a_uid_is_answered_up_to_a_length() {
        for (length, is_answered) in [(uid::LONGEST, true), (uid::LONGEST + 1, false)] {
            for operation in ["CREATE", "PATCH"] {
                let body = review(&json!({"uid": "u".repeat(length), "operation": operation}));
                let refused = matches!(decode(body.as_bytes()), Err(Failure::Refused(_)));
                assert_eq!(refused, !is_answered, "{operation} {length}");
            }
        }
    }

    #[test]
    fn an_object_of_any_shape_costs_nothing_but_itself() {
        for object in [json!(7), json!("text"), json!([]), json!({"spec": 5})] {
            let body = review(&json!({"uid": "u-1", "operation": "CREATE", "object": object}));
            assert_eq!(decode(body.as_bytes()).unwrap().uid, "u-1");
        }
    }

    #[test]
    fn a_bad_request_keeps_its_uid() {
        for request in [
            json!({"uid": "u-1"}),
            json!({"uid": "u-1", "operation": "PATCH"}),
            json!({"uid": "u-1", "operation": 5}),
            json!({"uid": "u-1", "operation": "CREATE", "kind": "Pod"}),
            json!({"uid": "u-1", "operation": "CREATE", "name": {"a": 1}}),
            json!({"uid": "u-1", "operation": "CREATE", "dryRun": "yes"}),
        ] {
            let body = review(&request);
            match decode(body.as_bytes()) {
                Err(Failure::Answerable { uid, message }) => {
                    assert_eq!(uid, "u-1");
                    assert!(message.starts_with("the review's request does not decode"));
                }
                other => panic!("{request}: {other:?}"),
            }
        }
    }

    #[test]
    fn what_has_no_uid_or_is_no_review_is_refused() {
        let v1 = r#""apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview""#;
        for (body, expected) in [
            (String::new(), "does not decode"),
            ("7".to_owned(), "does not decode"),
            (format!("{{{v1}}}"), "has no request"),
            (format!(r#"{{{v1},"request":null}}"#), "has no request"),
            (format!(r#"{{{v1},"request":{{"operation":"CREATE"}}}}"#), "has no uid"),
            (format!(r#"{{{v1},"request":{{"uid":"","operation":"CREATE"}}}}"#), "has no uid"),
            (
                r#"{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{"uid":"u"}}"#.to_owned(),
                "v1beta1",
            ),
            (r#"{"apiVersion":"v1","kind":"Pod"}"#.to_owned(), "\"Pod\""),
        ] {
            match decode(body.as_bytes()) {
                Err(Failure::Refused(refusal)) => {
                    assert!(refusal.to_string().contains(expected), "{body}: {refusal}");
                }
                other => panic!("{body}: {other:?}"),
            }
        }
    }
}
