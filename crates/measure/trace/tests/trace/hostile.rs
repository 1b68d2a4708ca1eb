// SPDX-License-Identifier: GPL-2.0-or-later
//! Captures made to harm: lengths that lie, endless interfaces, packets that contradict each other.

use crate::{
    files::{Order, block, enhanced, interface, pcap_header, pcap_packet, section},
    script::Script,
};
use longhaul_trace::{
    CaptureReader, ConnectionTable, KeptCurves, MAX_BLOCK, MAX_INTERFACES, Options, ReadError,
    Segment, analyse,
};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use std::io::{self, Read};

/// Zeros without end behind some bytes.
struct Endless<'a>(&'a [u8]);

impl Read for Endless<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.0.is_empty() {
            into.fill(0);
            return Ok(into.len());
        }
        self.0.read(into)
    }
}

fn error_of(file: &[u8]) -> ReadError {
    let mut reader = CaptureReader::new(Endless(file)).unwrap();
    loop {
        match reader.next_packet() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the end of an endless file"),
            Err(error) => return error,
        }
    }
}

#[test]
fn lengths_that_lie_end_the_capture_at_their_place() {
    for order in [Order::Little, Order::Big] {
        let header = pcap_header(order, false, 1);
        for length in [MAX_BLOCK as u32, 1 << 31, u32::MAX] {
            let packet = [&order.u32(1)[..], &order.u32(2), &order.u32(length), &order.u32(9)];
            let error = error_of(&[&header[..], &packet.concat()].concat());
            assert!(matches!(error, ReadError::Damaged { at: 24, .. }), "{error}");
            let begin = section(order);
            let block = [&order.u32(6)[..], &order.u32(length & !3), &[0; 40]].concat();
            let error = error_of(&[&begin[..], &block].concat());
            assert!(matches!(error, ReadError::Damaged { at: 28, .. }), "{error}");
            // Within a block, the packet claims to be longer.
            let mut packet = enhanced(order, 0, 1, &[1; 60], 60, 0);
            packet[20..24].copy_from_slice(&order.u32(length));
            let file = [begin, interface(order, 1, None, None), packet].concat();
            let error = error_of(&file);
            assert!(matches!(error, ReadError::Damaged { .. }), "{error}");
        }
    }
}

#[test]
fn interfaces_are_bounded() {
    let order = Order::Little;
    let mut file = section(order);
    for _ in 0..=MAX_INTERFACES {
        file.extend(interface(order, 1, None, None));
    }
    let error = error_of(&file);
    assert!(error.to_string().contains("more than 65536 interfaces"), "{error}");
    let unknown = [section(order), enhanced(order, 0, 1, &[1; 60], 60, 0)].concat();
    let error = error_of(&unknown);
    assert!(error.to_string().contains("not described"), "{error}");
}

/// What is damaged in the middle keeps what was before it.
#[test]
fn damage_keeps_what_was_before_it() {
    let order = Order::Little;
    let mut file = [section(order), interface(order, 1, None, None)].concat();
    for n in 0..100 {
        file.extend(enhanced(order, 0, n, &[1; 60], 60, 0));
    }
    let mut bad = block(order, 6, &[0; 60]);
    bad[4] = 5;
    file.extend(bad);
    let mut capture = CaptureReader::new(&file[..]).unwrap();
    let options = Options { shards: 1, memory_bytes: 1 << 20, curves: KeptCurves::None };
    let (totals, error) = analyse(&mut capture, options, |_| ());
    assert_eq!(totals.packets, 100);
    assert!(matches!(error, Some(ReadError::Damaged { .. })), "{error:?}");
}

/// Random packets of few connections: nothing panics, counts stay plausible, memory is bounded.
#[test]
fn random_packets_stay_within_bounds() {
    let mut random = Pcg64::seed_from_u64(testkit::fuzz::seed());
    let mut script = Script::default();
    script.push(0, 0, 1, 0, 1);
    let template = script.segments[0];
    for round in 0..40 {
        let kept = if round % 4 < 2 { KeptCurves::All } else { KeptCurves::None };
        let mut table = ConnectionTable::new(1 << 20, ()).keeping(kept);
        let (mut connections, mut largest) = (Vec::new(), 0);
        let narrow = if round % 2 == 0 { 16 } else { 0 };
        for number in 1..=5000 {
            let mut next = || random.next_u32();
            let mut segment = Segment { number, ..template };
            segment.unix_ns = u64::from(next() >> (next() % 32));
            if next() % 2 == 0 {
                (segment.from, segment.to) = (segment.to, segment.from);
            }
            segment.from.port ^= (next() % 2) as u16;
            (segment.seq, segment.ack) = (next() >> narrow, next() >> narrow);
            segment.payload = next() >> (12 + next() % 20);
            segment.window = next() as u16;
            segment.flags.syn = next() % 50 == 0;
            segment.flags.ack = next() % 9 != 0;
            segment.flags.fin = next() % 100 == 0;
            segment.flags.rst = next() % 500 == 0;
            segment.mss = (next() % 2 == 0).then(|| next() as u16);
            segment.window_scale = (next() % 2 == 0).then(|| (next() % 15) as u8);
            segment.timestamps = (next() % 2 == 0).then(|| (next(), next()));
            segment.sack = [(); 4].map(|()| (next() >> narrow, next() >> narrow));
            segment.sack_blocks = (next() % 5) as u8;
            table.take(&segment, &mut |connection| connections.push(connection));
            largest = largest.max(table.bytes());
        }
        assert!(largest <= 2 << 20, "{largest}");
        table.finish_all(&mut |connection| connections.push(connection));
        for direction in connections.iter().flat_map(|connection| &connection.directions) {
            let all = direction.payload_bytes;
            assert!(direction.retransmitted_bytes <= all, "{direction:#?}");
            assert!(direction.unique_bytes <= all, "{direction:#?}");
            assert!(direction.spurious_segments <= direction.retransmitted_segments);
        }
    }
}

/// Frames whose lengths are wrong in every way, through the whole analysis.
#[test]
fn damaged_frames_are_counted_and_no_more() {
    let mut random = Pcg64::seed_from_u64(testkit::fuzz::seed());
    let mut file = pcap_header(Order::Little, false, 1);
    for n in 0..20_000 {
        let mut frame = [0; 14 + 60];
        (0..frame.len()).for_each(|at| frame[at] = random.next_u32() as u8);
        frame[12..14].copy_from_slice(if n % 3 == 0 { &[0x86, 0xdd] } else { &[8, 0] });
        frame[14] = if n % 3 == 0 { 0x60 } else { 0x45 };
        // Whole packets of TCP, whose lengths and offsets are random.
        if n % 3 == 0 {
            frame[20] = 6;
        } else {
            (frame[20], frame[21], frame[23]) = (0, 0, 6);
        }
        let kept = random.next_u32() as usize % frame.len();
        file.extend(pcap_packet(Order::Little, n, 0, &frame[..kept], random.next_u32()));
    }
    let mut capture = CaptureReader::new(&file[..]).unwrap();
    let options = Options { shards: 2, memory_bytes: 1 << 20, curves: KeptCurves::None };
    let (totals, error) = analyse(&mut capture, options, |_| ());
    assert!(error.is_none() && totals.packets == 20_000);
    println!("{totals:?}");
    assert!(totals.tcp_packets > 100 && totals.unreadable_packets > 1000, "{totals:?}");
}
