// SPDX-License-Identifier: GPL-2.0-or-later
//! Many streams at once, from all processors: no data frame follows another without its gap.

use super::{LINE, injector, mbit, options, wire};
use crate::common::{in_own_network, ip};
use longhaul_kernel::pace::{Counts, DevicePacer, Target};
use netmodel::pacing::Estimator;
use socket2::{Domain, Socket, Type};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    thread,
};
use testkit::alone;
use testkit::until;
use wire::{RECEIVER_V4, RECEIVER_V6, Wire};

const STREAMS: u64 = 8;
const BYTES: usize = 4 << 20;
const OVERHEAD: u64 = 24;
/// What waits for the next packet's gap, since no frame is so short; and the last frame of a gap, that
/// may come behind another processor's packet.
const TOO_SHORT: u64 = 60 + OVERHEAD;

/// Bytes that no two streams, and no neighbours, have alike.
fn pattern(stream: u64) -> Vec<u8> {
    let mut state = stream;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..BYTES).map(|_| next()).collect()
}

/// Sends over all streams at once and sees that all arrive as they were.
pub fn transfer(wire: &Wire, to: &str) {
    let v6 = to.contains(':');
    let listener = wire.there(|| {
        let domain = if v6 { Domain::IPV6 } else { Domain::IPV4 };
        let socket = Socket::new(domain, Type::STREAM, None).expect("a socket");
        // So much that it flows, so little that the device's queue never is full.
        socket.set_recv_buffer_size(256 << 10).expect("a size");
        let address: SocketAddr =
            (to.parse::<std::net::IpAddr>().expect("an address"), 9000).into();
        socket.bind(&address.into()).expect("an address");
        socket.listen(16).expect("a port");
        std::net::TcpListener::from(socket)
    });
    thread::scope(|scope| {
        for stream in 0..STREAMS {
            let mut sender = TcpStream::connect((to, 9000)).expect("the listener is up");
            let mut receiver = listener.accept().expect("connected").0;
            scope.spawn(move || sender.write_all(&pattern(stream)).expect("connected"));
            scope.spawn(move || {
                let mut arrived = Vec::with_capacity(BYTES);
                receiver.read_to_end(&mut arrived).expect("connected");
                assert!(arrived == pattern(stream), "other bytes arrived");
            });
        }
    });
}

/// Bytes of the link that were read.
#[derive(Default)]
struct Bytes {
    packets: u64,
    gaps: u64,
}

impl Bytes {
    fn see(&mut self, frame: &wire::Frame) {
        let bytes = frame.on_link(OVERHEAD);
        if frame.is_gap() {
            self.gaps += bytes;
        } else if frame.is_tcp() {
            self.packets += bytes;
        }
    }
}

/// Carries what the closing connections still send, until as much has been read as was counted.
fn counts_of_all(wire: &Wire, injector: &DevicePacer, bytes: &mut Bytes) -> Counts {
    let counts = || injector.counts().expect("it tells");
    until("all that left is read", || {
        wire.carrying(|frame| bytes.see(&frame), || ());
        let counts = counts();
        (counts.bytes, counts.gap_bytes) == (bytes.packets, bytes.gaps)
    });
    counts()
}

/// Counts data frames that follow another frame after less than a given gap.
#[derive(Default)]
struct Watch {
    least: u64,
    behind: Option<u64>,
    data: u64,
    without: u64,
}

impl Watch {
    fn see(&mut self, frame: &wire::Frame) {
        if frame.is_gap() {
            if let Some(gap) = &mut self.behind {
                *gap += frame.on_link(OVERHEAD);
            }
        } else if frame.payload() > 0 {
            self.without += u64::from(self.behind.is_some_and(|gap| gap < self.least));
            self.data += 1;
            // Short ones have short gaps: those are compared where sizes are.
            self.behind = (frame.payload() > 1400).then_some(0);
        }
    }
}

