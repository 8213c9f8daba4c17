//! A collection at the API server, and the two calls that read it: a list in pages and a watch. Each call is bounded.

use std::future::Future;
use std::time::Duration;

use kube::api::{ListParams, WatchParams};
use kube::core::Request;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::object::{Object, Page};
use crate::watching::{CustomKind, is_unknown_kind};

/// Objects a page of a list: a megabyte of nodes. Several stores are filled at the same time.
const PAGE_SIZE: u32 = 100;
/// What one page may take.
const PAGE_WITHIN: Duration = Duration::from_secs(30);

/// Which collection is mirrored.
#[derive(Debug, Clone)]
pub struct Source {
    /// What it is called in logs and metrics: the plural of the kind, or the object's name.
    pub(super) what: &'static str,
    /// The collection's path at the API server.
    pub(super) path: String,
    /// Only the objects that this field selector selects.
    fields: Option<String>,
    /// Metadata is enough.
    metadata_only: bool,
}

impl Source {
    /// The collection at `path`, called `what` in logs.
    pub fn all(what: &'static str, path: String) -> Self {
        Self {
            what,
            path,
            fields: None,
            metadata_only: false,
        }
    }

    /// Only the objects whose `field` is `value`.
    #[must_use]
    pub fn with(mut self, field: &str, value: &str) -> Self {
        self.fields = Some(format!("{field}={value}"));
        self
    }

    /// Only the object of that name.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        self.with("metadata.name", name)
    }

    /// Only the metadata of the objects.
    #[must_use]
    pub fn of_metadata(mut self) -> Self {
        self.metadata_only = true;
        self
    }

    /// The request for one watch from `version` on, which the server is to end after `seconds`.
    pub(super) fn watch(
        &self,
        version: &str,
        seconds: u32,
    ) -> Result<http::Request<Vec<u8>>, Interruption> {
        let params = WatchParams {
            field_selector: self.fields.clone(),
            timeout: Some(seconds),
            bookmarks: true,
            ..WatchParams::default()
        };
        let request = Request::new(&self.path);
        Ok(if self.metadata_only {
            request.watch_metadata(&params, version)?
        } else {
            request.watch(&params, version)?
        })
    }

    /// Lists the collection page by page. Returns its version.
    pub(super) async fn list<B: DeserializeOwned>(
        &self,
        client: &kube::Client,
        mut take: impl FnMut(Vec<Object<B>>),
    ) -> Result<String, Interruption> {
        let mut params = ListParams {
            limit: Some(PAGE_SIZE),
            field_selector: self.fields.clone(),
            ..ListParams::default()
        };
        loop {
            let request = Request::new(&self.path);
            let request = if self.metadata_only {
                request.list_metadata(&params)?
            } else {
                request.list(&params)?
            };
            let page: Page<B> = within(PAGE_WITHIN, client.request(request)).await?;
            take(page.items.unwrap_or_default());
            params.continue_token = page.metadata.next.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                return Some(page.metadata.resource_version)
                    .filter(|version| !version.is_empty())
                    .ok_or(Interruption::NoVersion);
            }
        }
    }

    /// The kind that its objects are of, where that is a custom one.
    pub(super) fn kind(&self, client: &kube::Client) -> CustomKind {
        let below_groups = self.path.strip_prefix("/apis/").unwrap_or_default();
        let group = below_groups.split('/').next().unwrap_or_default();
        let plural = self.path.rsplit('/').next().unwrap_or_default();
        CustomKind::new(client.clone(), group, plural)
    }
}

/// Why a collection cannot be read at the moment.
#[derive(Debug, thiserror::Error)]
pub(super) enum Interruption {
    #[error(transparent)]
    Call(#[from] kube::Error),
    #[error("failed to build the request: {0}")]
    Request(#[from] kube::core::request::Error),
    #[error("no answer within {0:?}")]
    Silent(Duration),
    #[error("the watch ended with: {0}")]
    Status(Box<kube::core::Status>),
    #[error("the answer carries no resourceVersion")]
    NoVersion,
}

impl Interruption {
    fn status(&self) -> Option<&kube::core::Status> {
        match self {
            Self::Call(kube::Error::Api(status)) | Self::Status(status) => Some(status),
            _ => None,
        }
    }

    pub(super) fn is_gone(&self) -> bool {
        self.status().is_some_and(|status| status.code == 410)
    }

    pub(super) fn is_unknown_kind(&self) -> bool {
        self.status().is_some_and(is_unknown_kind)
    }
}

/// A call with a time limit.
pub(super) async fn within<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Interruption> {
    Ok(timeout(limit, call)
        .await
        .map_err(|_| Interruption::Silent(limit))??)
}
