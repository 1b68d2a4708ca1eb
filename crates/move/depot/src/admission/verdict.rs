// SPDX-License-Identifier: GPL-2.0-or-later
//! What the rules say.

use rustix::io::Errno;
use std::net::IpAddr;

/// The rule or ticket that permits a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Grant {
    /// The lists of clients and upstreams.
    Rules,
    /// The lists of clients and servers.
    ServerRules,
    /// A ticket, which names its next hop.
    Ticket,
    /// A site or a port of `[[tcp]]`, whose next hop the configuration names.
    Site,
}

/// What the rules say of a next hop before its name is resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Listed by name or address.
    Listed,
    /// A name whose addresses decide.
    ByAddress,
    /// An address that is not listed, but may be that of a listed name: look-ups decide.
    ByListedName,
    /// Not listed, but a ticket grants it.
    Granted,
    /// What the configuration has a site or a port lead to, wherever that is.
    OfSite,
    /// Not listed, and no address could change that. Nothing is resolved, so that a depot does
    /// not answer strangers' questions about names.
    Refused,
}

/// Why there is no address to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Objection {
    /// The rules are against it, and why; and the address that they are against. Clients are not told to
    /// which inner address a name leads.
    Rules(String, Option<IpAddr>),
    /// This host cannot tell where an address is, because it lacks a socket.
    Unjudged(Errno),
}
