// SPDX-License-Identifier: GPL-2.0-or-later
//! Warns about repeats with identical results: together they are one measurement, but look like several.

use record::{
    RunResults,
    manifest::point_text,
    repeats::{self, RepeatKey},
};

/// Prints a warning for each point and variant whose repeats have results that are equal in every digit.
pub fn warn_of_identical(records: &[RunResults]) {
    let identical = repeats::identical(records).into_iter();
    let mut warnings: Vec<_> = identical.map(|(key, repeats)| (key_text(&key), repeats)).collect();
    warnings.sort();
    for (what, repeats) in warnings {
        errln!(
            "warning: the {repeats} repeats{what} give identical results and are one measurement: nothing in \
             the scenario depends on the seed. Let repeats differ: --set vary=true"
        );
    }
}

/// Variant and point, as in ` of variant "direct" at rtt=20ms`.
fn key_text(key: &RepeatKey) -> String {
    let variant = key.variant.as_ref().map(|variant| format!(" of variant \"{variant}\""));
    let point = Some(point_text(&key.point)).filter(|point| !point.is_empty());
    variant.unwrap_or_default() + &point.map_or_else(String::new, |point| format!(" at {point}"))
}
