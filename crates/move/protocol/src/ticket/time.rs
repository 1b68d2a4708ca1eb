// SPDX-License-Identifier: GPL-2.0-or-later
//! Points in time, as tickets name them.

use serde::{Deserialize, Serialize};
use std::{
    fmt,
    str::FromStr,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// A second since 1970 (RFC 7519's `NumericDate`, whole), at most that of the end of the year 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64")]
pub struct UnixTime(u64);

/// The last second of the year 9999: what comes later cannot be written as a date.
const LAST: u64 = 253_402_300_799;

/// The number is not a second before the year 10000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a time in seconds since 1970 before the year 10000")]
pub struct UnixTimeError(u64);

/// The text is not a point in time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a time before the year 10000: expected RFC 3339 in UTC, as in \
     2030-01-31T12:00:00Z, or seconds since 1970"
)]
pub struct UnixTimeTextError(String);

impl UnixTime {
    /// So many seconds later, or the last second there is.
    #[must_use]
    pub const fn plus(self, seconds: u32) -> Self {
        let later = self.0.saturating_add(seconds as u64);
        Self(if later > LAST { LAST } else { later })
    }

    /// The number.
    pub const fn seconds(self) -> u64 {
        self.0
    }
}

impl TryFrom<u64> for UnixTime {
    type Error = UnixTimeError;
    fn try_from(seconds: u64) -> Result<Self, UnixTimeError> {
        if seconds <= LAST { Ok(Self(seconds)) } else { Err(UnixTimeError(seconds)) }
    }
}

impl FromStr for UnixTime {
    type Err = UnixTimeTextError;
    /// Reads RFC 3339 in UTC (a part of a second is dropped), or a number of seconds.
    fn from_str(text: &str) -> Result<Self, UnixTimeTextError> {
        let bad = || UnixTimeTextError(text.to_owned());
        if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
            let seconds: u64 = text.parse().map_err(|_| bad())?;
            return Self::try_from(seconds).map_err(|_| bad());
        }
        humantime::parse_rfc3339(text).map(Self::from).map_err(|_| bad())
    }
}

impl From<SystemTime> for UnixTime {
    fn from(time: SystemTime) -> Self {
        let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Self(seconds.min(LAST))
    }
}

impl fmt::Display for UnixTime {
    /// As RFC 3339 writes it, in UTC.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = UNIX_EPOCH + Duration::from_secs(self.0);
        humantime::format_rfc3339_seconds(time).fmt(f)
    }
}
