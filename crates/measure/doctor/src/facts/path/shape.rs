// SPDX-License-Identifier: GPL-2.0-or-later
//! From samples of a download to what limits it.
//!
//! Segments that come out of order begin behind a hole, so each round trip with new ones is one event of loss, however many
//! segments it took. The second half of the download is its steady part: by then slow start is over, or nothing is said.
//! A steady rate that waits in a queue (the round trip has grown) is a link's or shaper's; one with neither losses nor a queue
//! is a window's. One that loses without a queue is a policer's if it loses where its tokens are used up (Flach et al., "An
//! Internet-wide analysis of traffic policing", SIGCOMM 2016): what came beyond the steady rate until then is each time the same.
//! Losses by chance come at any such excess.
//! Limits: from the receiver alone; reordering without loss counts as loss.

use serde::Serialize;

/// A moment of a download.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Sample {
    /// Since the request was sent.
    pub at_us: u64,
    /// Bytes received until then.
    pub bytes: u64,
    /// Bytes that had arrived until then, those behind holes included.
    pub arrived_bytes: u64,
    /// Segments received until then in another order than sent.
    pub out_of_order: u32,
    /// The round trip as the receiver sees it, 0 before it was measured.
    pub rtt_us: u32,
}

/// What is seen of a download.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Shape {
    /// Round trips in which losses were seen.
    pub loss_events: u32,
    /// The rate of the second half; none of a download of fewer than 20 round trips.
    pub steady_bps: Option<u64>,
    /// Whether that rate stayed the same.
    pub is_even: bool,
    /// The median round trip of the second half, in microseconds; 0 where the receiver does not know it.
    pub steady_rtt_us: u32,
    /// How far the excesses over the steady rate at which losses begin are spread, as a share of those of all samples: both as
    /// standard deviations, of the second half. None with fewer than 10 such losses.
    pub excess_spread: Option<f64>,
    /// The highest rate of a round trip before the first loss, above twice the steady one; none where there is no such.
    pub burst_bps: Option<u64>,
}

/// Round trips that a download has to take, for anything to be said.
pub const LEAST_ROUND_TRIPS: u64 = 20;
/// Parts of the second half whose rates are compared.
const PARTS: u64 = 8;
/// Events of loss in a download that are more than chance or the end of slow start.
const OFTEN: u32 = 10;
/// How many of them have to be alike.
const ALIKE: usize = 6;
/// How far they may be apart, as a share of their mean.
const EVEN: f64 = 0.15;
/// Losses whose excesses are spread by less than this are a policer's.
const POLICED: f64 = 0.85;
/// A round trip has grown by a queue if it is so many times that of the handshake.
pub const QUEUED: f64 = 1.3;

impl Shape {
    /// Of samples in order of time, over a round trip of so many microseconds.
    pub fn of(samples: &[Sample], rtt_us: u32) -> Self {
        let Some(last) = samples.last() else { return Self::default() };
        let rtt_us = u64::from(rtt_us.max(1));
        let losses = losses(samples, rtt_us);
        let loss_events = losses.len() as u32;
        if last.at_us / rtt_us < LEAST_ROUND_TRIPS {
            return Self { loss_events, ..Self::default() };
        }
        let middle = last.at_us / 2;
        let steady = rate_bps(samples, middle, last.at_us);
        let part = (last.at_us - middle) / PARTS;
        let rates: Vec<f64> = (0..PARTS)
            .map(|n| rate_bps(samples, middle + n * part, middle + (n + 1) * part))
            .collect();
        let alike = rates.iter().filter(|rate| (*rate / steady - 1.0).abs() <= EVEN).count();
        // A busy host or a pause spoils a part or two.
        let is_even = steady > 0.0 && alike >= ALIKE;
        let mut rtts: Vec<u32> = samples
            .iter()
            .filter(|it| it.at_us >= middle && it.rtt_us > 0)
            .map(|it| it.rtt_us)
            .collect();
        rtts.sort_unstable();
        let early = (0..LEAST_ROUND_TRIPS / 2)
            .map(|n| rate_bps(samples, n * rtt_us, (n + 1) * rtt_us))
            .fold(0.0, f64::max);
        Self {
            loss_events,
            steady_bps: Some(steady as u64),
            is_even,
            steady_rtt_us: rtts.get(rtts.len() / 2).copied().unwrap_or(0),
            excess_spread: excess_spread(
                &samples[samples.partition_point(|it| it.at_us < middle)..],
                &losses,
            ),
            burst_bps: (early > 2.0 * steady).then_some(early as u64),
        }
    }

    /// Whether losses are what keeps the rate even.
    pub fn loses_often(&self) -> bool {
        self.loss_events >= OFTEN
    }

    /// Whether losses keep the rate even, and come when a policer's tokens are used up, as far as that can be told.
    pub fn is_policed(&self) -> bool {
        self.is_even && self.loses_often() && self.excess_spread.is_none_or(|it| it < POLICED)
    }

    /// Whether the steady part waited in a queue.
    pub fn is_queued(&self, handshake_rtt_us: u32) -> bool {
        f64::from(self.steady_rtt_us) > QUEUED * f64::from(handshake_rtt_us)
    }
}

/// The first samples of round trips with new segments out of order.
fn losses(samples: &[Sample], rtt_us: u64) -> Vec<Sample> {
    let (mut losses, mut known, mut until) = (Vec::new(), 0, 0);
    for sample in samples {
        if sample.out_of_order > known {
            known = sample.out_of_order;
            if sample.at_us >= until {
                losses.push(*sample);
                until = sample.at_us + rtt_us;
            }
        }
    }
    losses
}

