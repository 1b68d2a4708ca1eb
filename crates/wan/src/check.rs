// SPDX-License-Identifier: GPL-2.0-or-later
//! What the emulator really gives on this machine: rate, round trip, loss, queue limit. Every
//! figure is taken by a program at the ends (bytes and packets that arrived, the kernel's time
//! stamps) and held against what the link was told to do.

use crate::{Health, Snapshot, Wan, WanError, traffic};
use scenario::Scenario;
use serde::Serialize;
use std::time::Duration;

/// Payload and frame of a full TCP segment at 1500 bytes, with time stamps, as the link counts it.
const SEGMENT_PAYLOAD: f64 = 1448.0;
const SEGMENT_FRAME: f64 = 1514.0;
const RATE_SECONDS: u64 = 3;
/// 99.99 % of a normal distribution lie within so many standard deviations.
const Z_9999: f64 = 3.890_6;

/// All measurements. Keys carry their units.
#[derive(Debug, Serialize)]
pub struct Report {
    /// TCP through one link and through three in a line.
    pub rate: Vec<RateRow>,
    /// Round trips, unloaded and at 90 % load.
    pub round_trip: Vec<RoundTripRow>,
    /// Losses of single packets.
    pub loss: Vec<LossRow>,
    /// Taildrop.
    pub queue: Vec<QueueRow>,
    /// Whether every row is within its limit.
    pub ok: bool,
}

/// What went through.
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
    /// What is allowed.
    pub limit_percent: f64,
    /// How the emulator kept up meanwhile.
    pub emulator: Health,
    /// Within the limit, and the emulator kept up.
    pub ok: bool,
}

/// How long it took there and back.
#[derive(Debug, Serialize)]
pub struct RoundTripRow {
    /// The link's rate.
    pub rate_bps: u64,
    /// Share of the rate that TCP used in one direction meanwhile, as counted by the link.
    pub load_percent: f64,
    /// What the delays add up to.
    pub configured_us: f64,
    /// Echo requests answered.
    pub samples: usize,
    /// Median over the configured.
    pub median_over_us: f64,
    /// 99th percentile over the configured.
    pub p99_over_us: f64,
    /// The worst over the configured.
    pub max_over_us: f64,
    /// What is allowed of the median.
    pub median_limit_us: f64,
    /// What is allowed of the 99th percentile.
    pub p99_limit_us: f64,
    /// How the emulator kept up meanwhile.
    pub emulator: Health,
    /// Within both limits.
    pub ok: bool,
}

/// What was lost.
#[derive(Debug, Serialize)]
pub struct LossRow {
    /// The probability the link was given.
    pub probability: f64,
    /// Packets sent.
    pub sent: u64,
    /// Packets that did not arrive.
    pub lost: u64,
    /// The bounds of the 99.99 % binomial interval.
    pub interval: [u64; 2],
    /// What the link counted as lost.
    pub counted: u64,
    /// Inside the interval, and counted exactly.
    pub ok: bool,
}

/// What the queue held.
#[derive(Debug, Serialize)]
pub struct QueueRow {
    /// The limit the link was given.
    pub limit: String,
    /// Packets sent at once.
    pub sent: u64,
    /// Packets that arrived.
    pub arrived: u64,
    /// What the link counted as dropped.
    pub dropped: u64,
    /// The most that waited, in the unit of the limit.
    pub most_waiting: u64,
    /// Every packet is accounted for, and the queue was full and no fuller.
    pub ok: bool,
}

