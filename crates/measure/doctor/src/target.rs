// SPDX-License-Identifier: GPL-2.0-or-later
//! What a transfer is to reach: a rate over a round trip, with a loss.

use serde::Serialize;
use std::str::FromStr;
use units::{Duration, Probability, Rate};

/// The rate that one connection is to reach, and the path that it has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Target {
    /// The rate of the slowest link that the connection is to fill, in bits of IP packets a second.
    pub rate: Rate,
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
    #[error("{0:?} is not a target, as in 1gbit@90ms: a rate, @, and a round trip")]
    Shape(String),
    /// One of its parts is not what it has to be.
    #[error("{0}")]
    Part(#[from] units::ParseError),
    /// Nothing takes no time.
    #[error("a round trip of a target must be above 0 and at most 10s")]
    RoundTrip,
}

/// Longer round trips do not occur.
const LONGEST_ROUND_TRIP: Duration = Duration::from_secs(10);

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let (rate, round_trip) =
            text.split_once('@').ok_or_else(|| TargetError::Shape(text.to_owned()))?;
        let (rate, round_trip) = (rate.parse()?, round_trip.parse()?);
        if round_trip == Duration::ZERO || round_trip > LONGEST_ROUND_TRIP {
            return Err(TargetError::RoundTrip);
        }
        Ok(Self { rate, round_trip, loss: ASSUMED_LOSS.parse()? })
    }
}

/// Its form in JSON.
#[derive(Debug, Serialize)]
struct Document {
    rate_bps: u64,
    rtt_us: f64,
    loss: f64,
}

impl Serialize for Target {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { rate, round_trip, loss } = self;
        let rtt_us = round_trip.as_nanos() as f64 / 1e3;
        Document { rate_bps: rate.bps(), rtt_us, loss: loss.get() }.serialize(serializer)
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
    }

    #[test]
    fn wrong_targets_are_refused_with_a_reason() {
        let refused = |text: &str| text.parse::<Target>().unwrap_err().to_string();
        assert!(refused("1gbit").contains("as in 1gbit@90ms"));
        assert!(refused("fast@90ms").contains("rate"));
        assert!(refused("1gbit@soon").contains("time"));
        assert!(refused("1gbit@0ms").contains("above 0"));
        assert!(refused("1gbit@11s").contains("at most 10s"));
    }
}
