//! REST calls of one account, as JSON: what a person with kubectl does, with status code and warnings at hand.

use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use http::{Method, Request};
use http_body_util::BodyExt;
use kube::Client;
use serde_json::{Value, json};

use super::kinds::{Kind, text};

const JSON: &str = "application/json";
const DEADLINE: Duration = Duration::from_secs(60);

/// One account's access.
#[derive(Clone)]
pub(crate) struct User {
    client: Client,
}

/// What the API server answered.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    /// The HTTP status.
    pub(crate) code: u16,
    /// The object, or a `Status`.
    pub(crate) body: Value,
    /// The texts of the `Warning` headers.
    pub(crate) warnings: Vec<String>,
}

/// Who refused a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refuser {
    /// A webhook, by an answered review.
    Webhook,
    /// The API server's own checks.
    ApiServer,
    /// Nobody judged: a webhook could not be called, or something broke.
    Failure,
}

impl Answer {
    /// Whether the request was let through.
    pub(crate) fn allowed(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// Who refused, if anybody did.
    pub(crate) fn refuser(&self) -> Option<Refuser> {
        if self.allowed() {
            None
        } else if self.message().starts_with("admission webhook ")
            && self.message().contains(" denied the request")
        {
            Some(Refuser::Webhook)
        } else if self.code >= 500 || self.code == 429 {
            Some(Refuser::Failure)
        } else {
            Some(Refuser::ApiServer)
        }
    }

    /// The `Status`' message.
    pub(crate) fn message(&self) -> &str {
        text(&self.body, "/message")
    }

    /// The `Status`' causes as `field: message`.
    pub(crate) fn causes(&self) -> Vec<String> {
        let causes = self.body.pointer("/details/causes");
        causes
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .map(|cause| format!("{}: {}", text(cause, "/field"), text(cause, "/message")))
            .collect()
    }

    /// The object, or an error with the API server's words.
    pub(crate) fn object(self) -> Result<Value> {
        ensure!(
            self.allowed(),
            "{} {}: {}",
            self.code,
            text(&self.body, "/reason"),
            self.message()
        );
        Ok(self.body)
    }
}

impl User {
    /// Calls with the credentials of this client.
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// The client, for watches.
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// The API server's version.
    pub(crate) async fn version(&self) -> Result<String> {
        let answer = self.call(Method::GET, "/version", JSON, None).await?;
        Ok(text(&answer.object()?, "/gitVersion").to_owned())
    }

    /// One request; only a call that got no answer is an error.
    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Option<&Value>,
    ) -> Result<Answer> {
        let bytes = body
            .map(serde_json::to_vec)
            .transpose()?
            .unwrap_or_default();
        let request = Request::builder()
            .method(&method)
            .uri(path)
            .header("Content-Type", content_type)
            .body(kube::client::Body::from(bytes))?;
        let exchange = async {
            let (head, body) = self.client.send(request).await?.into_parts();
            let bytes = body.collect().await?.to_bytes();
            Ok::<_, kube::Error>((head, bytes))
        };
        let (head, bytes) = tokio::time::timeout(DEADLINE, exchange)
            .await
            .with_context(|| format!("{method} {path} was not answered"))?
            .with_context(|| format!("{method} {path} failed"))?;
        Ok(Answer {
            code: head.status.as_u16(),
            body: serde_json::from_slice(&bytes)
                .unwrap_or_else(|_| json!({"message": String::from_utf8_lossy(&bytes)})),
            warnings: head
                .headers
                .get_all("Warning")
                .iter()
                .filter_map(|value| warning_text(value.to_str().ok()?))
                .collect(),
        })
    }

    /// The object, if it is there; `name` may be `namespace/name`.
    pub(crate) async fn get(&self, kind: Kind, name: &str) -> Result<Option<Value>> {
        let answer = self
            .call(Method::GET, &path(kind, name), JSON, None)
            .await?;
        if answer.code == 404 {
            return Ok(None);
        }
        answer.object().map(Some)
    }

    /// The object, which must be there.
    pub(crate) async fn must_get(&self, kind: Kind, name: &str) -> Result<Value> {
        self.get(kind, name)
            .await?
            .ok_or_else(|| anyhow!("{} {name} is not there", kind.name))
    }

    /// All objects of a kind in the operator's namespace, or of the cluster.
    pub(crate) async fn list(&self, kind: Kind) -> Result<Vec<Value>> {
        let mut list = self
            .call(Method::GET, &kind.collection(None), JSON, None)
            .await?
            .object()?;
        match list["items"].take() {
            Value::Array(items) => Ok(items),
            _ => Ok(Vec::new()),
        }
    }

