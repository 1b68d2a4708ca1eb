// SPDX-License-Identifier: GPL-2.0-or-later
//! The peer of a connection.

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

impl PeerAddr {
    /// A peer whose host is an address or a name, as in `192.0.2.1` or `depot.example.org`.
    pub fn new(host: &str, port: u16, tls: bool) -> Self {
        let ip = host.trim_start_matches('[').trim_end_matches(']').parse();
        let host = ip.map_or_else(|_| PeerHost::Name(host.to_owned()), PeerHost::Ip);
        Self { host, port, tls }
    }
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
