// SPDX-License-Identifier: GPL-2.0-or-later
//! Under which address a client is counted: an IPv4 address, or the network of an IPv6 one.
//!
//! Every host has a /64 of its own, so that a limit on each of its addresses would be none. A provider
//! gives its customers a /56 or a /48, which is a site.

//!
//! What all clients share, such as connections and memory, has the same rules: a client has a share, a site has
//! [`CLIENTS_OF_SITE`] shares, and the last `1 / KEPT_PART` is for clients that have fewer than [`FEW`].

use std::net::{IpAddr, Ipv6Addr};

/// The share of an IPv6 /48, as a multiple of that of a client.
pub const CLIENTS_OF_SITE: usize = 4;
/// `1 / KEPT_PART` of what is shared is kept for clients with few connections or transfers.
pub const KEPT_PART: usize = 4;
/// A client with fewer connections or transfers than this may take some of that. A browser opens six.
pub const FEW: usize = 8;

/// The address under which a client's connections are counted, and its transfers.
pub fn host_key(client: IpAddr) -> IpAddr {
    first_bits(client, 64)
}

/// The address of the site that a client belongs to, as far as addresses tell: an IPv6 /48.
pub fn site_key(client: IpAddr) -> IpAddr {
    first_bits(client, 48)
}

/// The first `bits` bits of an IPv6 address; an IPv4 address unchanged.
fn first_bits(client: IpAddr, bits: u32) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << (128 - bits))).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}
