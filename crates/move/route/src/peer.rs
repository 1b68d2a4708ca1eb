// SPDX-License-Identifier: GPL-2.0-or-later
//! Hosts and ports of messages as addresses to connect to.

use protocol::{Authority, DepotAddress, Host, Scheme};
use relay::dial::{PeerAddr, PeerHost};

/// Where to connect for a depot.
pub fn depot_peer(depot: &DepotAddress) -> PeerAddr {
    server_peer(&depot.authority, depot.scheme == Scheme::Https)
}

/// Where to connect for a server, over TLS or without.
pub fn server_peer(server: &Authority, tls: bool) -> PeerAddr {
    let host = match &server.host {
        Host::Ip(ip) => PeerHost::Ip(*ip),
        Host::Name(name) => PeerHost::Name(name.clone()),
    };
    PeerAddr { host, port: server.port, tls }
}

/// A peer as routes and rules name it.
pub fn authority_of(peer: &PeerAddr) -> Authority {
    let host = match &peer.host {
        PeerHost::Ip(ip) => Host::Ip(*ip),
        PeerHost::Name(name) => Host::Name(name.clone()),
    };
    Authority { host, port: peer.port }
}
