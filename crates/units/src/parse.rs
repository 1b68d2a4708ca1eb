// SPDX-License-Identifier: GPL-2.0-or-later
//! What the quantities share: a number, a unit, an optional factor.

use std::fmt;

/// Text that is not the quantity that was expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is not {expected}")]
pub struct ParseError {
    /// The text as it was given.
    pub text: String,
    /// What would have been right, with an example.
    pub expected: &'static str,
}

impl ParseError {
    pub(crate) fn new(text: &str, expected: &'static str) -> Self {
        Self { text: text.to_owned(), expected }
    }
}

/// Reads `NUMBER UNIT`, optionally scaled (`X / n`, `X * n`, `n * X`), as a count of base units.
///
/// `unit` gives the size of a unit in base units; an empty unit is passed on as `""`. The result
/// is rounded to the nearest whole base unit; what is negative or too large for 64 bits is `None`.
pub(crate) fn scaled(text: &str, unit: impl Fn(&str) -> Option<f64>) -> Option<u64> {
    let (quantity, factor) = split_factor(text)?;
    let (number, suffix) = split_unit(quantity)?;
    let value = number * unit(&suffix.to_ascii_lowercase())? * factor;
    // 2^64 itself is not a u64, so the bound is exclusive.
    (0.0..18_446_744_073_709_551_616.0).contains(&value).then(|| value.round() as u64)
}

fn split_factor(text: &str) -> Option<(&str, f64)> {
    let number = |s: &str| s.trim().parse::<f64>().ok().filter(|n| n.is_finite());
    if let Some((quantity, divisor)) = text.split_once('/') {
        let divisor = number(divisor).filter(|d| *d > 0.0)?;
        return Some((quantity, 1.0 / divisor));
    }
    match text.split_once('*') {
        None => Some((text, 1.0)),
        Some((left, right)) => match (number(left), number(right)) {
            (None, Some(factor)) => Some((left, factor)),
            (Some(factor), _) => Some((right, factor)),
            (None, None) => None,
        },
    }
}

/// Splits `"12.5 ms"` into the number and the unit.
pub(crate) fn split_unit(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let exponent = |at: usize| {
        let rest = text[at + 1..].trim_start_matches(['+', '-']);
        rest.starts_with(|c: char| c.is_ascii_digit())
    };
    let end = text
        .char_indices()
        .find(|&(at, c)| match c {
            '0'..='9' | '.' | '+' | '-' => false,
            'e' | 'E' => !exponent(at),
            _ => true,
        })
        .map_or(text.len(), |(at, _)| at);
    let number: f64 = text[..end].parse().ok()?;
    Some((number, text[end..].trim()))
}

/// Prints a count in the largest unit that divides it without a rest, so that printing and
/// parsing are inverse.
pub(crate) fn print_exact(
    f: &mut fmt::Formatter<'_>,
    count: u64,
    units: &[(u64, &str)],
) -> fmt::Result {
    let (size, name) = units
        .iter()
        .find(|(size, _)| count >= *size && count.is_multiple_of(*size))
        .or(units.last())
        .expect("a quantity has units");
    write!(f, "{}{name}", count / size)
}

/// Serde by text, and from a bare number where `FromStr` takes one.
macro_rules! serde_as_text {
    ($type:ty) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                struct Text;
                impl serde::de::Visitor<'_> for Text {
                    type Value = $type;
                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str(<$type>::EXPECTED)
                    }
                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$type, E> {
                        text.parse().map_err(E::custom)
                    }
                    fn visit_i64<E: serde::de::Error>(self, n: i64) -> Result<$type, E> {
                        n.to_string().parse().map_err(E::custom)
                    }
                    fn visit_u64<E: serde::de::Error>(self, n: u64) -> Result<$type, E> {
                        n.to_string().parse().map_err(E::custom)
                    }
                    fn visit_f64<E: serde::de::Error>(self, n: f64) -> Result<$type, E> {
                        n.to_string().parse().map_err(E::custom)
                    }
                }
                d.deserialize_any(Text)
            }
        }
    };
}
pub(crate) use serde_as_text;
