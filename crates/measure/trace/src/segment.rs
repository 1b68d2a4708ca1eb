// SPDX-License-Identifier: GPL-2.0-or-later
//! From a captured packet to one TCP segment, or to several that a network card or the kernel put together.
//!
//! Lengths are those of the IP header, so a snap length costs only what was cut. What is cut within TCP's options loses the
//! options alone. Slices by `etherparse`, whose lax ones take packets that are cut or whose lengths are not filled in.

use crate::packet::{Heading, LinkType, Packet};
use etherparse::{
    EtherType, Ethernet2HeaderSlice, IpNumber, LaxIpSlice, SingleVlanSlice, TcpOptionElement,
    TcpOptionsIterator, TcpSlice,
};
use std::net::IpAddr;

/// Bytes of the longest TCP header.
const LONGEST_HEADER: usize = 60;
const SHORTEST_HEADER: usize = 20;
const PROVIDER_BRIDGING: [u16; 3] = [0x8100, 0x88a8, 0x9100];
/// Tags of VLANs in a packet; more are taken for something else.
const MAX_TAGS: usize = 4;

/// An address and port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    /// The address.
    pub ip: IpAddr,
    /// The port.
    pub port: u16,
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::net::SocketAddr::new(self.ip, self.port).fmt(f)
    }
}

/// Flags of TCP that matter here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[expect(clippy::struct_excessive_bools, reason = "bits of a header")]
pub struct Flags {
    /// Opens the connection.
    pub syn: bool,
    /// The acknowledgement is valid.
    pub ack: bool,
    /// Ends the sender's stream.
    pub fin: bool,
    /// Aborts the connection.
    pub rst: bool,
}

/// A TCP packet, without its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Number of its packet in the capture, from 1.
    pub number: u64,
    /// When it was captured, in nanoseconds since 1970.
    pub unix_ns: u64,
    /// Who sent it.
    pub from: Endpoint,
    /// To whom.
    pub to: Endpoint,
    /// Its first sequence number.
    pub seq: u32,
    /// What it acknowledges, if `flags.ack`.
    pub ack: u32,
    /// Bytes of payload on the link, not what was kept of them.
    pub payload: u32,
    /// The window as in the header, not scaled.
    pub window: u16,
    /// Flags of the header.
    pub flags: Flags,
    /// Whether the network marked it (ECN congestion experienced).
    pub is_marked: bool,
    /// IPv4's identification; 0 where there is none.
    pub ip_id: u16,
    /// TTL or hop limit.
    pub hops: u8,
    /// Which interface captured it.
    pub interface: u32,
    /// Which way it went, if the capture says.
    pub heading: Heading,
    /// Largest segment that the sender takes. In packets that open a connection.
    pub mss: Option<u16>,
    /// By how many bits the sender's windows are shifted. In packets that open a connection.
    pub window_scale: Option<u8>,
    /// `TSval` and `TSecr`.
    pub timestamps: Option<(u32, u32)>,
    /// Selective acknowledgements as they are written, the first `sack_blocks` of them.
    pub sack: [(u32, u32); 4],
    /// How many of `sack` there are.
    pub sack_blocks: u8,
}

/// Why a packet is no segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoSegment {
    /// The capture's link type is not known here.
    UnknownLink,
    /// Neither IPv4 nor IPv6.
    NotIp,
    /// Another protocol than TCP.
    NotTcp,
    /// A fragment of an IP packet.
    Fragment,
    /// Too little of it was kept, or its headers contradict each other.
    Unreadable,
}

impl Segment {
    /// Reads the segment of a packet.
    ///
    /// # Errors
    /// It has none.
    pub fn of(packet: &Packet<'_>) -> Result<Self, NoSegment> {
        let ip = ip_packet(packet)?;
        let before_ip = (packet.data.len() - ip.len()) as u32;
        let (header, _) = LaxIpSlice::from_slice(ip).map_err(|_| NoSegment::Unreadable)?;
        let payload = header.payload();
        if payload.fragmented {
            return Err(NoSegment::Fragment);
        }
        if payload.ip_number != IpNumber::TCP {
            return Err(NoSegment::NotTcp);
        }
        let on_link = packet.length.saturating_sub(before_ip);
        let (total, ip_id, hops, ecn) = match &header {
            LaxIpSlice::Ipv4(ip) => {
                let header = ip.header();
                let total = u32::from(header.total_len());
                (total, header.identification(), header.ttl(), header.ecn().value())
            }
            LaxIpSlice::Ipv6(ip) => {
                let header = ip.header();
                let total = match header.payload_length() {
                    0 => 0,
                    length => u32::from(length) + 40,
                };
                (total, 0, header.hop_limit(), header.ecn().value())
            }
        };
        // Senders with TSO leave lengths beyond 16 bits at 0.
        let total = if total == 0 { on_link } else { total };
        let before_tcp = (payload.payload.as_ptr() as usize - ip.as_ptr() as usize) as u32;
        let mut whole = [0; LONGEST_HEADER];
        let tcp = tcp_slice(payload.payload, &mut whole).ok_or(NoSegment::Unreadable)?;
        let length = total.saturating_sub(before_tcp + u32::from(tcp.data_offset()) * 4);
        let mut segment = Self {
            number: packet.number,
            unix_ns: packet.unix_ns,
            from: Endpoint { ip: header.source_addr(), port: tcp.source_port() },
            to: Endpoint { ip: header.destination_addr(), port: tcp.destination_port() },
            seq: tcp.sequence_number(),
            ack: tcp.acknowledgment_number(),
            payload: length,
            window: tcp.window_size(),
            flags: Flags { syn: tcp.syn(), ack: tcp.ack(), fin: tcp.fin(), rst: tcp.rst() },
            is_marked: ecn == 3,
            ip_id,
            hops,
            interface: packet.interface,
            heading: heading(packet),
            mss: None,
            window_scale: None,
            timestamps: None,
            sack: [(0, 0); 4],
            sack_blocks: 0,
        };
        // Zeros in place of what is cut would be read as values.
        let kept = payload.payload.len() - SHORTEST_HEADER;
        segment.take_options(&tcp.options()[..tcp.options().len().min(kept)]);
        Ok(segment)
    }

