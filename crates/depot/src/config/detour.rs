// SPDX-License-Identifier: GPL-2.0-or-later
//! `[[detour]]`: routes around depots that fail.

use serde::{Deserialize, Serialize};
use session::DepotAddress;
use units::Duration;

/// A route around a depot that fails.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Detour {
    /// The depot.
    pub around: DepotAddress,
    /// Those to ask in its place, in order.
    #[serde(default)]
    pub through: Vec<DepotAddress>,
    /// Whether to go on without it at last.
    #[serde(default)]
    pub straight: bool,
    /// For how long it is then asked last.
    #[serde(default = "Detour::avoid")]
    pub avoid: Duration,
}

impl Detour {
    fn avoid() -> Duration {
        Duration::from_secs(30)
    }
}
