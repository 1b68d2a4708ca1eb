// SPDX-License-Identifier: GPL-2.0-or-later
//! `[stall]`: when a next hop is too slow.

use serde::{Deserialize, Serialize};
use units::{Duration, Rate};

/// When a next hop is too slow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Stall {
    /// Minimum rate of a next hop. `None`: no next hop is too slow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// How long it may stay below `rate`.
    pub time: Duration,
    /// Whether to abort a transfer that could take another route.
    pub reroute: bool,
}

impl Default for Stall {
    fn default() -> Self {
        Self { rate: None, time: Duration::from_secs(30), reroute: false }
    }
}