/// Measures everything; `progress` hears what is measured next. About a minute.
///
/// # Errors
/// The network can't be brought up on this machine.
pub fn check(mut progress: impl FnMut(&str)) -> Result<Report, WanError> {
    let mut report = Report {
        rate: Vec::new(),
        round_trip: Vec::new(),
        loss: Vec::new(),
        queue: Vec::new(),
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
        report.rate.push(rate_row(links, rate, limit)?);
    }
    for (rate, load) in
        [("10mbit", 0.0), ("100mbit", 0.0), ("1gbit", 0.0), ("100mbit", 0.9), ("1gbit", 0.9)]
    {
        progress(&format!("round trip at {rate} and {:.0} % load", load * 100.0));
        report.round_trip.push(round_trip_row(rate, load)?);
    }
    for (loss, packets) in [("1%", 40_000), ("0.1%", 60_000)] {
        progress(&format!("loss of {loss}"));
        report.loss.push(loss_row(loss, packets)?);
    }
    for limit in ["50p", "64KB"] {
        progress(&format!("queue of {limit}"));
        report.queue.push(queue_row(limit)?);
    }
    report.ok = report.rate.iter().all(|row| row.ok)
        && report.round_trip.iter().all(|row| row.ok)
        && report.loss.iter().all(|row| row.ok)
        && report.queue.iter().all(|row| row.ok);
    Ok(report)
}

/// Nodes `n0`, `n1`, … in a line.
fn line_of(links: usize, settings: &str) -> Result<Wan, WanError> {
    let mut text = String::from("title = \"wan check\"\n");
    for n in 0..=links {
        text += &format!(
            "[[node]]\nname = \"n{n}\"\ncc = \"cubic\"\ntcp_rmem_max = \"32MB\"\ntcp_wmem_max = \"32MB\"\n"
        );
    }
    for n in 0..links {
        text += &format!("[[link]]\nbetween = [\"n{n}\", \"n{}\"]\n{settings}\n", n + 1);
    }
    let scenario = Scenario::parse(&text, "wan check", &[] as &[&str])
        .expect("the check has a sound scenario of its own");
    Wan::up(&scenario.runs[0])
}

fn rate_row(links: usize, rate: &str, limit_percent: f64) -> Result<RateRow, WanError> {
    // A queue that never drops: it is the rate that is measured, not TCP's answer to losses.
    let wan = line_of(links, &format!("rate = \"{rate}\"\ndelay = \"5ms\"\nqueue = \"100MB\""))?;
    let sleep = || {
        std::thread::sleep(Duration::from_secs(RATE_SECONDS));
        Ok(())
    };
    let to = format!("n{links}");
    let ((), arrived) = traffic::tcp_while(&wan, "n0", &to, None, Duration::from_secs(1), sleep)?;
    let emulator = wan.down()?.health;
    let rate_bps = rate.parse::<units::Rate>().expect("the check's own rate").bps();
    let measured_bps =
        arrived.bytes as f64 * 8.0 / arrived.seconds * SEGMENT_FRAME / SEGMENT_PAYLOAD;
    let error_percent = (measured_bps / rate_bps as f64 - 1.0) * 100.0;
    let ok = error_percent.abs() <= limit_percent && emulator.faults().is_empty();
    Ok(RateRow { links, rate_bps, measured_bps, error_percent, limit_percent, emulator, ok })
}

