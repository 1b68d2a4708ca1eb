// SPDX-License-Identifier: GPL-2.0-or-later
//! `[siblings]`: sibling depots that share the load.

use protocol::DepotAddress;
use serde::{Deserialize, Serialize};
use units::Duration;

/// Sibling depots, to which a full depot redirects clients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Siblings {
    /// The sibling depots.
    pub members: Vec<DepotAddress>,
    /// The share of `limits.connections` (0 to 1) above which clients are redirected.
    pub above: f64,
    /// How often their load is requested.
    pub every: Duration,
}

impl Default for Siblings {
    fn default() -> Self {
        Self { members: Vec::new(), above: 0.8, every: Duration::from_secs(2) }
    }
}
