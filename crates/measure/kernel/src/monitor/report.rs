// SPDX-License-Identifier: GPL-2.0-or-later
//! A monitor's results as in `longhaul monitor --json` and `monitor.json`. `docs/monitor.md` explains
//! the keys.

use super::{Direction, DirectionStatistics, Flow, FlowStatistics, Histogram, Options, Snapshot};
use serde::Serialize;
use std::net::SocketAddr;
use units::Duration;

/// Why the watching ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// The time that was asked for is over.
    Duration,
    /// By a signal.
    Interrupted,
    /// The device went away.
    DeviceGone,
}

/// A monitor's results for a device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MonitorReport {
    /// The device.
    pub device: String,
    /// The number of the device's network namespace, as in `/proc/PID/ns/net`.
    pub namespace: u32,
    /// How long it watched.
    pub seconds: f64,
    /// Why it ended.
    pub ended: EndReason,
    /// The width of bins.
    pub bin_us: f64,
    /// Packets whose gap is no longer belong to one burst.
    pub burst_gap_us: f64,
    /// Packets that the host sent; null where they were not watched.
    pub out: Option<DirectionReport>,
    /// Packets that the host received; null where they were not watched.
    pub r#in: Option<DirectionReport>,
}

/// Packets of one direction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DirectionReport {
    /// Data packets as they are on the wire.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their bits over the time watched.
    pub rate_bps: f64,
    /// When the first came; null without data.
    pub first_s: Option<f64>,
    /// When the last came; null without data.
    pub last_s: Option<f64>,
    /// The rate in the bin with most bytes.
    pub peak_bin_bps: Option<f64>,
    /// When that bin begins.
    pub peak_bin_s: Option<f64>,
    /// Bytes that are in no bin, because bins were not read in time.
    pub missed_bytes: u64,
    /// Times that the driver was handed data.
    pub handovers: u64,
    /// Of those, hand-overs of super-packets.
    pub super_handovers: u64,
    /// The packets that super-packets make on the wire.
    pub super_packets: u64,
    /// Gap frames.
    pub gap_frames: u64,
    /// Their bytes.
    pub gap_frame_bytes: u64,
    /// Hand-overs of data right after data, without a gap frame between.
    pub unspaced_packets: u64,
    /// Times between hand-overs.
    pub gaps: GapReport,
    /// Packets close behind each other.
    pub bursts: BurstReport,
    /// Each flow; null where flows were not asked for.
    pub flows: Option<Vec<FlowReport>>,
}

/// Times between hand-overs; null without any.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GapReport {
    /// How many gaps.
    pub count: u64,
    /// Their mean.
    pub mean_us: Option<f64>,
    /// Their standard deviation.
    pub deviation_us: Option<f64>,
    /// The shortest.
    pub least_us: Option<f64>,
    /// The gap that 1 % do not exceed.
    pub p1_us: Option<f64>,
    /// The median.
    pub p50_us: Option<f64>,
    /// The gap that 90 % do not exceed.
    pub p90_us: Option<f64>,
    /// The gap that 99 % do not exceed.
    pub p99_us: Option<f64>,
    /// The longest.
    pub most_us: Option<f64>,
    /// All of them.
    pub histogram: Vec<GapBin>,
}

/// A bin of the histogram of gaps: `from_us` is in it, `to_us` is not.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GapBin {
    /// The shortest.
    pub from_us: f64,
    /// The next bin's shortest.
    pub to_us: f64,
    /// How many gaps.
    pub count: u64,
}

/// Bursts; null without any.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BurstReport {
    /// How many bursts.
    pub count: u64,
    /// Their mean length.
    pub mean_packets: Option<f64>,
    /// Their median length.
    pub p50_packets: Option<f64>,
    /// The length that 99 % do not exceed.
    pub p99_packets: Option<f64>,
    /// The longest.
    pub most_packets: u64,
    /// The largest.
    pub most_bytes: u64,
    /// All of them.
    pub histogram: Vec<BurstBin>,
}

