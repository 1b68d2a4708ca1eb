// SPDX-License-Identifier: GPL-2.0-or-later
//! Sizes.

use crate::parse::{
    ParseError, capital, find_unit, print_exact, print_rounded, scaled, serde_as_text,
};
use std::{fmt, iter::Sum, ops::Add, str::FromStr};

/// A number of bytes. As in tc(8), `k`, `m` and `g` are powers of 1024 and a bare number is bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(u64);

impl Bytes {
    /// None at all.
    pub const ZERO: Self = Self(0);
    /// What a text must be to be read as one, with examples: completes "x is not ...".
    pub const EXPECTED: &str = "a size in bytes, as in 1500, 128KB or 100MB (k = 1024)";

    /// So many bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The size for people, rounded to a tenth of its unit, as in `2.7 MB`. What is read again is written by `Display`, which
    /// rounds nothing.
    pub const fn rounded(self) -> Rounded {
        Rounded(self)
    }

    /// The difference, or nothing where `other` is larger.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// `factor` times as much, rounded to the nearest byte; the largest size where it does not fit.
    #[must_use]
    pub fn scale(self, factor: f64) -> Self {
        Self((self.0 as f64 * factor).round() as u64)
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl FromStr for Bytes {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        scaled(text, |unit| if is_unclear(unit) { None } else { size_of(unit) })
            .map(Self)
            .ok_or_else(|| match find_unit(text, is_unclear) {
                Some((number, unit)) => {
                    let lower = unit.to_ascii_lowercase();
                    let prefix = capital(lower.trim_end_matches('b'));
                    let bytes = format!("sizes are in bytes; write {number}{prefix}B");
                    ParseError::unclear(text, &bytes)
                }
                None => ParseError::new(text, Self::EXPECTED),
            })
    }
}

fn size_of(unit: &str) -> Option<f64> {
    Some(match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" | "kib" => 1024.0,
        "m" | "mb" | "mib" => 1_048_576.0,
        "g" | "gb" | "gib" => 1_073_741_824.0,
        "t" | "tb" | "tib" => 1_099_511_627_776.0,
        _ => return None,
    })
}

/// Whether a unit's `b` is elsewhere a bit: `Mb`. All in small letters it is tc's, a byte.
fn is_unclear(unit: &str) -> bool {
    let capitals = unit.contains(|c: char| c.is_ascii_uppercase());
    capitals && unit.ends_with('b') && size_of(unit).is_some()
}

/// The units of sizes, the largest first.
const UNITS: [(u64, &str); 5] =
    [(1 << 40, "TB"), (1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB"), (1, "B")];

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print_exact(f, self.0, &UNITS)
    }
}

/// A size as people read it ([`Bytes::rounded`]).
#[derive(Debug, Clone, Copy)]
pub struct Rounded(Bytes);

impl fmt::Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print_rounded(f, self.0.0, &UNITS)
    }
}

serde_as_text!(Bytes);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_tc_writes_them() {
        for (text, bytes) in [
            ("1500", 1500),
            ("64kb", 65_536),
            ("128KB", 131_072),
            ("100MB", 104_857_600),
            ("1.5k", 1536),
            ("4MB / 2", 2_097_152),
            ("3 * 1KB", 3072),
            ("3 * 5", 15),
            ("4KB - 96", 4000),
            ("1e6", 1_000_000),
            ("10K", 10_240),
            ("10kB", 10_240),
            ("10kib", 10_240),
            ("10KiB", 10_240),
            ("10KIB", 10_240),
            ("10b", 10),
            ("10B", 10),
        ] {
            assert_eq!(text.parse(), Ok(Bytes::new(bytes)), "{text}");
        }
        for text in ["", "-1", "1 furlong", "KB", "1MB / 0", "1e30", "NaN", "1mbit"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_rounded_for_people() {
        for (bytes, text) in [
            (0, "0 B"),
            (1, "1 B"),
            (1023, "1 KB"),
            (900, "900 B"),
            (1024, "1 KB"),
            (65_535, "64 KB"),
            (2_796_202, "2.7 MB"),
            (11_250_000, "10.7 MB"),
            (16 << 20, "16 MB"),
            (1_048_575, "1 MB"),
            (u64::MAX, "16777216 TB"),
        ] {
            assert_eq!(Bytes::new(bytes).rounded().to_string(), text);
        }
    }

    #[test]
    fn ambiguous_unit_is_refused_with_suggestions() {
        for (text, bytes) in [
            ("10Mb", "10MB"),
            ("10 Mb", "10MB"),
            ("1.5Kb", "1.5KB"),
            ("1Gb", "1GB"),
            ("1Tb", "1TB"),
            ("1Mib", "1MiB"),
            ("1mIb", "1MiB"),
            ("2 * 10Mb + 1KB", "10MB"),
        ] {
            let error = text.parse::<Bytes>().expect_err(text);
            assert!(error.is_unclear(), "{text}");
            let said = format!("\"{text}\" is not clear: sizes are in bytes; write {bytes}");
            assert_eq!(error.to_string(), said);
        }
        for text in ["10Xb", "10Mbit", "-1"] {
            assert!(!text.parse::<Bytes>().expect_err(text).is_unclear(), "{text}");
        }
    }
}
