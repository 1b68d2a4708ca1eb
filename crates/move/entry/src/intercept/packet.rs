// SPDX-License-Identifier: GPL-2.0-or-later
//! A held SYN: whose it is, the same packet to send again, and answers that refuse it.

use etherparse::{
    Icmpv4Type, Icmpv6Type, IpSlice, PacketBuilder, TcpSlice, icmpv4::DestUnreachableHeader,
    icmpv6::DestUnreachableCode, ip_number,
};
use std::net::{IpAddr, SocketAddr};

/// Hops that a refusal may take.
const HOP_LIMIT: u8 = 64;
/// Offset of the checksum in TCP's header.
const CHECKSUM_AT: usize = 16;
/// Bytes of a packet that ICMP repeats (RFC 1812: up to 576 in all).
const MOST_OF_CAUSE: usize = 512;

/// The first packet of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Syn {
    /// Who connects.
    pub client: SocketAddr,
    /// To whom.
    pub server: SocketAddr,
    sequence_number: u32,
    /// With its IP header, and a correct checksum of TCP. A packet that this host sends has none yet when it is
    /// logged.
    pub packet: Vec<u8>,
}

/// How a client learns that it is not connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// TCP's reset: connection refused.
    Reset,
    /// ICMP: host unreachable.
    Unreachable,
}

