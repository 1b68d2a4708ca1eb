// SPDX-License-Identifier: GPL-2.0-or-later
//! How variants and points are named and coloured.

use crate::scenario_runs::{Cell, ScenarioRuns};
use maud::{Markup, html};

/// The colours for variants in `assets/report.css`, after which they start again.
pub(super) const COLOURS: usize = 8;

/// The class that gives an element its variant's colour.
pub(super) fn colour_class(group: &ScenarioRuns, cell: &Cell) -> String {
    format!("variant-{}", group.variant(cell).colour % COLOURS)
}

/// "two depots, CUBIC" with its colour, for tables.
pub(super) fn variant_label(group: &ScenarioRuns, cell: &Cell) -> Markup {
    html! {
        span.variant.(colour_class(group, cell)) { (group.variant(cell).label) }
    }
}
