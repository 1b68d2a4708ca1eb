// SPDX-License-Identifier: GPL-2.0-or-later
//! `[control]`: how operators control running transfers.

use serde::{Deserialize, Serialize};
use std::{env, path::PathBuf};

/// The file in a state directory.
const STATE_FILE: &str = "decisions.jsonl";

/// How operators control running transfers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Control {
    /// The Unix socket for `longhaul depot transfers`, `end`, `deny` and the like. Only root and the depot's
    /// own user may use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socket: Option<PathBuf>,
    /// Keeps denials and rate limits across restarts and crashes. `None`: a file in systemd's state directory of
    /// the service, if it has one.
    #[serde(alias = "denied", skip_serializing_if = "Option::is_none")]
    pub state: Option<PathBuf>,
    /// Whether running transfers end when their ticket, key or client is revoked.
    pub withdraw: bool,
}

impl Default for Control {
    fn default() -> Self {
        Self { socket: None, state: None, withdraw: true }
    }
}

impl Control {
    /// Where denials and rate limits are kept, if anywhere.
    pub(crate) fn state_file(&self) -> Option<PathBuf> {
        self.state.clone().or_else(|| {
            // Several are separated by colons (systemd.exec(5)).
            let all = env::var_os("STATE_DIRECTORY")?;
            let first = env::split_paths(&all).next().filter(|first| first.is_absolute())?;
            Some(first.join(STATE_FILE))
        })
    }
}
