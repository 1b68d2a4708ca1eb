// SPDX-License-Identifier: GPL-2.0-or-later
//! Headers of a frame, with checksums, over content of zeros.

use super::connection_view::{TcpView, View};
use etherparse::{
    EtherType, Ethernet2Header, IpEcn, IpNumber, Ipv4Header, Ipv6Header, TcpHeader,
    TcpOptionElement, UdpHeader,
};
use std::net::IpAddr;

/// A packet's content.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
const HOPS: u8 = 64;

/// Addresses of a frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct EthernetEnds {
    pub(super) from: [u8; 6],
    pub(super) to: [u8; 6],
}

/// The headers of a frame, one behind the other.
#[derive(Debug)]
pub(super) struct Headers(Vec<u8>);

impl Headers {
    pub(super) fn of(view: &View, ends: EthernetEnds) -> Self {
        let [(from, _), (to, _)] = view.ends;
        let (protocol, transport) = match &view.tcp {
            Some(tcp) => (IpNumber::TCP, tcp_header(view, tcp)),
            None => (IpNumber::UDP, udp_header(view)),
        };
        let ecn = match (view.is_marked, view.is_ect) {
            (true, _) => IpEcn::CongestionExperienced,
            (false, true) => IpEcn::Ect0,
            (false, false) => IpEcn::NotEct,
        };
        let length = (transport.len() as u32 + view.payload) as u16;
        let (kind, ip) = match (from, to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let header = Ipv4Header::new(length, HOPS, protocol, from.octets(), to.octets());
                let mut header = header.expect("a packet's length has 16 bits");
                header.ecn = ecn;
                header.header_checksum = header.calc_header_checksum();
                (EtherType::IPV4, header.to_bytes().to_vec())
            }
            (from, to) => {
                let octets = |address| match address {
                    IpAddr::V6(address) => address.octets(),
                    IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
                };
                let header = Ipv6Header {
                    traffic_class: ecn.value(),
                    payload_length: length,
                    next_header: protocol,
                    hop_limit: HOPS,
                    source: octets(from),
                    destination: octets(to),
                    ..Ipv6Header::default()
                };
                (EtherType::IPV6, header.to_bytes().to_vec())
            }
        };
        let ethernet =
            Ethernet2Header { source: ends.from, destination: ends.to, ether_type: kind };
        Self([&ethernet.to_bytes()[..], &ip, &transport].concat())
    }

    /// Writes the first `snap` bytes of the frame; its whole length.
    pub(super) fn write(&self, to: &mut Vec<u8>, payload: u32, snap: u32) -> u32 {
        let (header, length) = (self.0.len(), self.0.len() as u32 + payload);
        let kept = length.min(snap) as usize;
        to.extend(&self.0[..kept.min(header)]);
        to.extend(&ZEROS[..kept.saturating_sub(header)]);
        length
    }
}

fn udp_header(view: &View) -> Vec<u8> {
    let [(from, from_port), (to, to_port)] = view.ends;
    let payload = &ZEROS[..view.payload as usize];
    let header = match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let mut header = UdpHeader {
                source_port: from_port,
                destination_port: to_port,
                length: payload.len() as u16 + UdpHeader::LEN_U16,
                checksum: 0,
            };
            let checksum = header.calc_checksum_ipv4_raw(from.octets(), to.octets(), payload);
            header.checksum = checksum.expect("a packet's length has 16 bits");
            header
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let ip = Ipv6Header {
                source: from.octets(),
                destination: to.octets(),
                ..Ipv6Header::default()
            };
            UdpHeader::with_ipv6_checksum(from_port, to_port, &ip, payload)
                .expect("a packet's length has 16 bits")
        }
        _ => unreachable!("a run is of one family"),
    };
    header.to_bytes().to_vec()
}

fn tcp_header(view: &View, tcp: &TcpView) -> Vec<u8> {
    let [(from, from_port), (to, to_port)] = view.ends;
    let mut header = TcpHeader::new(from_port, to_port, tcp.seq, tcp.window);
    header.syn = tcp.opens.is_some();
    header.ack = tcp.ack.is_some();
    header.acknowledgment_number = tcp.ack.unwrap_or_default();
    (header.psh, header.ece, header.cwr) = (tcp.pushed, tcp.echo, tcp.reduced);
    header.set_options(&options(tcp)).expect("three blocks and four more fit");
    let payload = &ZEROS[..view.payload as usize];
    let checksum = match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            header.calc_checksum_ipv4_raw(from.octets(), to.octets(), payload)
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            header.calc_checksum_ipv6_raw(from.octets(), to.octets(), payload)
        }
        _ => unreachable!("a run is of one family"),
    };
    header.checksum = checksum.expect("a packet's length has 16 bits");
    header.to_bytes().to_vec()
}

/// The options, behind as much padding as makes them the scenario's, or a multiple of four.
fn options(tcp: &TcpView) -> Vec<TcpOptionElement> {
    use TcpOptionElement::{
        MaximumSegmentSize, Noop, SelectiveAcknowledgement, SelectiveAcknowledgementPermitted,
        WindowScale,
    };
    let (mut options, mut bytes) = (Vec::new(), 0);
    if let Some((mss, scale)) = tcp.opens {
        options.extend([
            MaximumSegmentSize(mss),
            SelectiveAcknowledgementPermitted,
            WindowScale(scale),
        ]);
        bytes += 4 + 2 + 3;
    }
    if let Some((first, more)) = tcp.blocks.split_first() {
        let mut others = [None; 3];
        for (other, block) in others.iter_mut().zip(more) {
            *other = Some(*block);
        }
        options.push(SelectiveAcknowledgement(*first, others));
        bytes += 2 + 8 * tcp.blocks.len() as u32;
    }
    let padding = tcp.options.max(bytes.next_multiple_of(4)) - bytes;
    let padded = vec![Noop; padding as usize];
    [padded, options].concat()
}
