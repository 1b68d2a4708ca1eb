// SPDX-License-Identifier: GPL-2.0-or-later
//! `[idle_connections]`: idle connections to next hops.

use serde::{Deserialize, Serialize};
use units::Duration;

/// Which idle connections to next hops are kept for later requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct IdleConnections {
    /// Maximum number for each next hop. 0 keeps none.
    pub per_hop: usize,
    /// How long they are kept. It must be shorter than the next hops' own timeout, or requests meet closed
    /// connections.
    pub idle: Duration,
}

impl Default for IdleConnections {
    fn default() -> Self {
        Self { per_hop: 256, idle: Duration::from_secs(4) }
    }
}
