// SPDX-License-Identifier: GPL-2.0-or-later
//! Made-up records with the shapes of real ones: the demo's four variants, and a sweep of the delay.
//!
//! The figures are arithmetic, not measurements; nothing here is random.

use record::{
    Entity, FlowSummary, HopSummary, LinkSummary, Manifest, Metrics, OfferedFiles, Quantity,
    Record, Series, Summary, manifest::Prediction, manifest::ReportedGain,
};
use serde_json::{Value, json};
use std::path::Path;

const SAMPLE_S: f64 = 0.05;

/// What differs from run to run.
pub struct Shape {
    pub title: &'static str,
    pub variant: &'static str,
    pub label: &'static str,
    pub client: &'static str,
    pub point: Vec<(String, String)>,
    pub repeat: u32,
    pub bytes: u64,
    /// The rate in the end, in bits a second, and how long it takes to get there.
    pub rate_bps: f64,
    pub ramp_s: f64,
    /// The congestion control of each hop.
    pub hops: &'static [&'static str],
    pub limit_s: f64,
    pub predicted_bps: Option<f64>,
    pub reported_gain: Option<f64>,
}

/// The demo: four ways with curl, the depots' with wget too, three times each.
pub fn demo(dir: &Path, title: &'static str) {
    let variants: [(&str, &str, f64, f64, &'static [&'static str]); 4] = [
        ("direct", "direct", 60e6, 1.0, &["cubic"]),
        ("depots-cubic", "two depots, CUBIC", 130e6, 0.8, &["cubic", "cubic", "cubic"]),
        ("depots-bbr", "two depots, BBR on the long haul", 860e6, 0.5, &["cubic", "bbr", "cubic"]),
        ("direct-bbr", "direct, BBR at the server", 810e6, 0.7, &["bbr"]),
    ];
    for repeat in 1..=3 {
        for (variant, label, rate_bps, ramp_s, hops) in variants {
            for client in ["curl", "wget"] {
                if client == "wget" && hops.len() == 1 {
                    continue;
                }
                let spread = 1.0
                    + 0.5 * (f64::from(repeat) - 2.0) * if hops[0] == "bbr" { 0.05 } else { 0.6 };
                write(
                    dir,
                    &Shape {
                        title,
                        variant,
                        label,
                        client,
                        point: Vec::new(),
                        repeat,
                        bytes: 104_857_600,
                        rate_bps: rate_bps * spread,
                        ramp_s,
                        hops,
                        limit_s: 16.0,
                        predicted_bps: None,
                        reported_gain: None,
                    },
                );
            }
        }
    }
}

/// A sweep of the delay with the figures that equations and a paper have for it.
pub fn sweep(dir: &Path) {
    let variants: [(&str, &str, &'static [&'static str]); 3] = [
        ("direct", "direct", &["cubic"]),
        ("one-depot", "one depot", &["cubic", "cubic"]),
        ("two-depots", "two depots", &["cubic", "cubic", "cubic"]),
    ];
    for repeat in 1..=3 {
        for rtt_ms in [10, 30, 50, 70, 90] {
            for (variant, label, hops) in variants {
                // A window of 4 MB a hop, and the link's gigabit.
                let parts = hops.len() as f64;
                let model_bps = 4_194_304.0 * 8.0 * parts / (f64::from(rtt_ms) / 1e3);
                let spread = 1.0 - 0.03 * f64::from(repeat);
                write(
                    dir,
                    &Shape {
                        title: "Goodput over delay",
                        variant,
                        label,
                        client: "wget",
                        point: vec![("rtt".into(), format!("{rtt_ms}ms"))],
                        repeat,
                        bytes: 314_572_800,
                        rate_bps: (model_bps * 0.8).min(940e6) * spread,
                        ramp_s: f64::from(rtt_ms) / 100.0,
                        hops,
                        limit_s: 60.0,
                        predicted_bps: Some(model_bps),
                        reported_gain: (parts > 1.0 && rtt_ms >= 70).then_some(parts),
                    },
                );
            }
        }
    }
}

