// SPDX-License-Identifier: GPL-2.0-or-later
//! Records compared by method, congestion control, version, variant or directory: which differences are more than chance.
//!
//! ```text
//! directories ─ compared_runs (valid runs, each on a side) ─► cells (equal parameters)
//!    ─► comparison (each metric of each pair of sides: difference) ─► table, JSON, CSV, Parquet, page
//! ```
//! Runs of different parameters are never put together. What cannot be compared is refused with its cause and remedy.

mod cells;
mod compared_by;
mod compared_runs;
mod comparison;
mod comparison_figure;
mod difference;
mod figures;
mod output;
mod page;
#[cfg(test)]
mod tests;
mod timeline;

pub use compared_by::ComparedBy;
pub use comparison::{ComparedCell, Comparison, ComparisonQuery};
pub use difference::{Difference, Estimate, SIGNIFICANCE, Test, Verdict, written_p};
pub use output::{WrittenComparison, write};
