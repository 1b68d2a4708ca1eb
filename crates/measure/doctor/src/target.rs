// SPDX-License-Identifier: GPL-2.0-or-later
//! What a transfer is to reach: a rate over a round trip, with a loss. The rate may differ by direction.

use crate::finding::Direction;
use serde::Serialize;
use std::str::FromStr;
use units::{Bytes, Duration, Probability, Rate};

/// The rate that one connection is to reach, and the path that it has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Target {
    /// The rate of the slowest link that a connection to this host is to fill, in bits of IP packets a second.
    pub rate: Rate,
    /// The same of one from this host.
    pub send_rate: Rate,
    /// Round trip over empty queues.
    pub round_trip: Duration,
    /// The share of packets that is lost. On links without faults it is about 1 in a million.
    pub loss: Probability,
}

/// What is assumed of a path's losses if nothing is known: 1 in a million.
pub const ASSUMED_LOSS: &str = "0.0001%";

/// Why a text is not a target.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TargetError {
    /// There is no `@`.
    #[error(
        "{0:?} is not a target, as in 1gbit@90ms: a rate, @, and a round trip. With two rates, as in 1gbit/100mbit@90ms, the first is received"
    )]
    Shape(String),
    /// One of its parts is not what it has to be.
    #[error("{0}")]
    Part(#[from] units::ParseError),
    /// A link without a rate carries nothing.
    #[error("a rate of a target must be above 0")]
    Rate,
    /// Nothing takes no time.
    #[error("a round trip of a target must be above 0 and at most 10s")]
    RoundTrip,
}

/// Longer round trips do not occur.
const LONGEST_ROUND_TRIP: Duration = Duration::from_secs(10);

impl Target {
    /// Of one rate in both directions, with the loss that is assumed of any path.
    ///
    /// # Panics
    /// Never: the assumed loss is a share.
    pub fn of(rate: Rate, round_trip: Duration) -> Self {
        let loss = ASSUMED_LOSS.parse().expect("a share");
        Self { rate, send_rate: rate, round_trip, loss }
    }

    /// The rate that transfers in a direction are to reach: the higher one of both.
    pub fn rate_of(&self, direction: Direction) -> Rate {
        match direction {
            Direction::Receive => self.rate,
            Direction::Send => self.send_rate,
            Direction::Both => self.rate.max(self.send_rate),
        }
    }

    /// The bytes that the path holds in a direction.
    pub fn product(&self, direction: Direction) -> Bytes {
        self.rate_of(direction).times(self.round_trip)
    }
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let (rate, round_trip) =
            text.split_once('@').ok_or_else(|| TargetError::Shape(text.to_owned()))?;
        // A slash before a bare number divides, as in 10gbit/12.
        let is_rate = |text: &&str| text.ends_with(|c: char| c.is_ascii_alphabetic());
        let both = rate.split_once('/').filter(|(_, sent)| is_rate(sent));
        let (received, sent) = both.unwrap_or((rate, rate));
        if both.is_some() && sent.contains('/') {
            return Err(TargetError::Shape(text.to_owned()));
        }
        let (rate, send_rate, round_trip): (Rate, Rate, _) =
            (received.parse()?, sent.parse()?, round_trip.parse()?);
        if rate.min(send_rate).bps() == 0 {
            return Err(TargetError::Rate);
        }
        if round_trip == Duration::ZERO || round_trip > LONGEST_ROUND_TRIP {
            return Err(TargetError::RoundTrip);
        }
        Ok(Self { send_rate, ..Self::of(rate, round_trip) })
    }
}

/// Its form in JSON.
#[derive(Debug, Serialize)]
struct Document {
    rate_bps: u64,
    send_rate_bps: u64,
    rtt_us: f64,
    loss: f64,
}

impl Serialize for Target {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { rate, send_rate, round_trip, loss } = self;
        let rtt_us = round_trip.as_nanos() as f64 / 1e3;
        let (rate_bps, send_rate_bps) = (rate.bps(), send_rate.bps());
        Document { rate_bps, send_rate_bps, rtt_us, loss: loss.get() }.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read() {
        let target: Target = "1gbit@90ms".parse().unwrap();
        assert_eq!(target.rate, Rate::bits_per_second(1_000_000_000));
        assert_eq!(target.round_trip, Duration::from_millis(90));
        assert!((target.loss.get() - 1e-6).abs() < 1e-12);
        assert_eq!(target.send_rate, target.rate);
    }

    #[test]
    fn rates_of_both_directions_are_read() {
        let target: Target = "1gbit/100mbit@90ms".parse().unwrap();
        let bps = |direction| target.rate_of(direction).bps();
        assert_eq!(bps(Direction::Receive), 1_000_000_000);
        assert_eq!(bps(Direction::Send), 100_000_000);
        assert_eq!(bps(Direction::Both), 1_000_000_000);
        assert_eq!(target.product(Direction::Send), Bytes::new(1_125_000));
        assert_eq!("10gbit/10@90ms".parse(), "1gbit@90ms".parse::<Target>());
    }

    #[test]
    fn wrong_targets_are_refused_with_a_reason() {
        let refused = |text: &str| text.parse::<Target>().unwrap_err().to_string();
        assert!(refused("1gbit").contains("as in 1gbit@90ms"));
        assert!(refused("fast@90ms").contains("rate"));
        assert!(refused("1gbit@soon").contains("time"));
        assert!(refused("1gbit@0ms").contains("above 0"));
        assert!(refused("1gbit/0bit@90ms").contains("above 0"));
        assert!(refused("1gbit/100mbit/1mbit@90ms").contains("two rates"));
        assert!(refused("1gbit@11s").contains("at most 10s"));
    }
}