/// A bin of the histogram of bursts: `from_packets` is in it, `to_packets` is not.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BurstBin {
    /// The shortest.
    pub from_packets: u64,
    /// The next bin's shortest.
    pub to_packets: u64,
    /// How many bursts.
    pub count: u64,
}

/// One flow.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FlowReport {
    /// Its protocol's name, or number.
    pub protocol: String,
    /// Where it is from; null for what is not IP.
    pub source: Option<String>,
    /// Where it goes to; null for what is not IP.
    pub destination: Option<String>,
    /// Packets, as they are on the wire.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their bits over the time watched.
    pub rate_bps: f64,
    /// When the first came.
    pub first_s: f64,
    /// When the last came.
    pub last_s: f64,
}

impl MonitorReport {
    /// The report of what was watched with these options in that network namespace.
    pub fn new(options: &Options, namespace: u32, snapshot: &Snapshot, ended: EndReason) -> Self {
        let of = |direction| {
            snapshot
                .statistics(direction)
                .map(|figures| DirectionReport::new(options, snapshot.elapsed, figures))
        };
        Self {
            device: options.device.clone(),
            namespace,
            seconds: snapshot.elapsed.as_secs_f64(),
            ended,
            bin_us: micros(options.bin.as_nanos() as f64),
            burst_gap_us: micros(options.burst_gap.as_nanos() as f64),
            out: of(Direction::Out),
            r#in: of(Direction::In),
        }
    }
}

impl DirectionReport {
    fn new(options: &Options, elapsed: Duration, figures: &DirectionStatistics) -> Self {
        let seconds = elapsed.as_secs_f64();
        let peak_bps = figures.peak.map(|peak| rate_bps(peak.bytes, options.bin.as_secs_f64()));
        let flows = figures.flows.iter().map(|flow| FlowReport::new(flow, seconds));
        Self {
            packets: figures.packets,
            bytes: figures.bytes,
            rate_bps: rate_bps(figures.bytes, seconds),
            first_s: figures.span.map(|(first, _)| first.as_secs_f64()),
            last_s: figures.span.map(|(_, last)| last.as_secs_f64()),
            peak_bin_bps: peak_bps,
            peak_bin_s: figures.peak.map(|peak| peak.at.as_secs_f64()),
            missed_bytes: figures.missed_bytes,
            handovers: figures.handovers,
            super_handovers: figures.super_handovers,
            super_packets: figures.super_packets,
            gap_frames: figures.gap_frames,
            gap_frame_bytes: figures.gap_bytes,
            unspaced_packets: figures.unspaced,
            gaps: GapReport::new(figures),
            bursts: BurstReport::new(figures),
            flows: options.per_flow.then(|| flows.collect()),
        }
    }
}

impl GapReport {
    fn new(figures: &DirectionStatistics) -> Self {
        let gaps = &figures.gaps;
        let quantile = |share| gaps.histogram.quantile(share).map(|bin| micros(bin.middle()));
        let bound = |bound: Option<Duration>| bound.map(|b| micros(b.as_nanos() as f64));
        let bins = gaps.histogram.bins().map(|bin| GapBin {
            from_us: micros(bin.from as f64),
            to_us: micros(bin.to as f64),
            count: bin.count,
        });
        Self {
            count: gaps.count,
            mean_us: gaps.mean_ns().map(micros),
            deviation_us: gaps.deviation_ns().map(micros),
            least_us: bound(gaps.least),
            p1_us: quantile(0.01),
            p50_us: quantile(0.5),
            p90_us: quantile(0.9),
            p99_us: quantile(0.99),
            most_us: bound(gaps.most),
            histogram: bins.collect(),
        }
    }
}

impl BurstReport {
    fn new(figures: &DirectionStatistics) -> Self {
        let bursts = &figures.bursts;
        let quantile =
            |share| Histogram::quantile(&bursts.histogram, share).map(|bin| bin.middle());
        let bins = bursts.histogram.bins().map(|bin| BurstBin {
            from_packets: bin.from,
            to_packets: bin.to,
            count: bin.count,
        });
        Self {
            count: bursts.count,
            mean_packets: (bursts.count > 0).then(|| figures.packets as f64 / bursts.count as f64),
            p50_packets: quantile(0.5),
            p99_packets: quantile(0.99),
            most_packets: bursts.most_packets,
            most_bytes: bursts.most_bytes,
            histogram: bins.collect(),
        }
    }
}