/// See [`Shape::excess_spread`].
fn excess_spread(samples: &[Sample], losses: &[Sample]) -> Option<f64> {
    let (first, last) = (samples.first()?, samples.last()?);
    let bytes = last.arrived_bytes.saturating_sub(first.arrived_bytes) as f64;
    let per_us = bytes / last.at_us.saturating_sub(first.at_us).max(1) as f64;
    let excess = |it: &Sample| it.arrived_bytes as f64 - per_us * it.at_us as f64;
    let all: Vec<f64> = samples.iter().map(excess).collect();
    // What had arrived before the first segment behind a hole.
    let before = |loss: &Sample| samples.partition_point(|it| it.at_us < loss.at_us).checked_sub(1);
    let at_losses: Vec<f64> = losses.iter().filter_map(before).map(|n| all[n]).collect();
    let all = deviation(&all);
    let is_told = at_losses.len() >= OFTEN as usize && all > 0.0;
    is_told.then(|| deviation(&at_losses) / all)
}

/// The standard deviation.
fn deviation(values: &[f64]) -> f64 {
    let n = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / n;
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n).sqrt()
}

/// Bits a second between two times, by the bytes that were there at each.
fn rate_bps(samples: &[Sample], from_us: u64, to_us: u64) -> f64 {
    let at = |time: u64| {
        let after = samples.partition_point(|sample| sample.at_us <= time);
        let (Some(next), before) = (samples.get(after), after.checked_sub(1)) else {
            return samples.last().map_or(0.0, |last| last.bytes as f64);
        };
        let before = before.map_or(Sample::default(), |n| samples[n]);
        let share = (time - before.at_us) as f64 / (next.at_us - before.at_us).max(1) as f64;
        before.bytes as f64 + share * next.bytes.saturating_sub(before.bytes) as f64
    };
    if to_us <= from_us {
        0.0
    } else {
        (at(to_us) - at(from_us)).max(0.0) * 8e6 / (to_us - from_us) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten seconds at a rate in Mb/s, a sample each 20 ms, with the round trip and what came out of order.
    fn download(
        mbps: impl Fn(f64) -> f64,
        rtt_us: u32,
        out_of_order: impl Fn(f64) -> u32,
    ) -> Vec<Sample> {
        let mut bytes = 0.0;
        let sample = |n: u64| {
            let at = n as f64 * 0.02;
            bytes += mbps(at) * 1e6 / 8.0 * 0.02;
            Sample {
                at_us: n * 20_000,
                bytes: bytes as u64,
                arrived_bytes: bytes as u64,
                out_of_order: out_of_order(at),
                rtt_us,
            }
        };
        (1..=500).map(sample).collect()
    }

    #[test]
    fn even_rate_is_found() {
        let shape = Shape::of(&download(|_| 80.0, 100_000, |_| 0), 100_000);
        let steady = shape.steady_bps.unwrap() as f64;
        assert!((steady / 80e6 - 1.0).abs() < 0.01, "{shape:?}");
        assert!(shape.is_even && shape.loss_events == 0 && !shape.is_queued(100_000));
        assert!(shape.is_queued(50_000) && shape.burst_bps.is_none());
    }

    #[test]
    fn saw_and_growth_are_not_even() {
        let saw =
            Shape::of(&download(|at| 50.0 + 50.0 * (at / 4.0).fract(), 100_000, |_| 0), 100_000);
        assert!(!saw.is_even, "{saw:?}");
        let grows = Shape::of(&download(|at| 10.0 * at, 100_000, |_| 0), 100_000);
        assert!(!grows.is_even, "{grows:?}");
    }

    /// Every second a hole, behind which segments come out of order for two samples.
    #[test]
    fn one_event_of_loss_is_counted_once() {
        let shape = Shape::of(&download(|_| 80.0, 100_000, |at| at as u32 * 100), 100_000);
        assert_eq!(shape.loss_events, 10);
        let trickle = |at: f64| at as u32 * 100 + ((at.fract() * 50.0) as u32).min(3);
        let shape = Shape::of(&download(|_| 80.0, 100_000, trickle), 100_000);
        assert!((10..=11).contains(&shape.loss_events), "{shape:?}");
    }

    /// A saw of 0.4 s around 80 Mb/s that loses at its top each time is a policer's; one that loses anywhere is not.
    #[test]
    fn losses_where_tokens_are_used_up_are_a_policers() {
        let saw = |at: f64| 60.0 + 40.0 * (at * 2.5).fract();
        let of = |losses: &dyn Fn(f64) -> u32| Shape::of(&download(saw, 100_000, losses), 100_000);
        let policed = of(&|at| (at * 2.5) as u32);
        assert!(policed.is_policed() && policed.excess_spread.is_some(), "{policed:?}");
        let chance = of(&|at| (at * 3.37) as u32);
        assert!(chance.loses_often() && chance.is_even && !chance.is_policed(), "{chance:?}");
    }

    #[test]
    fn burst_before_a_policer_is_seen() {
        let rate = |at: f64| if at < 0.5 { 400.0 } else { 50.0 };
        let shape = Shape::of(&download(rate, 100_000, |_| 0), 100_000);
        assert!(shape.burst_bps.is_some_and(|burst| burst > 300_000_000), "{shape:?}");
    }

    #[test]
    fn too_short_a_download_says_nothing() {
        assert_eq!(Shape::of(&[], 100_000), Shape::default());
        let short = &download(|_| 80.0, 100_000, |_| 0)[..20];
        assert_eq!(Shape::of(short, 100_000).steady_bps, None);
        assert!(Shape::of(short, 0).steady_bps.is_some(), "a round trip of nothing does not panic");
    }
}
