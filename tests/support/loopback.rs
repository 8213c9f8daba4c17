//! The addresses of one cluster: a /16 of 127.0.0.0/8, all of which is this machine's own. The lower half is the
//! range of the Services, the upper half holds the control plane and the replicas ("pods"), each with an address of
//! its own, so that ports are fixed and never race.

use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};

use anyhow::{Result, bail};

/// Second bytes of the blocks that clusters share out among themselves.
const BLOCKS: std::ops::RangeInclusive<u8> = 65..=126;
/// Below the ephemeral range, so that no outgoing connection holds one of them.
const CLAIM_PORT: u16 = 16_442;

/// One claimed block; freed when dropped.
pub(crate) struct Loopback {
    block: u8,
    /// Being bound is the claim: it holds between processes and vanishes with this one.
    _claim: TcpListener,
}

impl Loopback {
    /// Claims the first block that nobody has.
    pub(crate) fn claim() -> Result<Self> {
        for block in BLOCKS {
            if let Ok(claim) = TcpListener::bind((control_plane(block), CLAIM_PORT)) {
                return Ok(Self {
                    block,
                    _claim: claim,
                });
            }
        }
        bail!(
            "no free block of addresses in 127.{}.0.0 to 127.{}.0.0",
            BLOCKS.start(),
            BLOCKS.end()
        )
    }

    /// The range of the cluster's Services.
    pub(crate) fn services(&self) -> String {
        format!("127.{}.0.0/17", self.block)
    }

    /// Where etcd and the API server listen.
    pub(crate) fn control_plane(&self) -> Ipv4Addr {
        control_plane(self.block)
    }

    /// Where the API server listens.
    pub(crate) fn api_server(&self) -> SocketAddrV4 {
        SocketAddrV4::new(self.control_plane(), 16_443)
    }

    /// Where etcd serves clients.
    pub(crate) fn etcd(&self) -> SocketAddrV4 {
        SocketAddrV4::new(self.control_plane(), 12_379)
    }

    /// Where etcd would serve its peers.
    pub(crate) fn etcd_peer(&self) -> SocketAddrV4 {
        SocketAddrV4::new(self.control_plane(), 12_380)
    }

    /// The address of a replica, which stands for its pod.
    pub(crate) fn replica(&self, number: u8) -> Ipv4Addr {
        Ipv4Addr::new(127, self.block, 129, number)
    }
}

fn control_plane(block: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, block, 128, 1)
}
