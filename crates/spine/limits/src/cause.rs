// SPDX-License-Identifier: GPL-2.0-or-later
//! The causes of a receipt, and how long each has held a transfer back.

use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};

/// Why a transfer does not go faster at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The connection, and the answer on it, are not there yet.
    Connecting,
    /// The sender is in slow start.
    StartUp,
    /// The sender waits for acknowledgements, or repairs losses.
    Congestion,
    /// The receiver offers no room: its buffer is small, or its program reads slowly.
    Receiver,
    /// The sender's socket buffer is too small.
    SendBuffer,
    /// A rate limit that was set.
    RateLimit,
    /// The disk to which, or from which, it goes.
    Disk,
    /// The sending program has nothing to send.
    SendingProgram,
    /// Another hop: nothing comes from there.
    OtherHop,
}

impl Cause {
    /// All causes.
    pub const ALL: [Self; 9] = [
        Self::Connecting,
        Self::StartUp,
        Self::Congestion,
        Self::Receiver,
        Self::SendBuffer,
        Self::RateLimit,
        Self::Disk,
        Self::SendingProgram,
        Self::OtherHop,
    ];

    /// In words, for lines and tables.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::StartUp => "start-up",
            Self::Congestion => "congestion",
            Self::Receiver => "receiver",
            Self::SendBuffer => "send buffer",
            Self::RateLimit => "rate limit",
            Self::Disk => "disk",
            Self::SendingProgram => "sending program",
            Self::OtherHop => "other hop",
        }
    }

    /// The key in documents and logs.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::StartUp => "start_up",
            Self::Congestion => "congestion",
            Self::Receiver => "receiver",
            Self::SendBuffer => "send_buffer",
            Self::RateLimit => "rate_limit",
            Self::Disk => "disk",
            Self::SendingProgram => "sending_program",
            Self::OtherHop => "other_hop",
        }
    }
}

/// How long each cause has held a transfer back, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "BTreeMap<Cause, u64>", into = "BTreeMap<Cause, u64>")]
pub struct CauseTimes([u64; Cause::ALL.len()]);

impl CauseTimes {
    /// So much longer.
    pub fn add(&mut self, cause: Cause, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let sum = &mut self.0[cause as usize];
        *sum = sum.saturating_add(us);
    }

    /// All of these, too.
    pub fn add_all(&mut self, other: &Self) {
        for (sum, us) in self.0.iter_mut().zip(other.0) {
            *sum = sum.saturating_add(us);
        }
    }

    /// A part of each, from 0 to 1.
    #[must_use]
    pub fn part(&self, part: f64) -> Self {
        Self(self.0.map(|us| (us as f64 * part).round() as u64))
    }

    /// One cause's time, in seconds.
    pub fn seconds(&self, cause: Cause) -> f64 {
        self.0[cause as usize] as f64 / 1e6
    }

    /// All of it, in seconds.
    pub fn total_s(&self) -> f64 {
        self.0.iter().map(|us| *us as f64).sum::<f64>() / 1e6
    }
}

impl From<BTreeMap<Cause, u64>> for CauseTimes {
    fn from(times: BTreeMap<Cause, u64>) -> Self {
        let mut all = Self::default();
        for (cause, us) in times {
            all.0[cause as usize] = us;
        }
        all
    }
}

impl From<CauseTimes> for BTreeMap<Cause, u64> {
    fn from(times: CauseTimes) -> Self {
        let known = Cause::ALL.into_iter().map(|cause| (cause, times.0[cause as usize]));
        known.filter(|(_, us)| *us > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_by_name_and_read_the_same() {
        let mut times = CauseTimes::default();
        times.add(Cause::StartUp, Duration::from_millis(1500));
        times.add(Cause::OtherHop, Duration::from_micros(7));
        let text = serde_json::to_string(&times).unwrap();
        assert_eq!(text, r#"{"start_up":1500000,"other_hop":7}"#);
        assert_eq!(serde_json::from_str::<CauseTimes>(&text).unwrap(), times);
        assert!(serde_json::from_str::<CauseTimes>(r#"{"start_up":-1}"#).is_err());
        assert!(serde_json::from_str::<CauseTimes>(r#"{"luck":1}"#).is_err());
        assert!((times.total_s() - 1.500_007).abs() < 1e-9);
        for cause in Cause::ALL {
            assert_eq!(serde_json::to_value(cause).unwrap(), cause.key());
        }
    }

    #[test]
    fn sums_stay_within_their_size() {
        let mut times = CauseTimes::default();
        times.add(Cause::Disk, Duration::MAX);
        times.add(Cause::Disk, Duration::MAX);
        assert!((times.seconds(Cause::Disk) - u64::MAX as f64 / 1e6).abs() < 1.0);
        assert!((times.part(0.5).total_s() * 2.0 - times.total_s()).abs() < 1.0);
    }
}
