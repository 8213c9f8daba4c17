//! Decodes an `AdmissionReview` v1, borrowing from the body: objects stay the bytes that the API server sent, so that whoever
//! judges them decodes only what it uses, and a bad object never costs the uid.

mod at_once;

use std::{borrow::Cow, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{self, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use self::at_once::at_once;
use super::{
    refusal::{Refusal, shown},
    uid,
};
use crate::brief::{LINE_BYTES, brief};

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

impl Object<'_> {
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
mod tests;
