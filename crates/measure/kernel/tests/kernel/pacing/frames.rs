// SPDX-License-Identifier: GPL-2.0-or-later
//! What gap frames are, and how long.

use super::{LINE, injector, mbit, options, wire};
use crate::common::{in_own_network, tc};
use longhaul_kernel::pace::Target;
use std::{fs, net::UdpSocket, process::Command};
use testkit::alone;
use units::Rate;
use wire::{Frame, RECEIVER_V4, RECEIVER_V6, SENDER_MAC, Wire};

/// Sends datagrams of these sizes; answers all frames that left.
fn frames_of(wire: &Wire, to: &str, sizes: &[usize]) -> Vec<Frame> {
    let any = if to.contains(':') { "[::]:0" } else { "0.0.0.0:0" };
    let socket = UdpSocket::bind(any).expect("a socket");
    let mut frames = Vec::new();
    wire.carrying(
        |frame| frames.push(frame),
        || {
            for &size in sizes {
                socket.send_to(&vec![0xa5; size], (to, 9000)).expect("it is sent");
            }
        },
    );
    // IPv6 asks for routers and tells of groups by itself.
    frames.retain(|frame| frame.is_gap() || frame.0[6..12] == SENDER_MAC && is_udp(frame));
    frames
}

fn is_udp(frame: &Frame) -> bool {
    frame.0[12..14] == [0x08, 0x00] && frame.0[23] == 17
        || frame.0[12..14] == [0x86, 0xdd] && frame.0[20] == 17
}

/// The least that a gap frame takes of the link.
fn shortest(overhead: u64) -> u64 {
    60 + overhead
}

/// Gap frames as IEEE 802.3x has PAUSE frames, and nothing of the packet in them.
fn assert_pause(frame: &Frame) {
    let header = [
        &[0x01, 0x80, 0xc2, 0x00, 0x00, 0x01][..],
        &SENDER_MAC,
        &[0x88, 0x08, 0x00, 0x01, 0x00, 0x00],
    ]
    .concat();
    assert_eq!(frame.0[..18], header);
    assert!(frame.0[18..].iter().all(|&byte| byte == 0), "{:x?}", frame.0);
}

#[test]
fn gap_frames_are_zero_pause_frames_and_data_is_unchanged() {
    let _alone = alone();
    in_own_network(|| {
        let wire = Wire::new();
        let _injector = injector(&options(24, Target::Rate(mbit(150)), Some(9000)));
        for (to, headers) in [(RECEIVER_V4, 42), (RECEIVER_V6, 62)] {
            // Down to nothing in it, and with an odd length.
            let sizes = [1400, 0, 1, 33, 1399, 700];
            let frames = frames_of(&wire, to, &sizes);
            let (gaps, packets): (Vec<_>, Vec<_>) = frames.iter().partition(|one| one.is_gap());
            for gap in &gaps {
                assert_pause(gap);
            }
            let lengths: Vec<_> = gaps.iter().map(|gap| gap.0.len()).collect();
            assert!(lengths.iter().all(|length| (60..=4072).contains(length)), "{lengths:?}");
            assert!(lengths.contains(&4072) && lengths.contains(&60), "{lengths:?}");
            assert_eq!(packets.len(), sizes.len());
            for (packet, size) in packets.iter().zip(sizes) {
                assert_eq!(packet.0.len(), headers + size);
                assert!(packet.0[headers..].iter().all(|&byte| byte == 0xa5));
                assert!(checksum_is_right(packet), "{:x?}", packet.0);
            }
        }
    });
}

/// That of UDP, over the pseudo-header and the datagram (RFC 768).
fn checksum_is_right(packet: &Frame) -> bool {
    let v6 = packet.0[12] == 0x86;
    let (addresses, udp) = if v6 { (22..54, 54) } else { (26..34, 34) };
    let datagram = &packet.0[udp..];
    let mut sum = 17 + datagram.len() as u64;
    for half in [&packet.0[addresses], datagram] {
        for word in half.chunks(2) {
            sum += u64::from(word[0]) << 8 | u64::from(*word.get(1).unwrap_or(&0));
        }
    }
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum == 0xffff
}

/// Equation 2 of Takano et al.: at a rate, packets take that share of the link, gaps the rest.
#[test]
fn gaps_are_as_long_as_equation_2_says() {
    let _alone = alone();
    for overhead in [24, 0] {
        for rate in [700, 501, 333, 100, 30] {
            in_own_network(|| {
                let wire = Wire::new();
                let rate = mbit(rate);
                let injector = injector(&options(overhead, Target::Rate(rate), Some(9000)));
                let sizes: Vec<_> = (0..200).map(|n| [1472, 1472, 900, 18][n % 4]).collect();
                let frames = frames_of(&wire, RECEIVER_V4, &sizes);
                let (mut packets, mut gaps) = (0, 0);
                let owed = |packets: u64| {
                    let share = LINE as f64 / rate.bps() as f64 - 1.0;
                    packets as f64 * share
                };
                for frame in &frames {
                    if frame.is_gap() {
                        gaps += frame.on_link(overhead);
                        continue;
                    }
                    // The gap owed for the packet before is there, except a rest that is too short
                    // for a frame.
                    let missing = owed(packets) - gaps as f64;
                    assert!(missing > -1e-3, "{missing} at {rate}");
                    assert!(missing < shortest(overhead) as f64 + 1e-3, "{missing} at {rate}");
                    packets += frame.on_link(overhead);
                }
                let counts = injector.counts().expect("it tells");
                assert_eq!((counts.packets, counts.bytes, counts.gap_bytes), (200, packets, gaps));
                let frames = frames.iter().filter(|frame| frame.is_gap()).count();
                assert_eq!(counts.gap_frames, frames as u64);
                assert_eq!((counts.lock_failures, counts.lost_gap_bytes), (0, 0));
                let senders = injector.senders().expect("it tells");
                assert_eq!(senders.len(), 1);
                assert_eq!((senders[0].target, senders[0].packets), (rate, 200));
                assert_eq!(senders[0].gap_bytes.get(), gaps);
            });
        }
    }
}