impl Syn {
    /// Reads a packet that begins with its IP header. `None`: it is not the first packet of a TCP connection.
    pub(super) fn parse(packet: &[u8]) -> Option<Self> {
        let ip = IpSlice::from_slice(packet).ok()?;
        if ip.payload_ip_number() != ip_number::TCP || ip.is_fragmenting_payload() {
            return None;
        }
        let segment = ip.payload().payload;
        let tcp = TcpSlice::from_slice(segment).ok()?;
        if !tcp.syn() || tcp.ack() || tcp.rst() || tcp.fin() {
            return None;
        }
        let checksum = match (ip.source_addr(), ip.destination_addr()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                tcp.calc_checksum_ipv4(from.octets(), to.octets())
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                tcp.calc_checksum_ipv6(from.octets(), to.octets())
            }
            _ => return None,
        };
        let start = segment.as_ptr() as usize - packet.as_ptr() as usize;
        let mut whole = packet[..start + segment.len()].to_vec();
        whole[start + CHECKSUM_AT..][..2].copy_from_slice(&checksum.ok()?.to_be_bytes());
        Some(Self {
            client: (ip.source_addr(), tcp.source_port()).into(),
            server: (ip.destination_addr(), tcp.destination_port()).into(),
            sequence_number: tcp.sequence_number(),
            packet: whole,
        })
    }

    /// The packet that tells the client.
    pub(super) fn refused(&self, refusal: Refusal) -> Vec<u8> {
        let (from, to) = (self.server, self.client);
        let ip = match (from.ip(), to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                PacketBuilder::ipv4(from.octets(), to.octets(), HOP_LIMIT)
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                PacketBuilder::ipv6(from.octets(), to.octets(), HOP_LIMIT)
            }
            _ => unreachable!("both are of the packet's family"),
        };
        let mut packet = Vec::new();
        // As much as fits into the smallest packet that every link carries.
        let cause = &self.packet[..self.packet.len().min(MOST_OF_CAUSE)];
        let written = match (refusal, from.ip()) {
            (Refusal::Reset, _) => ip
                .tcp(from.port(), to.port(), 0, 0)
                .rst()
                .ack(self.sequence_number.wrapping_add(1))
                .write(&mut packet, &[]),
            (Refusal::Unreachable, IpAddr::V4(_)) => ip
                .icmpv4(Icmpv4Type::DestinationUnreachable(DestUnreachableHeader::Host))
                .write(&mut packet, cause),
            (Refusal::Unreachable, IpAddr::V6(_)) => ip
                .icmpv6(Icmpv6Type::DestinationUnreachable(DestUnreachableCode::Address))
                .write(&mut packet, cause),
        };
        written.expect("a packet of less than 600 bytes is written to memory");
        packet
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{SlicedPacket, TcpOptionElement, TransportSlice};

    fn syn(six: bool) -> Vec<u8> {
        let ip = if six {
            PacketBuilder::ipv6([0x20; 16], [0x21; 16], 64)
        } else {
            PacketBuilder::ipv4([192, 0, 2, 1], [198, 51, 100, 2], 64)
        };
        let options =
            [TcpOptionElement::MaximumSegmentSize(1460), TcpOptionElement::WindowScale(7)];
        let tcp = ip.tcp(40_000, 443, u32::MAX, 64_240).syn().options(&options).unwrap();
        let mut packet = Vec::new();
        tcp.write(&mut packet, b"early").unwrap();
        packet
    }

    #[test]
    fn a_syn_is_read_and_its_checksum_made_good() {
        for six in [false, true] {
            let whole = syn(six);
            let mut unsummed = whole.clone();
            let checksum_at = if six { 40 } else { 20 } + 16;
            unsummed[checksum_at..][..2].copy_from_slice(&[0x12, 0x34]);
            let read = Syn::parse(&unsummed).unwrap();
            assert_eq!(read.packet, whole);
            assert_eq!((read.client.port(), read.server.port()), (40_000, 443));
            assert_eq!(read.client.is_ipv6(), six);
        }
    }

    #[test]
    fn other_packets_are_no_syn() {
        let whole = syn(false);
        for cut in 0..whole.len() - 5 {
            assert_eq!(Syn::parse(&whole[..cut]), None, "{cut}");
        }
        for flags in [0x12, 0x10, 0x03, 0x06, 0x00] {
            let mut other = whole.clone();
            other[20 + 13] = flags;
            assert_eq!(Syn::parse(&other), None, "{flags:#x}");
        }
        let mut udp = whole.clone();
        udp[9] = 17;
        assert_eq!(Syn::parse(&udp), None);
        let mut fragment = whole;
        fragment[6] = 0x20;
        assert_eq!(Syn::parse(&fragment), None);
    }

    #[test]
    fn refusals_go_to_the_client_as_from_the_server() {
        for six in [false, true] {
            let read = Syn::parse(&syn(six)).unwrap();
            let reset = read.refused(Refusal::Reset);
            let sliced = SlicedPacket::from_ip(&reset).unwrap();
            let Some(TransportSlice::Tcp(tcp)) = sliced.transport else { panic!("{sliced:?}") };
            assert!(tcp.rst() && tcp.ack() && !tcp.syn());
            assert_eq!(tcp.acknowledgment_number(), 0, "one more than the largest");
            assert_eq!((tcp.source_port(), tcp.destination_port()), (443, 40_000));
            let icmp = read.refused(Refusal::Unreachable);
            let ip = IpSlice::from_slice(&icmp).unwrap();
            assert_eq!(ip.destination_addr(), read.client.ip());
            assert_eq!(&ip.payload().payload[8..], &read.packet[..]);
            assert_eq!(ip.payload().payload[..2], if six { [1, 3] } else { [3, 1] });
        }
    }

    /// A packet that is taken changes in its checksum only, and can be refused.
    fn syn_input(input: &[u8]) -> bool {
        let Some(read) = Syn::parse(input) else { return false };
        assert!(read.packet.len() <= input.len() && read.packet.len() >= 40);
        let differs = (0..read.packet.len()).filter(|&at| read.packet[at] != input[at]).count();
        assert!(differs <= 2, "{differs} bytes differ");
        assert_eq!(Syn::parse(&read.packet).as_ref(), Some(&read));
        for refusal in [Refusal::Reset, Refusal::Unreachable] {
            let packet = read.refused(refusal);
            let ip = IpSlice::from_slice(&packet).unwrap();
            assert_eq!(
                (ip.source_addr(), ip.destination_addr()),
                (read.server.ip(), read.client.ip())
            );
        }
        true
    }

    #[test]
    fn mutated_packets_are_read_or_left() {
        crate::fuzz_tests::run("syn", 100_000, syn_input);
    }
}
