// SPDX-License-Identifier: GPL-2.0-or-later
//! `[pool]`: other depots that do the same work.

use serde::{Deserialize, Serialize};
use session::DepotAddress;
use units::Duration;

/// Other depots that do the same work, to which clients are sent when there is too much of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PeerGroup {
    /// The others.
    pub members: Vec<DepotAddress>,
    /// From which share of `limits.connections` on clients are sent there.
    pub above: f64,
    /// How often they are asked how full they are.
    pub every: Duration,
}

impl Default for PeerGroup {
    fn default() -> Self {
        Self { members: Vec::new(), above: 0.8, every: Duration::from_secs(2) }
    }
}
