// SPDX-License-Identifier: GPL-2.0-or-later
//! Figures 2, 6 and 7 of paper 001 by simulation: packets leave at the rate of equation 2; no burst reaches the
//! bottleneck before the window holds what the path does; groups paced to their share lose nothing.
//! Takes no rights.

use crate::common::{done, json, scenario};
use record::{Direction, Entity, Quantity, Record};
use std::path::Path;

/// A scenario's records in a folder of the test's own.
fn simulated(name: &str, more: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    done(&[&["sim", &scenario(name), "--out", out], more].concat());
    folder
}

fn record(folder: &tempfile::TempDir, run: &str) -> Record {
    Record::open(&folder.path().join("sim").join(run)).unwrap()
}

fn forward(name: &str) -> Entity {
    Entity::Link { name: name.to_owned(), direction: Direction::Forward }
}

/// The bins of a link, with the second at which each begins.
fn bins(record: &Record, link: &str) -> Vec<(f64, f64)> {
    let rates = record.series.curve(&forward(link), Quantity::ThroughputBps).unwrap();
    rates.time_s.iter().copied().zip(rates.value.iter().copied()).collect()
}

#[test]
fn a_gap_leaves_the_rate_of_equation_2() {
    let records = simulated("001-figure-6.toml", &[]);
    for power in 7..=16 {
        let (packet, gap) = (1538.0, f64::from(1 << power));
        let expected = 1e9 * packet / (packet + gap);
        let record = record(&records, &format!("spacing={},r01", packet + gap));

        // By the monitor, when the transfer has begun.
        let bins = bins(&record, "host");
        let settled: Vec<f64> =
            bins.iter().filter(|(at, _)| *at >= 0.5).map(|(_, bps)| *bps).collect();
        let mean = settled.iter().sum::<f64>() / settled.len() as f64;
        assert!((mean / expected - 1.0).abs() < 0.005, "gap {gap}: {mean}, not {expected}");

        // By the wire's own time: all that packets and gaps took of it.
        let host = &record.summary.links[0];
        assert_eq!((host.name.as_str(), host.direction.as_str()), ("host", "forward"));
        let (packets, gaps) = (host.bytes as f64, host.gap_bytes as f64);
        let rate = 1e9 * packets / (packets + gaps);
        assert!((rate / expected - 1.0).abs() < 0.005, "gap {gap}: {rate}, not {expected}");
    }
}

#[test]
fn gap_packets_prevent_bursts_before_the_window_fills() {
    const BOTTLENECK: f64 = 500e6;
    const LINE: f64 = 1e9;
    /// What 200 ms hold at that rate, in packets of 1538 bytes on the wire; what a packet itself takes to
    /// arrive adds three.
    const PATH: f64 = BOTTLENECK * 0.2 / 8.0 / 1538.0;
    let records = simulated("001-figure-7.toml", &[]);
    let peaks = |variant: &str| {
        let record = record(&records, &format!("{variant},r01"));
        let hop = Entity::Hop { flow: "iperf".to_owned(), index: 0 };
        let cwnd = record.series.curve(&hop, Quantity::CwndSegments).unwrap();
        let first = cwnd.value.iter().position(|packets| *packets > PATH);
        let filled_s = first.map_or(f64::INFINITY, |n| cwnd.time_s[n - 1]);
        let (before, after): (Vec<_>, Vec<_>) =
            bins(&record, "host").into_iter().partition(|(at, _)| at + 500e-6 <= filled_s);
        let most = |bins: &[(f64, f64)]| bins.iter().map(|(_, bps)| *bps).fold(0.0, f64::max);
        let drops: u64 = record.summary.links.iter().map(|link| link.queue_drops).sum();
        (most(&before), most(&after), drops)
    };
    let (before, _, drops) = peaks("not-paced");
    assert!(before > 0.99 * LINE, "bursts go at the rate of the wire: {before}");
    assert!(drops > 0);
    let (before, after, drops) = peaks("paced");
    assert!(before <= 1.1 * BOTTLENECK, "{before}");
    // Then normal slow start continues until the first loss.
    assert!(after > 1.5 * BOTTLENECK && drops > 0, "{after}, {drops}");
    let (before, after, drops) = peaks("capped");
    assert!(before.max(after) <= 1.1 * BOTTLENECK && drops == 0, "{before}, {after}, {drops}");

    // The figure says the same.
    let sim = records.path().join("sim");
    let folder = |variant: &str| sim.join(format!("{variant},r01")).to_str().unwrap().to_owned();
    let svg = sim.join("figure.svg").to_str().unwrap().to_owned();
    let folders = ["not-paced", "paced", "capped"].map(folder);
    let [plain, paced, capped] = folders.each_ref().map(String::as_str);
    let words = ["--link", "host/forward", "--hop", "iperf/0", "--output", &svg, "--json"];
    let figure = json(&[&["figure", plain, paced, capped][..], &words].concat());
    let number = |panel: usize, key: &str| figure["panels"][panel]["numbers"][key].as_f64();
    assert_eq!(figure["panels"][1]["label"], "gap packets", "as they were named: {figure}");
    assert_eq!(number(0, "filled_at_s"), None, "{figure}");
    assert!(number(0, "peak_before_bps") > Some(0.99 * LINE), "{figure}");
    for panel in [1, 2] {
        assert!(number(panel, "filled_at_s").is_some(), "{figure}");
        assert!(number(panel, "peak_before_bps") <= Some(1.1 * BOTTLENECK), "{figure}");
    }
    assert_eq!(number(1, "drops"), Some(drops_of(&records, "paced,r01")), "{figure}");
    assert_eq!(number(2, "above_share"), Some(0.0), "{figure}");
    assert!(Path::new(&svg).exists());
}

fn drops_of(records: &tempfile::TempDir, run: &str) -> f64 {
    record(records, run).summary.links.iter().map(|link| link.queue_drops).sum::<u64>() as f64
}

#[test]
fn groups_paced_to_their_share_lose_nothing_and_others_do() {
    let records = simulated("001-figure-2.toml", &["--set", "vars.duration=5s"]);
    assert!(drops_of(&records, "not-paced,r01") > 0.0);
    assert!(drops_of(&records, "paced,r01") == 0.0);
    // Each trunk has its 87.5 MB/s when all have begun.
    let paced = record(&records, "paced,r01");
    for trunk in ["trunk1", "trunk2", "trunk3"] {
        let settled: Vec<f64> = bins(&paced, trunk)
            .into_iter()
            .filter(|(at, _)| *at >= 3.0)
            .map(|(_, bps)| bps)
            .collect();
        let mean = settled.iter().sum::<f64>() / settled.len() as f64;
        assert!((mean / 700e6 - 1.0).abs() < 0.005, "{trunk}: {mean}");
    }
}
