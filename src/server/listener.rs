//! Listening sockets. An empty host means all addresses of both families, on machines with either of them.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};
use tokio::net::TcpListener;

/// Connections that wait to be accepted. The kernel cuts it to `net.core.somaxconn`.
const BACKLOG: i32 = 4096;
/// A peer that vanished without a word is noticed after about a minute.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// Listens on `port` of `host`; without a host on `[::]`, IPv4 included, and where there is no IPv6 on `0.0.0.0`. Port 0
/// takes a free one.
pub fn bind(host: Option<IpAddr>, port: u16) -> io::Result<TcpListener> {
    match host {
        Some(host) => listen(SocketAddr::new(host, port)),
        None => listen((Ipv6Addr::UNSPECIFIED, port).into()).or_else(|v6| {
            if lacks_ipv6(&v6) {
                listen((Ipv4Addr::UNSPECIFIED, port).into())
            } else {
                Err(v6)
            }
        }),
    }
}

/// No such address family, or no address of it: IPv6 is compiled out or switched off.
fn lacks_ipv6(error: &io::Error) -> bool {
    const EAFNOSUPPORT: i32 = 97;
    error.kind() == io::ErrorKind::AddrNotAvailable
        || error.kind() == io::ErrorKind::Unsupported
        || error.raw_os_error() == Some(EAFNOSUPPORT)
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if address.is_ipv6() {
        // Said explicitly, for `net.ipv6.bindv6only` may say otherwise.
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    socket.set_reuse_address(true)?;
    // Accepted sockets inherit it.
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE)
        .with_interval(KEEPALIVE / 3);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn an_empty_host_answers_in_both_families() {
        let listener = bind(None, 0).unwrap();
        let address = listener.local_addr().unwrap();
        TcpStream::connect((Ipv4Addr::LOCALHOST, address.port()))
            .await
            .unwrap();
        if address.is_ipv6() {
            TcpStream::connect((Ipv6Addr::LOCALHOST, address.port()))
                .await
                .unwrap();
        }
    }

    #[tokio::test]
    async fn a_taken_port_is_an_error_and_no_other_address() {
        let first = bind(None, 0).unwrap();
        let port = first.local_addr().unwrap().port();
        let error = bind(None, port).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }

    #[tokio::test]
    async fn a_host_is_taken_literally() {
        let listener = bind(Some(Ipv4Addr::LOCALHOST.into()), 0).unwrap();
        assert_eq!(listener.local_addr().unwrap().ip(), Ipv4Addr::LOCALHOST);
    }
}
