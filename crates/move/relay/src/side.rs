// SPDX-License-Identifier: GPL-2.0-or-later
//! Which side of a relay a connection is on.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Which side of a relay a connection is on.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Hash, Default,
)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// Towards clients.
    #[default]
    Client,
    /// Towards origins.
    Upstream,
}

impl Side {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Upstream => "upstream",
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
