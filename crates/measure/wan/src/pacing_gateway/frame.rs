// SPDX-License-Identifier: GPL-2.0-or-later
//! Frames of the gateway: packets behind a new Ethernet header, and gap frames.
//!
//! Every size with the name `link` is what something takes on the link: the frame as it is handed to
//! the device, and what [`Framing`] adds to it.

use host::Mac;
use std::{
    hash::{DefaultHasher, Hash, Hasher},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};
use units::Bytes;

pub const ETHERNET_LEN: usize = 14;
/// Shorter frames are padded, by device or driver.
const SHORTEST: usize = 60;

const PAUSE_TO: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 1];
const MAC_CONTROL: u16 = 0x8808;
const PAUSE: u16 = 1;

/// How the link counts frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Framing {
    /// Bytes of the link that a frame takes beyond its length.
    pub overhead: Bytes,
}

impl Framing {
    /// Preamble 8, check sequence 4, inter-frame gap 12.
    pub const ETHERNET: Self = Self { overhead: Bytes::new(24) };

    /// Bytes of the link that a frame takes.
    pub fn link_bytes(self, frame: usize) -> Bytes {
        Bytes::new(frame.max(SHORTEST) as u64) + self.overhead
    }

    /// Bytes of the link that the shortest frame takes.
    pub fn shortest(self) -> Bytes {
        self.link_bytes(SHORTEST)
    }

    /// Length in bytes of the frame that takes `link` bytes of the link.
    fn frame_bytes(self, link: Bytes) -> usize {
        (link.saturating_sub(self.overhead).get() as usize).max(SHORTEST)
    }
}

/// The longest gap frame, of which all shorter ones are beginnings: PAUSE for no time.
pub struct GapFrame {
    framing: Framing,
    bytes: Vec<u8>,
}

impl GapFrame {
    pub fn new(framing: Framing, from: Mac, longest: Bytes) -> Self {
        let length = framing.frame_bytes(longest);
        let mut bytes = Vec::with_capacity(length);
        bytes.extend(PAUSE_TO);
        bytes.extend(from.0);
        bytes.extend(MAC_CONTROL.to_be_bytes());
        bytes.extend(PAUSE.to_be_bytes());
        bytes.resize(length, 0);
        Self { framing, bytes }
    }

    pub fn of(&self, link: Bytes) -> &[u8] {
        &self.bytes[..self.framing.frame_bytes(link).min(self.bytes.len())]
    }
}

/// A packet that the gateway carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub destination: IpAddr,
    /// Of addresses, protocol and ports; fragments have no ports.
    pub flow: u64,
    pub ether_type: u16,
}

impl Header {
    /// Reads that of an IP packet; none where it is not for one host beyond the next hop: groups and
    /// link-local addresses.
    pub fn parse(packet: &[u8]) -> Option<Self> {
        match packet.first()? >> 4 {
            4 => Self::parse_v4(packet),
            6 => Self::parse_v6(packet),
            _ => None,
        }
    }

    fn parse_v4(packet: &[u8]) -> Option<Self> {
        let destination = Ipv4Addr::from(<[u8; 4]>::try_from(packet.get(16..20)?).ok()?);
        let no_host = destination.is_multicast()
            || destination.is_broadcast()
            || destination.is_link_local()
            || destination.is_unspecified();
        if no_host {
            return None;
        }
        let header_len = usize::from(packet[0] & 0xf) * 4;
        let is_fragment = packet[6] & 0x3f != 0 || packet[7] != 0;
        let ports = if is_fragment { None } else { ports(packet[9], packet, header_len) };
        let flow = hash(&(&packet[12..20], packet[9], ports));
        Some(Self { destination: destination.into(), flow, ether_type: 0x0800 })
    }

    fn parse_v6(packet: &[u8]) -> Option<Self> {
        let destination = Ipv6Addr::from(<[u8; 16]>::try_from(packet.get(24..40)?).ok()?);
        let no_host = destination.is_multicast()
            || destination.is_unicast_link_local()
            || destination.is_unspecified();
        if no_host {
            return None;
        }
        // A fragment's next header is that of fragments.
        let flow = hash(&(&packet[8..40], packet[6], ports(packet[6], packet, 40)));
        Some(Self { destination: destination.into(), flow, ether_type: 0x86dd })
    }