    /// The selective acknowledgements.
    pub fn sack(&self) -> &[(u32, u32)] {
        &self.sack[..usize::from(self.sack_blocks)]
    }

    /// Numbers of sequence space that it takes.
    pub fn sequence_length(&self) -> u32 {
        self.payload + u32::from(self.flags.syn) + u32::from(self.flags.fin)
    }

    fn take_options(&mut self, options: &[u8]) {
        // Most segments have no other option: its kind and length, behind two bytes that fill a word (RFC 7323, appendix A).
        if let &[1, 1, 8, 10, a, b, c, d, e, f, g, h] = options {
            let [value, echo] = [[a, b, c, d], [e, f, g, h]].map(u32::from_be_bytes);
            self.timestamps = Some((value, echo));
            return;
        }
        for option in TcpOptionsIterator::from_slice(options).map_while(Result::ok) {
            match option {
                TcpOptionElement::Timestamp(value, echo) => self.timestamps = Some((value, echo)),
                TcpOptionElement::MaximumSegmentSize(mss) => self.mss = Some(mss),
                TcpOptionElement::WindowScale(scale) => self.window_scale = Some(scale.min(14)),
                TcpOptionElement::SelectiveAcknowledgement(first, more) => {
                    let blocks = [Some(first)].into_iter().chain(more).flatten();
                    self.sack_blocks = 0;
                    for (block, into) in blocks.zip(&mut self.sack) {
                        *into = block;
                        self.sack_blocks += 1;
                    }
                }
                _ => {}
            }
        }
    }
}

/// The TCP header, whose options may be cut: what is missing of it is zeros.
fn tcp_slice<'a>(payload: &'a [u8], whole: &'a mut [u8; LONGEST_HEADER]) -> Option<TcpSlice<'a>> {
    if let Ok(tcp) = TcpSlice::from_slice(payload) {
        return Some(tcp);
    }
    if payload.len() < SHORTEST_HEADER {
        return None;
    }
    let kept = payload.len().min(LONGEST_HEADER);
    whole[..kept].copy_from_slice(&payload[..kept]);
    TcpSlice::from_slice(whole).ok()
}

/// The packet from its IP header on.
fn ip_packet<'a>(packet: &Packet<'a>) -> Result<&'a [u8], NoSegment> {
    let data = packet.data;
    let from = |begin: usize| data.get(begin..).ok_or(NoSegment::Unreadable);
    let number = |at: usize| match data.get(at..at + 2) {
        Some(bytes) => Ok(u16::from_be_bytes([bytes[0], bytes[1]])),
        None => Err(NoSegment::Unreadable),
    };
    match packet.link {
        LinkType::ETHERNET => {
            let header =
                Ethernet2HeaderSlice::from_slice(data).map_err(|_| NoSegment::Unreadable)?;
            within_tags(header.ether_type().0, from(header.slice().len())?)
        }
        LinkType::LINUX_SLL => within_tags(number(14)?, from(16)?),
        LinkType::LINUX_SLL2 => within_tags(number(0)?, from(20)?),
        LinkType::NULL | LinkType::LOOP => is_ip(from(4)?),
        LinkType::RAW
        | LinkType::RAW_BSD
        | LinkType::RAW_OPENBSD
        | LinkType::IPV4
        | LinkType::IPV6 => is_ip(data),
        _ => Err(NoSegment::UnknownLink),
    }
}

fn within_tags(mut ether_type: u16, mut rest: &[u8]) -> Result<&[u8], NoSegment> {
    for _ in 0..MAX_TAGS {
        if !PROVIDER_BRIDGING.contains(&ether_type) {
            break;
        }
        let tag = SingleVlanSlice::from_slice(rest).map_err(|_| NoSegment::Unreadable)?;
        ether_type = tag.ether_type().0;
        rest = tag.payload_slice();
    }
    match EtherType(ether_type) {
        EtherType::IPV4 | EtherType::IPV6 => is_ip(rest),
        _ => Err(NoSegment::NotIp),
    }
}

/// By the version in the header: the family's number in a loopback's header differs between systems.
fn is_ip(data: &[u8]) -> Result<&[u8], NoSegment> {
    match data.first().map(|first| first >> 4) {
        Some(4 | 6) => Ok(data),
        Some(_) => Err(NoSegment::NotIp),
        None => Err(NoSegment::Unreadable),
    }
}

/// Cooked captures say it in their header: 4 is sent by this machine.
fn heading(packet: &Packet<'_>) -> Heading {
    let kind = match packet.link {
        LinkType::LINUX_SLL => packet.data.get(1),
        LinkType::LINUX_SLL2 => packet.data.get(10),
        _ => return packet.heading,
    };
    match kind {
        Some(4) => Heading::Outbound,
        Some(0..=2) => Heading::Inbound,
        _ => packet.heading,
    }
}
