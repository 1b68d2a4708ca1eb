// SPDX-License-Identifier: GPL-2.0-or-later
//! Bursts that a shallow buffer loses, where a fast link meets a slower one (10 Gb/s to 1 Gb/s).
//!
//! A sender in slow start sends each window as a burst at its own link's rate. A slower link behind a shallow buffer takes only
//! a small one, so it loses the same window on each connection, far below what the path holds, and no queue is seen. So
//! [`TRIALS`] short downloads are watched until their first loss:
//!
//! 1. All lose, and the segments before the loss are alike. Losses by chance are not: of six exponential times, all lie within
//!    a factor of two in 0.2 % of cases.
//! 2. What arrived in the round trip before the loss is less than half of what the slower link carries in one. That link's
//!    rate is the dispersion of the segments that arrive in one go, a packet train.
//!
//! Source: Dovrolis, Ramanathan and Moore, "What do packet dispersion techniques measure?", INFOCOM 2001; Altman et al. 2006 for
//! bursts (paper 001).
//! Limits: a sender that paces sends no bursts, and has no such losses.

use super::{
    Request,
    connection::{Connection, PathError, Secure},
    download::Reader,
};
use host::tcp_info;
use serde::Serialize;
use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

/// Where bursts are lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Burst {
    /// The rate of the slower link, by the dispersion of packet trains.
    pub link_bps: u64,
    /// What arrived in the round trip before the first loss: the median of all trials.
    pub window_bytes: u64,
    /// The fewest segments before the first loss.
    pub least_segments: u32,
    /// The most.
    pub most_segments: u32,
}

/// Downloads until the first loss.
const TRIALS: usize = 6;
/// The longest of them, in time, round trips and segments: by then slow start is over.
const LONGEST: Duration = Duration::from_secs(2);
const MOST_ROUND_TRIPS: u32 = 40;
const LEAST_TIME: Duration = Duration::from_millis(200);
const MOST_SEGMENTS: u32 = 20_000;
/// Times of losses that are alike lie within this factor.
const ALIKE: f64 = 2.0;
/// Less of the path than this is far below what it holds.
const FAR_BELOW: f64 = 0.5;
/// Segments of a train that tells a rate.
const TRAIN: u32 = 8;
/// A pause of this part of a round trip ends a train.
const PAUSE: u32 = 8;
/// Headers of IPv4 and TCP with timestamps.
const HEADERS: u32 = 52;

/// Segments that had arrived at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Arrival {
    at_us: u64,
    segments: u32,
}

/// A download until its first loss.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Trial {
    arrivals: Vec<Arrival>,
    has_lost: bool,
    rtt_us: u32,
    packet_bytes: u32,
}

/// Looks for such losses. None where there are none, or the server no longer answers.
pub fn find(peer: SocketAddr, request: &Request, tls: &dyn Secure) -> Option<Burst> {
    let mut trials = Vec::new();
    for _ in 0..TRIALS {
        let trial = download(peer, request, tls).ok()?;
        // One without a loss decides.
        if !trial.has_lost {
            return None;
        }
        trials.push(trial);
    }
    burst(&trials)
}

fn download(peer: SocketAddr, request: &Request, tls: &dyn Secure) -> Result<Trial, PathError> {
    let Connection { tcp, stream, handshake_rtt_us } =
        Connection::open(peer, request, &request.head, None, tls)?;
    let broken = |error| PathError::Broken { peer, error };
    let started = Instant::now();
    let mut reader = Reader::new(stream);
    let mut trial = Trial { rtt_us: handshake_rtt_us, ..Trial::default() };
    let slow_start = Duration::from_micros(handshake_rtt_us.into()) * MOST_ROUND_TRIPS;
    let longest = slow_start.clamp(LEAST_TIME, LONGEST);
    while started.elapsed() < longest {
        match reader.read().map_err(broken)? {
            Some(0) => break,
            Some(_) => {}
            None => continue,
        }
        let info = tcp_info(&tcp).map_err(broken)?;
        trial.packet_bytes = info.receive_mss + HEADERS;
        trial.has_lost = info.out_of_order > 0;
        if trial.has_lost || info.data_segments_in > MOST_SEGMENTS {
            break;
        }
        let at_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        trial.arrivals.push(Arrival { at_us, segments: info.data_segments_in });
    }
    Ok(trial)
}

