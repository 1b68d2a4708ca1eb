// SPDX-License-Identifier: GPL-2.0-or-later
//! Links: two directions each, with their queues and losses.

use super::{
    discipline::Discipline,
    impairments::{ChangingRate, LinkImpairments},
    queue::{Queue, mark},
};
use crate::json;
use serde::{Deserialize, Serialize};
use units::{Duration, Probability, Rate};

/// A link between two nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Unique among links.
    pub name: String,
    /// One end.
    pub a: String,
    /// The other end.
    pub b: String,
    /// From `a` to `b`.
    pub forward: Direction,
    /// From `b` to `a`.
    pub backward: Direction,
}

/// Which way a link is crossed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Heading {
    /// From `a` to `b`.
    Forward,
    /// From `b` to `a`.
    Backward,
}

impl Heading {
    /// The other way.
    #[must_use]
    pub const fn reversed(self) -> Self {
        match self {
            Self::Forward => Self::Backward,
            Self::Backward => Self::Forward,
        }
    }
}

impl Link {
    /// Properties of the link in that direction.
    pub const fn direction(&self, heading: Heading) -> &Direction {
        match heading {
            Heading::Forward => &self.forward,
            Heading::Backward => &self.backward,
        }
    }
}

/// One direction of a link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Direction {
    /// Unlimited where it is none.
    #[serde(rename = "rate_bps", with = "json::some_rate")]
    pub rate: Option<Rate>,
    /// How the rate changes, if it does: `rate` then stands for it where one is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_over_time: Option<ChangingRate>,
    /// Propagation, one way.
    #[serde(rename = "delay_us", with = "json::micros")]
    pub delay: Duration,
    /// Which packets are lost on the way.
    pub loss: Loss,
    /// What it does to packets beyond that.
    #[serde(default, skip_serializing_if = "LinkImpairments::is_none")]
    pub impairments: LinkImpairments,
    /// How much waits for the link before packets are dropped; unlimited where it is none.
    #[serde(flatten)]
    pub queue: Option<Queue>,
    /// Queue discipline. Records without this key are of taildrop.
    #[serde(default, skip_serializing_if = "Discipline::is_taildrop")]
    pub discipline: Discipline,
    /// How much waits for the link when packets of ECN-capable senders begin to be marked
    /// (RFC 3168); none are where it is none.
    #[serde(flatten, with = "mark")]
    pub mark: Option<Queue>,
    /// Largest IP packet in bytes.
    #[serde(rename = "mtu_bytes")]
    pub mtu: u32,
    /// Longest span of link time in one delivered super-packet; zero means single packets.
    #[serde(rename = "max_burst_us", with = "json::micros")]
    pub max_burst: Duration,
    /// Width of the monitor's bins.
    #[serde(rename = "monitor_us", with = "json::micros")]
    pub monitor: Duration,
    /// Whether gaps and bursts are counted.
    #[serde(default = "json::yes")]
    pub spacing: bool,
    /// Bytes of the link that a packet takes beyond its IP length.
    #[serde(rename = "overhead_bytes")]
    pub overhead: u32,
}

impl Loss {
    /// The share of packets that is lost in the mean.
    pub fn mean(&self) -> f64 {
        match *self {
            Self::None => 0.0,
            Self::Uniform { probability } => probability.get(),
            Self::Periodic { every } => 1.0 / every.max(1) as f64,
            Self::GilbertElliott { p, r, loss_bad, loss_good } => {
                let (p, r) = (p.get(), r.get());
                // How much of the time it is in the bad state; it begins in the good one.
                let bad = if p > 0.0 { p / (p + r) } else { 0.0 };
                bad * loss_bad.get() + (1.0 - bad) * loss_good.get()
            }
        }
    }
}

/// A process of loss.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Loss {
    /// Nothing is lost.
    None,
    /// Each packet with the same probability.
    Uniform {
        /// Of losing a packet.
        #[serde(with = "json::probability")]
        probability: Probability,
    },
    /// One packet in N, at regular intervals.
    Periodic {
        /// The first that is lost, and then each after as many again; at least 1.
        every: u64,
    },
    /// Two states, as in `tc netem loss gemodel`.
    GilbertElliott {
        /// From good to bad.
        #[serde(with = "json::probability")]
        p: Probability,
        /// From bad to good.
        #[serde(with = "json::probability")]
        r: Probability,
        /// Loss in the bad state.
        #[serde(with = "json::probability")]
        loss_bad: Probability,
        /// Loss in the good state.
        #[serde(with = "json::probability")]
        loss_good: Probability,
    },
}
