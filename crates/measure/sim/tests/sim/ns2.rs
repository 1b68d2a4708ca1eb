// SPDX-License-Identifier: GPL-2.0-or-later
//! Goodput of the profile `ns2` against ns-2.35, cell by cell: docs/validation/README.md.

mod cells;

use cells::{read, simulate};

/// The bound of the comparison.
const WITHIN: f64 = 0.10;

/// Two cells of each algorithm, alternating between buffers. With four flows, it compares their sum: the
/// division among them is random, in ns-2 too.
#[test]
fn goodput_is_within_a_tenth_of_ns2() {
    let chosen = [
        ("reno", 1, 0.5),
        ("reno", 4, 1.0),
        ("cubic", 1, 1.0),
        ("cubic", 4, 0.5),
        ("bic", 1, 0.5),
        ("bic", 4, 1.0),
        ("highspeed", 1, 1.0),
        ("highspeed", 4, 0.5),
        ("htcp", 1, 0.5),
        ("htcp", 4, 1.0),
        ("scalable", 1, 1.0),
        ("scalable", 4, 0.5),
    ];
    let mut cells = read("ns2.jsonl");
    cells.retain(|cell| {
        let key = (cell.algorithm.as_str(), cell.flows, cell.buffer_bdp);
        (cell.rate_bps, cell.rtt_ms) == (100_000_000, 20) && chosen.contains(&key)
    });
    assert_eq!(cells.len(), chosen.len(), "ns2.jsonl lacks some of them");
    for (cell, found) in cells.iter().zip(simulate(&cells)) {
        let change = found.total_bps() / cell.ns2.total_bps() - 1.0;
        assert!(change.abs() < WITHIN, "{found:?} in {cell:?}");
        // Goodput is much the same where losses are not: they tell of growth and recovery.
        let drops = found.drops as f64 / cell.ns2.drops as f64;
        assert!((0.5..2.0).contains(&drops), "{found:?} in {cell:?}");
    }
}
