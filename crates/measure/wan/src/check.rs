// SPDX-License-Identifier: GPL-2.0-or-later
//! Measures the emulator on this machine: rate, round trip, loss, queue limit, impairments. Every
//! value is taken by a program at the ends (bytes and packets that arrived, the kernel's time
//! stamps) and held against what the link was told to do.

mod binomial;
mod impairments;
mod measurements;
mod traffic;

use crate::{Health, WanError};
use serde::Serialize;

/// All measurements. Keys carry their units.
#[derive(Debug, Serialize)]
pub struct Report {
    /// TCP through one link and through three in a line.
    pub rate: Vec<RateRow>,
    /// Round trips, unloaded and at 90 % load.
    pub round_trip: Vec<RoundTripRow>,
    /// Losses of datagrams and of the segments of TCP.
    pub loss: Vec<LossRow>,
    /// Taildrop.
    pub queue: Vec<QueueRow>,
    /// What links do beyond that.
    pub impairments: Vec<ImpairmentRow>,
    /// Whether every row is within its limit.
    pub ok: bool,
}

/// Result of the rate measurement.
#[derive(Debug, Serialize)]
pub struct RateRow {
    /// Links in a line, each of this rate.
    pub links: usize,
    /// The rate the links were given.
    pub rate_bps: u64,
    /// The rate at which TCP payload arrived, with its headers added.
    pub measured_bps: f64,
    /// The difference.
    pub error_percent: f64,
    /// The maximum.
    pub limit_percent: f64,
    /// How the emulator kept up meanwhile.
    pub emulator: Health,
    /// Within the limit, and the emulator kept up.
    pub ok: bool,
}

/// How long it took there and back.
#[derive(Debug, Serialize)]
pub struct RoundTripRow {
    /// Links in a line, each of this rate and of 10 ms each way.
    pub links: usize,
    /// The links' rate.
    pub rate_bps: u64,
    /// Share of the rate that TCP shall use in one direction meanwhile.
    pub load_wanted_percent: f64,
    /// Load of the link, as counted by the first link.
    pub load_percent: f64,
    /// Sum of the configured delays.
    pub configured_us: f64,
    /// Echo requests sent.
    pub probes: usize,
    /// Echo requests answered.
    pub samples: usize,
    /// Median over the configured.
    pub median_over_us: f64,
    /// 99th percentile over the configured.
    pub p99_over_us: f64,
    /// The worst over the configured.
    pub max_over_us: f64,
    /// The maximum of the median.
    pub median_limit_us: f64,
    /// The maximum of the 99th percentile.
    pub p99_limit_us: f64,
    /// How the emulator kept up meanwhile.
    pub emulator: Health,
    /// Within both limits, with the load wanted, nearly every request answered, and an emulator
    /// that kept up.
    pub ok: bool,
}

/// Result of the loss measurement.
#[derive(Debug, Serialize)]
pub struct LossRow {
    /// Kind of traffic: datagrams, or TCP in super-packets, whose segments are counted.
    pub traffic: &'static str,
    /// The probability the link was given.
    pub probability: f64,
    /// The scenario's seed, another each time.
    pub seed: u64,
    /// Packets sent, as the sender counted them.
    pub sent: u64,
    /// Packets that did not arrive; of segments, what the link counted.
    pub lost: u64,
    /// The bounds of the 99.99 % binomial interval.
    pub interval: [u64; 2],
    /// Packets that the link counted as lost.
    pub counted: u64,
    /// How the emulator kept up meanwhile.
    pub emulator: Health,
    /// Inside the interval, counted exactly, and the emulator kept up.
    pub ok: bool,
}

/// Result of the queue measurement.
#[derive(Debug, Serialize)]
pub struct QueueRow {
    /// The limit the link was given.
    pub limit: String,
    /// Packets sent at once.
    pub sent: u64,
    /// Packets that arrived.
    pub arrived: u64,
    /// Packets that the link counted as dropped.
    pub dropped: u64,
    /// The most that waited, in the unit of the limit.
    pub most_waiting: u64,
    /// How the emulator kept up meanwhile.
    pub emulator: Health,
    /// Every packet is accounted for, the queue was full and no fuller, and the emulator kept up.
    pub ok: bool,
}

/// Result of the measurement of an impairment.
#[derive(Debug, Serialize)]
pub struct ImpairmentRow {
    /// What the link was told to do.
    pub impairment: &'static str,
    /// Of the values that follow.
    pub unit: &'static str,
    /// What follows from the link's keys.
    pub expected: f64,
    /// Its bounds: the 99.99 % interval of what is left to chance, and the emulator's accuracy.
    pub interval: [f64; 2],
    /// What was seen at the ends.
    pub measured: f64,
    /// The scenario's seed.
    pub seed: u64,
    /// How the emulator kept up meanwhile.
    pub emulator: Health,
    /// Inside the interval, and the emulator kept up.
    pub ok: bool,
}

/// Measures everything; `progress` hears what is measured next. About a minute and a half.
///
/// # Errors
/// The network can't be brought up on this machine.
pub fn check(mut progress: impl FnMut(&str)) -> Result<Report, WanError> {
    let mut report = Report {
        rate: Vec::new(),
        round_trip: Vec::new(),
        loss: Vec::new(),
        queue: Vec::new(),
        impairments: Vec::new(),
        ok: false,
    };
    for (links, rate, limit) in [
        (1, "10mbit", 1.0),
        (1, "100mbit", 1.0),
        (1, "300mbit", 1.0),
        (1, "800mbit", 1.0),
        (1, "1gbit", 3.0),
        (3, "1gbit", 3.0),
    ] {
        progress(&format!("rate of {rate} over {links} in a line"));
        report.rate.push(measurements::rate(links, rate, limit)?);
    }
    for (links, rate, load_percent) in [
        (1, "10mbit", 0.0),
        (1, "100mbit", 0.0),
        (1, "1gbit", 0.0),
        (3, "1gbit", 0.0),
        (1, "100mbit", 90.0),
        (1, "1gbit", 90.0),
        (3, "1gbit", 90.0),
    ] {
        progress(&format!("round trip at {rate} over {links} in a line, {load_percent} % load"));
        report.round_trip.push(measurements::round_trip(links, rate, load_percent)?);
    }
    for (loss, packets) in [("1%", 40_000), ("0.1%", 60_000)] {
        let seed = measurements::fresh_seed();
        progress(&format!("loss of {loss} of datagrams, seed {seed}"));
        report.loss.push(measurements::datagram_loss(loss, packets, seed)?);
    }
    let seed = measurements::fresh_seed();
    progress(&format!("loss of 0.1% of TCP's segments, seed {seed}"));
    report.loss.push(measurements::segment_loss("0.1%", 200_000, seed)?);
    for limit in ["50p", "64KB"] {
        progress(&format!("queue of {limit}"));
        report.queue.push(measurements::queue(limit)?);
    }
    report.impairments = impairments::impairments(&mut progress)?;
    report.ok = report.rate.iter().all(|row| row.ok)
        && report.round_trip.iter().all(|row| row.ok)
        && report.loss.iter().all(|row| row.ok)
        && report.queue.iter().all(|row| row.ok)
        && report.impairments.iter().all(|row| row.ok);
    Ok(report)
}
