// SPDX-License-Identifier: GPL-2.0-or-later
//! Pacing by gap frames and by classes, against what paper 001 and arithmetic say. The scenarios are the
//! paper's, shortened where a figure has settled.

use crate::common::{curve, forward, forward_link, outcome};
use longhaul_sim::Outcome;
use record::Quantity;
use scenario::{Run, Scenario};
use testkit::draft::Draft;

/// What 500 Mb/s carry of TCP's payload: 1448 of each 1538 bytes.
const PAYLOAD_BPS: f64 = 500e6 * 1448.0 / 1538.0;

fn file(name: &str, overrides: &[&str]) -> Vec<Run> {
    let path =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios").join(name);
    let text = std::fs::read_to_string(path).unwrap();
    Scenario::parse(&text, name, overrides).unwrap_or_else(|e| panic!("{e}")).runs
}

/// The run of a variant at a buffer.
fn cell(table: &str, variant: &str, buffer: &str, duration: &str) -> Outcome {
    let overrides = [
        "vars.profile=linux".to_owned(),
        format!("vars.buffer={buffer}"),
        format!("vars.duration={duration}"),
    ];
    let runs = file(table, &overrides.each_ref().map(String::as_str));
    outcome(
        runs.iter().find(|run| run.variant.as_ref().is_some_and(|w| w.name == variant)).unwrap(),
    )
}

fn share(outcome: &Outcome) -> f64 {
    outcome.summary.flows[0].goodput_bps.unwrap() / PAYLOAD_BPS
}

#[test]
fn capped_at_the_bottleneck_scalable_loses_nothing() {
    let outcome = cell("001-table-3.toml", "capped", "64KB", "80s");
    assert_eq!(outcome.summary.metrics.drops, Some(0));
    assert!(share(&outcome) > 0.95, "{}", share(&outcome));
}

#[test]
fn found_cap_keeps_scalable_lossless_after_slow_start() {
    for buffer in ["64KB", "512KB"] {
        let outcome = cell("001-table-3.toml", "found", buffer, "300s");
        assert_eq!(outcome.summary.metrics.drops_after_start, Some(0), "{buffer}");
        assert!(share(&outcome) > 0.95, "{buffer}: {}", share(&outcome));
    }
}

#[test]
fn scalable_reaches_92_percent_only_with_pacing() {
    let paced = cell("001-table-3.toml", "paced", "64KB", "300s");
    let not = cell("001-table-3.toml", "not-paced", "64KB", "300s");
    assert!(share(&paced) > 0.92, "{}", share(&paced));
    assert!(share(&not) < 0.6, "{}", share(&not));
    // It grows by 1 % a round trip, 52 segments, where 64 KB hold 42: some drops are certain.
    assert!(paced.summary.metrics.drops_after_start > Some(0));
}

#[test]
fn paced_fast_in_half_the_buffer_loses_only_in_slow_start() {
    let outcome = cell("001-table-4.toml", "paced", "64KB", "300s");
    assert_eq!(outcome.summary.metrics.drops_after_start, Some(0));
    // Slow start costs it a window or less; it needs minutes to make up for that.
    let throughput = curve(&outcome, &forward("bottleneck"), Quantity::ThroughputBps);
    let late = crate::common::mean_between(throughput, 250.0, 300.0) / 500e6;
    assert!(late > 0.99, "{late}");
}

/// The smoothed round trip has the sender's own queue in it: what waits there says nothing of the path, and
/// any rate confirms itself. Where packets count as less than they are too, the rate sinks.
#[test]
fn estimate_with_own_queueing_delay_sinks() {
    for table in ["001-table-3.toml", "001-table-4.toml"] {
        let paper = share(&cell(table, "paper", "512KB", "60s"));
        assert!(paper < 0.5, "{table}: {paper}");
    }
}

/// Gap frames fill the sender's wire: it is busy as long as a packet waits, and gap frames
/// take the rest.
#[test]
fn packets_and_gaps_fill_the_wire() {
    let outcome = cell("001-table-3.toml", "capped", "64KB", "30s");
    let host = forward_link(&outcome, "host");
    let bottleneck = forward_link(&outcome, "bottleneck");
    assert_eq!(host.bytes, bottleneck.bytes + 1538 * (host.segments - bottleneck.segments));
    // 500 Mb/s on 1 Gb/s: behind each packet a gap as long; less while the window was smaller.
    let ratio = host.gap_bytes as f64 / host.bytes as f64;
    assert!((1.0..1.6).contains(&ratio), "{ratio}");
    assert!(host.utilisation > Some(0.9), "{:?}", host.utilisation);
    assert_eq!((bottleneck.gap_frames, bottleneck.gap_bytes), (0, 0), "a switch drops them");
}

/// A set rate is kept to the packet by either way of pacing, and so is the rate of a class.
#[test]
fn rates_are_kept() {
    let text = |pacing: &str, more: &str| {
        Draft::new("t", "duration=10s tcp={rcvbuf=\"64MB\",sndbuf=\"64MB\"}")
            .nodes(&["a", "b"])
            .link("a", "b", "name=wire rate=1gbit delay=5ms overhead=38 queue=100000p")
            .flow("a", "b", "")
            .line(pacing)
            .line(more)
            .to_string()
    };
    let capped = "[pacing]\nmax_rate = \"200mbit\"";
    let class = "[[bottleneck]]\nname = \"x\"\nfrom = \"a\"\nto = \"b\"\nrate = \"200mbit\"";
    for (pacing, more) in [
        ("pacing = \"200mbit\"", ""),
        ("pacing = \"gap\"", capped),
        ("pacing = \"edt\"", capped),
        ("", class),
    ] {
        let outcome = crate::common::only(&text(pacing, more));
        let throughput = curve(&outcome, &forward("wire"), Quantity::ThroughputBps);
        // Whole seconds after slow start.
        let mean = crate::common::mean_between(throughput, 2.0, 9.0);
        let label = format!("{pacing}{more}: {mean}");
        assert!((mean / 200e6 - 1.0).abs() < 2e-3, "{label}");
        let most = throughput.value.iter().copied().fold(0.0, f64::max);
        // A bin of 500 us holds 8.1 packets, so one of 9: 221 Mb/s. Before the first round trip is known
        // nothing is paced.
        let later = throughput.time_s.partition_point(|time| *time < 0.5);
        let most_later = throughput.value[later..].iter().copied().fold(0.0, f64::max);
        assert!(most_later < 222e6, "{label}, at most {most_later} (before: {most})");
        assert_eq!(outcome.summary.metrics.drops, Some(0));
    }
}

#[test]
fn per_bottleneck_classes_lose_nothing_and_one_queue_loses() {
    for run in file("001-bottlenecks.toml", &["vars.duration=30s"]) {
        let variant = run.variant.as_ref().unwrap().name.clone();
        let outcome = outcome(&run);
        for (class, bps) in [("slow", 100e6), ("middle", 200e6), ("fast", 400e6)] {
            let flows = outcome.summary.flows.iter().filter(|flow| flow.name.starts_with(class));
            let rates: Vec<f64> = flows.map(|flow| flow.goodput_bps.unwrap()).collect();
            let share = rates.iter().sum::<f64>() / (bps * 1448.0 / 1538.0);
            let link = forward_link(&outcome, &format!("to-{class}"));
            if variant == "classes" {
                assert!(share >= 0.95, "{class}: {share}");
                assert!(record::metrics::jain_index(&rates) >= Some(0.98), "{class}: {rates:?}");
                assert_eq!(link.queue_drops, 0, "{class}");
            } else {
                assert!(link.queue_drops > 0, "{variant}, {class}");
            }
        }
    }
}
