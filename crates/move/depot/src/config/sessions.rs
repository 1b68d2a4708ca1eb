// SPDX-License-Identifier: GPL-2.0-or-later
//! `[session]`: settings of sessions.

use crate::config::{error::ConfigError, range::check_time};
use protocol::session::Congestion;
use serde::{Deserialize, Serialize};
use units::Duration;

/// Settings of sessions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sessions {
    /// How long a session may go without a byte in either direction.
    pub idle: Duration,
    /// The congestion controls that a session may request.
    pub congestion: Vec<String>,
    /// Maximum number of connections that wait for the other end of their session.
    pub meetings: usize,
    /// How long each may wait.
    pub meeting_time: Duration,
}

impl Sessions {
    /// Whether a session may have this congestion control.
    pub(crate) fn grants(&self, congestion: &Congestion) -> bool {
        self.congestion.iter().any(|name| name == congestion.as_str())
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        check_time("session.idle", self.idle)?;
        check_time("session.meeting_time", self.meeting_time)?;
        if self.meetings > 1_000_000 {
            return Err(ConfigError::range("session.meetings", &self.meetings, "0 to 1000000"));
        }
        match self.congestion.iter().find(|name| name.parse::<Congestion>().is_err()) {
            Some(name) => Err(ConfigError::range(
                "session.congestion",
                name,
                "names of 1 to 15 of a-z, 0-9 and _, as in [\"bbr\", \"cubic\"]",
            )),
            None => Ok(()),
        }
    }
}

impl Default for Sessions {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(600),
            congestion: Vec::new(),
            meetings: 256,
            meeting_time: Duration::from_secs(600),
        }
    }
}
