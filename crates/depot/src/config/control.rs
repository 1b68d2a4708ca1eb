// SPDX-License-Identifier: GPL-2.0-or-later
//! `[control]`: how operators stop and slow what is under way.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// How operators stop and slow what is under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Control {
    /// Where `longhaul depot transfers`, `end`, `deny` and the like reach it: a Unix socket's path. Root and the
    /// depot's own user alone may use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socket: Option<PathBuf>,
    /// Keeps the list of denials across restarts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub denied: Option<PathBuf>,
    /// Whether transfers end whose ticket, key or client is taken back while they are under way.
    pub withdraw: bool,
}

impl Default for Control {
    fn default() -> Self {
        Self { socket: None, denied: None, withdraw: true }
    }
}
