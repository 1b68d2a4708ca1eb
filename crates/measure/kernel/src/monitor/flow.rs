// SPDX-License-Identifier: GPL-2.0-or-later
//! Which flow a packet belongs to.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

/// Both ends of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flow {
    /// Of the Internet Protocol.
    Ip {
        /// Its number: 6 is TCP, 17 UDP.
        protocol: u8,
        /// The sender. Port 0 for protocols without ports, and for later fragments.
        source: SocketAddr,
        /// The receiver.
        destination: SocketAddr,
    },
    /// Anything else, all together.
    Other,
}

/// Bytes of `struct flow` of `src/bpf/frames.h`.
pub(super) const BYTES: usize = 40;

impl Flow {
    pub(super) fn read(bytes: &[u8; BYTES]) -> Self {
        let port = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let address = |at: usize| -> Option<IpAddr> {
            let all: [u8; 16] = bytes[at..at + 16].try_into().expect("16");
            let first: [u8; 4] = bytes[at..at + 4].try_into().expect("4");
            match bytes[36] {
                4 => Some(Ipv4Addr::from(first).into()),
                6 => Some(Ipv6Addr::from(all).into()),
                _ => None,
            }
        };
        match address(0).zip(address(16)) {
            Some((source, destination)) => Self::Ip {
                protocol: bytes[37],
                source: SocketAddr::new(source, port(32)),
                destination: SocketAddr::new(destination, port(34)),
            },
            None => Self::Other,
        }
    }

    /// Its protocol's name, or number.
    pub fn protocol(&self) -> String {
        match self {
            Self::Ip { protocol: 1, .. } => "icmp".to_owned(),
            Self::Ip { protocol: 6, .. } => "tcp".to_owned(),
            Self::Ip { protocol: 17, .. } => "udp".to_owned(),
            Self::Ip { protocol: 58, .. } => "icmp6".to_owned(),
            Self::Ip { protocol, .. } => format!("ip {protocol}"),
            Self::Other => "not ip".to_owned(),
        }
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = |address: &SocketAddr| match address.port() {
            0 => address.ip().to_string(),
            _ => address.to_string(),
        };
        match self {
            Self::Ip { source, destination, .. } => {
                write!(f, "{} {} > {}", self.protocol(), end(source), end(destination))
            }
            Self::Other => f.write_str(&self.protocol()),
        }
    }
}
