// SPDX-License-Identifier: GPL-2.0-or-later
//! Idle connections to next hops: what they are kept under, for how long, and whether they outlive new rules.

use crate::{
    admission::verdict::{Grant, Verdict},
    config::{Config, IdleConnections},
    tls::Protocol,
};
use protocol::{Authority, Fetch, Scheme};
use relay::{
    dial::{
        self, PeerAddr,
        pool::{Key, Limits},
    },
    tcp::Stream,
};
use route::{authority_of, server_peer};

/// Idle connections to next hops, kept apart by the grant that they were opened under.
pub(crate) type Pool = dial::Pool<Grant>;

/// Whom to connect to, and for what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer<'p> {
    /// Where.
    pub next: &'p Authority,
    /// With TLS or without.
    pub scheme: Scheme,
    /// What a new connection is for.
    pub protocol: Protocol,
}

impl<'p> From<&'p Fetch> for Peer<'p> {
    fn from(fetch: &'p Fetch) -> Self {
        Self { next: &fetch.next, scheme: fetch.scheme, protocol: Protocol::Http }
    }
}

/// Under which key connections for these requests are kept.
pub(crate) fn key_of(peer: Peer<'_>, grant: Grant) -> Key<Grant> {
    Key { peer: peer_of(peer.next, peer.scheme), leave: grant }
}

/// The next hop as `relay` knows it.
pub(crate) fn peer_of(next: &Authority, scheme: Scheme) -> PeerAddr {
    server_peer(next, scheme == Scheme::Https)
}

/// How many idle connections are kept, and for how long.
pub(crate) fn limits_of(kept: &IdleConnections) -> Limits {
    Limits { per_key: kept.per_hop, idle: kept.idle.into() }
}

/// Whether an idle connection that the rules of `before` allowed is one that those of `now` would open
/// in the same way.
pub(crate) fn is_still_allowed(
    key: &Key<Grant>,
    stream: &Stream,
    before: &Config,
    now: &Config,
) -> bool {
    let (address, verdict) = (stream.peer(), now.upstream(&authority_of(&key.peer), key.leave));
    let same_trust = !key.peer.tls || before.tls.roots == now.tls.roots;
    let same_options = before.hop_options(address.ip()) == now.hop_options(address.ip());
    same_trust
        && same_options
        && verdict != Verdict::Refused
        && now.allow.addresses((key.leave, verdict), std::iter::once(address)).is_ok()
}
