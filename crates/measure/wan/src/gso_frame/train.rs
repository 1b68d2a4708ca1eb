// SPDX-License-Identifier: GPL-2.0-or-later
//! The segments of a super-packet: which there are, and their headers, as the kernel's own segmentation sets
//! them (`tcp_gso_segment`, `__udp_gso_segment`).

use super::headers::{
    ETHERNET_LEN, IPV4, IPV6, MAX_TAGS, Network, TCP, UDP, VLAN_LEN, VNET_LEN, fold,
    set_ipv4_checksum, sum,
};
use std::ops::Range;

/// virtio-net, Ethernet with VLAN tags, and the longest IP and TCP headers that a stack sends with TSO.
pub const MAX_HEADERS: usize = VNET_LEN + ETHERNET_LEN + MAX_TAGS * VLAN_LEN + 120 + 60;

/// The checksum is the receiver's to complete, from `csum_start` on.
pub const VNET_NEEDS_CSUM: u8 = 1;
pub const VNET_GSO_TCPV4: u8 = 1;
pub const VNET_GSO_TCPV6: u8 = 4;
pub const VNET_GSO_UDP_L4: u8 = 5;
const VNET_GSO_ECN: u8 = 0x80;
pub const TCP_FIN: u8 = 0x01;
pub const TCP_PSH: u8 = 0x08;
pub const TCP_CWR: u8 = 0x80;
const UDP_LEN: usize = 8;

/// A frame that can't be what a kernel hands over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a frame from the device has damaged or unknown headers")]
pub struct Malformed;

/// The segments of a super-packet.
#[derive(Debug, Clone, Copy)]
pub struct Train {
    network: Network,
    protocol: Protocol,
    /// Where the TCP or UDP header begins.
    transport: usize,
    /// Where the payload begins.
    pub payload: usize,
    /// Payload bytes of each segment but the last.
    gso_size: usize,
    pub segments: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Tcp,
    Udp,
}

impl Train {
    /// Reads a frame's headers; none where it is a single packet.
    ///
    /// A super-packet within a tunnel has the same type as one without, so the transport header has to be the
    /// one that is behind the outer IP header.
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>, Malformed> {
        let gso_type = bytes[1] & !VNET_GSO_ECN;
        if gso_type == 0 {
            return Ok(None);
        }
        let network = Network::of(bytes);
        let (number, transport) = network.transport(bytes).ok_or(Malformed)?;
        let protocol = match (gso_type, network.kind, number) {
            (VNET_GSO_TCPV4, IPV4, TCP) | (VNET_GSO_TCPV6, IPV6, TCP) => Protocol::Tcp,
            (VNET_GSO_UDP_L4, IPV4 | IPV6, UDP) => Protocol::Udp,
            _ => return Err(Malformed),
        };
        // csum_start of NEEDS_CSUM, which every super-packet has.
        let csum_start = VNET_LEN + usize::from(u16::from_ne_bytes([bytes[6], bytes[7]]));
        let gso_size = usize::from(u16::from_ne_bytes([bytes[4], bytes[5]]));
        let sound = bytes[0] & VNET_NEEDS_CSUM != 0 && gso_size > 0 && csum_start == transport;
        let header = match protocol {
            Protocol::Tcp => usize::from(*bytes.get(transport + 12).ok_or(Malformed)? >> 4) * 4,
            Protocol::Udp => UDP_LEN,
        };
        let payload = transport + header;
        let fits = payload <= MAX_HEADERS && payload < bytes.len();
        if !sound || !fits || (protocol == Protocol::Tcp && header < 20) {
            return Err(Malformed);
        }
        let segments = (bytes.len() - payload).div_ceil(gso_size);
        Ok(Some(Self { network, protocol, transport, payload, gso_size, segments }))
    }

    /// Where the payload of some segments is.
    pub fn range(&self, segments: Range<usize>, bytes: &[u8]) -> Range<usize> {
        let at = |n: usize| (self.payload + n * self.gso_size).min(bytes.len());
        at(segments.start)..at(segments.end)
    }

    /// The length of the longest packet among segments with so much payload together.
    pub fn longest_packet(&self, payload_len: usize) -> usize {
        self.payload - self.network.at + payload_len.min(self.gso_size)
    }

    /// Makes the headers of the whole train those of some of its segments.
    pub fn rewrite(&self, headers: &mut [u8], segments: &Range<usize>, payload_len: usize) {
        if segments.len() == 1 {
            // No longer a super-packet: gso_type none, gso_size 0. NEEDS_CSUM stays.
            headers[1] = 0;
            headers[4..6].fill(0);
        }
        // hdr_len: the kernel says how much of its buffer was linear, which may be more than is left.
        let header_len = (self.payload - VNET_LEN) as u16;
        headers[2..4].copy_from_slice(&header_len.to_ne_bytes());
        let transport_len = self.payload - self.transport + payload_len;
        self.rewrite_ip(headers, segments, transport_len);
        // With NEEDS_CSUM the checksum's field holds the sum over the pseudo-header; the receiver of the frame adds
        // the rest.
        let addresses = sum(&headers[self.network.addresses()]);
        let transport = &mut headers[self.transport..];
        let (number, checksum) = match self.protocol {
            Protocol::Tcp => {
                self.rewrite_tcp(transport, segments);
                (TCP, 16)
            }
            Protocol::Udp => {
                transport[4..6].copy_from_slice(&(transport_len as u16).to_be_bytes());
                (UDP, 6)
            }
        };
        let pseudo = addresses + u32::from(number) + transport_len as u32;
        transport[checksum..checksum + 2].copy_from_slice(&fold(pseudo).to_be_bytes());
    }

    fn rewrite_ip(&self, headers: &mut [u8], segments: &Range<usize>, transport_len: usize) {
        let header = &mut headers[self.network.at..self.transport];
        if self.network.kind == IPV6 {
            let length = (header.len() - 40 + transport_len) as u16;
            header[4..6].copy_from_slice(&length.to_be_bytes());
        } else {
            let length = (header.len() + transport_len) as u16;
            header[2..4].copy_from_slice(&length.to_be_bytes());
            let id = u16::from_be_bytes([header[4], header[5]]);
            let id = id.wrapping_add(segments.start as u16);
            header[4..6].copy_from_slice(&id.to_be_bytes());
            set_ipv4_checksum(header);
        }
    }

    fn rewrite_tcp(&self, tcp: &mut [u8], segments: &Range<usize>) {
        let sequence = u32::from_be_bytes(tcp[4..8].try_into().expect("four"));
        let sequence = sequence.wrapping_add((segments.start * self.gso_size) as u32);
        tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
        if segments.end < self.segments {
            tcp[13] &= !(TCP_FIN | TCP_PSH);
        }
        if segments.start > 0 {
            tcp[13] &= !TCP_CWR;
        }
    }
}
