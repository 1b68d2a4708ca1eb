// SPDX-License-Identifier: GPL-2.0-or-later
//! How a sender's rate moves within a round trip, and how soon it gives way to congestion.
//!
//! A rate at a time is the growth of a running total over the round trip before it. Where the
//! total was sampled less often than once a round trip, the rate's moves within one are not
//! visible, and the answer is `None`.

use super::bins::increases;
use crate::{Curve, stats};

/// The greatest rise of the rate within one round trip, in bits a second: Guillier's
/// `A = max { x(t + RTT) - x(t) }`; RFC 5166, section 2.2.1.
pub fn aggressiveness_bps(total_bytes: &Curve, rtt_s: f64) -> Option<f64> {
    steps_bps(total_bytes, rtt_s)?.reduce(f64::max)
}

/// The greatest fall of the rate within one round trip, in bits a second: Guillier's
/// `S = max x(t) - x(t + dt)` with dt of one round trip, as RFC 5166, section 2.2.2, has it.
/// Smaller is smoother.
pub fn smoothness_bps(total_bytes: &Curve, rtt_s: f64) -> Option<f64> {
    steps_bps(total_bytes, rtt_s)?.map(|step| -step).reduce(f64::max)
}

/// Every change of the rate from one round trip to the next, taken at each sample's time.
fn steps_bps(total_bytes: &Curve, rtt_s: f64) -> Option<impl Iterator<Item = f64>> {
    let (first, last) = fine_span_s(total_bytes, rtt_s)?;
    let rate = move |t: f64| rate_bps(total_bytes, t, rtt_s);
    let steps = total_bytes
        .time_s
        .iter()
        .filter(move |t| **t - rtt_s >= first && **t + rtt_s <= last)
        .map(move |t| rate(t + rtt_s) - rate(*t));
    Some(steps)
}

fn rate_bps(total_bytes: &Curve, time_s: f64, rtt_s: f64) -> f64 {
    (total_bytes.at(time_s) - total_bytes.at(time_s - rtt_s)) * 8.0 / rtt_s
}

/// When the first and the last sample were taken, where there is mostly one a round trip.
fn fine_span_s(total: &Curve, rtt_s: f64) -> Option<(f64, f64)> {
    let gaps: Vec<f64> = total.time_s.windows(2).map(|t| t[1] - t[0]).collect();
    if rtt_s.is_nan() || rtt_s <= 0.0 || stats::median(&gaps)? > rtt_s {
        return None;
    }
    total.span_s()
}

/// A sender as it was sampled.
#[derive(Debug, Clone, Copy)]
pub struct SampledSender<'a> {
    /// Bytes delivered so far.
    pub delivered_bytes: &'a Curve,
    /// Segments sent again so far.
    pub retransmits: &'a Curve,
    /// Its round trip, in seconds.
    pub rtt_s: f64,
    /// When its flow ended, in seconds since the run's start: a rate that falls because the data
    /// are over is not a reaction to congestion.
    pub end_s: f64,
}

/// The round trips of lasting congestion until the rate has halved: Guillier's
/// `R = min_u { x(t + u RTT) <= x(t) / 2 }`; RFC 5166, section 2.2.1.
///
/// Congestion is what the sender notices of it. It sets in at the last sample before
/// `retransmits` grows, and lasts while the next growth comes within two round trips of the last
/// one; the rate may still answer for two round trips after that. The answer is the median over
/// the times of congestion in which the rate did halve; `None` when it never did.
pub fn responsiveness_rtts(sender: SampledSender<'_>) -> Option<f64> {
    let rtt_s = sender.rtt_s;
    let (first, last) = fine_span_s(sender.delivered_bytes, rtt_s)?;
    let until = last.min(sender.end_s);
    let halvings: Vec<f64> = congestion(sender.retransmits, 2.0 * rtt_s)
        .into_iter()
        .filter(|(onset, _)| onset - rtt_s >= first)
        .filter_map(|(onset, end)| {
            let half = rate_bps(sender.delivered_bytes, onset, rtt_s) / 2.0;
            let mut round_trips = (1..).map(f64::from).take_while(|u| {
                let time_s = onset + u * rtt_s;
                time_s <= (end + 2.0 * rtt_s).min(until)
            });
            let halved =
                |u: &f64| rate_bps(sender.delivered_bytes, onset + u * rtt_s, rtt_s) <= half;
            round_trips.find(halved).filter(|_| half > 0.0)
        })
        .collect();
    stats::median(&halvings)
}

/// The times of congestion: from the last sample before a growth to the last growth that follows
/// with no more than `pause_s` between two.
fn congestion(retransmits: &Curve, pause_s: f64) -> Vec<(f64, f64)> {
    let mut times: Vec<(f64, f64)> = Vec::new();
    for rise in increases(retransmits) {
        let time_s = retransmits.time_s[rise];
        match times.last_mut() {
            Some((_, end)) if time_s - *end <= pause_s => *end = time_s,
            _ => times.push((retransmits.time_s[rise.saturating_sub(1)], time_s)),
        }
    }
    times
}

