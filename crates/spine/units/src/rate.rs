// SPDX-License-Identifier: GPL-2.0-or-later
//! Rates.

use crate::parse::{ParseError, capital, find_unit, print_exact, scaled, serde_as_text};
use crate::{Bytes, Duration};
use std::{fmt, str::FromStr};

/// Bits a second. As in tc(8), `kbit` is 1000 bits and `bps` is **bytes** a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// What a text must be to be read as one, with examples: completes "x is not ...".
    pub const EXPECTED: &str =
        "a rate with its unit, as in 10gbit, 800mbit or 62.5mbps (bps = bytes a second)";

    /// So many bits a second.
    pub const fn bits_per_second(bits: u64) -> Self {
        Self(bits)
    }

    /// Bits a second.
    pub const fn bps(self) -> u64 {
        self.0
    }

    /// The bandwidth-delay product: what is under way at this rate during `rtt`, rounded down.
    pub fn times(self, rtt: Duration) -> Bytes {
        let bits = u128::from(self.0) * u128::from(rtt.as_nanos()) / 1_000_000_000;
        Bytes::new(u64::try_from(bits / 8).unwrap_or(u64::MAX))
    }

    /// How long `bytes` take at this rate, rounded up; `None` at rate zero.
    pub fn time_for(self, bytes: Bytes) -> Option<Duration> {
        let bit_nanos = u128::from(bytes.get()) * 8 * 1_000_000_000;
        let nanos = bit_nanos.checked_div(u128::from(self.0))?;
        let rest = u128::from(bit_nanos % u128::from(self.0) != 0);
        u64::try_from(nanos + rest).ok().map(Duration::from_nanos)
    }
}

impl FromStr for Rate {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        scaled(text, |unit| if is_unclear(unit) { None } else { size_of(unit) })
            .ok_or_else(|| match find_unit(text, is_unclear) {
                Some((number, unit)) => {
                    let lower = unit.to_ascii_lowercase();
                    let prefix = lower.trim_end_matches("bps");
                    let capital = capital(prefix);
                    ParseError::unclear(
                        text,
                        &format!(
                            "write {number}{prefix}bit for bits a second, {number}{capital}Bps for \
                             bytes a second"
                        ),
                    )
                }
                None => ParseError::new(text, Self::EXPECTED),
            })
            .and_then(|bits| match bits {
                0 => {
                    Err(ParseError::new(text, "a rate at which anything moves: it must be above 0"))
                }
                bits => Ok(Self(bits)),
            })
    }
}

/// "…bit" counts bits, "…bps" bytes; "ki", "mi", … are powers of 1024.
fn size_of(unit: &str) -> Option<f64> {
    let unit = unit.to_ascii_lowercase();
    let (prefix, bits) = match unit.strip_suffix("bps") {
        Some(prefix) => (prefix, 8.0),
        None => (unit.strip_suffix("bit")?, 1.0),
    };
    let (letter, base) = match prefix.strip_suffix('i') {
        Some(letter) if !letter.is_empty() => (letter, 1024.0_f64),
        _ => (prefix, 1000.0),
    };
    let power = ["", "k", "m", "g", "t"].iter().position(|p| *p == letter)?;
    Some(bits * base.powi(i32::try_from(power).ok()?))
}

/// Whether a unit's `b` is elsewhere a bit: `Mbps`, `MBPS`. All in small letters it is tc's, a byte,
/// and so is the `B` of `MBps`.
fn is_unclear(unit: &str) -> bool {
    let per_second = unit.to_ascii_lowercase().ends_with("bps");
    let capitals = unit.contains(|c: char| c.is_ascii_uppercase());
    per_second && capitals && !unit.ends_with("Bps") && size_of(unit).is_some()
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 5] = [
            (1_000_000_000_000, "tbit"),
            (1_000_000_000, "gbit"),
            (1_000_000, "mbit"),
            (1000, "kbit"),
            (1, "bit"),
        ];
        print_exact(f, self.0, &UNITS)
    }
}

serde_as_text!(Rate);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_as_tc_writes_them() {
        for (text, bps) in [
            ("10gbit", 10_000_000_000),
            ("1Gbit", 1_000_000_000),
            ("1kibit", 1024),
            ("62.5mbps", 500_000_000),
            ("62.5MBps", 500_000_000),
            ("50mBps", 400_000_000),
            ("50Bps", 400),
            ("1MiBps", 8_388_608),
            ("50MBIT", 50_000_000),
            ("1gbit / 4", 250_000_000),
        ] {
            assert_eq!(text.parse(), Ok(Rate(bps)), "{text}");
        }
        for text in ["", "10", "0mbit", "-1gbit", "1gb", "fast", "1ibit"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
        let zero = "0mbit".parse::<Rate>().unwrap_err().to_string();
        assert_eq!(zero, "\"0mbit\" is not a rate at which anything moves: it must be above 0");
    }

    #[test]
    fn ambiguous_rate_unit_is_refused_with_suggestions() {
        for (text, bits, bytes) in [
            ("50Mbps", "50mbit", "50MBps"),
            ("50 Mbps", "50mbit", "50MBps"),
            ("50MBPS", "50mbit", "50MBps"),
            ("50mbPs", "50mbit", "50MBps"),
            ("62.5Kbps", "62.5kbit", "62.5KBps"),
            ("1Gbps", "1gbit", "1GBps"),
            ("1Tbps", "1tbit", "1TBps"),
            ("1Mibps", "1mibit", "1MiBps"),
            ("9BPS", "9bit", "9Bps"),
            ("2 * 50Mbps - 1mbit", "50mbit", "50MBps"),
        ] {
            let error = text.parse::<Rate>().expect_err(text);
            assert!(error.is_unclear(), "{text}");
            assert_eq!(
                error.to_string(),
                format!(
                    "\"{text}\" is not clear: write {bits} for bits a second, {bytes} for bytes a \
                     second"
                )
            );
        }
        for text in ["50Mb", "1Xbps", "50"] {
            assert!(!text.parse::<Rate>().expect_err(text).is_unclear(), "{text}");
        }
    }

    #[test]
    fn products_and_quotients() {
        let gigabit = Rate(1_000_000_000);
        assert_eq!(gigabit.times(Duration::from_millis(90)), Bytes::new(11_250_000));
        assert_eq!(gigabit.time_for(Bytes::new(1514)), Some(Duration::from_nanos(12_112)));
        assert_eq!(Rate(3).time_for(Bytes::new(1)), Some(Duration::from_nanos(2_666_666_667)));
        assert_eq!(Rate(0).time_for(Bytes::new(1)), None);
    }
}
