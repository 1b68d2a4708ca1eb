// SPDX-License-Identifier: GPL-2.0-or-later
//! Captures that are almost right, through everything that reads them.

use longhaul_trace::{CaptureReader, Event, decompressed, observe};

const INPUTS: u64 = 20_000;
/// No input is longer than 4 KiB, so no capture has more packets, unless it is compressed.
const MEMORY: usize = 1 << 20;

/// Whether packets of TCP were found and nothing was wrong.
fn capture(input: &[u8]) -> bool {
    let Ok(input) = decompressed(Box::new(input)) else { return false };
    let Ok(mut capture) = CaptureReader::new(input) else { return false };
    let mut connections = Vec::new();
    let events = Vec::<Event>::new();
    let (totals, error, events) =
        observe(&mut capture, MEMORY, events, |connection| connections.push(connection));
    assert_eq!(totals.connections, connections.len() as u64);
    assert!(events.iter().all(|event| event.packet <= totals.packets));
    let parts = [totals.other_packets, totals.fragments, totals.unreadable_packets];
    let counted = totals.tcp_packets + totals.unknown_link_packets + parts.iter().sum::<u64>();
    assert_eq!(counted, totals.packets);
    for direction in connections.iter().flat_map(|connection| &connection.directions) {
        assert!(direction.unique_bytes <= direction.payload_bytes);
        assert!(direction.retransmitted_bytes <= direction.payload_bytes);
    }
    error.is_none() && totals.tcp_packets > 0
}

#[test]
fn almost_right_captures_harm_nothing() {
    testkit::fuzz::run("capture", INPUTS, capture);
}
