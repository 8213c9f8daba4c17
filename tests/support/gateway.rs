//! The operator's way to the API server, in which trouble can be made: plain HTTP in front, the API server behind, the
//! operator's own token passed on. It counts what it was asked, and how.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::{Arc, Mutex};

use anyhow::Result;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::config::Kubeconfig;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::cluster::client;

type Body = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// It is passed on.
    None,
    /// 429, with `Retry-After` in seconds.
    TooManyRequests(u64),
    /// Watches are told that their version is too old; everything else is passed on.
    Gone,
    /// It is taken, and never answered.
    Silence,
    /// The next write, Events aside, is passed on and never answered; from then on there is silence.
    LastWrite,
    /// 500.
    Broken,
}

/// One request that came in.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// Path and query.
    pub(crate) uri: String,
    /// `GET`, `PATCH` and so on.
    pub(crate) method: String,
}

/// The gateway; it ends when dropped.
pub(crate) struct Gateway {
    address: SocketAddrV4,
    trouble: watch::Sender<Trouble>,
    asked: Arc<Mutex<Vec<Asked>>>,
    _tasks: JoinSet<()>,
}

#[derive(Clone)]
struct Handler {
    client: Client,
    maker: watch::Sender<Trouble>,
    trouble: watch::Receiver<Trouble>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Gateway {
    /// Listens at `ip` for the API server of that kubeconfig.
    pub(crate) async fn start(kubeconfig: &str, ip: Ipv4Addr) -> Result<Self> {
        let mut config = serde_json::to_value(Kubeconfig::from_yaml(kubeconfig)?)?;
        config["users"][0]["user"] = json!({});
        let client = client(&config.to_string()).await?;
        let address = SocketAddrV4::new(ip, 18_001);
        let listener = TcpListener::bind(address).await?;
        let (trouble, receiver) = watch::channel(Trouble::None);
        let asked = Arc::default();
        let handler = Handler {
            client,
            maker: trouble.clone(),
            trouble: receiver,
            asked: Arc::clone(&asked),
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, handler));
        Ok(Self {
            address,
            trouble,
            asked,
            _tasks: tasks,
        })
    }

    /// The `server` of a kubeconfig.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What becomes of requests from now on. Watches that are open are cut by anything but `None` and `Silence`;
    /// under silence they stay, and nothing comes.
    pub(crate) fn make(&self, trouble: Trouble) {
        self.trouble.send_replace(trouble);
    }

    /// Whether nothing is answered any more.
    pub(crate) fn is_silent(&self) -> bool {
        *self.trouble.borrow() == Trouble::Silence
    }

    /// Everything that was asked since the last time.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut *lock(&self.asked))
    }
}

async fn accept(listener: TcpListener, handler: Handler) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let handler = handler.clone();
        connections.spawn(async move {
            let service = service_fn(move |request| {
                let handler = handler.clone();
                async move { Ok::<_, Infallible>(handler.answer(request).await) }
            });
            // However it ends, the operator notices.
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
        while connections.try_join_next().is_some() {}
    }
}

impl Handler {
    async fn answer(self, request: Request<Incoming>) -> Response<Body> {
        lock(&self.asked).push(Asked {
            uri: request.uri().to_string(),
            method: request.method().to_string(),
        });
        let is_watch = request
            .uri()
            .query()
            .is_some_and(|query| query.contains("watch="));
        let is_write =
            request.method() != http::Method::GET && !request.uri().path().ends_with("/events");
        let trouble = *self.trouble.borrow();
        match trouble {
            Trouble::LastWrite if is_write => {
                let is_last = self.maker.send_if_modified(|now| {
                    let is_last = *now == Trouble::LastWrite;
                    *now = Trouble::Silence;
                    is_last
                });
                if is_last {
                    drop(self.clone().pass_on(request, false).await);
                }
                self.silence().await
            }
            Trouble::Silence => self.silence().await,
            Trouble::TooManyRequests(seconds) => status(
                StatusCode::TOO_MANY_REQUESTS,
                "TooManyRequests",
                Some(seconds),
            ),
            Trouble::Broken => status(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", None),
            Trouble::Gone if is_watch => status(StatusCode::GONE, "Expired", None),
            Trouble::Gone | Trouble::None | Trouble::LastWrite => {
                self.pass_on(request, is_watch).await
            }
        }
    }

    /// Until the trouble is over; then the connection breaks.
    async fn silence(mut self) -> Response<Body> {
        let _ = self.trouble.wait_for(|now| *now != Trouble::Silence).await;
        status(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", None)
    }

    async fn pass_on(self, request: Request<Incoming>, is_watch: bool) -> Response<Body> {
        let (mut head, body) = request.into_parts();
        head.headers.remove(header::HOST);
        let Ok(body) = body.collect().await else {
            return status(StatusCode::BAD_REQUEST, "BadRequest", None);
        };
        let body = kube::client::Body::from(body.to_bytes().to_vec());
        let Ok(answer) = self.client.send(Request::from_parts(head, body)).await else {
            return status(StatusCode::BAD_GATEWAY, "BadGateway", None);
        };
        let (head, body) = answer.into_parts();
        if !is_watch {
            let body = body
                .collect()
                .await
                .map(http_body_util::Collected::to_bytes);
            let body = Full::new(body.unwrap_or_default()).map_err(|never| match never {});
            return Response::from_parts(head, body.boxed_unsync());
        }
        Response::from_parts(head, watched(body, self.trouble).boxed_unsync())
    }
}

/// The events of a watch while there is no trouble.
fn watched(
    body: impl http_body::Body<Data = Bytes, Error = kube::Error> + Send + Unpin + 'static,
    trouble: watch::Receiver<Trouble>,
) -> impl http_body::Body<Data = Bytes, Error = Box<dyn std::error::Error + Send + Sync>> + Send {
    let frames = futures::stream::unfold((body, trouble), async |(mut body, mut trouble)| {
        let frame = loop {
            let now = *trouble.borrow_and_update();
            match now {
                Trouble::None | Trouble::LastWrite => {}
                Trouble::Silence => {
                    trouble.changed().await.ok()?;
                    continue;
                }
                // Cut: the stream ends as if the connection had.
                _ => return None,
            }
            tokio::select! {
                frame = body.frame() => break frame?,
                changed = trouble.changed() => changed.ok()?,
            }
        };
        Some((frame.map_err(Into::into), (body, trouble)))
    });
    http_body_util::StreamBody::new(frames)
}

fn status(code: StatusCode, reason: &str, retry_after: Option<u64>) -> Response<Body> {
    let body = json!({
        "apiVersion": "v1",
        "kind": "Status",
        "status": "Failure",
        "code": code.as_u16(),
        "reason": reason,
        "message": format!("made by the test: {reason}"),
    });
    let mut response = Response::new(
        Full::new(Bytes::from(body.to_string()))
            .map_err(|never| match never {})
            .boxed_unsync(),
    );
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("application/json"),
    );
    if let Some(seconds) = retry_after {
        headers.insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

/// How often the request was made that was made most often.
pub(crate) fn most_repeated(asked: &[Asked]) -> (usize, String) {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for Asked { method, uri } in asked {
        *counts.entry(format!("{method} {uri}")).or_default() += 1;
    }
    counts
        .into_iter()
        .map(|(request, count)| (count, request))
        .max()
        .unwrap_or_default()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