fn round_trip_row(rate: &str, load: f64) -> Result<RoundTripRow, WanError> {
    const DELAY: Duration = Duration::from_millis(10);
    const PROBES: u16 = 1000;
    let wan = line_of(1, &format!("rate = \"{rate}\"\ndelay = \"10ms\"\nqueue = \"100MB\""))?;
    let rate_bps = rate.parse::<units::Rate>().expect("the check's own rate").bps();
    let probe = || {
        let before = forward(&wan.status()?);
        let interval = Duration::from_millis(3);
        let trips = traffic::round_trips(&wan, "n0", "n1", PROBES, interval)?;
        let after = forward(&wan.status()?);
        let used = (after.1 - before.1) as f64 * 8.0 / (after.0 - before.0);
        Ok((trips, used / rate_bps as f64 * 100.0))
    };
    let (mut trips, load_percent) = if load > 0.0 {
        // Bursts of 50 us at most: what is asked is how the emulator delays packets, not how long
        // they wait behind a sender's.
        let segments = (rate_bps as f64 * 50e-6 / 8.0 / SEGMENT_FRAME).max(1.0) as u64;
        wan.node("n0")?.ip(&format!("link set wan0 gso_max_segs {segments}"))?;
        let pace = load * rate_bps as f64 / 8.0 * SEGMENT_PAYLOAD / SEGMENT_FRAME;
        let warm_up = Duration::from_secs(1);
        traffic::tcp_while(&wan, "n0", "n1", Some(pace as u64), warm_up, probe)?.0
    } else {
        probe()?
    };
    let emulator = wan.down()?.health;
    trips.sort_unstable();
    let over = |share: f64| {
        let Some(last) = trips.len().checked_sub(1) else { return f64::INFINITY };
        let trip = trips[(last as f64 * share).round() as usize];
        (trip.as_secs_f64() - 2.0 * DELAY.as_secs_f64()) * 1e6
    };
    let (median_limit_us, p99_limit_us) = (300.0, 1000.0);
    let row = RoundTripRow {
        rate_bps,
        load_percent,
        configured_us: 2e6 * DELAY.as_secs_f64(),
        samples: trips.len(),
        median_over_us: over(0.5),
        p99_over_us: over(0.99),
        max_over_us: over(1.0),
        median_limit_us,
        p99_limit_us,
        emulator,
        ok: over(0.5) <= median_limit_us && over(0.99) <= p99_limit_us,
    };
    Ok(row)
}

/// When, and how many bytes the first link has carried forward.
fn forward(snapshot: &Snapshot) -> (f64, u64) {
    (snapshot.at.as_secs_f64(), snapshot.lanes[0].counters.carried_bytes)
}

fn loss_row(loss: &str, sent: u64) -> Result<LossRow, WanError> {
    let wan = line_of(
        1,
        &format!("rate = \"1gbit\"\ndelay = \"1ms\"\nloss = \"{loss}\"\nqueue = \"100MB\""),
    )?;
    let arrived = traffic::datagrams(&wan, "n0", "n1", sent, 200, 20)?;
    let snapshot = wan.down()?;
    let probability = loss.parse::<units::Probability>().expect("the check's own loss").get();
    let (mean, margin) = (
        sent as f64 * probability,
        Z_9999 * (sent as f64 * probability * (1.0 - probability)).sqrt(),
    );
    let interval = [(mean - margin).max(0.0).ceil() as u64, (mean + margin).floor() as u64];
    let lost = sent - arrived;
    let counters = snapshot.lanes[0].counters;
    let exact = counters.losses == lost && counters.offered == sent && counters.queue_drops == 0;
    let ok = exact && (interval[0]..=interval[1]).contains(&lost);
    Ok(LossRow { probability, sent, lost, interval, counted: counters.losses, ok })
}

fn queue_row(limit: &str) -> Result<QueueRow, WanError> {
    const SENT: u64 = 300;
    let wan = line_of(1, &format!("rate = \"10mbit\"\ndelay = \"1ms\"\nqueue = \"{limit}\""))?;
    // 1472 bytes of payload make a packet of 1500 and a frame of 1514.
    let arrived = traffic::datagrams(&wan, "n0", "n1", SENT, 1472, SENT)?;
    let counters = wan.down()?.lanes[0].counters;
    let (most_waiting, full) = if let Some(packets) = limit.strip_suffix('p') {
        (counters.queue_max_packets, packets.parse().expect("a count"))
    } else {
        let bytes = limit.parse::<units::Bytes>().expect("the check's own limit").get();
        (counters.queue_max_bytes, bytes / 1514 * 1514)
    };
    let dropped = counters.queue_drops;
    let ok = dropped == SENT - arrived
        && dropped > 0
        && counters.offered == SENT
        && most_waiting == full;
    Ok(QueueRow { limit: limit.to_owned(), sent: SENT, arrived, dropped, most_waiting, ok })
}
