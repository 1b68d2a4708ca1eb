// SPDX-License-Identifier: GPL-2.0-or-later
//! The measurements of one row each: a network of its own, traffic through it, and the results.

use super::{
    LossRow, QueueRow, RateRow, RoundTripRow, binomial,
    traffic::{self, Probes},
};
use crate::{Snapshot, Wan, WanError};
use scenario::Scenario;
use std::time::{Duration, SystemTime};

/// Payload and frame of a full TCP segment at 1500 bytes, with time stamps, as the link counts it.
pub const SEGMENT_PAYLOAD: u64 = 1448;
pub const SEGMENT_FRAME: u64 = 1514;
const RATE_SECONDS: u64 = 3;
/// How far the load of a round trip may be from what was wanted, in points of the rate.
const LOAD_TOLERANCE_PERCENT: f64 = 5.0;
/// The share of echo requests that must be answered: nothing on the way loses any.
const LEAST_ANSWERED: f64 = 0.99;
/// Probability that a row about loss fails by chance.
const OUTSIDE: f64 = 1e-4;

/// Nodes `n0`, `n1`, … in a line.
pub fn line_of(links: usize, settings: &str, seed: u64) -> Result<Wan, WanError> {
    let mut text = format!("title = \"wan check\"\nseed = {seed}\n");
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

/// Where chance takes no part.
pub const NO_SEED: u64 = 1;

/// A seed that no earlier check had, of few enough digits to type again.
pub fn fresh_seed() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(NO_SEED, |since| since.as_micros() as u64)
}

fn bps(rate: &str) -> u64 {
    rate.parse::<units::Rate>().expect("the check's own rate").bps()
}

pub fn rate(links: usize, rate: &str, limit_percent: f64) -> Result<RateRow, WanError> {
    // A queue that never drops: it is the rate that is measured, not TCP's answer to losses.
    let settings = format!("rate = \"{rate}\"\ndelay = \"5ms\"\nqueue = \"100MB\"");
    let wan = line_of(links, &settings, NO_SEED)?;
    let sleep = || {
        std::thread::sleep(Duration::from_secs(RATE_SECONDS));
        Ok(())
    };
    let to = format!("n{links}");
    let ((), arrived) = traffic::tcp_while(&wan, "n0", &to, None, Duration::from_secs(1), sleep)?;
    let emulator = wan.down()?.health;
    let rate_bps = bps(rate);
    let measured_bps = arrived.bytes as f64 * 8.0 / arrived.seconds * SEGMENT_FRAME as f64
        / SEGMENT_PAYLOAD as f64;
    let error_percent = (measured_bps / rate_bps as f64 - 1.0) * 100.0;
    let ok = error_percent.abs() <= limit_percent && emulator.faults().is_empty();
    Ok(RateRow { links, rate_bps, measured_bps, error_percent, limit_percent, emulator, ok })
}

pub fn round_trip(
    links: usize,
    rate: &str,
    load_wanted_percent: f64,
) -> Result<RoundTripRow, WanError> {
    const DELAY_US: f64 = 10_000.0;
    const PROBES: u16 = 1000;
    let settings = format!("rate = \"{rate}\"\ndelay = \"10ms\"\nqueue = \"100MB\"");
    let wan = line_of(links, &settings, NO_SEED)?;
    let (to, rate_bps) = (format!("n{links}"), bps(rate));
    let probe = || {
        let before = forward(&wan.status()?);
        let interval = Duration::from_millis(3);
        let probes = Probes { from: "n0", to: &to, count: PROBES, interval };
        let trips = traffic::round_trips(&wan, probes)?;
        let after = forward(&wan.status()?);
        let used = (after.1 - before.1) as f64 * 8.0 / (after.0 - before.0);
        Ok((trips, used / rate_bps as f64 * 100.0))
    };
    let (mut trips, load_percent) = if load_wanted_percent > 0.0 {
        // Bursts of 100 us at most: this measures how the emulator delays packets, not how long
        // they wait behind those of a sender.
        let segments = (rate_bps / 10_000 / 8 / SEGMENT_FRAME).max(1);
        wan.node("n0")?.ip(&format!("link set wan0 gso_max_segs {segments}"))?;
        let share = load_wanted_percent / 100.0 * SEGMENT_PAYLOAD as f64 / SEGMENT_FRAME as f64;
        let pace = (share * rate_bps as f64 / 8.0) as u64;
        traffic::tcp_while(&wan, "n0", &to, Some(pace), Duration::from_secs(1), probe)?.0
    } else {
        probe()?
    };
    let emulator = wan.down()?.health;
    trips.sort_unstable();
    let configured_us = 2.0 * links as f64 * DELAY_US;
    let over = |share: f64| {
        let Some(last) = trips.len().checked_sub(1) else { return f64::INFINITY };
        let trip = trips[(last as f64 * share).round() as usize];
        trip.as_secs_f64() * 1e6 - configured_us
    };
    // What one link may add; in a line each may.
    let (median_limit_us, p99_limit_us) = (300.0 * links as f64, 1000.0 * links as f64);
    let as_wanted = (load_percent - load_wanted_percent).abs() <= LOAD_TOLERANCE_PERCENT
        && trips.len() as f64 >= LEAST_ANSWERED * f64::from(PROBES)
        && emulator.faults().is_empty();
    Ok(RoundTripRow {
        links,
        rate_bps,
        load_wanted_percent,
        load_percent,
        configured_us,
        probes: PROBES.into(),
        samples: trips.len(),
        median_over_us: over(0.5),
        p99_over_us: over(0.99),
        max_over_us: over(1.0),
        median_limit_us,
        p99_limit_us,
        emulator,
        ok: as_wanted && over(0.5) <= median_limit_us && over(0.99) <= p99_limit_us,
    })
}

