// SPDX-License-Identifier: GPL-2.0-or-later
//! Values of swept keys, texts such as "90ms" or "0.1%": their order, and their positions on an axis.

use crate::distinct::distinct;
use std::{cmp::Ordering, collections::HashMap};
use units::quantity;

/// A value of a scenario's key: ordered as a number where all are numbers of a kind.
#[derive(Debug, Clone, PartialEq, PartialOrd)]
pub enum SweptValue {
    Number(f64),
    Text(String),
}

impl SweptValue {
    /// Reads a value with its unit. Values of one key share a unit, so it does not matter here
    /// which one it is.
    pub fn parse(text: &str) -> Self {
        quantity(text)
            .map_or_else(|| Self::Text(text.to_owned()), |(_, number)| Self::Number(number))
    }
}

/// The order of two values of one key.
pub fn compare_values(a: &str, b: &str) -> Ordering {
    SweptValue::parse(a).partial_cmp(&SweptValue::parse(b)).unwrap_or(Ordering::Equal)
}

/// The keys that vary over these points but follow from `key`: each value of that has one of theirs. So do keys
/// that a sweep moves together.
pub fn following_keys(key: &str, points: &[&[(String, String)]]) -> Vec<String> {
    let value = |point: &[(String, String)], key: &str| {
        point.iter().find(|(k, _)| k == key).map(|(_, value)| value.clone())
    };
    let follows = |other: &str| {
        let mut values = HashMap::new();
        points.iter().all(|point| {
            let expected = values.entry(value(point, key)).or_insert_with(|| value(point, other));
            *expected == value(point, other)
        }) && points.iter().any(|point| value(point, other) != value(points[0], other))
    };
    let keys = distinct(points.iter().flat_map(|point| *point).map(|(other, _)| other));
    keys.into_iter().filter(|other| other != key && follows(other)).collect()
}

/// The order of two points with the same keys, key by key.
pub fn compare_points(a: &[(String, String)], b: &[(String, String)]) -> Ordering {
    let pairs = a.iter().zip(b).map(|((_, a), (_, b))| compare_values(a, b));
    pairs.fold(Ordering::Equal, Ordering::then)
}

/// Where values stand on an axis, and whether by logarithms.
pub type Positions = (Vec<f64>, bool);

/// Where values stand on an axis, and whether by their logarithms: as numbers, as logarithms where that is asked for or the
/// numbers span more than a factor of 30, or evenly where they are not numbers or have no
/// logarithm.
pub fn positions(labels: &[String], logarithmic: bool) -> Positions {
    let evenly = || (0..labels.len()).map(|i| i as f64).collect();
    let numbers: Option<Vec<f64>> = labels
        .iter()
        .map(|label| match SweptValue::parse(label) {
            SweptValue::Number(number) => Some(number),
            SweptValue::Text(_) => None,
        })
        .collect();
    let Some(numbers) = numbers else { return (evenly(), false) };
    let smallest = numbers.iter().copied().filter(|n| *n > 0.0).reduce(f64::min);
    let largest = numbers.iter().copied().fold(0.0, f64::max);
    let wide = logarithmic || smallest.is_some_and(|smallest| largest > 30.0 * smallest);
    match (wide, numbers.iter().all(|n| *n > 0.0)) {
        (true, true) => (numbers.iter().map(|n| n.log10()).collect(), true),
        (true, false) => (evenly(), false),
        (false, _) => (numbers, false),
    }
}

/// Whether a value is a number that has a logarithm.
pub fn is_above_zero(label: &str) -> bool {
    matches!(SweptValue::parse(label), SweptValue::Number(number) if number > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_move_together_follow_each_other() {
        let point = |loss: &str, time: &str, cc: &str| {
            let pairs = [("loss", loss), ("time", time), ("cc", cc), ("size", "1MB")];
            pairs.map(|(key, value)| (key.to_owned(), value.to_owned()))
        };
        let points = [
            point("1%", "9s", "bbr"),
            point("2%", "9s", "bbr"),
            point("3%", "1s", "bbr"),
            point("1%", "9s", "reno"),
        ];
        let points = points.each_ref().map(<[_; 4]>::as_slice);
        assert_eq!(following_keys("loss", &points), ["time"]);
        // Two losses have 9 s; what never varies follows from nothing.
        assert_eq!(following_keys("time", &points), [""; 0]);
        assert_eq!(following_keys("cc", &points), [""; 0]);
    }

    #[test]
    fn order_is_by_size_not_by_spelling() {
        let mut values = ["100ms", "20ms", "3ms"].map(SweptValue::parse);
        values.sort_by(|a, b| a.partial_cmp(b).unwrap());
        assert_eq!(values, ["3ms", "20ms", "100ms"].map(SweptValue::parse));
    }
}
