// SPDX-License-Identifier: GPL-2.0-or-later
//! Whether a server is the agent itself: a tunnel to it would be one more client of it, and so on.

use host::is_own_address;
use protocol::{Authority, Host};
use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};
use tokio::{net::lookup_host, time::timeout};

/// How long the look-up of a name may take.
const LOOK_UP: Duration = Duration::from_secs(5);

/// Whether a server is this listener. A name is looked up only if the port is the listener's: depots look others up.
pub(super) async fn is_listener(listener: SocketAddr, server: &Authority) -> bool {
    if server.port != listener.port() {
        return false;
    }
    match &server.host {
        Host::Ip(ip) => leads_to(listener, *ip),
        Host::Name(name) => {
            let found = timeout(LOOK_UP, lookup_host((name.as_str(), server.port))).await;
            let Ok(Ok(mut found)) = found else { return false };
            found.any(|address| leads_to(listener, address.ip()))
        }
    }
}

/// Whether a connection to this address, and the listener's port, comes to the listener.
pub(super) fn leads_to(listener: SocketAddr, ip: IpAddr) -> bool {
    let (own, ip) = (listener.ip().to_canonical(), ip.to_canonical());
    if own == ip || ip.is_unspecified() {
        return true;
    }
    // If it cannot be found out, it may be.
    own.is_unspecified() && (ip.is_loopback() || is_own_address(ip).unwrap_or(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_spelling_of_the_listener_is_known() {
        for (listener, server, is_own) in [
            ("127.0.0.1:3885", "127.0.0.1:3885", true),
            ("127.0.0.1:3885", "127.0.0.1:3886", false),
            ("127.0.0.1:3885", "127.0.0.2:3885", false),
            ("127.0.0.1:3885", "0.0.0.0:3885", true),
            ("127.0.0.1:3885", "[::]:3885", true),
            ("127.0.0.1:3885", "[::ffff:127.0.0.1]:3885", true),
            ("127.0.0.1:3885", "[::ffff:7f00:1]:3885", true),
            ("127.0.0.1:3885", "LocalHost:3885", true),
            ("127.0.0.1:3885", "192.0.2.1:3885", false),
            ("127.0.0.1:3885", "no-such-name.invalid:3885", false),
            ("0.0.0.0:3885", "127.9.9.9:3885", true),
            ("0.0.0.0:3885", "192.0.2.1:3885", false),
            ("[::]:3885", "[::1]:3885", true),
            ("[::]:3885", "127.0.0.1:3885", true),
            ("[::1]:3885", "[::1]:3885", true),
            ("[::1]:3885", "127.0.0.1:3885", false),
        ] {
            let found = is_listener(listener.parse().unwrap(), &server.parse().unwrap()).await;
            assert_eq!(found, is_own, "{server} of {listener}");
        }
    }
}
