// SPDX-License-Identifier: GPL-2.0-or-later
//! Frames built by hand, and what becomes of them.

use super::{headers::*, train::*, *};
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
            let lengths: usize = segments.map(|n| frame.packet_length(n) - ip_len - 32).sum();
            prop_assert_eq!(lengths, body.len());
            joined.extend_from_slice(body);
        }
        prop_assert_eq!(joined, payload);
    }

    #[test]
    fn damaged_frames_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(frame) = Frame::parse(&bytes) {
            for n in 0..frame.segments() {
                let _ = (frame.packet_length(n), frame.cut(n..n + 1), frame.flow());
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
        let frame = [&[0; VNET_LEN][..], &to, &[2, 0, 0, 0, 0, 1], &kind, &[0, 1, 0, 0], &[0; 42]];
        Frame::parse(&frame.concat()).unwrap()
    };
    let pause = ethernet(PAUSE_TO, PAUSE_TYPE);
    assert!(pause.is_gap() && pause.is_multicast());
    assert_eq!((pause.segments(), pause.packet_length(0)), (1, 46), "60 bytes without the header");
    assert!(!ethernet(PAUSE_TO, [0x08, 0x00]).is_gap());
    assert!(!ethernet([0x33, 0x33, 0, 0, 0, 1], PAUSE_TYPE).is_gap());
    let packet = Frame::parse(&super_packet(true, 1448, &[7; 5000], 0x10)).unwrap();
    assert!(!packet.is_gap());
}