    /// Writes the Ethernet header in front of the packet.
    pub fn write_ethernet(&self, to: &mut [u8], next_hop: Mac, from: Mac) {
        to[..6].copy_from_slice(&next_hop.0);
        to[6..12].copy_from_slice(&from.0);
        to[12..ETHERNET_LEN].copy_from_slice(&self.ether_type.to_be_bytes());
    }
}

/// Source and destination port, of TCP and UDP.
fn ports(protocol: u8, packet: &[u8], at: usize) -> Option<&[u8]> {
    matches!(protocol, 6 | 17).then(|| packet.get(at..at + 4)).flatten()
}

fn hash(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(to: [u8; 4], port: u8, more_fragments: bool) -> Vec<u8> {
        let flags = if more_fragments { 0x20 } else { 0 };
        let mut packet = vec![0x45, 0, 0, 28, 0, 0, flags, 0, 64, 17, 0, 0, 10, 0, 0, 1];
        packet.extend(to);
        packet.extend([0, port, 0, 9, 0, 8, 0, 0]);
        packet
    }

    #[test]
    fn flows_are_distinguished_by_ports_except_fragments() {
        let parse = |packet: Vec<u8>| Header::parse(&packet).unwrap();
        let one = parse(v4([10, 0, 0, 2], 1, false));
        assert_eq!(one.destination, "10.0.0.2".parse::<IpAddr>().unwrap());
        assert_eq!(one, parse(v4([10, 0, 0, 2], 1, false)));
        assert_ne!(one.flow, parse(v4([10, 0, 0, 2], 2, false)).flow);
        let fragments = [1, 2].map(|port| parse(v4([10, 0, 0, 2], port, true)).flow);
        assert_eq!(fragments[0], fragments[1]);
    }

    #[test]
    fn groups_and_damaged_packets_are_not_carried() {
        for to in [[224, 0, 0, 1], [255; 4], [169, 254, 1, 1], [0; 4]] {
            assert_eq!(Header::parse(&v4(to, 1, false)), None, "{to:?}");
        }
        let mut v6 = vec![0x60, 0, 0, 0, 0, 0, 59, 64];
        v6.extend([0x20; 32]);
        assert_eq!(Header::parse(&v6).unwrap().ether_type, 0x86dd);
        v6[24] = 0xff;
        assert_eq!(Header::parse(&v6), None);
        v6[24..26].copy_from_slice(&[0xfe, 0x80]);
        assert_eq!(Header::parse(&v6), None);
        for bytes in [&[][..], &[0x45], &[0x60; 39], &[0x15; 40]] {
            assert_eq!(Header::parse(bytes), None);
        }
        // Ports beyond the end of what is there.
        let mut cut = v4([10, 0, 0, 2], 1, false);
        cut.truncate(21);
        assert!(Header::parse(&cut).is_some());
    }

    #[test]
    fn gap_frames_take_what_is_asked_for() {
        let bare = Framing { overhead: Bytes::ZERO };
        for (framing, sizes) in
            [(Framing::ETHERNET, [84, 85, 1000, 1538]), (bare, [60, 61, 1000, 1514])]
        {
            let gaps = GapFrame::new(framing, Mac([2, 0, 0, 0, 0, 1]), Bytes::new(sizes[3]));
            for link in sizes {
                let frame = gaps.of(Bytes::new(link));
                assert_eq!(framing.link_bytes(frame.len()), Bytes::new(link));
                let begins = [1, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 1, 0x88, 8, 0, 1, 0, 0];
                assert_eq!(frame[..18], begins);
            }
        }
        let padded = Framing::ETHERNET.link_bytes(14 + 20);
        assert_eq!(padded, Framing::ETHERNET.shortest(), "short frames are padded");
        assert_eq!(padded, Bytes::new(84));
    }
}
