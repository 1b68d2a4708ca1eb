// SPDX-License-Identifier: GPL-2.0-or-later
//! Where a frame has which header: `virtio-net header | Ethernet | VLAN tags | IPv4 or IPv6 | TCP or UDP`.
//!
//! Offsets count from the first byte of the virtio-net header. Nothing here trusts a length that the frame states.

use std::ops::Range;

/// Bytes of the virtio-net header (the ten of the legacy layout, which is the default of TUN and packet sockets).
pub const VNET_LEN: usize = 10;
/// Bytes of the Ethernet header without VLAN tags.
pub const ETHERNET_LEN: usize = 14;
/// Bytes of a VLAN tag.
pub const VLAN_LEN: usize = 4;
/// Ethernet's type of IPv4.
pub const IPV4: u16 = 0x0800;
/// Ethernet's type of IPv6.
pub const IPV6: u16 = 0x86dd;
/// The protocol TCP.
pub const TCP: u8 = 6;
/// The protocol UDP.
pub const UDP: u8 = 17;

/// Types that announce a VLAN tag: IEEE 802.1Q, 802.1ad, and what switches used before that.
const TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
/// Tags that are looked behind. What has more is carried as an unknown protocol.
pub const MAX_TAGS: usize = 4;
/// IPv6 extension headers that may stand before TCP or UDP: hop-by-hop options, routing, destination options.
const EXTENSIONS: [u8; 3] = [0, 43, 60];
const MAX_EXTENSIONS: usize = 8;

/// What an Ethernet frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    /// Its type, behind any VLAN tags.
    pub kind: u16,
    /// Where it begins.
    pub at: usize,
}

impl Network {
    /// That of a frame, or of its first part, that is at least an Ethernet header long.
    pub fn of(frame: &[u8]) -> Self {
        let mut at = VNET_LEN + ETHERNET_LEN;
        let mut kind = u16_at(frame, at - 2);
        for _ in 0..MAX_TAGS {
            if !TAGS.contains(&kind) || frame.len() < at + VLAN_LEN {
                break;
            }
            kind = u16_at(frame, at + 2);
            at += VLAN_LEN;
        }
        Self { kind, at }
    }

    /// Protocol and position of the transport header; none of a fragment or of a packet that is not IP.
    pub fn transport(self, frame: &[u8]) -> Option<(u8, usize)> {
        let packet = frame.get(self.at..)?;
        match self.kind {
            IPV4 if packet.len() >= 20 => {
                let header = usize::from(packet[0] & 0x0f) * 4;
                let is_fragment = packet[6] & 0x3f != 0 || packet[7] != 0;
                (header >= 20 && !is_fragment).then_some((packet[9], self.at + header))
            }
            IPV6 if packet.len() >= 40 => {
                let (mut protocol, mut at) = (packet[6], 40);
                for _ in 0..MAX_EXTENSIONS {
                    if !EXTENSIONS.contains(&protocol) {
                        break;
                    }
                    let extension = packet.get(at..at + 2)?;
                    protocol = extension[0];
                    at += (usize::from(extension[1]) + 1) * 8;
                }
                Some((protocol, self.at + at))
            }
            _ => None,
        }
    }

    /// Where an IP packet has its two addresses.
    pub fn addresses(self) -> Range<usize> {
        if self.kind == IPV6 { self.at + 8..self.at + 40 } else { self.at + 12..self.at + 20 }
    }
}

/// The two bits of ECN, both set: congestion experienced (RFC 3168 section 5).
pub const ECN_CE: u8 = 0b11;

/// Where a frame has its two bits of ECN, and how far they are from the byte's end; none where it is no
/// whole IP packet.
pub fn ecn_at(frame: &[u8]) -> Option<(usize, u32)> {
    let Network { kind, at } = Network::of(frame);
    match (kind, frame.len() - at) {
        (IPV4, 20..) => Some((at + 1, 0)),
        // The traffic class spans two bytes.
        (IPV6, 40..) => Some((at + 1, 4)),
        _ => None,
    }
}

/// Sets the checksum of an IPv4 header.
pub fn set_ipv4_checksum(header: &mut [u8]) {
    header[10..12].fill(0);
    let checksum = !fold(sum(header));
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
}

/// The sum of the 16-bit words, not yet folded. Headers are even in length and short enough.
pub fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks_exact(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum()
}

/// A sum of 16-bit words with its carries added in: its complement is the internet checksum.
pub fn fold(sum: u32) -> u16 {
    let sum = (sum >> 16) + (sum & 0xffff);
    (sum + (sum >> 16)) as u16
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}
