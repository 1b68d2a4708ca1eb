// SPDX-License-Identifier: GPL-2.0-or-later
//! The unit that people read a metric in: a multiple of that of its key.

use crate::{capacity::GOODPUT_SHARE, format};
use record::{
    metric::{Form, form},
    units::Unit,
};

/// How a metric is written.
#[derive(Debug, Clone, PartialEq)]
pub struct AxisUnit {
    /// The metric in words and its unit: "goodput share, %".
    pub axis: String,
    /// The unit alone; empty of a number without one.
    pub symbol: &'static str,
    /// What the values are divided by.
    pub divisor: f64,
    decimals: usize,
    /// Whether smaller values need no more decimals.
    are_whole: bool,
    /// Whether 1 is the best, so that nothing else may be written as 1.
    is_index: bool,
    /// Less than this is an error of rounding.
    negligible: f64,
}

impl AxisUnit {
    /// Of a metric whose largest value is `largest`.
    pub fn of(key: &str, largest: f64) -> Self {
        let rate = match largest {
            l if l >= 1e9 => ("Gb/s", 1e9),
            l if l >= 1e6 => ("Mb/s", 1e6),
            _ => ("kb/s", 1e3),
        };
        let is_count = form(key) == Form::Count;
        let as_share = key == GOODPUT_SHARE || form(key) == Form::Share;
        let key = if key == "seconds" { "time_s" } else { key };
        let without_suffix = key.rsplit_once('_').map_or(key, |(name, _)| name);
        let (name, (unit, divisor)) = match Unit::of_key(key) {
            _ if as_share => (key, ("%", 0.01)),
            Unit::BitsPerSecond => (without_suffix, rate),
            Unit::Microseconds => (without_suffix, ("ms", 1e3)),
            Unit::Seconds => (without_suffix, ("s", 1.0)),
            Unit::RoundTrips => (without_suffix, ("round trips", 1.0)),
            _ => (key, ("", 1.0)),
        };
        let comma = if unit.is_empty() { "" } else { ", " };
        let axis = format!("{}{comma}{unit}", name.replace('_', " "));
        // Three digits of the largest, and the same places for all, so that a column can be compared.
        let before_point = (largest / divisor).max(f64::MIN_POSITIVE).log10().floor() as i32 + 1;
        let decimals = match key {
            _ if as_share => 1,
            _ if is_count => 0,
            _ => (3 - before_point).clamp(0, 6) as usize,
        };
        let is_index = unit.is_empty() && !is_count;
        Self {
            axis,
            symbol: unit,
            divisor,
            decimals,
            are_whole: is_count,
            is_index,
            negligible: largest.abs() * 1e-9,
        }
    }

    /// The unit of a table's row whose largest value is `largest`: this one, unless that leaves less than a tenth.
    pub fn of_row(&self, largest: f64, unit_of: impl Fn(f64) -> Self) -> Self {
        let is_too_large = largest > self.negligible && largest < 0.1 * self.divisor;
        if is_too_large { unit_of(largest) } else { self.clone() }
    }

    /// Of bytes, by what they are.
    pub fn bytes(name: &str, largest: f64) -> Self {
        let (unit, divisor) = match largest {
            l if l >= 1e12 => ("TB", 1e12),
            l if l >= 1e9 => ("GB", 1e9),
            l if l >= 1e6 => ("MB", 1e6),
            l if l >= 1e3 => ("kB", 1e3),
            _ => ("B", 1.0),
        };
        Self {
            axis: format!("{name}, {unit}"),
            symbol: unit,
            divisor,
            ..Self::of("", largest / divisor)
        }
    }

    /// Of counts, by what they are and of what.
    pub fn counts(axis: &str, largest: f64) -> Self {
        Self { axis: axis.to_owned(), are_whole: true, ..Self::of("", largest) }
    }

    /// A value in this unit.
    pub fn write(&self, value: f64) -> String {
        let text = format!("{:.*}", self.decimals_of(value), value / self.divisor);
        if self.is_index && value < 1.0 && text.starts_with('1') {
            return format::index(value);
        }
        let is_zero = !text.contains(|c: char| ('1'..='9').contains(&c));
        match is_zero {
            false => text,
            // One that is much smaller than the others is not zero for that.
            true if value > self.negligible => format::digits(value / self.divisor),
            // Rounded to nothing, a small negative number has a sign left over.
            true => text.trim_start_matches('-').to_owned(),
        }
    }

    /// Half the width of an interval, with the places that its mean has: what would be 0 is "<" the last of these.
    pub fn write_half_width(&self, mean: f64, half: f64) -> String {
        let decimals = self.decimals_of(mean);
        let text = format!("{:.*}", decimals, half / self.divisor);
        if half > 0.0 && !text.contains(|c: char| ('1'..='9').contains(&c)) {
            return format!("<{:.*}", decimals, 10_f64.powf(-(decimals as f64)));
        }
        text
    }

    /// The unit's decimals, or as many as leave a measured value three digits.
    fn decimals_of(&self, value: f64) -> usize {
        if self.are_whole || value <= self.negligible {
            return self.decimals;
        }
        let third_digit = 2.0 - (value / self.divisor).log10().floor();
        self.decimals.max(third_digit.clamp(0.0, 9.0) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_suffix_and_size() {
        let written = |key, value| {
            let unit = AxisUnit::of(key, value);
            (unit.axis.clone(), unit.write(value))
        };
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(written("goodput_share", 0.8004), pair("goodput share, %", "80.0"));
        assert_eq!(written("goodput_bps", 9.3456e9), pair("goodput, Gb/s", "9.35"));
        assert_eq!(written("goodput_bps", 2e8), pair("goodput, Mb/s", "200"));
        assert_eq!(
            written("queueing_delay_p99_us", 2500.0),
            pair("queueing delay p99, ms", "2.50")
        );
        assert_eq!(written("completion_mean_s", 39.5), pair("completion mean, s", "39.5"));
        assert_eq!(written("jain_index", 0.98765), pair("jain index", "0.988"));
        assert_eq!(written("jain_index", 0.9997), pair("jain index", "0.9997"));
        assert_eq!(AxisUnit::of("jain_index", 1.0).write(0.999_96), "0.99996");
        assert_eq!(written("drops_after_start", 0.0), pair("drops after start", "0"));
        assert_eq!(written("drops", 7.0), pair("drops", "7"));
        let unit = AxisUnit::of("goodput_bps", 94e6);
        assert_eq!(
            [2.25e6, 47e3, 0.0].map(|half| unit.write_half_width(94e6, half)),
            ["2.2", "<0.1", "0.0"]
        );
        // A mean far below the others has three digits, and its interval the same places.
        assert_eq!(
            (unit.write(12e3), unit.write_half_width(12e3, 2e3)),
            ("0.0120".into(), "0.0020".into())
        );
        assert_eq!(AxisUnit::of("completion_mean_s", 39.5).write(-0.001), "0.0");
        assert_eq!(AxisUnit::of("completion_mean_s", 0.0).write(0.0), "0.000000");
        assert_eq!(written("timeouts", 12.0), pair("timeouts", "12"));
        // As `format::size` writes them.
        for (largest, axis) in [(0.0, "x, B"), (65e3, "x, kB"), (2e6, "x, MB"), (3e11, "x, GB")] {
            assert_eq!(AxisUnit::bytes("x", largest).axis, axis);
        }
    }
}
