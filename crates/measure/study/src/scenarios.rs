// SPDX-License-Identifier: GPL-2.0-or-later
//! The scenarios of the ledger, in the program, so that it needs no files.

/// Name and text of each.
macro_rules! scenarios {
    ($($name:literal,)+) => {
        &[$(($name, include_str!(concat!("../../../../scenarios/", $name, ".toml")))),+]
    };
}

const SCENARIOS: &[(&str, &str)] = scenarios![
    "000-figure-04",
    "000-figure-05",
    "000-figure-08",
    "000-figure-09",
    "000-figure-10",
    "000-figure-11",
    "000-figure-12",
    "000-figure-13",
    "001-figure-10",
    "001-figure-2",
    "001-figure-6",
    "001-figure-7",
    "001-figure-8",
    "001-figure-9",
    "001-table-3",
    "001-table-3-emulated",
    "001-table-4",
    "001-table-4-emulated",
    "002-figure-2",
    "002-figure-3",
    "002-figure-4",
    "003-figure-05",
    "003-figure-10",
    "003-figure-11",
    "003-figure-28",
    "004-12x1g",
    "004-3000mb",
    "004-latency",
    "004-parallel-streams",
];

/// The text of a scenario.
pub fn text(name: &str) -> Option<&'static str> {
    SCENARIOS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}
