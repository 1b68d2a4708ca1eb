// SPDX-License-Identifier: GPL-2.0-or-later
//! Super-packets: what a TAP with the virtio-net header hands over when the sender leaves segmentation to the
//! device (TSO for TCP, USO for UDP).
//!
//! A frame from the device is `virtio-net header | Ethernet | IPv4 or IPv6 | TCP or UDP | payload`. Where
//! the header says so, the payload is up to 64 KB that stand for many segments of `gso_size` bytes.
//! The link accounts for each of them; what survives is delivered as super-packets of neighbouring
//! segments, each cut out by [`Frame::cut`] with new lengths, sequence number, flags and checksums,
//! as the kernel's own segmentation (`tcp_gso_segment`, `__udp_gso_segment`) sets them.

use std::{ops::Range, rc::Rc};

/// Bytes of the virtio-net header (the ten of the legacy layout, which is TUN's default).
pub const VNET_LEN: usize = 10;
const ETHERNET_LEN: usize = 14;
/// virtio-net, Ethernet, and the longest IP and TCP headers that a stack sends with TSO.
const MAX_HEADERS: usize = VNET_LEN + ETHERNET_LEN + 120 + 60;
/// The longest frame a device hands over.
pub const MAX_FRAME: usize = VNET_LEN + ETHERNET_LEN + 65_535;

/// How a PAUSE frame begins (IEEE 802.3x): the group that it goes to, and its type.
const PAUSE_TO: [u8; 6] = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x01];
const PAUSE_TYPE: [u8; 2] = [0x88, 0x08];

const VNET_NEEDS_CSUM: u8 = 1;
const VNET_GSO_TCPV4: u8 = 1;
const VNET_GSO_TCPV6: u8 = 4;
/// UDP over either version of IP; the kernel hands it over since Linux 6.2.
const VNET_GSO_UDP: u8 = 5;
const VNET_GSO_ECN: u8 = 0x80;
/// Protocols whose headers begin with ports.
const TCP: u8 = 6;
const UDP: u8 = 17;
const TCP_FIN: u8 = 0x01;
const TCP_PSH: u8 = 0x08;
const TCP_CWR: u8 = 0x80;

/// One frame as read from a device, whole.
#[derive(Debug, Clone)]
pub struct Frame {
    bytes: Rc<[u8]>,
    train: Option<Train>,
}

/// The segments of a super-packet.
#[derive(Debug, Clone, Copy)]
struct Train {
    v6: bool,
    protocol: Protocol,
    /// Where the header of that protocol begins, counted from the frame's first byte.
    transport: usize,
    /// Where the payload begins.
    payload: usize,
    /// Payload bytes of each segment but the last.
    gso_size: usize,
    segments: usize,
}

/// What a super-packet's segments are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Tcp,
    Udp,
}

impl Protocol {
    /// The length of its header without options.
    fn shortest_header(self) -> usize {
        match self {
            Self::Tcp => 20,
            Self::Udp => 8,
        }
    }

    /// Its number in the IP header, and where its header has the checksum.
    fn number_and_checksum(self) -> (u8, usize) {
        match self {
            Self::Tcp => (TCP, 16),
            Self::Udp => (UDP, 6),
        }
    }
}

/// A frame that can't be what a kernel hands over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a frame from the device has damaged or unknown headers")]
pub struct Malformed;