#[test]
fn first_matching_rule_wins_and_other_packets_pass_unpaced() {
    let _alone = alone();
    in_own_network(|| {
        let wire = Wire::new();
        let mut options = options(24, Target::Rate(mbit(100)), Some(9001));
        let mut other = options.rules[0];
        other.matches.to_port = None;
        other.matches.destination = Some("10.9.0.0/31".parse().expect("a network"));
        options.rules.push(other);
        let injector = injector(&options);
        assert!(frames_of(&wire, RECEIVER_V4, &[500; 5]).iter().all(|frame| !frame.is_gap()));
        assert!(frames_of(&wire, RECEIVER_V6, &[500; 5]).iter().all(|frame| !frame.is_gap()));
        assert_eq!(injector.counts().expect("it tells").packets, 0);
        drop(injector);

        options.rules[1].matches.destination = Some("10.9.0.0/30".parse().expect("a network"));
        options.rules[1].target = Target::Rate(Rate::bits_per_second(LINE / 2));
        let injector = super::injector(&options);
        let frames = frames_of(&wire, RECEIVER_V4, &[1000; 5]);
        let gaps = frames.iter().filter(|frame| frame.is_gap()).map(|gap| gap.on_link(24));
        assert_eq!(gaps.sum::<u64>(), 5 * 1066, "as long as the packets, by the second rule");
        assert_eq!(injector.senders().expect("it tells")[0].rule, 2);
        drop(injector);
        let frames = frames_of(&wire, RECEIVER_V4, &[1000; 5]);
        assert!(frames.iter().all(|frame| !frame.is_gap()), "without it there are no gaps");
    });
}

/// A device's queue, whose statistics `tc` shows.
fn queue_of(kind: &[&str]) {
    tc(&[&["qdisc", "replace", "dev", wire::DEVICE, "root"][..], kind].concat());
}

#[test]
fn device_queue_counts_gap_frames_at_their_length() {
    let _alone = alone();
    in_own_network(|| {
        let wire = Wire::new();
        // IPv6 looks for others by itself: what it has sent is read before, and it sends no more.
        fs::write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1").expect("a setting");
        wire.carrying(|_| (), || ());
        queue_of(&["pfifo", "limit", "10000"]);
        let _injector = injector(&options(24, Target::Rate(mbit(150)), Some(9000)));
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
        let mut bytes = 0;
        wire.carrying(
            |frame| bytes += frame.0.len(),
            || {
                for _ in 0..50 {
                    socket.send_to(&[1; 1400], (RECEIVER_V4, 9000)).expect("it is sent");
                }
            },
        );
        let show = ["-json", "-statistics", "qdisc", "show", "dev", wire::DEVICE];
        let output = Command::new("tc").args(show).output().expect("iproute2");
        let shown: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(shown[0]["bytes"], bytes);
    });
}

/// So TCP's small queues stay small.
#[test]
fn packets_in_the_device_queue_are_charged_to_the_socket() {
    let _alone = alone();
    in_own_network(|| {
        let wire = Wire::new();
        queue_of(&["tbf", "rate", "8kbit", "burst", "5kb", "limit", "100mb"]);
        let injector = injector(&options(24, Target::Rate(mbit(150)), Some(9000)));
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
        socket2::SockRef::from(&socket).set_send_buffer_size(64 << 10).expect("a size");
        socket.set_nonblocking(true).expect("a socket");
        wire.carrying(
            |_| (),
            || {
                let sent =
                    (0..1000).find(|_| socket.send_to(&[1; 1400], (RECEIVER_V4, 9000)).is_err());
                // The kernel doubles the size, and charges more than a packet's length.
                assert!(sent.is_some_and(|sent| sent < 100), "{sent:?}");
            },
        );
        assert!(injector.counts().expect("it tells").packets < 100);
    });
}

#[test]
fn dropped_packet_is_counted_and_gets_no_gap() {
    let _alone = alone();
    in_own_network(|| {
        let wire = Wire::new();
        // Of a queue that hardly moves, and has room for two packets with their gaps, and some more.
        queue_of(&["tbf", "rate", "8kbit", "burst", "5kb", "limit", "17000"]);
        let injector = injector(&options(24, Target::Rate(mbit(200)), Some(9000)));
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
        wire.carrying(
            |_| (),
            || {
                for _ in 0..20 {
                    // Whether the socket is told depends on its settings.
                    let _ = socket.send_to(&[1; 1400], (RECEIVER_V4, 9000));
                }
            },
        );
        let counts = injector.counts().expect("it tells");
        assert_eq!(counts.packets + counts.lost_packets, 20, "{counts:?}");
        assert!(counts.lost_packets > 0 && counts.lost_gap_bytes > 0, "{counts:?}");
        let owed = counts.packets * (1442 + 24) * 4;
        let missing = owed - counts.gap_bytes - counts.lost_gap_bytes;
        assert!(missing < shortest(24), "no gap for a packet that has not left: {counts:?}");
    });
}