/// How long the senders' sum stays more than 10 % above its mean after a change of the load, in
/// bins: Guillier's `R_X = max_t { t : (sum x(t) - mean) / mean > 0.1 }`, with the end of the bin
/// as its time; 0 when it never is above.
///
/// `rates` holds the sum for each bin since the change. `None` below two bins, or without any rate.
pub fn average_responsiveness_bins(rates: &[f64]) -> Option<usize> {
    let mean = stats::mean(rates).filter(|mean| *mean > 0.0 && rates.len() > 1)?;
    Some(rates.iter().rposition(|rate| (rate - mean) / mean > 0.1).map_or(0, |last| last + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Totals sampled every 0.125 s (which binary fractions hold exactly) that grow by the given
    /// figures from sample to sample.
    fn total(growth: &[f64]) -> Curve {
        let mut curve = Curve::default();
        let mut sum = 0.0;
        curve.push(0.0, sum);
        for (i, more) in growth.iter().enumerate() {
            sum += more;
            curve.push((i + 1) as f64 * 0.125, sum);
        }
        curve
    }

    #[test]
    fn greatest_rise_and_fall() {
        // 640, 1280, 3840, 1920 bit/s with a round trip of one sampling interval.
        let curve = total(&[10.0, 20.0, 60.0, 30.0]);
        assert_eq!(aggressiveness_bps(&curve, 0.125), Some(2560.0));
        assert_eq!(smoothness_bps(&curve, 0.125), Some(1920.0));
    }

    #[test]
    fn too_few_samples_give_no_reaction() {
        let curve = total(&[10.0, 20.0, 60.0]);
        for rtt_s in [0.1, 0.0, f64::NAN] {
            assert_eq!(aggressiveness_bps(&curve, rtt_s), None, "{rtt_s}");
        }
        assert_eq!(smoothness_bps(&total(&[10.0]), 0.125), None);
        assert_eq!(smoothness_bps(&Curve::default(), 0.125), None);
    }

    fn responsiveness(delivered: &[f64], retransmits: &[f64], end_s: f64) -> Option<f64> {
        let (delivered, retransmits) = (total(delivered), total(retransmits));
        let sender = SampledSender {
            delivered_bytes: &delivered,
            retransmits: &retransmits,
            rtt_s: 0.125,
            end_s,
        };
        responsiveness_rtts(sender)
    }

    #[test]
    fn round_trips_until_the_rate_has_halved() {
        // Noticed between the 2nd and the 3rd sample; at the 2nd the rate is 100 a round trip,
        // and three round trips later 50.
        let delivered = [90.0, 100.0, 95.0, 70.0, 50.0, 60.0];
        let lasting = [0.0, 0.0, 4.0, 1.0, 0.0, 0.0];
        assert_eq!(responsiveness(&delivered, &lasting, 9.0), Some(3.0));
        // The data were over before that.
        assert_eq!(responsiveness(&delivered, &lasting, 0.5), None);
        // Congestion was over two round trips before that: the rate fell for another reason.
        let late = [90.0, 100.0, 95.0, 70.0, 70.0, 50.0];
        let short = [0.0, 0.0, 4.0, 0.0, 0.0, 0.0];
        assert_eq!(responsiveness(&late, &short, 9.0), None);
        assert_eq!(responsiveness(&late, &[0.0, 0.0, 4.0, 0.0, 1.0, 0.0], 9.0), Some(4.0));
        // Nothing sent again, or a loss before there was a rate.
        assert_eq!(responsiveness(&delivered, &[0.0; 6], 9.0), None);
        assert_eq!(responsiveness(&delivered, &[1.0, 0.0, 0.0, 0.0, 0.0, 0.0], 9.0), None);
    }

    #[test]
    fn the_median_over_times_of_congestion() {
        // Halved after 1 round trip, then (from 60) after 2.
        let delivered = [80.0, 80.0, 40.0, 60.0, 60.0, 60.0, 60.0, 45.0, 30.0, 30.0];
        let retransmits = [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0];
        assert_eq!(responsiveness(&delivered, &retransmits, 9.0), Some(1.5));
    }

    #[test]
    fn the_sums_excess_over_its_mean() {
        // Mean 100: above 110 for the last time in the third bin.
        assert_eq!(average_responsiveness_bins(&[130.0, 90.0, 115.0, 65.0]), Some(3));
        assert_eq!(average_responsiveness_bins(&[105.0, 95.0]), Some(0));
        assert_eq!(average_responsiveness_bins(&[105.0]), None);
        assert_eq!(average_responsiveness_bins(&[0.0, 0.0]), None);
    }
}
