//! The one pass over a review that every API server sends. Nothing comes of it where anything is odd: then the review is
//! decoded step by step, which says what is wrong.

use std::borrow::Cow;

use serde::Deserialize;

use super::{Object, Request};
use crate::scan::{Scanner, once};

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
}

/// Decodes what every API server sends, in one pass over the body. Nothing where anything is odd.
pub(super) fn at_once(body: &[u8]) -> Option<Request<'_>> {
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
