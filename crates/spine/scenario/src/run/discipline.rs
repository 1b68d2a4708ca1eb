// SPDX-License-Identifier: GPL-2.0-or-later
//! Queue disciplines of the links of a run: every parameter is set, thresholds in packets or bytes.

use crate::json;
use serde::{Deserialize, Serialize};
use units::{Bytes, Duration};

/// Queue discipline of a link (`netmodel::queue`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Discipline {
    /// The queue's limit alone.
    #[default]
    Taildrop,
    /// Random early detection (Floyd and Jacobson 1993).
    Red {
        /// Between which averages packets are dropped at random.
        #[serde(flatten)]
        thresholds: Thresholds,
        /// The probability of a drop where the average is at the upper threshold.
        probability: f64,
        /// The weight of a new queue length in the average.
        weight: f64,
        /// The small packet by which an idle link's average falls.
        #[serde(rename = "avpkt_bytes", with = "json::bytes")]
        avpkt: Bytes,
        /// Whether the probability rises on between the upper threshold and twice that.
        gentle: bool,
        /// Whether packets are marked instead of dropped where their senders can be told.
        ecn: bool,
    },
    /// Proportional integral controller enhanced (RFC 8033).
    Pie {
        /// The delay that is aimed at.
        #[serde(rename = "target_us", with = "json::micros")]
        target: Duration,
        /// How often the probability is updated.
        #[serde(rename = "tupdate_us", with = "json::micros")]
        tupdate: Duration,
        /// Change of the probability at an update per second of delay above the target.
        alpha: f64,
        /// Change of the probability at an update per second by which the delay grew.
        beta: f64,
        /// For how long nothing is dropped once a queue builds up.
        #[serde(rename = "burst_us", with = "json::micros")]
        burst: Duration,
        /// Whether packets are marked instead of dropped where their senders can be told.
        ecn: bool,
        /// From which probability on they are dropped all the same.
        ecn_limit: f64,
    },
    /// Controlled delay (RFC 8289).
    Codel {
        /// The wait in the queue that is acceptable.
        #[serde(rename = "target_us", with = "json::micros")]
        target: Duration,
        /// For how long it may be exceeded.
        #[serde(rename = "interval_us", with = "json::micros")]
        interval: Duration,
        /// Whether packets are marked instead of dropped where their senders can be told.
        ecn: bool,
    },
    /// Flow queueing with controlled delay (RFC 8290).
    FqCodel {
        /// The wait in a flow's queue that is acceptable.
        #[serde(rename = "target_us", with = "json::micros")]
        target: Duration,
        /// For how long it may be exceeded.
        #[serde(rename = "interval_us", with = "json::micros")]
        interval: Duration,
        /// How many queues there are.
        flows: u32,
        /// Bytes on the link that a queue may send in a turn.
        #[serde(rename = "quantum_bytes", with = "json::bytes")]
        quantum: Bytes,
        /// Whether packets are marked instead of dropped where their senders can be told.
        ecn: bool,
    },
}

/// RED's thresholds. The lower one is less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Thresholds {
    /// Of packets that wait.
    Packets {
        /// Below it every packet passes.
        #[serde(rename = "min_packets")]
        min: u64,
        /// From it on drops are frequent with `gentle`, and certain without.
        #[serde(rename = "max_packets")]
        max: u64,
    },
    /// Of bytes that wait.
    Bytes {
        /// Below it every packet passes.
        #[serde(rename = "min_bytes", with = "json::bytes")]
        min: Bytes,
        /// From it on drops are frequent with `gentle`, and certain without.
        #[serde(rename = "max_bytes", with = "json::bytes")]
        max: Bytes,
    },
}

impl Discipline {
    /// Its name in the scenario.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Taildrop => "taildrop",
            Self::Red { .. } => "red",
            Self::Pie { .. } => "pie",
            Self::Codel { .. } => "codel",
            Self::FqCodel { .. } => "fq_codel",
        }
    }

    pub(crate) fn is_taildrop(&self) -> bool {
        *self == Self::Taildrop
    }

    /// Whether packets leave in the order in which they came, and at times that are known then.
    pub(crate) fn keeps_gaps(&self) -> bool {
        !matches!(self, Self::Codel { .. } | Self::FqCodel { .. })
    }
}
