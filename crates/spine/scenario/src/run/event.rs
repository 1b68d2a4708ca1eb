// SPDX-License-Identifier: GPL-2.0-or-later
//! What happens in a run at a time of its own, or after something else.

use crate::json;
use serde::{Deserialize, Serialize};
use units::Duration;

/// Something that happens once in a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Unique among events and flows.
    pub name: String,
    /// The flow whose end, or the event that it waits for; the run's start where it is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// How long after that.
    #[serde(rename = "at_us", with = "json::micros")]
    pub at: Duration,
    /// What happens.
    #[serde(flatten)]
    pub action: Action,
}

/// What an event does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// The depots of a node are killed at once, as by `kill -9`.
    Kill(String),
    /// They start again, with the same settings.
    Restart(String),
    /// A flow starts, which waits for that.
    Start(String),
}
