// SPDX-License-Identifier: GPL-2.0-or-later
//! BBR on a path of a constant rate, by hand computation.

use longhaul_congestion::{Ack, Algorithm, Control, Decision, Params};

const RTT_US: u32 = 100_000;

fn linux() -> Params {
    Algorithm::find("bbr").unwrap().set("linux").unwrap().params.clone()
}

/// What five seconds (so no `ProbeRTT`) lead to. A round trip holds `bdp` segments, and is acknowledged
/// in batches.
fn after_five_seconds(params: &Params, bdp: u32, batch: u32) -> Decision {
    let mut decision = Decision::default();
    let syn =
        Ack { now_us: 1_000_000, rtt_us: RTT_US, min_rtt_us: RTT_US, mss: 1448, ..Ack::default() };
    let mut control = Control::new(params, &syn, &mut decision);
    let gap_us = u64::from(RTT_US) * u64::from(batch) / u64::from(bdp);
    let mut delivered = 0;
    for nth in 1..=5_000_000 / gap_us {
        delivered += batch;
        let ack = Ack {
            now_us: syn.now_us + nth * gap_us,
            delivery_rate: u64::from(bdp) * 1448 * 1_000_000 / u64::from(RTT_US),
            acked: batch,
            in_flight: bdp,
            prior_in_flight: bdp + batch,
            delivered,
            prior_delivered: delivered.saturating_sub(bdp + batch),
            flags: Ack::CWND_LIMITED,
            ..syn
        };
        control.rtt(&ack, &mut decision);
        control.ack(&ack, &mut decision);
    }
    decision
}

/// A segment each millisecond. Twice the 100 that the path holds, and three bursts of 2 segments, are
/// 206, in the phase that probes 208. In 30 ms no more than 30 segments are expected, so each
/// batch of 30 begins an epoch and is 30 beyond what was expected at that moment.
#[test]
fn window_lasts_between_acknowledgement_batches() {
    for batch in [1, 5, 30] {
        let with = after_five_seconds(&linux(), 100, batch).cwnd;
        let without = linux().with("aggregation", 0).unwrap();
        let without = after_five_seconds(&without, 100, batch).cwnd;
        // Rounded up to an even number, in the phase that probes 2 more.
        let (low, high) = (206 + batch.next_multiple_of(2), 208 + batch.next_multiple_of(2));
        assert!(without == 206 || without == 208, "batches of {batch}: {without}");
        assert!(with == low || with == high, "batches of {batch}: {with}");
    }
}

/// Startup ends on a path of any rate, here to 80 Gb/s: then it paces near the bandwidth, at most 5/4 of it.
#[test]
fn a_fast_path_is_found_full_too() {
    for set in &Algorithm::find("bbr").unwrap().sets {
        for bdp in [1_000, 10_000, 50_000, 70_000, 100_000, 700_000] {
            let rate = u64::from(bdp) * 14_480;
            let pacing = after_five_seconds(&set.params, bdp, bdp / 10).pacing_rate;
            assert!(pacing <= rate * 5 / 4, "{}: {pacing} B/s for {rate} B/s", set.name);
        }
    }
}
