//! One connection: HTTP/1.1 over a stream, with a limit on how long it may stay in each phase of its life.
//!
//! hyper has one timer for a head that is slow to arrive and for a connection that idles between requests. These differ by
//! far here: a head comes at once or is an attack, while an idle connection belongs to the API server and is closed by it,
//! for a call that crosses our closing is lost. So the phases are followed here, from what passes through the stream.
//!
//! ```text
//! Idle -first byte-> Head -head complete-> Handling -answer made-> Answering -flushed-> Idle
//! ```

use std::{
    convert::Infallible,
    io,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{Router, body::Body};
use http::{HeaderValue, header::CONNECTION};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::places::Place;

/// The stages of a shutdown, each of which implies those before.
#[derive(Clone, Debug)]
pub(super) struct Stages {
    /// Every answer says that the connection ends with it.
    pub(super) closing: CancellationToken,
    /// Connections that idle are closed.
    pub(super) draining: CancellationToken,
    /// Whatever is still there is dropped.
    pub(super) over: CancellationToken,
}

/// How long a connection may stay in a phase.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Between requests.
    pub(super) idle: Duration,
    /// From the first byte of a request to the end of its head; also from an answer to its last byte's departure.
    pub(super) head: Duration,
    /// From the head of a request to its answer.
    pub(super) request: Duration,
    /// Between requests once the server is draining: whoever has just connected sends its request at once.
    pub(super) linger: Duration,
}

/// Why a connection ended, where that is not the client's or the protocol's doing. A closed set for a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// By the client, or by an answer that said so.
    Done,
    /// What the client sent is not HTTP, or the stream broke.
    Broken,
    Idle,
    SlowHead,
    SlowRequest,
    SlowAnswer,
    Evicted,
    Shutdown,
}

impl Ended {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Broken => "broken",
            Self::Idle => "idle",
            Self::SlowHead => "slow_head",
            Self::SlowRequest => "slow_request",
            Self::SlowAnswer => "slow_answer",
            Self::Evicted => "evicted",
            Self::Shutdown => "shutdown",
        }
    }
}

/// Serves one connection to its end.
pub(super) async fn serve<S>(
    stream: S,
    router: Router,
    place: &Place,
    stages: &Stages,
    patience: Patience,
) -> Ended
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let life = Life::begin();
    let io = TokioIo::new(Followed {
        stream,
        life: life.clone(),
    });
    let service = service_fn(|request: http::Request<Incoming>| {
        place.speak();
        life.enter(Phase::Handling);
        let answer = router.clone().oneshot(request.map(Body::new));
        let life = life.clone();
        async move {
            let mut response = answer.await?;
            if stages.closing.is_cancelled() {
                let headers = response.headers_mut();
                headers.insert(CONNECTION, HeaderValue::from_static("close"));
            }
            life.enter(Phase::Answering);
            Ok::<_, Infallible>(response)
        }
    });
    let mut http = http1::Builder::new();
    http.header_read_timeout(None);
    let mut connection = pin!(http.serve_connection(io, service));
    let mut evicted = pin!(place.evicted());
    let mut over = pin!(stages.over.cancelled());
    let mut draining = pin!(stages.draining.cancelled());
    let mut drains = false;
    let mut farewell = None;
    let mut timer = pin!(sleep_until(life.due(patience, drains)));

    std::future::poll_fn(|cx| {
        // First, so that what has arrived by now counts before anything is closed.
        if let Poll::Ready(result) = connection.as_mut().poll(cx) {
            return Poll::Ready(if result.is_ok() {
                Ended::Done
            } else {
                Ended::Broken
            });
        }
        if evicted.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ended::Evicted);
        }
        if over.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ended::Shutdown);
        }
        if !drains && draining.as_mut().poll(cx).is_ready() {
            drains = true;
        }
        loop {
            let phase = life.phase();
            let due = match farewell {
                Some(until) if phase == Phase::Idle => until,
                _ => life.due(patience, drains),
            };
            // A later due time waits until the timer fires: most requests then move no timer at all.
            if due < timer.deadline() {
                timer.as_mut().reset(due);
            }
            ready!(timer.as_mut().poll(cx));
            if due > Instant::now() {
                timer.as_mut().reset(due);
                continue;
            }
            let ended = match phase {
                // Closed properly, with the farewell of TLS, for which there is a limit too.
                Phase::Idle if drains && farewell.is_none() => {
                    farewell = Some(Instant::now() + patience.head);
                    connection.as_mut().graceful_shutdown();
                    if connection.as_mut().poll(cx).is_ready() {
                        return Poll::Ready(Ended::Done);
                    }
                    continue;
                }
                Phase::Idle => Ended::Idle,
                Phase::Head => Ended::SlowHead,
                Phase::Handling => Ended::SlowRequest,
                Phase::Answering => Ended::SlowAnswer,
            };
            return Poll::Ready(ended);
        }
    })
    .await
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Head,
    Handling,
    Answering,
}

impl Phase {
    const ALL: [Self; 4] = [Self::Idle, Self::Head, Self::Handling, Self::Answering];
}

/// The phase of a connection and since when. Only its own task writes it.
#[derive(Clone, Debug)]
struct Life {
    born: Instant,
    /// Milliseconds from `born` to the beginning of the phase, times four, plus the phase.
    state: Arc<AtomicU64>,
}

impl Life {
    fn begin() -> Self {
        Self {
            born: Instant::now(),
            state: Arc::default(),
        }
    }

    fn enter(&self, phase: Phase) {
        let milliseconds = u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX >> 2);
        self.state
            .store(milliseconds << 2 | phase as u64, Ordering::Relaxed);
    }

    fn phase(&self) -> Phase {
        let phase = self.state.load(Ordering::Relaxed) & 3;
        Phase::ALL
            .into_iter()
            .find(|candidate| *candidate as u64 == phase)
            .unwrap_or(Phase::Idle)
    }

    /// When the phase has lasted too long.
    fn due(&self, patience: Patience, drains: bool) -> Instant {
        let since = self.born + Duration::from_millis(self.state.load(Ordering::Relaxed) >> 2);
        since
            + match self.phase() {
                Phase::Idle if drains => patience.linger,
                Phase::Idle => patience.idle,
                Phase::Head | Phase::Answering => patience.head,
                Phase::Handling => patience.request,
            }
    }
}

/// A stream that tells where the connection stands.
struct Followed<S> {
    stream: S,
    life: Life,
}

impl<S: AsyncRead + Unpin> AsyncRead for Followed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        if buffer.filled().len() > before && self.life.phase() == Phase::Idle {
            self.life.enter(Phase::Head);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Followed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        if self.life.phase() == Phase::Answering {
            self.life.enter(Phase::Idle);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
