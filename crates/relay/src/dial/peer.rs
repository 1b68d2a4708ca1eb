// SPDX-License-Identifier: GPL-2.0-or-later
//! Whom to connect to.

use std::{fmt, net::IpAddr};

/// A peer's host.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PeerHost {
    /// By address.
    Ip(IpAddr),
    /// By name, which is resolved.
    Name(String),
}

/// A peer's address: host, port, and whether it speaks TLS.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PeerAddr {
    /// The host.
    pub host: PeerHost,
    /// The TCP port.
    pub port: u16,
    /// Whether TLS comes above TCP. The peer's certificate has to be for `host`.
    pub tls: bool,
}

impl fmt::Display for PeerAddr {
    /// `host:port`, an IPv6 address in brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            PeerHost::Ip(IpAddr::V6(ip)) => write!(f, "[{ip}]:{}", self.port),
            PeerHost::Ip(IpAddr::V4(ip)) => write!(f, "{ip}:{}", self.port),
            PeerHost::Name(name) => write!(f, "{name}:{}", self.port),
        }
    }
}
