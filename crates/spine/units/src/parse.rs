// SPDX-License-Identifier: GPL-2.0-or-later
//! What the quantities share: a number and a unit, and the arithmetic between them.

use std::{borrow::Cow, fmt};

/// Text that is not the quantity that was expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is not {expected}")]
pub struct ParseError {
    /// The text as it was given.
    pub text: String,
    /// What would have been right, with an example.
    pub expected: Cow<'static, str>,
    unclear: bool,
}

impl ParseError {
    pub(crate) fn new(text: &str, expected: &'static str) -> Self {
        Self { text: text.to_owned(), expected: expected.into(), unclear: false }
    }

    pub(crate) fn unclear(text: &str, what_to_write: &str) -> Self {
        let expected = format!("clear: {what_to_write}").into();
        Self { text: text.to_owned(), expected, unclear: true }
    }

    /// Whether the text may be read as bits or as bytes. What is expected then names what to write.
    pub fn is_unclear(&self) -> bool {
        self.unclear
    }
}

/// The first quantity in a sum whose unit is of this kind: its number and its unit.
pub(crate) fn find_unit(text: &str, is: impl Fn(&str) -> bool) -> Option<(f64, &str)> {
    operands(text, [" + ", " - "])
        .flat_map(|(_, term)| operands(term, ["*", "/"]))
        .filter_map(|(_, text)| split_unit(text))
        .find(|(_, unit)| is(unit))
}

/// `mi` as in `MiB`.
pub(crate) fn capital(prefix: &str) -> String {
    let (letter, rest) = prefix.split_at(prefix.len().min(1));
    letter.to_ascii_uppercase() + rest
}

/// Reads a sum of quantities as a count of base units: `90ms`, `90ms / 2 - 2 * 3ms`.
///
/// `unit` gives the size of a unit, as it is written, in base units; an empty unit is passed on as
/// `""`, but a bare zero is zero in every unit. Spaces surround plus and minus, which tells them from
/// signs and exponents. The result is rounded to the nearest whole base unit; a result that is negative or
/// too large for 64 bits is `None`.
pub(crate) fn scaled(text: &str, unit: impl Fn(&str) -> Option<f64>) -> Option<u64> {
    let mut sum = 0.0;
    for (minus, text) in operands(text, [" + ", " - "]) {
        let term = product(text, &unit)?;
        sum += if minus { -term } else { term };
    }
    // 2^64 itself is not a u64, so the bound is exclusive.
    (0.0..18_446_744_073_709_551_616.0).contains(&sum).then(|| sum.round() as u64)
}

/// Reads `NUMBER UNIT`, multiplied and divided by bare numbers: `2 * 90ms / 3`.
fn product(text: &str, unit: impl Fn(&str) -> Option<f64>) -> Option<f64> {
    let mut product = 1.0;
    let mut size = None;
    for (divide, text) in operands(text, ["*", "/"]) {
        let (number, suffix) = split_unit(text).filter(|(n, _)| n.is_finite() && *n >= 0.0)?;
        match (divide, suffix) {
            (false, _) => product *= number,
            (true, "") if number > 0.0 => product /= number,
            (true, _) => return None,
        }
        // A second unit would make it a square.
        if !suffix.is_empty() && size.replace(unit(suffix)?).is_some() {
            return None;
        }
    }
    match size {
        Some(size) => Some(product * size),
        None if product == 0.0 => Some(0.0),
        None => Some(product * unit("")?),
    }
}

/// Splits `text` at two operators. Returns each operand, and whether the second operator precedes it.
fn operands<'t>(text: &'t str, operators: [&'t str; 2]) -> impl Iterator<Item = (bool, &'t str)> {
    let mut rest = Some((false, text));
    std::iter::from_fn(move || {
        let (second, text) = rest.take()?;
        let next =
            operators.iter().enumerate().filter_map(|(i, op)| Some((text.find(op)?, i))).min();
        let Some((at, i)) = next else { return Some((second, text)) };
        rest = Some((i == 1, &text[at + operators[i].len()..]));
        Some((second, &text[..at]))
    })
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

/// Prints a count in the largest unit that it fills once it is rounded to a tenth, a space between.
pub(crate) fn print_rounded(
    f: &mut fmt::Formatter<'_>,
    count: u64,
    units: &[(u64, &str)],
) -> fmt::Result {
    let in_unit = |size: u64| (count as f64 / size as f64 * 10.0).round() / 10.0;
    let fills = |(size, _): &&(u64, &str)| in_unit(*size) >= 1.0;
    let (size, name) = units.iter().find(fills).or(units.last()).expect("a quantity has units");
    write!(f, "{} {name}", in_unit(*size))
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
