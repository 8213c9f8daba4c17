//! The load: keep-alive TLS connections that post one body over and over, each waiting for its answer. As little work of
//! its own as can be, since it shares the processors with what it measures.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Where the load goes.
#[derive(Clone)]
pub(crate) struct Target {
    address: SocketAddr,
    name: ServerName<'static>,
    tls: TlsConnector,
}

/// What came of it.
pub(crate) struct Outcome {
    /// Sorted.
    latencies: Vec<Duration>,
    elapsed: Duration,
}

impl Outcome {
    pub(crate) fn answered(&self) -> f64 {
        count(self.latencies.len())
    }

    pub(crate) fn per_second(&self) -> f64 {
        self.answered() / self.elapsed.as_secs_f64()
    }

    /// In microseconds.
    pub(crate) fn quantile(&self, quantile: f64) -> f64 {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an index below the length"
        )]
        let index = ((count(self.latencies.len()) - 1.0) * quantile) as usize;
        self.latencies
            .get(index)
            .map_or(0.0, |latency| latency.as_secs_f64() * 1e6)
    }
}

/// A count as a figure.
#[allow(clippy::cast_precision_loss, reason = "no count here comes near 2^52")]
pub(crate) fn count(count: usize) -> f64 {
    count as f64
}

impl Target {
    /// The server at `address` that is called `name` and verified by these PEM certificates.
    pub(crate) fn new(address: SocketAddr, name: &str, bundle: &[u8]) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(bundle) {
            roots.add(certificate.context("the bundle is no PEM")?)?;
        }
        let mut config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.resumption = rustls::client::Resumption::disabled();
        Ok(Self {
            address,
            name: ServerName::try_from(name.to_owned())?,
            tls: TlsConnector::from(Arc::new(config)),
        })
    }

    /// What is written for one request.
    fn request(&self, path: &str, body: &[u8]) -> Vec<u8> {
        let mut request = format!(
            "POST {path}?timeout=10s HTTP/1.1\r\nHost: {}\r\nUser-Agent: kube-apiserver-admission\r\n\
             Content-Length: {}\r\nContent-Type: application/json\r\nAccept: application/json, */*\r\n\r\n",
            self.name.to_str(),
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        request
    }

    async fn connect(&self) -> Result<Connection> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let stream = self.tls.connect(self.name.clone(), stream).await?;
        Ok(Connection {
            stream,
            buffer: vec![0; 64 * 1024],
        })
    }

    /// One answer, to be looked at.
    pub(crate) async fn ask(&self, path: &str, body: &[u8]) -> Result<String> {
        let mut connection = self.connect().await?;
        let (head, answer) = connection.exchange(&self.request(path, body)).await?;
        let text = String::from_utf8_lossy(&connection.buffer[head..head + answer]).into_owned();
        Ok(text)
    }

    /// Posts over so many connections for so long.
    pub(crate) async fn drive(
        &self,
        path: &str,
        body: &[u8],
        connections: usize,
        time: Duration,
    ) -> Result<Outcome> {
        let request = self.request(path, body);
        let opened = (0..connections).map(|_| self.connect());
        let opened = futures::future::try_join_all(opened).await?;
        let start = Instant::now();
        let loops = opened.into_iter().map(|mut connection| {
            let request = &request;
            async move {
                let mut latencies = Vec::with_capacity(16 * 1024);
                while start.elapsed() < time {
                    let asked = Instant::now();
                    connection.exchange(request).await?;
                    latencies.push(asked.elapsed());
                }
                Ok::<_, anyhow::Error>(latencies)
            }
        });
        let latencies = futures::future::try_join_all(loops).await?;
        let elapsed = start.elapsed();
        let mut latencies: Vec<Duration> = latencies.into_iter().flatten().collect();
        latencies.sort_unstable();
        ensure!(!latencies.is_empty(), "nothing was answered");
        Ok(Outcome { latencies, elapsed })
    }

    /// Connects anew for each request, for so long.
    pub(crate) async fn handshakes(
        &self,
        path: &str,
        body: &[u8],
        connections: usize,
        time: Duration,
    ) -> Result<Outcome> {
        let request = self.request(path, body);
        let start = Instant::now();
        let loops = (0..connections).map(|_| async {
            let mut latencies = Vec::new();
            while start.elapsed() < time {
                let asked = Instant::now();
                self.connect().await?.exchange(&request).await?;
                latencies.push(asked.elapsed());
            }
            Ok::<_, anyhow::Error>(latencies)
        });
        let latencies = futures::future::try_join_all(loops).await?;
        let elapsed = start.elapsed();
        let mut latencies: Vec<Duration> = latencies.into_iter().flatten().collect();
        latencies.sort_unstable();
        Ok(Outcome { latencies, elapsed })
    }
}

struct Connection {
    stream: TlsStream<TcpStream>,
    buffer: Vec<u8>,
}

impl Connection {
    /// Sends a request and reads its answer into the buffer. Returns the length of its head and of its body.
    async fn exchange(&mut self, request: &[u8]) -> Result<(usize, usize)> {
        timeout(ANSWER_WITHIN, self.exchange_untimed(request))
            .await
            .context("no answer")?
    }

    async fn exchange_untimed(&mut self, request: &[u8]) -> Result<(usize, usize)> {
        self.stream.write_all(request).await?;
        self.stream.flush().await?;
        let mut filled = 0;
        let mut expected = None;
        loop {
            let read = self.stream.read(&mut self.buffer[filled..]).await?;
            ensure!(read > 0, "the connection ended");
            filled += read;
            if expected.is_none() {
                expected = whole(&self.buffer[..filled])?;
            }
            if let Some((head, body)) = expected
                && filled >= head + body
            {
                return Ok((head, body));
            }
        }
    }
}

/// The lengths of head and body, once the head is there. Any status but 200 is an error.
fn whole(answer: &[u8]) -> Result<Option<(usize, usize)>> {
    let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = std::str::from_utf8(&answer[..end])?;
    if !head.starts_with("HTTP/1.1 200 ") {
        bail!("answered with {}", head.lines().next().unwrap_or_default());
    }
    let length = head
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .context("no Content-Length")?;
    Ok(Some((end + 4, length.1.trim().parse()?)))
}
