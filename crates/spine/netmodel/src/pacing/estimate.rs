// SPDX-License-Identifier: GPL-2.0-or-later
//! How a target rate is estimated.

use super::ffi::Params;
use units::Rate;

/// Which round trip a window is sent in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rtt {
    /// TCP's smoothed one, with what packets wait in the sender's own queue.
    Smoothed,
    /// The smallest that the connection has seen.
    Smallest,
}

/// How a target rate is estimated from window and round trip (`cc/pace.h` has what each means).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimator {
    /// The round trip.
    pub rtt: Rtt,
    /// Whether packets count as what they take on the link, or as their payload.
    pub headers: bool,
    /// Whether `ssthresh` paces while losses are repaired, or what the window is at the moment.
    pub recovery: bool,
    /// Upper limit of the target.
    pub max_rate: Option<Rate>,
    /// Whether it is cut at what the path is found to carry, too.
    pub find_cap: bool,
}

impl Estimator {
    /// Takano et al.: the smoothed round trip, and payload for a packet's size.
    pub const PAPER: Self = Self {
        rtt: Rtt::Smoothed,
        headers: false,
        recovery: false,
        max_rate: None,
        find_cap: false,
    };

    /// The smallest round trip, and what a packet takes on the link.
    pub const LINK: Self =
        Self { rtt: Rtt::Smallest, headers: true, recovery: true, max_rate: None, find_cap: false };

    /// As `cc/pace.h` takes it.
    pub fn params(&self) -> Params {
        Params {
            max_rate: self.max_rate.map_or(0, |rate| rate.bps() / 8),
            rtt: match self.rtt {
                Rtt::Smoothed => 0,
                Rtt::Smallest => 1,
            },
            payload: u32::from(!self.headers),
            recovery: u32::from(self.recovery),
            find_cap: u32::from(self.find_cap),
        }
    }
}
