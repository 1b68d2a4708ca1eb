// SPDX-License-Identifier: GPL-2.0-or-later
//! Checks of ranges that several sections share.

use crate::config::error::ConfigError;
use units::{Duration, Rate};

/// Rejects a time outside the range of timers, 1 ms to 24 h.
pub(super) fn check_time(key: &'static str, time: Duration) -> Result<(), ConfigError> {
    let range = Duration::from_millis(1)..=Duration::from_secs(24 * 3600);
    if range.contains(&time) { Ok(()) } else { Err(ConfigError::range(key, &time, "1ms to 24h")) }
}

/// Rejects a rate below 8 kbit/s.
pub(super) fn check_rate(key: &'static str, rate: Option<Rate>) -> Result<(), ConfigError> {
    let too_low = rate.filter(|rate| rate.bps() < 8_000);
    too_low.map_or(Ok(()), |rate| Err(ConfigError::range(key, &rate, "8kbit or more")))
}