/// Three sizes over the same paths: what a transfer gains, and takes, depends on its size.
pub fn sizes(dir: &Path) {
    let variants: [(&str, &str, f64, f64, &'static [&'static str]); 4] = [
        ("direct", "direct", 40e6, 1.0, &["cubic"]),
        ("aria2", "direct, CUBIC, aria2 over 16 connections", 60e6, 0.9, &["cubic"]),
        ("cold", "two depots, BBR between them", 500e6, 0.4, &["cubic", "bbr", "cubic"]),
        ("site", "the same, a site: no redirect", 800e6, 0.1, &["cubic", "bbr", "cubic"]),
    ];
    for repeat in 1..=3 {
        for megabytes in [1, 10, 100] {
            for (variant, label, rate_bps, ramp_s, hops) in variants {
                write(
                    dir,
                    &Shape {
                        title: "Three sizes",
                        variant,
                        label,
                        client: "curl",
                        point: vec![("vars.size".into(), format!("{megabytes}MB"))],
                        repeat,
                        bytes: megabytes << 20,
                        rate_bps: rate_bps * (1.0 - 0.05 * f64::from(repeat)),
                        ramp_s,
                        hops,
                        limit_s: 16.0,
                        predicted_bps: None,
                        reported_gain: None,
                    },
                );
            }
        }
    }
}

/// Writes one run's record below `dir`.
pub fn write(dir: &Path, shape: &Shape) {
    record(shape).write(&dir.join(id(shape))).unwrap();
}

fn id(shape: &Shape) -> String {
    let mut words = vec![shape.variant, shape.client];
    words.extend(shape.point.iter().map(|(_, value)| value.as_str()));
    format!("{}-{}", words.join("-"), shape.repeat)
}

/// The record of one run.
pub fn record(shape: &Shape) -> Record {
    let (series, hops, end_s) = progress(shape);
    let moved = hops.last().and_then(|hop| hop.bytes).unwrap();
    let cut = moved < shape.bytes;
    let flow = FlowSummary {
        name: "file".into(),
        client: Some(shape.client.into()),
        bytes: moved,
        bytes_expected: Some(shape.bytes),
        end_s,
        seconds: Some(end_s),
        goodput_bps: Some(moved as f64 * 8.0 / end_s),
        retransmits: Some(170),
        timeouts: Some(0),
        sha256_ok: (!cut).then_some(true),
        exit_code: (!cut).then_some(0),
        timed_out: cut,
        outcome: if cut {
            format!("cut at the time limit of {} s", shape.limit_s)
        } else {
            "complete".into()
        },
        hops,
        ..FlowSummary::default()
    };
    let links =
        vec![link("haul", "backward", moved, end_s), link("haul", "forward", moved / 60, end_s)];
    let metrics = Metrics::compute(std::slice::from_ref(&flow), &links, &series);
    Record {
        manifest: manifest(shape),
        series,
        files: OfferedFiles::default(),
        summary: Summary { flows: vec![flow], links, metrics, ..Summary::default() },
    }
}

fn link(name: &str, direction: &str, bytes: u64, end_s: f64) -> LinkSummary {
    LinkSummary {
        name: name.into(),
        direction: direction.into(),
        rate_bps: Some(1_000_000_000),
        bytes: bytes + bytes / 22,
        segments: bytes / 1448,
        queue_drops: 12,
        early_drops: 0,
        losses: bytes / 1448 / 5000,
        policed: 0,
        outage_losses: 0,
        late: 0,
        copies: 0,
        marks: 0,
        utilisation: Some(bytes as f64 * 8.0 / end_s / 1e9),
        queue_max_bytes: Some(1_200_000),
        queue_mean_delay_us: Some(850.0),
        gap_mean_us: Some(31.5),
        gap_deviation_us: Some(120.0),
        gap_p1_us: Some(0.0),
        gap_p50_us: Some(12.0),
        gap_p99_us: Some(410.0),
        burst_mean_segments: Some(3.4),
        burst_max_segments: Some(87),
        gap_frames: 0,
        gap_bytes: 0,
        background_bytes: None,
    }
}

