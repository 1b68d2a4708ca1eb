// SPDX-License-Identifier: GPL-2.0-or-later
//! `[reuse]`: connections to next hops that are kept.

use serde::{Deserialize, Serialize};
use units::Duration;

/// Which connections to next hops are kept for their next request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reuse {
    /// How many of each next hop; 0 keeps none.
    pub per_hop: usize,
    /// For how long. Less than next hops keep theirs, or requests run into closed connections.
    pub idle: Duration,
}

impl Default for Reuse {
    fn default() -> Self {
        Self { per_hop: 256, idle: Duration::from_secs(4) }
    }
}
