// SPDX-License-Identifier: GPL-2.0-or-later
//! Probabilities.

use crate::parse::{ParseError, serde_as_text, split_unit};
use std::{fmt, str::FromStr};

/// A probability between 0 and 1, both included.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd)]
pub struct Probability(f64);

impl Probability {
    /// Never.
    pub const ZERO: Self = Self(0.0);
    /// What a text must be to be read as one, with examples: completes "x is not ...".
    pub const EXPECTED: &str =
        "a probability, as in 0.02%, 0.0002 or 0.1% over 3 (segments in series)";

    /// A probability, if `p` is one.
    pub fn new(p: f64) -> Option<Self> {
        (0.0..=1.0).contains(&p).then_some(Self(p))
    }

    /// Between 0 and 1.
    pub const fn get(self) -> f64 {
        self.0
    }

    /// The loss of each of `segments` in series that amounts to this one end to end: equation 4 of
    /// Augusto et al., `p = 1 - (1 - p_i)^N`, solved for `p_i`.
    #[must_use]
    pub fn spread_over(self, segments: u32) -> Self {
        // ln_1p and exp_m1 keep the digits of small probabilities, which 1 - (1-p)^(1/N) loses.
        Self(-((-self.0).ln_1p() / f64::from(segments.max(1))).exp_m1())
    }

    /// The probability that at least one of the two happens: equation 4 the other way.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self(self.0 + other.0 - self.0 * other.0)
    }
}

impl FromStr for Probability {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let parse = || {
            let (text, segments) = match text.split_once("over") {
                None => (text, 1),
                Some((p, n)) => (p, n.trim().parse().ok().filter(|n| *n > 0)?),
            };
            let (number, unit) = split_unit(text)?;
            let p = match unit {
                "" => number,
                "%" => number / 100.0,
                _ => return None,
            };
            let p = Self::new(p)?;
            Some(if segments == 1 { p } else { p.spread_over(segments) })
        };
        parse().ok_or_else(|| ParseError::new(text, Self::EXPECTED))
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The shortest text that reads back as the same number; a percent sign would round.
        write!(f, "{}", self.0)
    }
}

serde_as_text!(Probability);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_fraction_and_spread() {
        assert_eq!("0.02%".parse(), Ok(Probability(0.0002)));
        assert_eq!("1e-5".parse(), Ok(Probability(1e-5)));
        let third: Probability = "0.1% over 3".parse().unwrap();
        let back = 1.0 - (1.0 - third.get()).powi(3);
        assert!((back - 0.001).abs() < 1e-15, "{back}");
        for text in ["", "-1%", "101%", "1.01", "2 eggs", "1% over 0", "1% over"] {
            assert!(text.parse::<Probability>().is_err(), "{text}");
        }
    }
}