impl FlowReport {
    fn new(of: &FlowStatistics, seconds: f64) -> Self {
        let (source, destination) = match of.flow {
            Flow::Ip { source, destination, .. } => (Some(source), Some(destination)),
            Flow::Other => (None, None),
        };
        let text = |address: Option<SocketAddr>| address.map(|address| address.to_string());
        Self {
            protocol: of.flow.protocol(),
            source: text(source),
            destination: text(destination),
            packets: of.packets,
            bytes: of.bytes,
            rate_bps: rate_bps(of.bytes, seconds),
            first_s: of.span.0.as_secs_f64(),
            last_s: of.span.1.as_secs_f64(),
        }
    }
}

fn rate_bps(bytes: u64, seconds: f64) -> f64 {
    bytes as f64 * 8.0 / seconds
}

fn micros(ns: f64) -> f64 {
    ns / 1e3
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Bin, Bursts, Gaps},
        *,
    };
    use units::Timestamp;

    #[test]
    fn report_has_every_key_in_order() {
        let mut gaps = Histogram::new();
        gaps.add(1000);
        let mut bursts = Histogram::new();
        bursts.add(1);
        bursts.add(1);
        let at = Timestamp::from_nanos;
        let flow =
            FlowStatistics { flow: Flow::Other, packets: 2, bytes: 3000, span: (at(0), at(1000)) };
        let figures = DirectionStatistics {
            packets: 2,
            bytes: 3000,
            handovers: 2,
            super_handovers: 0,
            super_packets: 0,
            gap_frames: 4,
            gap_bytes: 256,
            unspaced: 1,
            span: Some((at(500_000_000), at(500_001_000))),
            peak: Some(Bin { at: at(500_000_000), bytes: 3000 }),
            recent_peak: None,
            missed_bytes: 0,
            gaps: Gaps {
                count: 1,
                sum_ns: 1000,
                squares_ns2: 1_000_000,
                least: Some(Duration::from_micros(1)),
                most: Some(Duration::from_micros(1)),
                histogram: gaps,
            },
            bursts: Bursts { count: 2, most_packets: 1, most_bytes: 1500, histogram: bursts },
            flows: vec![flow],
        };
        let snapshot =
            Snapshot { elapsed: Duration::from_secs(2), figures: vec![(Direction::In, figures)] };
        let options = Options { per_flow: true, ..Options::of("eth0") };
        let report = MonitorReport::new(&options, 7, &snapshot, EndReason::DeviceGone);
        let expected = r#"{"device":"eth0","namespace":7,"seconds":2.0,"ended":"device_gone","bin_us":500.0,"burst_gap_us":10.0,"out":null,"in":{"packets":2,"bytes":3000,"rate_bps":12000.0,"first_s":0.5,"last_s":0.500001,"peak_bin_bps":48000000.0,"peak_bin_s":0.5,"missed_bytes":0,"handovers":2,"super_handovers":0,"super_packets":0,"gap_frames":4,"gap_frame_bytes":256,"unspaced_packets":1,"gaps":{"count":1,"mean_us":1.0,"deviation_us":0.0,"least_us":1.0,"p1_us":0.9995,"p50_us":0.9995,"p90_us":0.9995,"p99_us":0.9995,"most_us":1.0,"histogram":[{"from_us":0.992,"to_us":1.008,"count":1}]},"bursts":{"count":2,"mean_packets":1.0,"p50_packets":1.0,"p99_packets":1.0,"most_packets":1,"most_bytes":1500,"histogram":[{"from_packets":1,"to_packets":2,"count":2}]},"flows":[{"protocol":"not ip","source":null,"destination":null,"packets":2,"bytes":3000,"rate_bps":12000.0,"first_s":0.0,"last_s":1e-6}]}}"#;
        assert_eq!(serde_json::to_string(&report).unwrap(), expected);
    }
}
