// SPDX-License-Identifier: GPL-2.0-or-later
//! Super-packets: what a TAP device or a card hands over when the sender leaves segmentation to the device (TSO,
//! `UDP_SEGMENT`), or when a card's driver has merged packets (GRO).
//!
//! A frame is `virtio-net header | Ethernet | VLAN tags | IPv4 or IPv6 | TCP or UDP | payload`. Where the first
//! header says so, the payload is up to 64 KB that stand for many segments of `gso_size` bytes. The link
//! accounts for each of them; what survives is delivered as super-packets of neighbouring segments, each cut out
//! by [`Frame::cut`] with new lengths, sequence number, flags and checksums. All other frames are carried as they
//! are, whatever their protocol.

mod headers;
#[cfg(test)]
mod tests;
mod train;

pub use headers::{ETHERNET_LEN, VLAN_LEN, VNET_LEN};
pub(crate) use headers::{fold, sum};
pub use train::{Malformed, VNET_NEEDS_CSUM};

use headers::{ECN_CE, IPV4, Network, TCP, UDP, ecn_at, set_ipv4_checksum};
use std::{ops::Range, rc::Rc};
use train::{MAX_HEADERS, Train};

/// The longest frame a device hands over.
pub const MAX_FRAME: usize = VNET_LEN + ETHERNET_LEN + VLAN_LEN + 65_535;

/// How a PAUSE frame begins (IEEE 802.3x): the group that it goes to, and its type.
const PAUSE_TO: [u8; 6] = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x01];
const PAUSE_TYPE: [u8; 2] = [0x88, 0x08];

/// One frame as read from a device, whole.
#[derive(Debug, Clone)]
pub struct Frame {
    bytes: Rc<[u8]>,
    train: Option<Train>,
}

impl Frame {
    /// Reads a frame's headers.
    ///
    /// # Errors
    /// The frame is too short for its headers, or a super-packet of another kind than TCP or UDP directly in IPv4 or
    /// IPv6.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        if bytes.len() < VNET_LEN + ETHERNET_LEN {
            return Err(Malformed);
        }
        Ok(Self { train: Train::parse(bytes)?, bytes: bytes.into() })
    }

    /// Whether the frame is addressed to a group.
    pub fn is_multicast(&self) -> bool {
        self.bytes[VNET_LEN] & 1 != 0
    }

    /// Whether it is a PAUSE frame, as they are sent for gaps between packets: it takes its time on the wire
    /// and ends at the first port.
    pub fn is_gap(&self) -> bool {
        let ethernet = &self.bytes[VNET_LEN..VNET_LEN + ETHERNET_LEN];
        ethernet[..6] == PAUSE_TO && ethernet[12..] == PAUSE_TYPE
    }

    /// Whether its sender supports ECN (ECT, RFC 3168).
    pub fn is_ect(&self) -> bool {
        ecn_at(&self.bytes).is_some_and(|(at, shift)| {
            let ecn = self.bytes[at] >> shift & ECN_CE;
            ecn != 0 && ecn != ECN_CE
        })
    }

    /// Tells the packet's flow from others: by addresses, protocol and ports. Packets without readable
    /// ports (fragments, IPv6 extension headers) are told apart by the rest. All other than IP is one flow.
    pub fn flow(&self) -> u64 {
        if ecn_at(&self.bytes).is_none() {
            return 0;
        }
        let network = Network::of(&self.bytes);
        let packet = &self.bytes[network.at..];
        let (addresses, protocol, transport) = if network.kind == IPV4 {
            let fragment = packet[6] & 0x3f != 0 || packet[7] != 0;
            let header = usize::from(packet[0] & 0x0f) * 4;
            (12..20, packet[9], (!fragment).then_some(header))
        } else {
            (8..40, packet[6], Some(40))
        };
        let has_ports = matches!(protocol, TCP | UDP);
        let ports = transport.filter(|_| has_ports).and_then(|at| packet.get(at..at + 4));
        let parts = packet[addresses].iter().chain([&protocol]).chain(ports.into_iter().flatten());
        // FNV-1a: the link's discipline spreads it further.
        parts.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
    }

    /// Whether the two are one frame that was read from a device.
    pub fn is_same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.bytes, &other.bytes)
    }

    /// How many packets this is on the wire.
    pub fn segments(&self) -> usize {
        self.train.map_or(1, |train| train.segments)
    }

    /// The length of the n-th of them in bytes, without Ethernet header and VLAN tags.
    pub fn packet_length(&self, segment: usize) -> usize {
        match &self.train {
            None => self.bytes.len() - Network::of(&self.bytes).at,
            Some(train) => {
                train.longest_packet(train.range(segment..segment + 1, &self.bytes).len())
            }
        }
    }

    /// Neighbouring segments as a frame of their own, ready to write to the other device.
    pub fn cut(&self, segments: Range<usize>) -> FramePart {
        let mut headers = [0; MAX_HEADERS];
        let Some(train) = self.train else {
            let headers_len = MAX_HEADERS.min(self.bytes.len());
            headers[..headers_len].copy_from_slice(&self.bytes[..headers_len]);
            let payload = headers_len..self.bytes.len();
            let longest_packet = self.packet_length(0);
            let frame = Rc::clone(&self.bytes);
            return FramePart { headers, headers_len, payload, longest_packet, frame };
        };
        let payload = train.range(segments.clone(), &self.bytes);
        headers[..train.payload].copy_from_slice(&self.bytes[..train.payload]);
        train.rewrite(&mut headers[..train.payload], &segments, payload.len());
        let (headers_len, longest_packet) = (train.payload, train.longest_packet(payload.len()));
        FramePart { headers, headers_len, payload, longest_packet, frame: Rc::clone(&self.bytes) }
    }
}

/// A frame to deliver: its own headers, and payload shared with the super-packet it came out of.
#[derive(Debug, Clone)]
pub struct FramePart {
    headers: [u8; MAX_HEADERS],
    headers_len: usize,
    payload: Range<usize>,
    longest_packet: usize,
    frame: Rc<[u8]>,
}

impl FramePart {
    /// The two parts to write, in order.
    pub fn parts(&self) -> [&[u8]; 2] {
        [&self.headers[..self.headers_len], &self.frame[self.payload.clone()]]
    }

    /// The length of its longest packet, without Ethernet header and VLAN tags: what an MTU bounds.
    pub fn longest_packet(&self) -> usize {
        self.longest_packet
    }

    /// The same as a frame to be carried on.
    ///
    /// # Errors
    /// None of a part that was cut out of a frame; a caller counts it nevertheless.
    pub fn to_frame(&self) -> Result<Frame, Malformed> {
        Frame::parse(&self.parts().concat())
    }

    /// Marks it with congestion experienced (CE). Who calls has seen that it is of a sender that can be told.
    pub fn mark(&mut self) {
        let headers = &mut self.headers[..self.headers_len];
        let Some((at, shift)) = ecn_at(headers) else { return };
        headers[at] |= ECN_CE << shift;
        let Network { kind, at } = Network::of(headers);
        let header = usize::from(headers[at] & 0x0f) * 4;
        if kind == IPV4 && header >= 20 && headers.len() >= at + header {
            set_ipv4_checksum(&mut headers[at..at + header]);
        }
    }
}
