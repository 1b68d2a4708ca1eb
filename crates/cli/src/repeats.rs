// SPDX-License-Identifier: GPL-2.0-or-later
//! Warns of repeats that are one and the same run: they look like a certain result, and are one measurement.

use record::{
    RunResults,
    manifest::point_text,
    repeats::{self, RepeatKey},
};

/// Prints a warning for each point and way whose repeats have results that are equal to the last digit.
pub fn warn_of_identical(records: &[RunResults]) {
    let identical = repeats::identical(records).into_iter();
    let mut warnings: Vec<_> = identical.map(|(key, repeats)| (of_what(&key), repeats)).collect();
    warnings.sort();
    for (what, repeats) in warnings {
        eprintln!(
            "warning: the {repeats} repeats{what} are one and the same run, and count as one: nothing \
             that happens there is drawn by the seed"
        );
    }
}

/// Way and point, as in ` of way "direct" at rtt=20ms`.
fn of_what(key: &RepeatKey) -> String {
    let way = key.way.as_ref().map(|way| format!(" of way \"{way}\""));
    let point = Some(point_text(&key.point)).filter(|point| !point.is_empty());
    way.unwrap_or_default() + &point.map_or_else(String::new, |point| format!(" at {point}"))
}
