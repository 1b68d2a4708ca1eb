// SPDX-License-Identifier: GPL-2.0-or-later
//! Classes of addresses: internal to this host (never reachable through the depot), private networks, and the
//! Internet.
//!
//! An IPv6 address can carry an IPv4 one (mapped, compatible, 6to4, NAT64, Teredo); a translator on
//! the way, or the kernel itself, then delivers to that. So the address inside counts.

use rustix::io::Errno;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A class of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddressClass {
    /// This host, its links, or nowhere; and what it is, in words.
    Local(&'static str),
    /// An inner network; and what it is, in words.
    Private(&'static str),
    /// The Internet.
    Public,
}

impl AddressClass {
    /// The class of an address. An error means that the depot cannot tell whether it is this host's own.
    pub(crate) fn of(ip: IpAddr) -> Result<Self, Errno> {
        let found = Self::by_block(ip);
        if !matches!(found, Self::Local(_)) && is_own(ip.to_canonical())? {
            return Ok(Self::Local("this host's own address"));
        }
        Ok(found)
    }

    /// What kind of block an address is from.
    pub(crate) fn by_block(ip: IpAddr) -> Self {
        match ip.to_canonical() {
            IpAddr::V4(v4) => of_v4(v4),
            IpAddr::V6(v6) => match (of_v6(v6), carried(v6).map(of_v4)) {
                // Whichever is nearer: an inner network may carry an outer address as well.
                (Self::Local(what), _) | (_, Some(Self::Local(what))) => Self::Local(what),
                (Self::Private(what), _) | (_, Some(Self::Private(what))) => Self::Private(what),
                _ => Self::Public,
            },
        }
    }
}

/// Metadata addresses of clouds besides 169.254.169.254, which guests trust: Azure, Alibaba, Oracle.
const CLOUD_HOSTS_V4: [Ipv4Addr; 3] = [
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(192, 0, 0, 192),
];
/// The same: Amazon, Google.
const CLOUD_HOSTS_V6: [Ipv6Addr; 2] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
];

/// The special blocks of IPv4 (RFC 6890 and its registry).
fn of_v4(ip: Ipv4Addr) -> AddressClass {
    let [a, b, c, _] = ip.octets();
    match (a, b, c) {
        (127, ..) => AddressClass::Local("a loopback address"),
        (0, ..) => AddressClass::Local("an unspecified address"),
        (169, 254, _) => AddressClass::Local("a link-local address"),
        _ if CLOUD_HOSTS_V4.contains(&ip) => {
            AddressClass::Local("an address of the cloud's own host")
        }
        (224..=239, ..) => AddressClass::Local("a multicast address"),
        (240.., ..) => AddressClass::Local("a reserved address"),
        (10, ..) | (172, 16..=31, _) | (192, 168, _) => AddressClass::Private("a private address"),
        (100, 64..=127, _) => AddressClass::Private("an address of a carrier's inner network"),
        (192, 0, 0) => AddressClass::Private("an address for protocols"),
        (198, 18 | 19, _) => AddressClass::Private("an address for benchmarks"),
        _ => AddressClass::Public,
    }
}

/// Those of IPv6.
fn of_v6(ip: Ipv6Addr) -> AddressClass {
    let first = ip.segments()[0];
    if ip.is_loopback() {
        AddressClass::Local("a loopback address")
    } else if ip.is_unspecified() {
        AddressClass::Local("an unspecified address")
    } else if ip.is_unicast_link_local() {
        AddressClass::Local("a link-local address")
    } else if ip.is_multicast() {
        AddressClass::Local("a multicast address")
    } else if CLOUD_HOSTS_V6.contains(&ip) {
        AddressClass::Local("an address of the cloud's own host")
    } else if ip.is_unique_local() || first & 0xffc0 == 0xfec0 {
        AddressClass::Private("a private address")
    } else if ip.segments()[..3] == [0x64, 0xff9b, 1] {
        AddressClass::Private("an address of a local translator")
    } else {
        AddressClass::Public
    }
}

/// The IPv4 address that an IPv6 address carries: compatible (`::a.b.c.d`), translated
/// (`::ffff:0:a.b.c.d`, RFC 2765), 6to4, NAT64, Teredo, ISATAP (RFC 5214).
fn carried(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let bits = ip.to_bits();
    let v4 = |shift: u32| Ipv4Addr::from_bits((bits >> shift) as u32);
    match ip.segments() {
        [0x2002, ..] => Some(v4(80)),
        // The address of a Teredo client, stored with its bits inverted.
        [0x2001, 0, ..] => Some(Ipv4Addr::from_bits(!(bits as u32))),
        // :: and ::1 are addresses of their own.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0, 0, 0, 0, 0 | 0xffff, 0, ..]
        | [0x64, 0xff9b, 0, 0, 0, 0, ..]
        | [.., 0 | 0x200, 0x5efe, _, _] => Some(v4(0)),
        _ => None,
    }
}

/// Whether an address belongs to this host. Where there is no socket to ask with, the address is not taken for another's.
pub(crate) fn is_own(ip: IpAddr) -> Result<bool, Errno> {
    host::is_own_address(ip).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_class_ignores_spelling() {
        for ip in [
            "127.0.0.1",
            "127.9.9.9",
            "::1",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "0.0.0.0",
            "0.1.2.3",
            "::",
            "169.254.169.254",
            "fe80::1",
            "224.0.0.1",
            "ff02::1",
            "255.255.255.255",
            "240.0.0.1",
            "2002:7f00:1::",
            "64:ff9b::127.0.0.1",
            "64:ff9b::169.254.169.254",
            "2001:0:1:2:3:4:80ff:fffe",
            "168.63.129.16",
            "::ffff:168.63.129.16",
            "100.100.100.200",
            "192.0.0.192",
            "fd00:ec2::254",
            "fd20:ce::254",
            "2002:6464:64c8::1",
            "::ffff:0:127.0.0.1",
            "::ffff:0:169.254.169.254",
            "2001:db8::5efe:127.0.0.1",
            "2001:db8::200:5efe:169.254.169.254",
            "fe80::5efe:8.8.8.8",
            "ff02::200:5efe:8.8.8.8",
        ] {
            let place = AddressClass::of(ip.parse().unwrap()).unwrap();
            assert!(matches!(place, AddressClass::Local(_)), "{ip}: {place:?}");
        }
        for ip in [
            "10.1.2.3",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.0.1",
            "100.64.0.1",
            "198.18.0.1",
            "::ffff:10.1.2.3",
            "::10.1.2.3",
            "fd00::1",
            "fec0::1",
            "2002:0a01:203::1",
            "64:ff9b::192.168.1.1",
            "64:ff9b:1::1",
            "::ffff:0:10.1.2.3",
            "2001:db8::5efe:192.168.0.1",
            "fd00::5efe:8.8.8.8",
            "fec0::200:5efe:8.8.8.8",
            "64:ff9b:1::5efe:8.8.8.8",
        ] {
            let place = AddressClass::of(ip.parse().unwrap()).unwrap();
            assert!(matches!(place, AddressClass::Private(_)), "{ip}: {place:?}");
        }
        for ip in [
            "192.0.2.1",
            "172.15.0.1",
            "172.32.0.1",
            "100.63.0.1",
            "100.128.0.1",
            "8.8.8.8",
            "2001:db8::1",
            "2002:c000:201::1",
            "64:ff9b::8.8.8.8",
            "168.63.129.17",
            "::ffff:0:8.8.8.8",
            "2001:db8::5efe:8.8.8.8",
        ] {
            assert_eq!(AddressClass::of(ip.parse().unwrap()), Ok(AddressClass::Public), "{ip}");
        }
    }
}
