// SPDX-License-Identifier: GPL-2.0-or-later
//! How senders space their packets.

use crate::json;
use netmodel::pacing::{Estimator, GapFrames, Rtt};
use serde::{Deserialize, Serialize};
use units::{Bytes, Rate};

/// How a hop's sender spaces its packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FlowPacing {
    /// Not at all, beyond what its congestion control does.
    #[default]
    None,
    /// By gap frames behind its packets, at the rate that [`PacingSettings`] estimate.
    Gap,
    /// By a time of departure for each packet, at the same rate; the wire is idle between.
    Edt,
    /// By TCP itself, from window and round trip, as Linux does it.
    Tcp,
    /// By gap frames, at this rate of the link.
    #[serde(rename = "rate_bps", with = "json::rate")]
    Rate(Rate),
}

/// How rates are estimated, and what gap frames are like: `[pacing]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct PacingSettings {
    /// Which round trip a window is sent in.
    pub rtt: PacingRtt,
    /// Whether packets count as what they take on the link, or as their payload.
    pub headers: bool,
    /// Whether `ssthresh` paces while losses are repaired, or what the window is at the moment.
    pub recovery: bool,
    /// Upper limit of the rate.
    #[serde(rename = "max_rate_bps", with = "json::some_rate")]
    pub max_rate: Option<Rate>,
    /// Whether it is cut at what the path is found to carry, too.
    #[serde(default)]
    pub find_cap: bool,
    /// The most gap behind one packet.
    #[serde(rename = "max_gap_bytes", with = "json::bytes")]
    pub max_gap: Bytes,
    /// Bytes of the link that the longest gap frame takes.
    #[serde(rename = "max_frame_bytes", with = "json::bytes")]
    pub max_frame: Bytes,
    /// Whether hosts have classes for their bottlenecks, or one queue.
    pub classes: bool,
}

/// Which round trip a window is sent in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PacingRtt {
    /// TCP's smoothed one, with what packets wait in the sender's own queue.
    Smoothed,
    /// The smallest that the connection has seen.
    Smallest,
}

impl PacingSettings {
    /// The settings that an estimator stands for.
    pub(crate) const fn of(estimator: Estimator) -> Self {
        let frames = GapFrames::of(Rate::bits_per_second(1));
        Self {
            rtt: match estimator.rtt {
                Rtt::Smoothed => PacingRtt::Smoothed,
                Rtt::Smallest => PacingRtt::Smallest,
            },
            headers: estimator.headers,
            recovery: estimator.recovery,
            max_rate: estimator.max_rate,
            find_cap: estimator.find_cap,
            max_gap: frames.max_gap,
            max_frame: frames.max_frame,
            classes: true,
        }
    }

    /// As the network model takes it.
    pub const fn estimator(&self) -> Estimator {
        Estimator {
            rtt: match self.rtt {
                PacingRtt::Smoothed => Rtt::Smoothed,
                PacingRtt::Smallest => Rtt::Smallest,
            },
            headers: self.headers,
            recovery: self.recovery,
            max_rate: self.max_rate,
            find_cap: self.find_cap,
        }
    }

    /// Gap frames for a link of that rate, on which a frame takes `overhead` bytes beyond its IP length.
    pub fn frames(&self, line: Rate, overhead: Bytes) -> GapFrames {
        // The least Ethernet frame carries 46 bytes.
        let min_frame = Bytes::new(46) + overhead;
        GapFrames { line, max_gap: self.max_gap, min_frame, max_frame: self.max_frame }
    }
}

impl Default for PacingSettings {
    fn default() -> Self {
        Self::of(Estimator::LINK)
    }
}

/// A bottleneck that a host's packets come to: a class of its own for the host's scheduler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bottleneck {
    /// Unique among bottlenecks.
    pub name: String,
    /// The host.
    pub from: String,
    /// The nodes that lie behind it, seen from there.
    pub to: Vec<String>,
    /// Of the link, as packets leave the host.
    #[serde(rename = "rate_bps", with = "json::rate")]
    pub rate: Rate,
}
