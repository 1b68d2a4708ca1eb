// SPDX-License-Identifier: GPL-2.0-or-later
//! What a receiver says of segments that are there already, and which timestamp it echoes.

use crate::{
    packet::{Packet, PacketKind},
    tcp::receiver::{AckTiming, Acknowledgement, Receiver},
};
use scenario::{Family, Profile, Tcp};
use units::{Bytes, Timestamp};

fn receiver(profile: Profile) -> (Receiver, Tcp) {
    let tcp = Tcp::of(profile, Family::Ipv4);
    (Receiver::new(&tcp, tcp.rcvbuf, Bytes::new(1448), Timestamp::ZERO), tcp)
}

/// A segment that was sent in that millisecond.
fn segment(number: u64, sent_ms: u32) -> Packet {
    let (kind, flags) = (PacketKind::Data, 0);
    Packet { number, owner: 0, window: sent_ms, path: 0, length: 1500, kind, flags }
}

/// All of them arrive, and the last one is acknowledged.
fn acknowledged(profile: Profile, numbers: &[u64]) -> Acknowledgement {
    let (mut receiver, tcp) = receiver(profile);
    for (ms, number) in (0..).zip(numbers) {
        receiver.arrives(&segment(*number, ms), &tcp);
        if (ms as usize) < numbers.len() - 1 {
            receiver.acknowledge();
        }
    }
    receiver.acknowledge()
}

#[test]
fn duplicate_is_the_first_block() {
    let says = acknowledged(Profile::Linux, &[0, 1, 2, 1]);
    assert_eq!((says.next, says.duplicate), (3, true));
    assert_eq!(says.blocks.unwrap(), [1..2, 0..0, 0..0]);
    let says = acknowledged(Profile::Linux, &[0, 2, 4, 5, 5]);
    assert_eq!(says.blocks.unwrap(), [5..6, 4..6, 2..3], "beyond a hole");
    assert_eq!(acknowledged(Profile::Linux, &[0, 1, 1, 2]).blocks, None, "reported once");
}

#[test]
fn duplicate_is_acknowledged_at_once() {
    let (mut receiver, tcp) = receiver(Profile::Linux);
    for number in 0..100 {
        receiver.arrives(&segment(number, 0), &tcp);
        receiver.read(number + 1);
    }
    receiver.acknowledge();
    assert_eq!(receiver.arrives(&segment(7, 0), &tcp), AckTiming::Now);
}

#[test]
fn ns2_reports_no_duplicate() {
    let says = acknowledged(Profile::Ns2, &[0, 1, 1]);
    assert!(says.duplicate && says.blocks.is_none());
}

/// RFC 7323 section 4.3: of delayed acknowledgements the first segment's; of a filled hole that of the filling one.
#[test]
fn echo_is_of_the_segment_at_the_edge() {
    let (mut receiver, tcp) = receiver(Profile::Linux);
    receiver.arrives(&segment(0, 10), &tcp);
    receiver.arrives(&segment(1, 11), &tcp);
    assert_eq!(receiver.acknowledge().timestamp_echo, 10);
    receiver.arrives(&segment(3, 13), &tcp);
    assert_eq!(receiver.acknowledge().timestamp_echo, 10, "beyond a hole");
    receiver.arrives(&segment(2, 50), &tcp);
    let says = receiver.acknowledge();
    assert_eq!((says.next, says.timestamp_echo), (4, 50));
    receiver.arrives(&segment(2, 60), &tcp);
    assert_eq!(receiver.acknowledge().timestamp_echo, 50, "an old duplicate");
}
