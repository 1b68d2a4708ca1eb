// SPDX-License-Identifier: GPL-2.0-or-later
//! What a link does to packets beyond queue and loss, and rates that change, as a run has them.

use crate::json;
use netmodel::{
    DeliveryOpportunities, Distribution, Impairments, Jitter, Outage, Policer, RateOverTime,
    RateSteps, Reorder,
};
use serde::{Deserialize, Serialize};
use units::{Bytes, Duration, Probability, Rate};

/// A link's impairments.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkImpairments {
    /// Packets that come late.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reorder: Option<LatePackets>,
    /// The probability of a copy.
    #[serde(with = "json::probability")]
    pub duplicate: Probability,
    /// Delay that differs from packet to packet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<PacketJitter>,
    /// When nothing passes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outages: Vec<LinkOutage>,
    /// What drops packets above a rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policer: Option<LinkPolicer>,
}

/// Single packets that come late.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LatePackets {
    /// Of each packet.
    #[serde(with = "json::probability")]
    pub probability: Probability,
    /// How much later they arrive.
    #[serde(rename = "by_us", with = "json::micros")]
    pub by: Duration,
}

/// Delay of each packet beyond the link's own.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PacketJitter {
    /// How it is distributed.
    #[serde(flatten)]
    pub distribution: JitterDistribution,
    /// Whether packets may overtake each other.
    pub reorders: bool,
}

/// A distribution of times.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "distribution", rename_all = "snake_case")]
pub enum JitterDistribution {
    /// Evenly from zero up.
    Uniform {
        /// The most.
        #[serde(rename = "most_us", with = "json::micros")]
        most: Duration,
    },
    /// Exponential.
    Exponential {
        /// Its mean.
        #[serde(rename = "mean_us", with = "json::micros")]
        mean: Duration,
    },
    /// Normal, and never below zero.
    Normal {
        /// Its mean.
        #[serde(rename = "mean_us", with = "json::micros")]
        mean: Duration,
        /// Its standard deviation.
        #[serde(rename = "deviation_us", with = "json::micros")]
        deviation: Duration,
    },
}

/// A time in which nothing passes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LinkOutage {
    /// When it begins, in the run.
    #[serde(rename = "from_us", with = "json::micros")]
    pub from: Duration,
    /// How long it lasts.
    #[serde(rename = "lasts_us", with = "json::micros")]
    pub lasts: Duration,
    /// After what time it comes again.
    #[serde(
        rename = "every_us",
        default,
        skip_serializing_if = "Option::is_none",
        with = "json::some_micros"
    )]
    pub every: Option<Duration>,
    /// Whether packets wait meanwhile, or are lost.
    pub packets_wait: bool,
}

/// A token bucket.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LinkPolicer {
    /// At which tokens come.
    #[serde(rename = "rate_bps", with = "json::rate")]
    pub rate: Rate,
    /// How many bytes may come at once.
    #[serde(rename = "burst_bytes", with = "json::bytes")]
    pub burst: Bytes,
}

impl LinkImpairments {
    /// Whether there are none.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// As links know them.
    pub fn model(&self) -> Impairments {
        Impairments {
            reorder: self
                .reorder
                .map(|LatePackets { probability, by }| Reorder { probability, by }),
            duplicate: self.duplicate,
            jitter: self.jitter.map(|PacketJitter { distribution, reorders }| {
                let distribution = match distribution {
                    JitterDistribution::Uniform { most } => Distribution::Uniform(most),
                    JitterDistribution::Exponential { mean } => Distribution::Exponential(mean),
                    JitterDistribution::Normal { mean, deviation } => {
                        Distribution::Normal(mean, deviation)
                    }
                };
                Jitter { distribution, reorders }
            }),
            outages: self
                .outages
                .iter()
                .map(|&LinkOutage { from, lasts, every, packets_wait }| Outage {
                    from,
                    lasts,
                    every,
                    packets_wait,
                })
                .collect(),
            policer: self.policer.map(|LinkPolicer { rate, burst }| Policer { rate, burst }),
        }
    }
}

/// A rate that changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Raw", into = "Raw")]
pub enum ChangingRate {
    /// One rate after another.
    Steps(RateSteps),
    /// The delivery opportunities of a mahimahi trace.
    Opportunities(DeliveryOpportunities),
}

/// As records have it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Raw {
    Steps {
        /// Microseconds, and bits a second.
        steps: Vec<(f64, u64)>,
        #[serde(default, with = "json::some_micros", skip_serializing_if = "Option::is_none")]
        repeats_us: Option<Duration>,
    },
    Opportunities {
        millis: Vec<u32>,
    },
}

impl From<ChangingRate> for Raw {
    fn from(rate: ChangingRate) -> Self {
        match rate {
            ChangingRate::Steps(steps) => Self::Steps {
                steps: steps
                    .steps()
                    .iter()
                    .map(|(at, rate)| (at.as_nanos() as f64 / 1000.0, rate.bps()))
                    .collect(),
                repeats_us: steps.repeats(),
            },
            ChangingRate::Opportunities(trace) => {
                Self::Opportunities { millis: trace.millis().to_vec() }
            }
        }
    }
}

impl TryFrom<Raw> for ChangingRate {
    type Error = netmodel::RateOverTimeError;

    fn try_from(raw: Raw) -> Result<Self, Self::Error> {
        match raw {
            Raw::Steps { steps, repeats_us } => {
                let steps = steps.into_iter().map(|(at, bps)| {
                    let at = Duration::from_nanos((at * 1000.0).round() as u64);
                    (at, Rate::bits_per_second(bps))
                });
                RateSteps::new(steps.collect(), repeats_us).map(Self::Steps)
            }
            Raw::Opportunities { millis } => {
                DeliveryOpportunities::new(millis).map(Self::Opportunities)
            }
        }
    }
}

impl ChangingRate {
    /// As links know it.
    pub fn model(&self) -> RateOverTime {
        match self {
            Self::Steps(steps) => RateOverTime::Steps(steps.clone()),
            Self::Opportunities(trace) => RateOverTime::Opportunities(trace.clone()),
        }
    }
}