/// What trials that all lost show.
fn burst(trials: &[Trial]) -> Option<Burst> {
    let lasts = trials.iter().map(|trial| trial.arrivals.last().map_or(0, |last| last.segments));
    let (least, most) = (lasts.clone().min()?, lasts.max()?);
    if least == 0 || f64::from(most) > ALIKE * f64::from(least) {
        return None;
    }
    let rates = trials.iter().flat_map(Trial::trains);
    let link_bps = median(rates.map(|bps| bps as u64))?;
    let window_bytes = median(trials.iter().map(Trial::last_window))?;
    let rtt_s = f64::from(median(trials.iter().map(|trial| trial.rtt_us.into()))? as u32) / 1e6;
    let holds = link_bps as f64 / 8.0 * rtt_s;
    (window_bytes as f64 <= FAR_BELOW * holds).then_some(Burst {
        link_bps,
        window_bytes,
        least_segments: least,
        most_segments: most,
    })
}

fn median(values: impl Iterator<Item = u64>) -> Option<u64> {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

impl Trial {
    /// The rates at which trains arrived, in bit/s: what came behind the first arrival of each, over the time since that.
    fn trains(&self) -> Vec<f64> {
        let pause = u64::from(self.rtt_us / PAUSE);
        let mut rates = Vec::new();
        let mut train: Option<(Arrival, Arrival)> = None;
        let mut ended = |first: Arrival, last: Arrival| {
            let (segments, us) = (last.segments - first.segments, last.at_us - first.at_us);
            if segments >= TRAIN && us > 0 {
                rates.push(f64::from(segments * self.packet_bytes) * 8e6 / us as f64);
            }
        };
        for arrival in &self.arrivals {
            train = match train {
                Some((first, last)) if arrival.at_us - last.at_us < pause => {
                    Some((first, *arrival))
                }
                Some((first, last)) => {
                    ended(first, last);
                    Some((*arrival, *arrival))
                }
                None => Some((*arrival, *arrival)),
            };
        }
        if let Some((first, last)) = train {
            ended(first, last);
        }
        rates
    }

    /// Bytes that arrived in the round trip before the loss.
    fn last_window(&self) -> u64 {
        let Some(last) = self.arrivals.last() else { return 0 };
        let since = last.at_us.saturating_sub(self.rtt_us.into());
        let before = self.arrivals.partition_point(|arrival| arrival.at_us <= since);
        let earlier = before.checked_sub(1).map_or(0, |n| self.arrivals[n].segments);
        u64::from(last.segments - earlier) * u64::from(self.packet_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slow start from 10 segments over 40 ms: each window as a train at 100 Mb/s (120 us a segment), until a window of more than
    /// `most` segments loses.
    fn trial(most: u32) -> Trial {
        let (mut arrivals, mut segments, mut window, mut round) = (Vec::new(), 0, 10, 0);
        while window <= most {
            for n in 0..window {
                segments += 1;
                arrivals.push(Arrival { at_us: round * 40_000 + u64::from(n) * 120, segments });
            }
            (window, round) = (2 * window, round + 1);
        }
        Trial { arrivals, has_lost: true, rtt_us: 40_000, packet_bytes: 1500 }
    }

    #[test]
    fn equal_losses_of_small_windows_are_a_shallow_buffer() {
        let burst = burst(&vec![trial(40); TRIALS]).unwrap();
        assert!((burst.link_bps as f64 / 100e6 - 1.0).abs() < 0.01, "{burst:?}");
        assert_eq!((burst.window_bytes, burst.least_segments), (40 * 1500, 70));
    }

    #[test]
    fn losses_by_chance_and_full_paths_are_none() {
        let chance = [20, 40, 80, 160, 20, 40].map(trial);
        assert_eq!(burst(&chance), None);
        // The path holds 333 segments.
        assert_eq!(burst(&vec![trial(320); TRIALS]), None);
        assert_eq!(burst(&vec![Trial { has_lost: true, ..Trial::default() }; TRIALS]), None);
        assert_eq!(burst(&[]), None);
    }
}
