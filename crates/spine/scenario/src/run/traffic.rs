// SPDX-License-Identifier: GPL-2.0-or-later
//! Traffic other than the transfers.

use crate::json;
use serde::{Deserialize, Serialize};
use units::{Bytes, Duration, Rate};

/// Traffic other than the transfers. Its bytes are not part of any flow's result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// Unique among traffic.
    pub name: String,
    /// The node that sends the data.
    pub from: String,
    /// The node that receives it.
    pub to: String,
    /// Congestion control of its TCP connections.
    pub cc: String,
    /// When it starts, counted from the start of the run.
    #[serde(rename = "start_us", with = "json::micros")]
    pub start: Duration,
    /// Its source.
    pub source: Source,
}

/// Kind of traffic source.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Source {
    /// UDP at a constant rate.
    Cbr {
        /// Of IP packets, headers included.
        #[serde(rename = "rate_bps", with = "json::rate")]
        rate: Rate,
        /// An IP packet's length in bytes.
        #[serde(rename = "packet_bytes")]
        packet: u32,
    },
    /// One TCP connection that alternates between busy and idle, each for an exponentially distributed
    /// time or size.
    OnOff {
        /// Length of its busy periods.
        #[serde(flatten)]
        on: Burst,
        /// Mean time in which it is off.
        #[serde(rename = "off_us", with = "json::micros")]
        off: Duration,
    },
    /// Files over TCP connections of their own, which arrive as a Poisson process.
    Files {
        /// Mean number of files that arrive in a second.
        per_second: f64,
        /// How large they are.
        size: FileSize,
    },
}

impl Source {
    /// Its kind, as records name it.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Cbr { .. } => "cbr",
            Self::OnOff { .. } => "on_off",
            Self::Files { .. } => "files",
        }
    }
}

/// How long a source stays on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Burst {
    /// As much as goes in a time with this mean.
    #[serde(rename = "on_us", with = "json::micros")]
    Time(Duration),
    /// Until a random number of bytes with this mean has been delivered.
    #[serde(rename = "on_bytes", with = "json::bytes")]
    Bytes(Bytes),
}

/// Sizes of files.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileSize {
    /// All the same.
    #[serde(rename = "bytes", with = "json::bytes")]
    Fixed(Bytes),
    /// Pareto-distributed, cut at a largest size.
    Pareto {
        /// The mean, after the cut.
        #[serde(rename = "mean_bytes", with = "json::bytes")]
        mean: Bytes,
        /// The exponent of the tail, above 1.
        shape: f64,
        /// No file is larger.
        #[serde(rename = "most_bytes", with = "json::bytes")]
        most: Bytes,
    },
}

impl FileSize {
    /// The mean.
    pub const fn mean(self) -> Bytes {
        match self {
            Self::Fixed(bytes) => bytes,
            Self::Pareto { mean, .. } => mean,
        }
    }
}
