//! The server over real sockets on loopback.

mod drain;
mod handshake;
mod limits;
mod support;