/// Acknowledged bytes over time: a ramp, and then a saw-tooth, hop after hop a little later.
fn progress(shape: &Shape) -> (Series, Vec<HopSummary>, f64) {
    let mut series = Series::default();
    let mut totals = vec![0.0; shape.hops.len()];
    let mut time_s = 0.12;
    while totals.last().is_some_and(|total| *total < shape.bytes as f64) && time_s < shape.limit_s {
        time_s += SAMPLE_S;
        for (index, total) in totals.iter_mut().enumerate() {
            let since = (time_s - 0.12 - 0.04 * index as f64).max(0.0);
            let ramp = (since / shape.ramp_s).powi(2).min(1.0);
            let saw = 0.8 + 0.4 * ((since + 0.3 * f64::from(shape.repeat)) / 1.7).fract();
            *total = (*total + shape.rate_bps / 8.0 * ramp * saw.min(1.1) * SAMPLE_S)
                .min(shape.bytes as f64);
            let hop = Entity::Hop { flow: "file".into(), index: index as u32 };
            series.push(&hop, Quantity::AckedBytes, time_s, *total);
            series.push(&hop, Quantity::CwndSegments, time_s, 1000.0 * ramp * saw);
        }
        let flow = Entity::Flow("file".into());
        series.push(&flow, Quantity::ReceivedBytes, time_s, *totals.last().unwrap());
    }
    let nodes = ["server", "depot2", "depot1", "client"];
    let names: Vec<&str> = nodes.iter().copied().take(shape.hops.len()).chain(["client"]).collect();
    let hop = |(index, (cc, total)): (usize, (&&str, &f64))| HopSummary {
        index: index as u32,
        from: names[index].into(),
        to: names[index + 1].into(),
        congestion_control: Some((*cc).into()),
        bytes: Some(*total as u64),
        retransmits: Some(57),
        timeouts: Some(0),
        min_rtt_us: Some(90_200.0 / shape.hops.len() as f64),
        srtt_us: Some(91_400.0 / shape.hops.len() as f64),
        ..HopSummary::default()
    };
    let hops = shape.hops.iter().zip(&totals).enumerate().map(hop).collect();
    (series, hops, time_s)
}

fn manifest(shape: &Shape) -> Manifest {
    let base: Value = json!({
        "schema": 1, "id": id(shape), "title": shape.title, "repeat": shape.repeat, "seed": 7,
        "source": "Made-up figures in the shape of real ones",
        "variant": {"name": shape.variant, "label": shape.label}, "baseline": "direct", "valid": true,
        "method": "emu", "point": shape.point,
        "command": ["longhaul", "lab", "run", "scenarios/demo.toml", "--set", "loss=0.1% over 3"],
        "started": format!("2026-01-02T03:{:02}:00Z", shape.repeat),
        "versions": {"longhaul": "0.1.0", "curl": "7.88.1", "nginx": "1.22.1", "wget": "1.21.3"},
        "machine": {"kernel": "6.18.0", "cpu": "A processor of some kind", "cores": 2,
                    "memory_bytes": 8_200_000_000_u64},
        "nodes": {
            "server": {"sysctls": {"net.ipv4.tcp_congestion_control": "cubic",
                                   "net.ipv4.tcp_wmem": "4096 16384 4194304"}},
            "client": {"sysctls": {"net.ipv4.tcp_congestion_control": "cubic"}},
        },
        "sockets": shape.hops.iter().enumerate().map(|(hop, cc)| json!({
            "flow": "file", "hop": hop, "node": "server", "local": "10.0.0.1:80",
            "peer": "10.0.0.2:40000", "congestion_control": cc, "sndbuf_bytes": 4_194_304,
            "rcvbuf_bytes": 131_072,
        })).collect::<Vec<_>>(),
        "offloads": {"lh0": ["tso", "gso"]},
        "emulator": {"deliveries": 73_000, "late": 3, "lateness_p50_us": 40.0,
                     "lateness_p99_us": 310.0, "lateness_max_us": 2100.0, "device_drops": 0},
        "scenario": {"title": shape.title, "link": [{"name": "haul", "rate": "1gbit", "delay": "39ms"}]},
    });
    Manifest {
        predicted: shape.predicted_bps.map(|goodput_bps| Prediction {
            goodput_bps,
            source: "the window over the round trip of each segment".into(),
        }),
        references: shape
            .reported_gain
            .map(|gain| ReportedGain { gain, note: "figure 8, read off the plot".into() })
            .into_iter()
            .collect(),
        ..serde_json::from_value(base).unwrap()
    }
}