/// Marked segments of either version differ from others in two bits and the header's checksum.
#[test]
fn ecn_capable_packets_are_marked() {
    for (v6, gso_type) in [(false, 0), (false, VNET_GSO_TCPV4), (true, 0), (true, VNET_GSO_TCPV6)] {
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
            assert!(differ.clone().all(|n| n == ip + 1 || !v6 && (n == ip + 10 || n == ip + 11)));
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
    assert_eq!((frame.segments(), frame.packet_length(0)), (1, 20 + 32 + 3));
    assert_eq!(bytes_of(&frame.cut(0..1)), bytes);
}

/// The same frame with VLAN tags behind its addresses.
fn tagged(frame: &[u8], tags: &[(u16, u16)]) -> Vec<u8> {
    let grown = 4 * tags.len() as u16;
    let mut tagged = frame[..VNET_LEN + 12].to_vec();
    for (kind, control) in tags {
        tagged.extend(kind.to_be_bytes().iter().chain(&control.to_be_bytes()));
    }
    tagged.extend(&frame[VNET_LEN + 12..]);
    // Both are 0 of a frame without offloads.
    for field in [2..4, 6..8] {
        let value = u16::from_ne_bytes([frame[field.start], frame[field.start + 1]]);
        let value = if value == 0 { 0 } else { value + grown };
        tagged[field].copy_from_slice(&value.to_ne_bytes());
    }
    tagged
}

/// A tag changes nothing but the place of all that is behind it.
#[test]
fn tagged_frames_are_cut_and_marked_as_untagged_ones() {
    let tags = [(0x88a8, 0x2005), (0x8100, 0x0007)];
    for (v6, count) in [(false, 1), (true, 1), (false, 2), (true, 2)] {
        let mut bytes = super_packet(v6, 1448, &[7; 4000], 0x10);
        bytes[VNET_LEN + ETHERNET_LEN + 1] |= if v6 { 1 << 4 } else { 1 };
        let plain = Frame::parse(&bytes).unwrap();
        let with_tags = Frame::parse(&tagged(&bytes, &tags[..count])).unwrap();
        assert_eq!(with_tags.flow(), plain.flow());
        assert!(with_tags.is_ect());
        for segments in [0..3, 0..1, 1..3, 2..3] {
            assert_eq!(
                with_tags.packet_length(segments.start),
                plain.packet_length(segments.start),
                "an MTU does not count tags"
            );
            let [mut of_tagged, mut of_plain] =
                [&with_tags, &plain].map(|frame| frame.cut(segments.clone()));
            assert_eq!(of_tagged.longest_packet(), of_plain.longest_packet());
            assert_eq!(bytes_of(&of_tagged), tagged(&bytes_of(&of_plain), &tags[..count]));
            of_tagged.mark();
            of_plain.mark();
            assert_eq!(bytes_of(&of_tagged), tagged(&bytes_of(&of_plain), &tags[..count]));
            assert!(of_tagged.to_frame().is_ok());
        }
    }
}

/// A frame of `UDP_SEGMENT`, by hand: ports, length, sum over the pseudo-header, payload.
fn udp_super_packet(v6: bool, gso_size: u16, payload: &[u8]) -> Vec<u8> {
    let tcp = super_packet(v6, gso_size, &[], 0);
    let transport = VNET_LEN + ETHERNET_LEN + if v6 { 40 } else { 20 };
    let mut frame = tcp[..transport].to_vec();
    frame[1] = VNET_GSO_UDP_L4;
    frame[8..10].copy_from_slice(&6_u16.to_ne_bytes());
    let protocol = VNET_LEN + ETHERNET_LEN + if v6 { 6 } else { 9 };
    frame[protocol] = UDP;
    frame.extend([0x12, 0x34, 0x00, 0x35]);
    frame.extend((8 + payload.len() as u16).to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(payload);
    frame
}

#[test]
fn datagrams_are_cut_with_lengths_and_sums_of_their_own() {
    let payload: Vec<u8> = (0..2500_u16).map(|n| n as u8).collect();
    for v6 in [false, true] {
        let bytes = udp_super_packet(v6, 1000, &payload);
        let frame = Frame::parse(&bytes).unwrap();
        assert_eq!(frame.segments(), 3);
        let ip = VNET_LEN + ETHERNET_LEN;
        let (udp, addresses) =
            if v6 { (ip + 40, ip + 8..ip + 40) } else { (ip + 20, ip + 12..ip + 20) };
        for (segments, body) in [(0..1, 0..1000), (1..3, 1000..2500), (2..3, 2000..2500)] {
            let one = segments.len() == 1;
            let cut = bytes_of(&frame.cut(segments));
            let udp_len = 8 + body.len();
            assert_eq!(cut[udp + 4..udp + 6], (udp_len as u16).to_be_bytes());
            assert_eq!(cut[udp + 8..], payload[body]);
            let words = cut[addresses.clone()].chunks(2);
            let pseudo: u64 = words.map(|w| u64::from(w[0]) << 8 | u64::from(w[1])).sum::<u64>()
                + 17
                + udp_len as u64;
            let folded = (pseudo % 0xffff) as u16;
            assert_eq!(u16::from_be_bytes([cut[udp + 6], cut[udp + 7]]) % 0xffff, folded);
            assert_eq!(cut[1], if one { 0 } else { VNET_GSO_UDP_L4 });
            if !v6 {
                assert_eq!(fold(sum(&cut[ip..ip + 20])), 0xffff, "IPv4 header checksum");
            }
        }
    }
}

/// The kernel describes a super-packet within a tunnel as one without: its segments cannot be made from outside.
#[test]
fn super_packets_within_tunnels_are_refused() {
    let inner = super_packet(false, 1448, &[7; 4000], 0x10);
    let outer = [&[0x45, 0, 0x10, 0, 0, 0, 0, 0, 64, 4, 0, 0][..], &[10; 8]].concat();
    let ip = VNET_LEN + ETHERNET_LEN;
    let mut tunnelled = [&inner[..ip], &outer, &inner[ip..]].concat();
    let csum_start = u16::from_ne_bytes([inner[6], inner[7]]) + 20;
    tunnelled[6..8].copy_from_slice(&csum_start.to_ne_bytes());
    assert!(Frame::parse(&tunnelled).is_err());
    assert!(Frame::parse(&inner).is_ok());
}
