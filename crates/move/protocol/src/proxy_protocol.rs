// SPDX-License-Identifier: GPL-2.0-or-later
//! PROXY protocol, version 2: the first bytes of a connection tell a server whose it is.
//!
//! Source: `HAProxy`'s `doc/proxy-protocol.txt`, section 2.2.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Version 2, command PROXY: the connection is on behalf of another client.
const VERSION_COMMAND: u8 = 0x21;
/// TCP over IPv4, and over IPv6.
const FAMILIES: [u8; 2] = [0x11, 0x21];

/// The header for a connection of `client`, which has connected to `to`. Where they are of two families, both
/// are written as IPv6.
#[must_use]
pub fn header(client: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let (from, at) = (client.ip().to_canonical(), to.ip().to_canonical());
    let mut out = Vec::with_capacity(52);
    out.extend(SIGNATURE);
    out.push(VERSION_COMMAND);
    if let (IpAddr::V4(from), IpAddr::V4(at)) = (from, at) {
        out.extend([FAMILIES[0], 0, 12]);
        out.extend(from.octets());
        out.extend(at.octets());
    } else {
        out.extend([FAMILIES[1], 0, 36]);
        out.extend(v6(from).octets());
        out.extend(v6(at).octets());
    }
    out.extend(client.port().to_be_bytes());
    out.extend(to.port().to_be_bytes());
    out
}

fn v6(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_both_families_are_written() {
        let of = |client: &str, to: &str| header(client.parse().unwrap(), to.parse().unwrap());
        assert_eq!(
            of("192.0.2.7:1025", "[::ffff:198.51.100.1]:443"),
            b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x07\xc6\x33\x64\x01\x04\x01\x01\xbb"
        );
        let six = of("[2001:db8::7]:1", "[2001:db8::1]:2");
        assert_eq!((six.len(), &six[12..16]), (52, &b"\x21\x21\0\x24"[..]));
        assert_eq!((&six[16..20], &six[48..]), (&b"\x20\x01\x0d\xb8"[..], &b"\0\x01\0\x02"[..]));
        let mixed = of("192.0.2.7:1", "[2001:db8::1]:2");
        assert_eq!(&mixed[26..32], b"\xff\xff\xc0\0\x02\x07");
    }
}
