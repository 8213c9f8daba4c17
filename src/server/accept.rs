//! The accept loop: from a listener to connections, and from a signal to the last answer. It must not know what is served.

use std::{io, sync::Arc, time::Duration};

use axum::Router;
use futures::FutureExt;
use tokio::{
    net::{TcpListener, TcpStream},
    time::{Instant, sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, info, warn};

use super::{
    connection::{self, Ended, Patience, Stages},
    metrics::ServerMetrics,
    places::{Admitted, Place, Places},
    tls,
};

/// Connections that one API server keeps idle for one webhook path with one CA bundle.
const IDLE_PER_PATH: usize = 25;
/// Paths that a process may serve.
const PATHS: usize = 3;
/// CA bundles within the 90 s that an idle connection lasts: a rotation publishes both, switches, and publishes one.
const BUNDLES: usize = 4;
/// API servers of a large control plane, with room for a roll-out that replaces them one by one.
const API_SERVERS: usize = 10;

/// How connections are treated.
#[derive(Clone, Debug)]
pub struct Options {
    /// Connections at one time. When all places are taken, the one that has been silent longest makes room.
    pub max_connections: usize,
    /// How long a TLS handshake may take.
    pub handshake_timeout: Duration,
    /// How long a request's head may take, from its first byte.
    pub header_timeout: Duration,
    /// How long a request may take from its head to its answer.
    pub request_timeout: Duration,
    /// How long a connection may idle between requests.
    pub idle_timeout: Duration,
    /// How long requests under way may take after the listener has closed.
    pub drain_timeout: Duration,
    /// Cancelled when the drain has lasted too long: handlers then answer what they can, for a second.
    pub give_up: CancellationToken,
}

impl Default for Options {
    /// The idle limit is above the 90 s after which the API server drops idle connections itself: a call that crosses our
    /// closing would be lost, since it repeats none. For the same reason the cap holds all connections that API servers
    /// keep. A request takes no longer than the 30 s that a webhook's timeout can be; while draining, the 10 s that it
    /// is by default.
    fn default() -> Self {
        Self {
            max_connections: IDLE_PER_PATH * PATHS * BUNDLES * API_SERVERS,
            handshake_timeout: Duration::from_secs(10),
            header_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(35),
            idle_timeout: Duration::from_secs(150),
            drain_timeout: Duration::from_secs(10),
            give_up: CancellationToken::new(),
        }
    }
}

/// When a server is to end.
#[derive(Clone, Debug)]
pub struct Shutdown {
    /// From here on, every answer closes its connection, so that callers go elsewhere; new ones are still served.
    pub leaving: CancellationToken,
    /// Here the listener closes. Implies the other.
    pub stop: CancellationToken,
}

impl Shutdown {
    /// Without a time of leave-taking: for listeners whose callers ask again anyway.
    pub fn at_once(stop: CancellationToken) -> Self {
        Self {
            leaving: stop.clone(),
            stop,
        }
    }
}

/// How long a draining server waits for the request of a connection that has just been made.
const LINGER: Duration = Duration::from_secs(1);
/// How long the last answers may take after `give_up`.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Pause after a failed accept: the process is out of file descriptors or memory, and trying at once again would only spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
/// Time between two complaints about that.
const COMPLAINT_EVERY: Duration = Duration::from_secs(10);

/// Serves `router` on `listener`, over TLS when `tls` is there, until `shutdown`; then requests in flight are answered, and
/// connections that idle are closed. That takes `drain_timeout` and a second at most. Ends with an error only when the
/// listener is unusable from the beginning.
pub async fn serve(
    listener: TcpListener,
    tls: Option<tls::Shared>,
    router: Router,
    shutdown: Shutdown,
    options: Options,
    metrics: Arc<ServerMetrics>,
) -> io::Result<()> {
    let address = listener.local_addr()?;
    let tasks = TaskTracker::new();
    let stages = Stages {
        closing: shutdown.leaving,
        draining: CancellationToken::new(),
        over: CancellationToken::new(),
    };
    let server = Server {
        tls,
        router,
        stages: stages.clone(),
        places: Places::new(options.max_connections),
        options: Arc::new(options),
        metrics,
    };
    info!(%address, tls = server.tls.is_some(), "listening");

    let mut complained: Option<Instant> = None;
    let mut stop = std::pin::pin!(shutdown.stop.cancelled());
    loop {
        tokio::select! {
            () = &mut stop => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => server.start(stream, &tasks),
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    // Whoever holds descriptors without using them must not keep others out.
                    let evicting = server.places.make_room();
                    if complained.is_none_or(|at| at.elapsed() >= COMPLAINT_EVERY) {
                        complained = Some(Instant::now());
                        warn!(%address, %error, evicting, "cannot accept connections");
                    }
                    sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    // The kernel resets connections that wait in the queue of a listener that closes.
    while let Some(Ok((stream, _))) = listener.accept().now_or_never() {
        server.start(stream, &tasks);
    }
    drop(listener);
    stages.closing.cancel();
    info!(%address, connections = tasks.len(), "draining");
    stages.draining.cancel();
    tasks.close();
    if timeout(server.options.drain_timeout, tasks.wait())
        .await
        .is_err()
    {
        server.options.give_up.cancel();
        let _ = timeout(LAST_WORDS, tasks.wait()).await;
        if !tasks.is_empty() {
            warn!(%address, connections = tasks.len(), "dropping connections that do not end");
        }
        stages.over.cancel();
        tasks.wait().await;
    }
    info!(%address, "stopped");
    Ok(())
}

/// The client went away before it was accepted: nothing is wrong with the listener.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}

#[derive(Clone)]
struct Server {
    tls: Option<tls::Shared>,
    router: Router,
    stages: Stages,
    places: Places,
    options: Arc<Options>,
    metrics: Arc<ServerMetrics>,
}

impl Server {
    /// Gives a new connection a place and a task, or turns it away.
    fn start(&self, stream: TcpStream, tasks: &TaskTracker) {
        let Some(Admitted { place, evicting }) = self.places.admit() else {
            self.metrics.ended("refused");
            debug!("connection refused: all places are taken");
            return;
        };
        if evicting {
            debug!("all places are taken: the connection that was silent longest makes room");
        }
        let server = self.clone();
        tasks.spawn(async move {
            let _open = server.metrics.open();
            server.run(stream, place).await;
        });
    }

    async fn run(&self, stream: TcpStream, place: Place) {
        // Answers are written whole; waiting to fill a packet would only delay them. Not vital, so a failure is no reason
        // to turn the client away.
        let _ = stream.set_nodelay(true);
        let ended = match &self.tls {
            None => self.talk(stream, &place).await.as_str(),
            Some(tls) => {
                let tls = TlsAcceptor::from(tls.load_full());
                let handshake = timeout(self.options.handshake_timeout, tls.accept(stream));
                let accepted = tokio::select! {
                    accepted = handshake => accepted,
                    () = place.evicted() => return self.metrics.ended(Ended::Evicted.as_str()),
                    () = self.stages.over.cancelled() => {
                        return self.metrics.ended(Ended::Shutdown.as_str());
                    }
                };
                match accepted {
                    Ok(Ok(stream)) => self.talk(stream, &place).await.as_str(),
                    Ok(Err(error)) => {
                        debug!(%error, "TLS handshake failed");
                        "handshake_failed"
                    }
                    Err(_) => "slow_handshake",
                }
            }
        };
        self.metrics.ended(ended);
    }

    async fn talk<S>(&self, stream: S, place: &Place) -> Ended
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let patience = Patience {
            idle: self.options.idle_timeout,
            head: self.options.header_timeout,
            request: self.options.request_timeout,
            linger: LINGER,
        };
        let router = self.router.clone();
        connection::serve(stream, router, place, &self.stages, patience).await
    }
}
