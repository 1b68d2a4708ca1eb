// SPDX-License-Identifier: GPL-2.0-or-later
//! `[control]`: how operators control running transfers.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// How operators control running transfers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Control {
    /// The Unix socket for `longhaul depot transfers`, `end`, `deny` and the like. Only root and the depot's
    /// own user may use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socket: Option<PathBuf>,
    /// Keeps the list of denials across restarts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub denied: Option<PathBuf>,
    /// Whether running transfers end when their ticket, key or client is revoked.
    pub withdraw: bool,
}

impl Default for Control {
    fn default() -> Self {
        Self { socket: None, denied: None, withdraw: true }
    }
}
