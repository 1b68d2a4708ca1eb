// SPDX-License-Identifier: GPL-2.0-or-later
//! How long each end of a copy may take.

use crate::copy::MinimumRate;
use std::time::Duration;

/// How long each end may take.
#[derive(Debug, Clone, Copy)]
pub struct IdleTimeouts {
    /// For the source to send a byte.
    pub source_idle: Duration,
    /// For the sink to take a byte.
    pub sink_idle: Duration,
    /// For the sink's system to acknowledge anything, once bytes were sent again.
    pub tcp_user: Duration,
    /// How fast a client is to take what waits in the kernel alone.
    pub minimum: Option<MinimumRate>,
}

impl Default for IdleTimeouts {
    /// Ten minutes for either end, a minute for an acknowledgement, and no minimum rate.
    fn default() -> Self {
        let idle = Duration::from_secs(600);
        let tcp_user = Duration::from_secs(60);
        Self { source_idle: idle, sink_idle: idle, tcp_user, minimum: None }
    }
}
