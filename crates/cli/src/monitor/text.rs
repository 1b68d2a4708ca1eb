// SPDX-License-Identifier: GPL-2.0-or-later
//! The monitor's results as text.

use super::observation::Observation;
use ::kernel::monitor::{Direction, DirectionStatistics};
use ::report::format;

/// Maximum number of flows that are listed. The others are summed up.
const FLOWS: usize = 20;

/// Where packets of a direction are timed.
pub fn timed_at(direction: Direction) -> &'static str {
    match direction {
        Direction::Out => "at the hand-over to the driver",
        Direction::In => "at the hand-over to the network stack",
    }
}

/// The table.
pub fn report_text(observation: &Observation<'_>) -> String {
    let parts = observation.options.directions.iter().filter_map(|&direction| {
        let figures = observation.snapshot.statistics(direction)?;
        Some(direction_text(observation, direction, figures))
    });
    parts.collect::<Vec<_>>().join("\n")
}

/// Duration, place of the timing and width of the bins, in one line.
pub fn method_text(observation: &Observation<'_>, direction: Direction) -> String {
    format!(
        "{}, timed {}, bins of {}",
        format::seconds(observation.snapshot.elapsed.as_secs_f64()),
        timed_at(direction),
        format::duration(observation.options.bin.as_secs_f64())
    )
}

fn direction_text(
    observation: &Observation<'_>,
    direction: Direction,
    figures: &DirectionStatistics,
) -> String {
    let seconds = observation.snapshot.elapsed.as_secs_f64();
    let device = &observation.options.device;
    let name = direction.name();
    let mut text = format!("{device} {name}: {}\n", method_text(observation, direction));
    if figures.packets + figures.gap_frames == 0 {
        return text + "  no packets\n";
    }
    let mut line = |name: &str, what: &str| text += &format!("  {name:<13} {what}\n");
    line("data", &volume(figures.packets, figures.bytes, seconds));
    if let Some(peak) = figures.peak {
        let rate = format::rate(peak.bytes as f64 * 8.0 / observation.options.bin.as_secs_f64());
        line("peak bin", &format!("{rate} at {:.4} s", peak.at.as_secs_f64()));
    }
    if figures.gap_frames > 0 {
        line("gap frames", &volume(figures.gap_frames, figures.gap_bytes, seconds));
        line("", &format!("{} packets right behind another, without one", figures.unspaced));
    }
    if let Some(gaps) = gaps(figures) {
        line("gaps", &gaps.0);
        line("", &gaps.1);
    }
    line("bursts", &bursts(observation, figures));
    if figures.super_handovers > 0 {
        line(
            "super-packets",
            &format!(
                "{} of {} hand-overs, {} of the packets: gaps inside them cannot be measured{}",
                figures.super_handovers,
                figures.handovers,
                format::percent(figures.super_packets as f64 / figures.packets as f64),
                if direction == Direction::Out {
                    format!("\n{:16}(ip link set {device} gso_max_segs 1 sends single packets)", "")
                } else {
                    String::new()
                }
            ),
        );
    }
    if figures.missed_bytes > 0 {
        let missed = format::size(figures.missed_bytes as f64);
        line(
            "missed",
            &format!("{missed} are in no bin, because this machine was too busy to read them"),
        );
    }
    if observation.options.per_flow {
        text += &flows(figures, seconds);
    }
    text
}

fn volume(packets: u64, bytes: u64, seconds: f64) -> String {
    let rate = format::rate(bytes as f64 * 8.0 / seconds);
    format!("{packets} packets, {}, {rate} on average", format::size(bytes as f64))
}

/// Mean and deviation; the quantiles.
fn gaps(figures: &DirectionStatistics) -> Option<(String, String)> {
    let time = |ns: f64| format::duration(ns / 1e9);
    let gaps = &figures.gaps;
    let quantile = |share| Some(time(gaps.histogram.quantile(share)?.middle()));
    let bound = |bound: Option<units::Duration>| Some(time(bound?.as_nanos() as f64));
    let (mean, deviation) = (time(gaps.mean_ns()?), time(gaps.deviation_ns()?));
    Some((
        format!("mean {mean}, standard deviation {deviation}"),
        format!(
            "least {}, 1 % {}, median {}, 99 % {}, most {}",
            bound(gaps.least)?,
            quantile(0.01)?,
            quantile(0.5)?,
            quantile(0.99)?,
            bound(gaps.most)?
        ),
    ))
}

fn bursts(observation: &Observation<'_>, figures: &DirectionStatistics) -> String {
    let bursts = &figures.bursts;
    let mean = figures.packets as f64 / bursts.count.max(1) as f64;
    format!(
        "{} of {} packets on average, longest {}, largest {} (gaps up to {})",
        bursts.count,
        format::digits(mean),
        bursts.most_packets,
        format::size(bursts.most_bytes as f64),
        format::duration(observation.options.burst_gap.as_secs_f64())
    )
}

fn flows(figures: &DirectionStatistics, seconds: f64) -> String {
    let mut text = format!("  {:<64} {:>10} {:>10} {:>11}\n", "flow", "packets", "data", "rate");
    for flow in figures.flows.iter().take(FLOWS) {
        text += &format!(
            "  {:<64} {:>10} {:>10} {:>11}\n",
            flow.flow.to_string(),
            flow.packets,
            format::size(flow.bytes as f64),
            format::rate(flow.bytes as f64 * 8.0 / seconds)
        );
    }
    let listed: u64 = figures.flows.iter().take(FLOWS).map(|flow| flow.bytes).sum();
    if figures.flows.len() > FLOWS || listed < figures.bytes {
        let rest = format::size(figures.bytes.saturating_sub(listed) as f64);
        text += &format!("  and others: {rest}\n");
    }
    text
}

/// A number with three digits and a power of 1000.
pub fn scaled_count(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{} M", format::digits(v / 1e6)),
        v if v >= 1e4 => format!("{} k", format::digits(v / 1e3)),
        v => format!("{v:.0}"),
    }
}
