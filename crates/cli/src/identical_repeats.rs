// SPDX-License-Identifier: GPL-2.0-or-later
//! Warns of repeats that are one and the same run: they look like a certain result, and are one measurement.

use record::{
    RunResults,
    manifest::point_text,
    repeats::{self, RepeatKey},
};

/// Prints a warning for each point and variant whose repeats have results that are equal to the last digit.
pub fn warn_of_identical(records: &[RunResults]) {
    let identical = repeats::identical(records).into_iter();
    let mut warnings: Vec<_> = identical.map(|(key, repeats)| (key_text(&key), repeats)).collect();
    warnings.sort();
    for (what, repeats) in warnings {
        eprintln!(
            "warning: the {repeats} repeats{what} are one and the same run, and count as one: nothing \
             that happens there is drawn by the seed"
        );
    }
}

/// Variant and point, as in ` of variant "direct" at rtt=20ms`.
fn key_text(key: &RepeatKey) -> String {
    let variant = key.variant.as_ref().map(|variant| format!(" of variant \"{variant}\""));
    let point = Some(point_text(&key.point)).filter(|point| !point.is_empty());
    variant.unwrap_or_default() + &point.map_or_else(String::new, |point| format!(" at {point}"))
}
