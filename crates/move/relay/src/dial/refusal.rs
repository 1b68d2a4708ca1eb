// SPDX-License-Identifier: GPL-2.0-or-later
//! Why there is no connection to a peer.

use std::{error::Error, fmt, net::IpAddr};

/// Which side a refusal blames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultSource {
    /// The rules of this relay's operator.
    Rules,
    /// This host.
    Host,
    /// The peer, or the path to it.
    Peer,
}

/// The kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The rules do not allow this peer.
    Forbidden,
    /// The peer's name has no address.
    NameUnknown,
    /// The peer's name was not resolved in time.
    NameTimeout,
    /// The peer refused the connection.
    ConnectionRefused,
    /// The peer did not accept the connection in time.
    ConnectionTimeout,
    /// There is no route to the peer.
    Unroutable,
    /// The connection failed while it was opened.
    ConnectionFailed,
    /// The peer's certificate is invalid.
    TlsCertificate,
    /// The peer ended the TLS handshake with an alert.
    TlsAlert,
    /// The TLS handshake failed otherwise.
    TlsProtocol,
    /// This host has run out of descriptors, memory or lookup slots.
    Scarce,
    /// This host refused a socket or one of its options.
    Internal,
}

/// Whether a retry may help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Another peer may work.
    Elsewhere,
    /// The same peer may work later.
    Later,
    /// It fails again until its cause is removed.
    Never,
}

/// Why there is no connection to a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The side at fault.
    pub source: FaultSource,
    /// The kind of failure.
    pub class: Class,
    /// Whether a retry may help.
    pub retry: Retry,
    /// The cause, in words that a client may read.
    pub text: String,
    /// The address that a name resolved to. For the log only: clients need not know a network's layout.
    pub detail: Option<String>,
}

impl Error for Refusal {}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Refusal {
    /// The rules do not permit a peer, or one of its addresses.
    pub fn forbidden(text: String, ip: Option<IpAddr>) -> Self {
        let detail = ip.map(|ip| ip.to_string());
        let (source, class) = (FaultSource::Rules, Class::Forbidden);
        Self { source, class, retry: Retry::Never, text, detail }
    }

    /// This host cannot connect, for lack of resources or otherwise.
    pub fn of_host(text: String, scarce: bool) -> Self {
        let (class, retry) =
            if scarce { (Class::Scarce, Retry::Later) } else { (Class::Internal, Retry::Never) };
        Self { source: FaultSource::Host, class, retry, text, detail: None }
    }

    /// The peer, or the path to it, is at fault.
    pub fn of_peer(class: Class, text: String) -> Self {
        Self { source: FaultSource::Peer, class, retry: Retry::Elsewhere, text, detail: None }
    }

    /// Adds the address that a name resolved to, if the peer was named.
    #[must_use]
    pub fn with_detail(self, address: Option<impl ToString>) -> Self {
        Self { detail: address.map(|address| address.to_string()), ..self }
    }
}
