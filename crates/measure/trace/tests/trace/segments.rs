// SPDX-License-Identifier: GPL-2.0-or-later
//! Segments of packets by each link type, with tags, cut, and with lengths that are not filled in.

use etherparse::PacketBuilder;
use longhaul_trace::{Heading, LinkType, NoSegment, Packet, Segment};

const PAYLOAD: &[u8] = &[7; 100];

fn packet(link: LinkType, data: &[u8], length: u32) -> Packet<'_> {
    Packet { number: 1, unix_ns: 5, data, length, link, interface: 0, heading: Heading::Unknown }
}

/// An IP packet with a TCP segment that has timestamps and two selective blocks.
fn ip(is_ipv6: bool) -> Vec<u8> {
    use etherparse::TcpOptionElement::{Noop, SelectiveAcknowledgement, Timestamp};
    let blocks = SelectiveAcknowledgement((10, 20), [Some((30, 40)), None, None]);
    let options = [Noop, Noop, Timestamp(77, 66), Noop, Noop, blocks];
    let mut bytes = Vec::new();
    if is_ipv6 {
        PacketBuilder::ipv6([1; 16], [2; 16], 9)
            .tcp(443, 50_000, 1000, 64)
            .ack(2000)
            .options(&options)
            .unwrap()
            .write(&mut bytes, PAYLOAD)
            .unwrap();
    } else {
        PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 9)
            .tcp(443, 50_000, 1000, 64)
            .ack(2000)
            .options(&options)
            .unwrap()
            .write(&mut bytes, PAYLOAD)
            .unwrap();
    }
    bytes
}

fn check(what: &str, segment: &Segment) {
    assert_eq!((segment.from.port, segment.to.port), (443, 50_000), "{what}");
    assert_eq!((segment.seq, segment.ack, segment.payload), (1000, 2000, 100), "{what}");
    assert_eq!(segment.timestamps, Some((77, 66)), "{what}");
    assert_eq!(segment.sack(), [(10, 20), (30, 40)], "{what}");
    assert!(segment.flags.ack && !segment.flags.syn, "{what}");
    assert_eq!((segment.window, segment.hops), (64, 9), "{what}");
}

#[test]
fn segments_are_found_behind_each_link_header() {
    for is_ipv6 in [false, true] {
        let ip = ip(is_ipv6);
        let ether_type: [u8; 2] = if is_ipv6 { [0x86, 0xdd] } else { [8, 0] };
        let ethernet = [&[0; 12][..], &ether_type].concat();
        let tagged = [&[0; 12][..], &[0x81, 0, 0, 5], &ether_type].concat();
        let twice = [&[0; 12][..], &[0x88, 0xa8, 0, 9, 0x81, 0, 0, 5], &ether_type].concat();
        let sll = [&[0, 4][..], &[0; 12], &ether_type].concat();
        let sll2 = [&ether_type[..], &[0; 8], &[4, 6], &[0; 8]].concat();
        let family = [2, 0, 0, 0];
        let cases = [
            (LinkType::ETHERNET, ethernet, Heading::Unknown),
            (LinkType::ETHERNET, tagged, Heading::Unknown),
            (LinkType::ETHERNET, twice, Heading::Unknown),
            (LinkType::LINUX_SLL, sll, Heading::Outbound),
            (LinkType::LINUX_SLL2, sll2, Heading::Outbound),
            (LinkType::NULL, family.to_vec(), Heading::Unknown),
            (LinkType::LOOP, family.to_vec(), Heading::Unknown),
            (LinkType::RAW, Vec::new(), Heading::Unknown),
        ];
        for (link, header, heading) in cases {
            let data = [&header[..], &ip].concat();
            let what = format!("{link:?}, {} bytes", header.len());
            let segment = Segment::of(&packet(link, &data, data.len() as u32)).unwrap();
            check(&what, &segment);
            assert_eq!(segment.heading, heading, "{what}");
            // A snap length within the payload changes nothing.
            let kept = &data[..data.len() - 90];
            check(&what, &Segment::of(&packet(link, kept, data.len() as u32)).unwrap());
            // Padding of the link is no payload.
            let padded = [&data[..], &[0; 9]].concat();
            check(&what, &Segment::of(&packet(link, &padded, padded.len() as u32)).unwrap());
        }
    }
}

#[test]
fn snap_length_within_options_loses_them_alone() {
    let ip = ip(false);
    for kept in 40..72 {
        let segment = Segment::of(&packet(LinkType::RAW, &ip[..kept], ip.len() as u32)).unwrap();
        assert_eq!((segment.seq, segment.payload, segment.to.port), (1000, 100, 50_000), "{kept}");
        assert!(segment.sack().len() <= 2);
        assert_eq!(segment.timestamps.is_some(), kept >= 52, "{kept}");
    }
    let short = Segment::of(&packet(LinkType::RAW, &ip[..39], ip.len() as u32));
    assert_eq!(short, Err(NoSegment::Unreadable));
}

/// Linux leaves the length of packets above 64 KB at 0 (BIG TCP), and other senders with TSO that of all.
#[test]
fn length_that_is_not_filled_in_follows_from_the_link() {
    for is_ipv6 in [false, true] {
        let mut ip = ip(is_ipv6);
        let (at, header) = if is_ipv6 { (4, 40) } else { (2, 20) };
        ip[at..at + 2].fill(0);
        let tcp = ip.len() as u32 - 100 - header;
        let length = header + tcp + 150_000;
        let segment = Segment::of(&packet(LinkType::RAW, &ip, length)).unwrap();
        assert_eq!(segment.payload, 150_000, "IPv6: {is_ipv6}");
    }
}

#[test]
fn other_packets_have_no_segment() {
    let of = |link, data: &[u8]| Segment::of(&packet(link, data, data.len() as u32));
    let mut udp = Vec::new();
    let builder = PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 9).udp(1, 2);
    builder.write(&mut udp, PAYLOAD).unwrap();
    assert_eq!(of(LinkType::RAW, &udp), Err(NoSegment::NotTcp));
    let arp = [&[0; 12][..], &[8, 6], &[0; 28]].concat();
    assert_eq!(of(LinkType::ETHERNET, &arp), Err(NoSegment::NotIp));
    assert_eq!(of(LinkType(195), &arp), Err(NoSegment::UnknownLink));
    let mut fragment = ip(false);
    fragment[6] = 0x20;
    assert_eq!(of(LinkType::RAW, &fragment), Err(NoSegment::Fragment));
    for link in [0, 1, 12, 101, 108, 113, 228, 229, 276].map(LinkType) {
        assert_eq!(of(link, &[]), Err(NoSegment::Unreadable), "{link:?}");
    }
}
