// SPDX-License-Identifier: GPL-2.0-or-later
//! `[admin]`: where operators may watch the depot.

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The listener for operators: off unless configured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Admin {
    /// The address of the status page, the metrics and the health check. Anyone who can reach it sees which
    /// client fetches which URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<SocketAddr>,
}
