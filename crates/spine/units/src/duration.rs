// SPDX-License-Identifier: GPL-2.0-or-later
//! Time: a length ([`Duration`]) and a point ([`Timestamp`]), both in whole nanoseconds.

use crate::parse::{ParseError, print_exact, scaled, serde_as_text};
use std::{
    fmt,
    ops::{Add, Sub},
    str::FromStr,
};

/// A length of time in nanoseconds: 64 bits reach 584 years.
///
/// Half the size of [`std::time::Duration`], because links keep one for each packet under way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(u64);

impl Duration {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// What a text must be to be read as one, with examples: completes "x is not ...".
    pub const EXPECTED: &str = "a time with its unit, as in 90ms, 250us or 1.5s";

    /// So many nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }
    /// So many microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros * 1000)
    }
    /// So many milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }
    /// So many seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs * 1_000_000_000)
    }
    /// Whole nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// Seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// `n` times as long; the longest time where it does not fit.
    #[must_use]
    pub const fn saturating_mul(self, n: u64) -> Self {
        Self(self.0.saturating_mul(n))
    }
    /// The difference, or no time where `other` is longer.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for Duration {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl From<Duration> for std::time::Duration {
    fn from(d: Duration) -> Self {
        Self::from_nanos(d.0)
    }
}

impl From<std::time::Duration> for Duration {
    fn from(d: std::time::Duration) -> Self {
        Self(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl FromStr for Duration {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        scaled(text, |unit| {
            Some(match unit {
                "s" | "sec" | "secs" => 1e9,
                "ms" | "msec" | "msecs" => 1e6,
                "us" | "usec" | "usecs" => 1e3,
                "ns" | "nsec" | "nsecs" => 1.0,
                "min" => 60e9,
                "h" => 3600e9,
                _ => return None,
            })
        })
        .map(Self)
        .ok_or_else(|| ParseError::new(text, Self::EXPECTED))
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 4] =
            [(1_000_000_000, "s"), (1_000_000, "ms"), (1000, "us"), (1, "ns")];
        if self.0 == 0 { f.write_str("0s") } else { print_exact(f, self.0, &UNITS) }
    }
}

serde_as_text!(Duration);

/// A point in time: nanoseconds since the start of whatever is observed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The start.
    pub const ZERO: Self = Self(0);

    /// So many nanoseconds after the start.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }
    /// Nanoseconds since the start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// Seconds since the start.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// How long after `earlier` this is; no time where it is not after.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;
    fn add(self, d: Duration) -> Self {
        Self(self.0.saturating_add(d.0))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;
    fn sub(self, d: Duration) -> Self {
        Self(self.0.saturating_sub(d.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_need_a_unit() {
        for (text, nanos) in [
            ("90ms", 90_000_000),
            ("90 ms / 4", 22_500_000),
            ("1.5s", 1_500_000_000),
            ("250us", 250_000),
            ("7ns", 7),
            ("2min", 120_000_000_000),
            ("0", 0),
            ("0 / 2", 0),
            ("90ms / 2 - 2 * 3ms", 39_000_000),
            ("1e-3s + 500us", 1_500_000),
            ("2 * 90ms / 4", 45_000_000),
            ("90ms - 90ms", 0),
        ] {
            assert_eq!(text.parse(), Ok(Duration(nanos)), "{text}");
        }
        for text in [
            "",
            "90",
            "-3ms",
            "3 parsecs",
            "ms",
            "5ms - 6ms",
            "5ms + -3ms",
            "5ms +",
            "5ms -6ms",
            "5ms - 3",
            "5ms * 3ms",
            "5 / 3ms",
            "5ms / 0",
            "5ms / -1",
            "-5ms * -1",
            "5ms * inf",
            " - ",
            "*",
            "/",
        ] {
            assert!(text.parse::<Duration>().is_err(), "{text}");
        }
    }
}