impl Frame {
    /// Reads a frame's headers.
    ///
    /// # Errors
    /// The frame is too short for its headers, or a super-packet of a kind that was not offered to
    /// the kernel (only TCP and UDP over IPv4 and IPv6 are).
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        if bytes.len() < VNET_LEN + ETHERNET_LEN {
            return Err(Malformed);
        }
        let train = match bytes[1] & !VNET_GSO_ECN {
            0 => None,
            VNET_GSO_TCPV4 => Some(Train::parse(bytes, false, Protocol::Tcp)?),
            VNET_GSO_TCPV6 => Some(Train::parse(bytes, true, Protocol::Tcp)?),
            VNET_GSO_UDP => Some(Train::parse(bytes, is_ipv6(bytes), Protocol::Udp)?),
            _ => return Err(Malformed),
        };
        Ok(Self { bytes: bytes.into(), train })
    }

    /// Whether the frame is addressed to a group. The links carry none: they join two hosts that
    /// know each other, and what the kernel sends to groups by itself (multicast listener reports)
    /// would only spoil the counts.
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
        let ip = VNET_LEN + ETHERNET_LEN;
        if ecn_at(&self.bytes).is_none() {
            return 0;
        }
        let packet = &self.bytes[ip..];
        let (addresses, protocol, transport) = if self.bytes[ip - 2..ip] == [0x08, 0x00] {
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

    /// The IP length of the n-th of them in bytes.
    pub fn ip_length(&self, segment: usize) -> usize {
        let ip = VNET_LEN + ETHERNET_LEN;
        match &self.train {
            None => self.bytes.len() - ip,
            Some(train) => {
                train.payload - ip + train.range(segment..segment + 1, &self.bytes).len()
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
            return FramePart { headers, headers_len, payload, frame: Rc::clone(&self.bytes) };
        };
        let payload = train.range(segments.clone(), &self.bytes);
        headers[..train.payload].copy_from_slice(&self.bytes[..train.payload]);
        train.rewrite(&mut headers[..train.payload], &segments, payload.len());
        FramePart { headers, headers_len: train.payload, payload, frame: Rc::clone(&self.bytes) }
    }
}

/// A frame to deliver: its own headers, and payload shared with the super-packet it came out of.
#[derive(Debug, Clone)]
pub struct FramePart {
    headers: [u8; MAX_HEADERS],
    headers_len: usize,
    payload: Range<usize>,
    frame: Rc<[u8]>,
}

impl FramePart {
    /// The two parts to write, in order.
    pub fn parts(&self) -> [&[u8]; 2] {
        [&self.headers[..self.headers_len], &self.frame[self.payload.clone()]]
    }

    /// Marks it with congestion experienced (CE). Who calls has seen that it is of a sender that can be told.
    pub fn mark(&mut self) {
        let headers = &mut self.headers[..self.headers_len];
        let Some((at, shift)) = ecn_at(headers) else { return };
        headers[at] |= ECN_CE << shift;
        let ip = VNET_LEN + ETHERNET_LEN;
        let header = usize::from(headers[ip] & 0x0f) * 4;
        if headers[ip] >> 4 == 4 && headers.len() >= ip + header {
            set_ipv4_checksum(&mut headers[ip..ip + header]);
        }
    }
}

/// The two bits of ECN, both set: congestion experienced (RFC 3168 section 5).
const ECN_CE: u8 = 0b11;

/// Where a frame has its two bits of ECN, and how far they are from the byte's end; none where it is no
/// whole IP packet.
fn ecn_at(frame: &[u8]) -> Option<(usize, u32)> {
    let ip = VNET_LEN + ETHERNET_LEN;
    let kind = [*frame.get(ip - 2)?, frame[ip - 1]];
    match (kind, frame.len() - ip) {
        ([0x08, 0x00], 20..) => Some((ip + 1, 0)),
        // The traffic class spans two bytes.
        ([0x86, 0xdd], 40..) => Some((ip + 1, 4)),
        _ => None,
    }
}

fn is_ipv6(frame: &[u8]) -> bool {
    frame[VNET_LEN + 12..VNET_LEN + ETHERNET_LEN] == [0x86, 0xdd]
}

fn set_ipv4_checksum(header: &mut [u8]) {
    header[10..12].fill(0);
    let checksum = !fold(sum(header));
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
}

impl Train {
    fn parse(bytes: &[u8], v6: bool, protocol: Protocol) -> Result<Self, Malformed> {
        // csum_start (of NEEDS_CSUM, which every super-packet has) is where the transport header begins,
        // behind any IPv6 extension headers.
        let transport = VNET_LEN + usize::from(u16::from_ne_bytes([bytes[6], bytes[7]]));
        let gso_size = usize::from(u16::from_ne_bytes([bytes[4], bytes[5]]));
        let shortest_ip = if v6 { 40 } else { 20 };
        let shortest = protocol.shortest_header();
        let sound = bytes[0] & VNET_NEEDS_CSUM != 0
            && gso_size > 0
            && transport >= VNET_LEN + ETHERNET_LEN + shortest_ip
            && bytes.len() > transport + shortest;
        if !sound {
            return Err(Malformed);
        }
        let payload = match protocol {
            Protocol::Tcp => transport + usize::from(bytes[transport + 12] >> 4) * 4,
            Protocol::Udp => transport + shortest,
        };
        if payload < transport + shortest || payload > MAX_HEADERS || payload >= bytes.len() {
            return Err(Malformed);
        }
        let segments = (bytes.len() - payload).div_ceil(gso_size);
        Ok(Self { v6, protocol, transport, payload, gso_size, segments })
    }

    fn range(&self, segments: Range<usize>, bytes: &[u8]) -> Range<usize> {
        let at = |n: usize| (self.payload + n * self.gso_size).min(bytes.len());
        at(segments.start)..at(segments.end)
    }

    /// Makes the headers of the whole train those of some of its segments.
    fn rewrite(&self, headers: &mut [u8], segments: &Range<usize>, payload_len: usize) {
        if segments.len() == 1 {
            // No longer a super-packet: gso_type none, gso_size 0. NEEDS_CSUM stays.
            headers[1] = 0;
            headers[4..6].fill(0);
        }
        // hdr_len: the kernel says how much of its buffer was linear, which may be more than is left.
        let header_len = (self.payload - VNET_LEN) as u16;
        headers[2..4].copy_from_slice(&header_len.to_ne_bytes());
        let length = self.payload - self.transport + payload_len;
        self.rewrite_ip(headers, segments, length);
        let transport = &mut headers[self.transport..];
        match self.protocol {
            Protocol::Tcp => self.rewrite_tcp(transport, segments),
            Protocol::Udp => transport[4..6].copy_from_slice(&(length as u16).to_be_bytes()),
        }
        // With NEEDS_CSUM the field holds the sum over the pseudo-header; the receiver of the frame adds the rest of
        // the checksum.
        let ip = VNET_LEN + ETHERNET_LEN;
        let pair = if self.v6 { ip + 8..ip + 40 } else { ip + 12..ip + 20 };
        let (number, checksum) = self.protocol.number_and_checksum();
        let pseudo = sum(&headers[pair]) + u32::from(number) + length as u32;
        let checksum = self.transport + checksum;
        headers[checksum..checksum + 2].copy_from_slice(&fold(pseudo).to_be_bytes());
    }

    /// Sets the lengths and numbers of the IP header, before `length` bytes of the transport protocol.
    fn rewrite_ip(&self, headers: &mut [u8], segments: &Range<usize>, length: usize) {
        let ip = VNET_LEN + ETHERNET_LEN;
        if self.v6 {
            let length = (self.transport - ip - 40 + length) as u16;
            headers[ip + 4..ip + 6].copy_from_slice(&length.to_be_bytes());
        } else {
            let length = (self.transport - ip + length) as u16;
            headers[ip + 2..ip + 4].copy_from_slice(&length.to_be_bytes());
            let id = u16::from_be_bytes([headers[ip + 4], headers[ip + 5]]);
            let id = id.wrapping_add(segments.start as u16);
            headers[ip + 4..ip + 6].copy_from_slice(&id.to_be_bytes());
            set_ipv4_checksum(&mut headers[ip..self.transport]);
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

/// The sum of the 16-bit words, not yet folded. Headers are even in length and short enough.
pub(crate) fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks_exact(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum()
}

/// A sum of 16-bit words with its carries added in: its complement is the internet checksum.
pub(crate) fn fold(sum: u32) -> u16 {
    let sum = (sum >> 16) + (sum & 0xffff);
    (sum + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A super-packet as the kernel writes it, built by hand.
    fn super_packet(v6: bool, gso_size: u16, payload: &[u8], flags: u8) -> Vec<u8> {
        let ip_len: u16 = if v6 { 40 } else { 20 };
        let kind = if v6 { VNET_GSO_TCPV6 } else { VNET_GSO_TCPV4 };
        let mut frame = vec![VNET_NEEDS_CSUM, kind];
        // hdr_len is the linear part of the kernel's buffer: payload may be among it.
        let linear = 14 + ip_len + 32 + payload.len().min(3000) as u16;
        for field in [linear, gso_size, 14 + ip_len, 16] {
            frame.extend(field.to_ne_bytes());
        }
        frame.extend([2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
        let tcp_len = 32 + payload.len() as u16;
        if v6 {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend(tcp_len.to_be_bytes());
            frame.extend([6, 64]);
            frame.extend((0..32).map(|n| n * 7 + 1));
        } else {
            frame.extend([0x08, 0x00, 0x45, 0]);
            frame.extend((20 + tcp_len).to_be_bytes());
            frame.extend([0xff, 0xfe, 0x40, 0, 64, 6, 0, 0, 10, 110, 0, 1, 10, 110, 0, 2]);
        }
        frame.extend([0x00, 0x50, 0x12, 0x34, 0xff, 0xff, 0xff, 0x00, 0, 0, 0, 9, 0x80, flags]);
        frame.extend([1, 2, 0, 0, 0, 0, 1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8]);
        frame.extend(payload);
        frame
    }

    /// The same of datagrams: the header of TCP gives way to that of UDP.
    fn super_datagram(v6: bool, gso_size: u16, payload: &[u8]) -> Vec<u8> {
        let mut frame = super_packet(v6, gso_size, payload, 0);
        let ip = VNET_LEN + ETHERNET_LEN;
        let (transport, length, protocol) =
            if v6 { (ip + 40, ip + 4, ip + 6) } else { (ip + 20, ip + 2, ip + 9) };
        let header = [0x00, 0x50, 0x12, 0x34, 0xff, 0xff, 0, 0];
        frame.splice(transport..transport + 32, header);
        let total = frame.len() - if v6 { transport } else { ip };
        frame[length..length + 2].copy_from_slice(&(total as u16).to_be_bytes());
        (frame[1], frame[protocol]) = (VNET_GSO_UDP, UDP);
        frame
    }

    fn bytes_of(cut: &FramePart) -> Vec<u8> {
        cut.parts().concat()
    }

    proptest! {
        /// Any division into neighbouring runs carries the same bytes at the right sequence
        /// numbers, with right lengths and header checksums, and flags where they belong.
        #[test]
        fn cutting_loses_and_invents_nothing(
            v6: bool,
            gso_size in 500u16..9000,
            payload in prop::collection::vec(any::<u8>(), 1..65_000),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let flags = TCP_FIN | TCP_PSH | TCP_CWR | 0x10;
            let frame = Frame::parse(&super_packet(v6, gso_size, &payload, flags)).unwrap();
            prop_assert_eq!(frame.segments(), payload.len().div_ceil(usize::from(gso_size)));
            let mut edges: Vec<usize> = cuts.iter().map(|c| c.index(frame.segments() + 1)).collect();
            edges.extend([0, frame.segments()]);
            edges.sort_unstable();
            edges.dedup();
            let ip_len = if v6 { 40 } else { 20 };
            let tcp = VNET_LEN + ETHERNET_LEN + ip_len;
            let mut joined = Vec::new();
            for edge in edges.windows(2) {
                let segments = edge[0]..edge[1];
                let cut = bytes_of(&frame.cut(segments.clone()));
                let sequence = u32::from_be_bytes(cut[tcp + 4..tcp + 8].try_into().unwrap());
                prop_assert_eq!(sequence, 0xffff_ff00_u32.wrapping_add(joined.len() as u32));
                let body = &cut[tcp + 32..];
                let header_len = usize::from(u16::from_ne_bytes([cut[2], cut[3]]));
                prop_assert_eq!(header_len, tcp + 32 - VNET_LEN, "the kernel refuses a longer one");
                let length = usize::from(u16::from_be_bytes(if v6 { [cut[28], cut[29]] } else { [cut[26], cut[27]] }));
                prop_assert_eq!(length, 32 + body.len() + if v6 { 0 } else { 20 });
                if !v6 {
                    prop_assert_eq!(fold(sum(&cut[24..44])), 0xffff, "IPv4 header checksum");
                    let id = u16::from_be_bytes([cut[28], cut[29]]);
                    prop_assert_eq!(id, 0xfffe_u16.wrapping_add(segments.start as u16));
                }
                let last = segments.end == frame.segments();
                prop_assert_eq!(cut[tcp + 13] & (TCP_FIN | TCP_PSH) != 0, last);
                prop_assert_eq!(cut[tcp + 13] & TCP_CWR != 0, segments.start == 0);
                prop_assert_eq!(cut[1] != 0, segments.len() > 1, "one segment is not a super-packet");
                let lengths: usize = segments.map(|n| frame.ip_length(n) - ip_len - 32).sum();
                prop_assert_eq!(lengths, body.len());
                joined.extend_from_slice(body);
            }
            prop_assert_eq!(joined, payload);
        }

        /// The same of datagrams: every cut holds whole ones, with right lengths and sums of the pseudo-header.
        #[test]
        fn cutting_datagrams_loses_and_invents_nothing(
            v6: bool,
            gso_size in 500u16..9000,
            payload in prop::collection::vec(any::<u8>(), 1..65_000),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let frame = Frame::parse(&super_datagram(v6, gso_size, &payload)).unwrap();
            let mut edges: Vec<usize> = cuts.iter().map(|c| c.index(frame.segments() + 1)).collect();
            edges.extend([0, frame.segments()]);
            edges.sort_unstable();
            edges.dedup();
            let ip = VNET_LEN + ETHERNET_LEN;
            let udp = ip + if v6 { 40 } else { 20 };
            let mut joined = Vec::new();
            for edge in edges.windows(2) {
                let segments = edge[0]..edge[1];
                let cut = bytes_of(&frame.cut(segments.clone()));
                let body = &cut[udp + 8..];
                let word = |at: usize| u16::from_be_bytes([cut[at], cut[at + 1]]);
                prop_assert_eq!(usize::from(word(udp + 4)), 8 + body.len());
                let (length, addresses) =
                    if v6 { (ip + 4, ip + 8..udp) } else { (ip + 2, ip + 12..udp) };
                prop_assert_eq!(usize::from(word(length)), cut.len() - if v6 { udp } else { ip });
                let pseudo = sum(&cut[addresses]) + 17 + 8 + body.len() as u32;
                prop_assert_eq!(word(udp + 6), fold(pseudo));
                if !v6 {
                    prop_assert_eq!(fold(sum(&cut[ip..udp])), 0xffff, "IPv4 header checksum");
                }
                prop_assert_eq!(cut[1], if segments.len() > 1 { VNET_GSO_UDP } else { 0 });
                joined.extend_from_slice(body);
            }
            prop_assert_eq!(joined, payload);
        }

        #[test]
        fn damaged_frames_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(frame) = Frame::parse(&bytes) {
                for n in 0..frame.segments() {
                    let _ = (frame.ip_length(n), frame.cut(n..n + 1), frame.flow());
                }
            }
        }
    }

    /// Two packets are of one flow if addresses, protocol and ports are alike, whatever else is.
    #[test]
    fn flow_is_identified_by_addresses_and_ports() {
        for v6 in [false, true] {
            let bytes = super_packet(v6, 1448, &[7; 4000], 0x10);
            let flow = |bytes: &[u8]| Frame::parse(bytes).unwrap().flow();
            let ip = VNET_LEN + ETHERNET_LEN;
            let (source, port, sequence) =
                if v6 { (ip + 8, ip + 41, ip + 44) } else { (ip + 12, ip + 21, ip + 24) };
            let changed = |at: usize| {
                let mut bytes = bytes.clone();
                bytes[at] ^= 1;
                flow(&bytes)
            };
            assert_eq!(changed(sequence), flow(&bytes), "a sequence number is none of it");
            assert_ne!(changed(source), flow(&bytes), "an address is");
            assert_ne!(changed(port), flow(&bytes), "a port is");
        }
        let arp = [&[0; VNET_LEN][..], &[2; 12], &[0x08, 0x06], &[1; 46]].concat();
        assert_eq!(Frame::parse(&arp).unwrap().flow(), 0);
    }

    #[test]
    fn a_pause_frame_is_a_gap_and_no_other_is() {
        let ethernet = |to: [u8; 6], kind: [u8; 2]| {
            let frame =
                [&[0; VNET_LEN][..], &to, &[2, 0, 0, 0, 0, 1], &kind, &[0, 1, 0, 0], &[0; 42]];
            Frame::parse(&frame.concat()).unwrap()
        };
        let pause = ethernet(PAUSE_TO, PAUSE_TYPE);
        assert!(pause.is_gap() && pause.is_multicast());
        assert_eq!((pause.segments(), pause.ip_length(0)), (1, 46), "60 bytes without the header");
        assert!(!ethernet(PAUSE_TO, [0x08, 0x00]).is_gap());
        assert!(!ethernet([0x33, 0x33, 0, 0, 0, 1], PAUSE_TYPE).is_gap());
        let packet = Frame::parse(&super_packet(true, 1448, &[7; 5000], 0x10)).unwrap();
        assert!(!packet.is_gap());
    }

    /// Marked segments of either version differ from others in two bits and the header's checksum.
    #[test]
    fn ecn_capable_packets_are_marked() {
        for (v6, gso_type) in
            [(false, 0), (false, VNET_GSO_TCPV4), (true, 0), (true, VNET_GSO_TCPV6)]
        {
            for (ecn, is_ect) in [(0, false), (1, true), (2, true), (3, false)] {
                let mut bytes = super_packet(v6, 1448, &[7; 4000], 0x10);
                bytes[1] = gso_type;
                let ip = VNET_LEN + ETHERNET_LEN;
                bytes[ip + 1] |= if v6 { ecn << 4 } else { ecn };
                let frame = Frame::parse(&bytes).unwrap();
                assert_eq!(frame.is_ect(), is_ect, "{ecn:b}, v6: {v6}");
                let all = 0..frame.segments();
                let plain = bytes_of(&frame.cut(all.clone()));
                let mut marked = frame.cut(all);
                marked.mark();
                let marked = bytes_of(&marked);
                let tos = if v6 { marked[ip + 1] >> 4 } else { marked[ip + 1] };
                assert_eq!(tos & ECN_CE, ECN_CE);
                if !v6 {
                    assert_eq!(fold(sum(&marked[ip..ip + 20])), 0xffff, "IPv4 header checksum");
                }
                let differ = (0..plain.len()).filter(|n| plain[*n] != marked[*n]);
                assert!(
                    differ.clone().all(|n| n == ip + 1 || !v6 && (n == ip + 10 || n == ip + 11))
                );
            }
        }
        let arp = [&[0; VNET_LEN][..], &[2; 12], &[0x08, 0x06], &[0; 46]].concat();
        assert!(!Frame::parse(&arp).unwrap().is_ect());
    }

    #[test]
    fn a_single_packet_goes_on_as_it_came() {
        let mut bytes = super_packet(false, 1448, &[1, 2, 3], 0x10);
        bytes[1] = 0;
        let frame = Frame::parse(&bytes).unwrap();
        assert_eq!((frame.segments(), frame.ip_length(0)), (1, 20 + 32 + 3));
        assert_eq!(bytes_of(&frame.cut(0..1)), bytes);
    }
}
