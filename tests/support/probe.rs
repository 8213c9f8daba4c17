//! Plain HTTP GETs of a replica's health and metrics ports, as kubelet and Prometheus make them.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const DEADLINE: Duration = Duration::from_secs(5);
/// A kubelet's default.
const PROBE_DEADLINE: Duration = Duration::from_secs(1);

/// Where a replica answers probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Probe {
    address: SocketAddrV4,
}

impl Probe {
    /// The probe at this address.
    pub(crate) fn new(ip: Ipv4Addr, port: u16) -> Self {
        Self {
            address: SocketAddrV4::new(ip, port),
        }
    }

    /// Whether `/readyz` says yes; otherwise what it says.
    pub(crate) async fn ready(&self) -> Result<()> {
        let (code, body) = timeout(PROBE_DEADLINE, self.get("/readyz"))
            .await
            .context("/readyz does not answer")??;
        ensure!(code == 200, "/readyz answered {code}: {}", body.trim());
        Ok(())
    }

    /// Status and body of one path.
    pub(crate) async fn get(&self, path: &str) -> Result<(u16, String)> {
        let exchange = async {
            let mut stream = TcpStream::connect(self.address).await?;
            let host = self.address;
            let request =
                format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            Ok::<_, std::io::Error>(answer)
        };
        let answer = timeout(DEADLINE, exchange)
            .await
            .with_context(|| format!("http://{}{path} does not answer", self.address))?
            .with_context(|| format!("http://{}{path}", self.address))?;
        let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
        let code = head.split(' ').nth(1).context("no HTTP status")?.parse()?;
        Ok((code, body.to_owned()))
    }
}
