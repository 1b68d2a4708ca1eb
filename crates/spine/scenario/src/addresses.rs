// SPDX-License-Identifier: GPL-2.0-or-later
//! Addresses and devices of a run's nodes, the same for every method, so that captures of both can be compared.

use std::net::{Ipv4Addr, Ipv6Addr};

/// The IPv4 address of the n-th node, from 0.
pub fn ipv4(node: u16) -> Ipv4Addr {
    let [high, low] = (node + 1).to_be_bytes();
    Ipv4Addr::new(10, 110, high, low)
}

/// The addresses of a node after the n-th move of a run, from 0.
pub fn after_move(n: u8) -> (Ipv4Addr, Ipv6Addr) {
    (
        Ipv4Addr::new(10, 111, 0, n + 1),
        Ipv6Addr::new(0xfd6c, 0x6f6e, 0x6768, 1, 0, 0, 0, u16::from(n) + 1),
    )
}

/// The IPv6 address of the n-th node, from 0.
pub fn ipv6(node: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfd6c, 0x6f6e, 0x6768, 0, 0, 0, 0, node + 1)
}

/// The Ethernet address of the n-th link's first or second end, 0 or 1.
pub fn mac(link: usize, end: usize) -> [u8; 6] {
    let [high, low] = (link as u16).to_be_bytes();
    [0x02, 0x6c, 0x68, high, low, end as u8 + 1]
}

/// Name of the devices of a run's n-th link, on either node.
pub fn device(link: usize) -> String {
    format!("wan{link}")
}
