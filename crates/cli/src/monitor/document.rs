// SPDX-License-Identifier: GPL-2.0-or-later
//! What the monitor saw, for programs. `docs/monitor.md` says what the keys mean.

use super::{Watched, text::direction_name};
use ::kernel::monitor::{Direction, Figures, Flow, FlowFigures, Histogram};
use serde_json::{Map, Value, json};

/// The one document.
pub fn of(watched: &Watched<'_>) -> Value {
    let Watched { options, monitor, snapshot, ended } = watched;
    let mut document = json!({
        "device": options.device,
        "namespace": monitor.namespace(),
        "seconds": snapshot.elapsed.as_secs_f64(),
        "ended": ended.name(),
        "bin_us": micros(options.bin.as_nanos() as f64),
        "burst_gap_us": micros(options.burst_gap.as_nanos() as f64),
    });
    let keys: &mut Map<_, _> = document.as_object_mut().expect("an object was made");
    for direction in [Direction::Out, Direction::In] {
        let figures = snapshot.figures(direction).map(|figures| one(watched, figures));
        keys.insert(direction_name(direction).to_owned(), figures.unwrap_or_default());
    }
    document
}

fn micros(ns: f64) -> f64 {
    ns / 1e3
}

fn one(watched: &Watched<'_>, figures: &Figures) -> Value {
    let seconds = watched.snapshot.elapsed.as_secs_f64();
    let peak_bps =
        figures.peak.map(|peak| peak.bytes as f64 * 8.0 / watched.options.bin.as_secs_f64());
    let flows = watched
        .options
        .per_flow
        .then(|| figures.flows.iter().map(|flow| of_flow(flow, seconds)).collect::<Vec<_>>());
    json!({
        "packets": figures.packets,
        "bytes": figures.bytes,
        "rate_bps": figures.bytes as f64 * 8.0 / seconds,
        "first_s": figures.span.map(|(first, _)| first.as_secs_f64()),
        "last_s": figures.span.map(|(_, last)| last.as_secs_f64()),
        "peak_bin_bps": peak_bps,
        "peak_bin_s": figures.peak.map(|peak| peak.at.as_secs_f64()),
        "missed_bytes": figures.missed_bytes,
        "handovers": figures.handovers,
        "super_handovers": figures.super_handovers,
        "super_packets": figures.super_packets,
        "gap_frames": figures.gap_frames,
        "gap_frame_bytes": figures.gap_bytes,
        "unspaced_packets": figures.unspaced,
        "gaps": gaps(figures),
        "bursts": bursts(figures),
        "flows": flows,
    })
}

fn gaps(figures: &Figures) -> Value {
    let gaps = &figures.gaps;
    let quantile = |share| gaps.histogram.quantile(share).map(|slot| micros(slot.middle()));
    let bound = |bound: Option<units::Duration>| bound.map(|b| micros(b.as_nanos() as f64));
    let slots = gaps.histogram.bins().map(|slot| {
        let (from, to) = (micros(slot.from as f64), micros(slot.to as f64));
        json!({ "from_us": from, "to_us": to, "count": slot.count })
    });
    json!({
        "count": gaps.count,
        "mean_us": gaps.mean_ns().map(micros),
        "deviation_us": gaps.deviation_ns().map(micros),
        "least_us": bound(gaps.least),
        "p1_us": quantile(0.01),
        "p50_us": quantile(0.5),
        "p90_us": quantile(0.9),
        "p99_us": quantile(0.99),
        "most_us": bound(gaps.most),
        "histogram": slots.collect::<Vec<_>>(),
    })
}

fn bursts(figures: &Figures) -> Value {
    let bursts = &figures.bursts;
    let quantile = |share| Histogram::quantile(&bursts.histogram, share).map(|slot| slot.middle());
    let slots = bursts.histogram.bins().map(
        |slot| json!({ "from_packets": slot.from, "to_packets": slot.to, "count": slot.count }),
    );
    json!({
        "count": bursts.count,
        "mean_packets": (bursts.count > 0).then(|| figures.packets as f64 / bursts.count as f64),
        "p50_packets": quantile(0.5),
        "p99_packets": quantile(0.99),
        "most_packets": bursts.most_packets,
        "most_bytes": bursts.most_bytes,
        "histogram": slots.collect::<Vec<_>>(),
    })
}

fn of_flow(of: &FlowFigures, seconds: f64) -> Value {
    let (source, destination) = match of.flow {
        Flow::Ip { source, destination, .. } => (Some(source), Some(destination)),
        Flow::Other => (None, None),
    };
    let text = |address: Option<std::net::SocketAddr>| address.map(|address| address.to_string());
    json!({
        "protocol": of.flow.protocol(),
        "source": text(source),
        "destination": text(destination),
        "packets": of.packets,
        "bytes": of.bytes,
        "rate_bps": of.bytes as f64 * 8.0 / seconds,
        "first_s": of.span.0.as_secs_f64(),
        "last_s": of.span.1.as_secs_f64(),
    })
}
