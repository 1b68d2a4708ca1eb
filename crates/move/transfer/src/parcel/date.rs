// SPDX-License-Identifier: GPL-2.0-or-later
//! When a file was changed, as `stat(2)` has it: also before 1970, with nanoseconds.
//!
//! As text it is the seconds since 1970 as a decimal number, like `mtime` in a pax header (POSIX, pax, section "pax Extended
//! Header"): -1.5 is half a second before 1969-12-31T23:59:59Z.

#![warn(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss
)]

use rustix::fs::{Timespec, Timestamps, UTIME_OMIT};
use std::{fmt, fs::Metadata, os::unix::fs::MetadataExt, time::Duration};

/// Nanoseconds of a second.
const SECOND: u32 = 1_000_000_000;

/// A point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Date {
    /// Whole seconds since 1970, rounded down.
    pub seconds: i64,
    /// Less than a second.
    nanoseconds: u32,
}

impl Date {
    /// When a file was changed.
    pub(super) fn of(data: &Metadata) -> Self {
        let nanoseconds = u32::try_from(data.mtime_nsec()).unwrap_or_default().min(SECOND - 1);
        Self { seconds: data.mtime(), nanoseconds }
    }

    /// A whole number of seconds.
    pub(super) fn from_seconds(seconds: i64) -> Self {
        Self { seconds, nanoseconds: 0 }
    }

    /// Nanoseconds since 1970.
    pub(super) fn from_nanoseconds(since: u64) -> Self {
        let since = Duration::from_nanos(since);
        let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
        Self { seconds, nanoseconds: since.subsec_nanos() }
    }

    /// Nanoseconds since 1970. `None` before 1970 and after 2554.
    pub(super) fn nanoseconds(self) -> Option<u64> {
        let seconds = u64::try_from(self.seconds).ok()?;
        seconds.checked_mul(SECOND.into())?.checked_add(self.nanoseconds.into())
    }

    /// Whether a number of whole seconds since 1970 says less.
    pub(super) fn needs_text(self) -> bool {
        self.seconds < 0 || self.nanoseconds > 0
    }

    /// Reads a decimal number of seconds; digits behind the ninth of a fraction are ignored.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (is_negative, number) = match text.strip_prefix('-') {
            Some(number) => (true, number),
            None => (false, text),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !is_number(whole) || !is_number(fraction) {
            return None;
        }
        let whole: i64 = whole.parse().ok()?;
        let digits = fraction.chars().chain(std::iter::repeat('0')).take(9);
        let nanoseconds: u32 = digits.collect::<String>().parse().ok()?;
        Some(match (is_negative, nanoseconds) {
            (false, nanoseconds) => Self { seconds: whole, nanoseconds },
            (true, 0) => Self::from_seconds(whole.checked_neg()?),
            (true, some) => {
                let seconds = whole.checked_neg()?.checked_sub(1)?;
                Self { seconds, nanoseconds: SECOND.saturating_sub(some) }
            }
        })
    }

    /// As the system sets it; the date of the last access stays.
    pub(super) fn times(self) -> Timestamps {
        Timestamps {
            last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
            last_modification: Timespec { tv_sec: self.seconds, tv_nsec: self.nanoseconds.into() },
        }
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seconds, nanoseconds } = *self;
        let (sign, whole, fraction) = match (seconds < 0, nanoseconds) {
            (true, 1..) => {
                let whole = seconds.saturating_add(1).unsigned_abs();
                ("-", whole, SECOND.saturating_sub(nanoseconds))
            }
            (true, 0) => ("-", seconds.unsigned_abs(), 0),
            (false, fraction) => ("", seconds.unsigned_abs(), fraction),
        };
        if fraction == 0 {
            return write!(f, "{sign}{whole}");
        }
        let digits = format!("{fraction:09}");
        write!(f, "{sign}{whole}.{}", digits.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn date_is_the_same_after_text() {
        for (seconds, nanoseconds, text) in [
            (0, 0, "0"),
            (1, 500_000_000, "1.5"),
            (-1, 0, "-1"),
            (-2, 500_000_000, "-1.5"),
            (-1, 1, "-0.999999999"),
            (-1, 999_999_999, "-0.000000001"),
            (i64::MAX, 999_999_999, "9223372036854775807.999999999"),
            (-i64::MAX, 0, "-9223372036854775807"),
            (i64::MIN, 1, "-9223372036854775807.999999999"),
        ] {
            let date = Date { seconds, nanoseconds };
            assert_eq!(date.to_string(), text);
            assert_eq!(Date::parse(text), Some(date), "{text}");
        }
        assert_eq!(Date::parse("-0.0000000009"), Some(Date::from_seconds(0)));
        assert_eq!(Date { seconds: i64::MIN, nanoseconds: 0 }.to_string(), "-9223372036854775808");
    }

    #[test]
    fn text_that_is_no_date_is_refused() {
        for text in [
            "",
            "-",
            ".",
            ".5",
            "5.",
            "+1",
            "1e9",
            "1.-5",
            "--1",
            " 1",
            "1.5.5",
            "9223372036854775808",
            "-9223372036854775808.5",
            "99999999999999999999999999",
        ] {
            assert_eq!(Date::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn nanoseconds_hold_the_years_1970_to_2554() {
        for (seconds, nanoseconds, since) in [
            (0, 1, Some(1)),
            (-1, 999_999_999, None),
            (18_446_744_073, 709_551_615, Some(u64::MAX)),
            (18_446_744_073, 709_551_616, None),
            (i64::MAX, 0, None),
        ] {
            let date = Date { seconds, nanoseconds };
            assert_eq!(date.nanoseconds(), since);
            if let Some(since) = since {
                assert_eq!(Date::from_nanoseconds(since), date);
            }
        }
    }
}