    /// Creates it.
    pub(crate) async fn create(&self, object: &Value) -> Result<Value> {
        self.post(object, "").await?.object().with_context(|| {
            format!(
                "failed to create {} {}",
                text(object, "/kind"),
                text(object, "/metadata/name")
            )
        })
    }

    /// Creates it unless it is there.
    pub(crate) async fn ensure(&self, object: &Value) -> Result<()> {
        let answer = self.post(object, "").await?;
        if answer.code == 409 {
            return Ok(());
        }
        answer.object().map(drop)
    }

    /// Replaces the stored object, which must not have changed since it was read.
    pub(crate) async fn replace(&self, object: &Value) -> Result<Value> {
        self.call(Method::PUT, &path_of(object)?, JSON, Some(object))
            .await?
            .object()
    }

    /// What creating it would be answered; nothing is stored.
    pub(crate) async fn ask_create(&self, object: &Value) -> Result<Answer> {
        self.post(object, "?dryRun=All").await
    }

    /// What replacing the stored object by this one would be answered; nothing is stored.
    pub(crate) async fn ask_update(&self, object: &Value) -> Result<Answer> {
        let path = path_of(object)?;
        let stored = self.call(Method::GET, &path, JSON, None).await?.object()?;
        let mut object = object.clone();
        object["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
        self.call(
            Method::PUT,
            &format!("{path}?dryRun=All"),
            JSON,
            Some(&object),
        )
        .await
    }

    /// What deleting it would be answered; nothing is deleted.
    pub(crate) async fn ask_delete(&self, object: &Value) -> Result<Answer> {
        let path = format!("{}?dryRun=All", path_of(object)?);
        self.call(Method::DELETE, &path, JSON, None).await
    }

    /// Applies it server-side, as `kubectl apply --server-side` does.
    pub(crate) async fn apply(&self, object: &Value) -> Result<Value> {
        let path = format!("{}?fieldManager=kubectl&force=true", path_of(object)?);
        self.call(
            Method::PATCH,
            &path,
            "application/apply-patch+yaml",
            Some(object),
        )
        .await?
        .object()
        .with_context(|| {
            format!(
                "failed to apply {} {}",
                text(object, "/kind"),
                text(object, "/metadata/name")
            )
        })
    }

    /// Merges a patch into the stored object.
    pub(crate) async fn merge(&self, kind: Kind, name: &str, patch: &Value) -> Result<Value> {
        self.merge_into(&path(kind, name), patch).await
    }

    /// Merges a patch into the stored object's status.
    pub(crate) async fn merge_status(
        &self,
        kind: Kind,
        name: &str,
        status: &Value,
    ) -> Result<Value> {
        let path = format!("{}/status", path(kind, name));
        self.merge_into(&path, &json!({ "status": status })).await
    }

    /// Deletes it; an absent one is fine.
    pub(crate) async fn delete(&self, kind: Kind, name: &str) -> Result<()> {
        let answer = self
            .call(Method::DELETE, &path(kind, name), JSON, None)
            .await?;
        if answer.code == 404 {
            return Ok(());
        }
        answer.object().map(drop)
    }

    async fn post(&self, object: &Value, query: &str) -> Result<Answer> {
        let namespace = object
            .pointer("/metadata/namespace")
            .and_then(Value::as_str);
        let path = format!("{}{query}", Kind::of(object)?.collection(namespace));
        self.call(Method::POST, &path, JSON, Some(object)).await
    }

    async fn merge_into(&self, location: &str, patch: &Value) -> Result<Value> {
        self.call(
            Method::PATCH,
            location,
            "application/merge-patch+json",
            Some(patch),
        )
        .await?
        .object()
        .with_context(|| format!("failed to patch {location}"))
    }
}

fn path(kind: Kind, name: &str) -> String {
    match name.split_once('/') {
        Some((namespace, name)) => format!("{}/{name}", kind.collection(Some(namespace))),
        None => format!("{}/{name}", kind.collection(None)),
    }
}

fn path_of(object: &Value) -> Result<String> {
    let namespace = object
        .pointer("/metadata/namespace")
        .and_then(Value::as_str);
    let collection = Kind::of(object)?.collection(namespace);
    Ok(format!("{collection}/{}", text(object, "/metadata/name")))
}

/// The quoted text of `299 - "text"`.
fn warning_text(header: &str) -> Option<String> {
    let quoted = header.split_once('"')?.1.strip_suffix('"')?;
    Some(quoted.replace("\\\"", "\"").replace("\\\\", "\\"))
}