#[test]
fn packets_at_a_set_rate_keep_their_gaps() {
    let _alone = alone();
    for to in [RECEIVER_V4, RECEIVER_V6] {
        in_own_network(|| {
            let wire = Wire::new();
            let injector = injector(&options(OVERHEAD, Target::Rate(mbit(100)), Some(9000)));
            let gap = 1500 * (LINE / 100_000_000 - 1);
            let mut watch = Watch { least: gap - 2 * TOO_SHORT, ..Watch::default() };
            let mut bytes = Bytes::default();
            let look = |frame: wire::Frame| {
                watch.see(&frame);
                bytes.see(&frame);
            };
            wire.carrying(look, || transfer(&wire, to));
            assert!(watch.data > STREAMS * BYTES as u64 / 1460, "{}", watch.data);
            let counts = counts_of_all(&wire, &injector, &mut bytes);
            assert_eq!(counts.super_packets, 0, "{counts:?}");
            assert_eq!((counts.lost_gap_bytes, counts.lost_packets), (0, 0), "{counts:?}");
            // A virtual machine that loses a processor for 10 ms while the lock is held lets a packet go without a gap, and
            // counts it. No other may.
            let unpaced = counts.lock_failures;
            assert!(
                unpaced <= 2 && watch.without <= unpaced,
                "{} of {}, {counts:?}",
                watch.without,
                watch.data
            );
            let missing = bytes.packets * 9 - bytes.gaps;
            assert!(
                missing < TOO_SHORT + unpaced * gap,
                "{missing} bytes of gap are missing, {counts:?}"
            );
        });
    }
}

#[test]
fn packets_with_own_targets_keep_their_gaps() {
    let _alone = alone();
    in_own_network(|| {
        let wire = Wire::new();
        // Round trips are so short here that the cap is each stream's target.
        let most = mbit(50);
        let estimator = Estimator { max_rate: Some(most), ..Estimator::PAPER };
        let injector = injector(&options(OVERHEAD, Target::Auto(estimator), None));
        let least = 1500 * (LINE / (STREAMS * most.bps()) - 1) - 2 * TOO_SHORT;
        let mut watch = Watch { least, ..Watch::default() };
        wire.carrying(|frame| watch.see(&frame), || transfer(&wire, RECEIVER_V4));
        assert_eq!(watch.without, 0, "of {}", watch.data);
        let counts = injector.counts().expect("it tells");
        assert_eq!((counts.lock_failures, counts.at_line_rate), (0, 0), "{counts:?}");
        assert_eq!((counts.packets, counts.super_packets), (watch.data, 0), "{counts:?}");
        let senders = injector.senders().expect("it tells");
        assert_eq!(senders.len() as u64, STREAMS);
        assert!(senders.iter().all(|sender| sender.target <= most), "{senders:?}");
        let sent: u64 = senders.iter().map(|sender| sender.packets).sum();
        assert_eq!(sent, counts.packets);
    });
}

/// Super-packets, if the options allow them: each is followed by the gap for all its bytes on the link.
#[test]
fn super_packets_are_counted_and_paced_by_their_segments() {
    let _alone = alone();
    for to in [RECEIVER_V4, RECEIVER_V6] {
        in_own_network(|| {
            let wire = Wire::new();
            let rate = mbit(700);
            let injector = injector(&options(OVERHEAD, Target::Rate(rate), Some(9000)));
            ip(&["link", "set", wire::DEVICE, "gso_max_segs", "30"]);
            let mut bytes = Bytes::default();
            wire.carrying(|frame| bytes.see(&frame), || transfer(&wire, to));
            let counts = counts_of_all(&wire, &injector, &mut bytes);
            assert!(counts.super_packets > 0, "{counts:?}");
            let Bytes { packets, gaps } = bytes;
            let missing = packets as f64 * (LINE as f64 / rate.bps() as f64 - 1.0) - gaps as f64;
            assert!((-1e-3..TOO_SHORT as f64).contains(&missing), "{missing} of {gaps}");
        });
    }
}