/// When, and how many bytes the first link has carried forward.
fn forward(snapshot: &Snapshot) -> (f64, u64) {
    (snapshot.at.as_secs_f64(), snapshot.directed_links[0].counters.carried_bytes)
}

/// Datagrams: the receiver knows how many are missing.
pub fn datagram_loss(loss: &str, count: u64, seed: u64) -> Result<LossRow, WanError> {
    let wan = lossy(loss, "1ms", seed)?;
    let arrived = traffic::datagrams(&wan, "n0", "n1", count, 200, 20)?;
    loss_row("datagrams", loss, seed, count, Some(count - arrived), wan)
}

/// TCP in super-packets: the sender knows how many segments it sent. It is a short way, so that TCP
/// recovers fast enough to fill the link.
pub fn segment_loss(loss: &str, count: u64, seed: u64) -> Result<LossRow, WanError> {
    let wan = lossy(loss, "100us", seed)?;
    let sent = traffic::tcp_segments(&wan, "n0", "n1", count * SEGMENT_PAYLOAD)?;
    loss_row("TCP segments", loss, seed, sent, None, wan)
}

fn lossy(loss: &str, delay: &str, seed: u64) -> Result<Wan, WanError> {
    let link = format!("rate = \"1gbit\"\ndelay = \"{delay}\"\nqueue = \"100MB\"");
    line_of(1, &format!("{link}\nforward = {{ loss = \"{loss}\" }}"), seed)
}

fn loss_row(
    traffic: &'static str,
    loss: &str,
    seed: u64,
    sent: u64,
    missing: Option<u64>,
    wan: Wan,
) -> Result<LossRow, WanError> {
    let Snapshot { directed_links, health: emulator, .. } = wan.down()?;
    let counters = directed_links[0].counters;
    let (counted, lost) = (counters.losses, missing.unwrap_or(counters.losses));
    let probability = loss.parse::<units::Probability>().expect("the check's own loss").get();
    let interval = binomial::interval(sent, probability, OUTSIDE);
    let exact = counted == lost && counters.offered == sent && counters.queue_drops == 0;
    let ok = exact && (interval[0]..=interval[1]).contains(&lost) && emulator.faults().is_empty();
    Ok(LossRow { traffic, probability, seed, sent, lost, interval, counted, emulator, ok })
}

pub fn queue(limit: &str) -> Result<QueueRow, WanError> {
    const SENT: u64 = 300;
    let settings = format!("rate = \"10mbit\"\ndelay = \"1ms\"\nqueue = \"{limit}\"");
    let wan = line_of(1, &settings, NO_SEED)?;
    // 1472 bytes of payload make a packet of 1500 and a frame of 1514.
    let arrived = traffic::datagrams(&wan, "n0", "n1", SENT, 1472, SENT)?;
    let Snapshot { directed_links, health: emulator, .. } = wan.down()?;
    let counters = directed_links[0].counters;
    let (most_waiting, full) = if let Some(packets) = limit.strip_suffix('p') {
        (counters.queue_max_packets, packets.parse().expect("a count"))
    } else {
        let bytes = limit.parse::<units::Bytes>().expect("the check's own limit").get();
        (counters.queue_max_bytes, bytes / SEGMENT_FRAME * SEGMENT_FRAME)
    };
    let dropped = counters.queue_drops;
    let ok = dropped == SENT - arrived
        && dropped > 0
        && counters.offered == SENT
        && most_waiting == full
        && emulator.faults().is_empty();
    let limit = limit.to_owned();
    Ok(QueueRow { limit, sent: SENT, arrived, dropped, most_waiting, emulator, ok })
}
