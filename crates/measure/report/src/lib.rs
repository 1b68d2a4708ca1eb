// SPDX-License-Identifier: GPL-2.0-or-later
//! Records to one self-contained HTML page, to figures, and to one long table.
//!
//! ```text
//! records ─ run ─► group (scenario title) ─► cells (point x variant x client) ─► page
//!            └─ traces (downsampled) ──────► JSON in the page ─► assets/report.js draws with uPlot
//! records ─ figure (one metric over a swept key) ─► SVG, or a table
//! records ─ link_figure (a link's bins and a window in the course of time) ─► SVG, or a table
//! records ─ time_figure (windows, round trips, rates or queues over time) ─► SVG, or a table
//! records ─ compare (which differences are more than chance) ─► a table, a page, and figures
//! records ─ metrics_table (every metric of every run) ─► CSV, or Parquet
//! a link's bins, gaps and bursts ─ monitor_picture ──► SVG
//! a congestion control alone ─ congestion_picture ───► SVG
//! transfers of packet captures ─ growth_picture ─────► SVG
//! connections of packet captures ─ capture_page ─────► page
//! ```
//! Each of these only says what stands in which panels on which axes; `chart` draws it.
//!
//! Text, tables and dot strips are made here and need no script; the charts are drawn in the
//! browser. The rules:
//!
//! - The page makes no request: styles, script, chart library and data are in it, and its content
//!   security policy forbids the rest.
//! - Every text from a record is escaped (by maud in the HTML, by `page` in the JSON).
//! - A run that does not count is shown, in red and with its reasons, and is in no median.
//! - The same records give the same page: no clock, no randomness.

mod axis_unit;
mod binned_rate;
mod capacity;
mod capture_page;
mod chart;
pub mod compare;
pub mod congestion_picture;
mod distinct;
mod distribution;
mod document;
mod error;
mod figure;
pub mod format;
mod growth_picture;
mod headline;
mod link_figure;
mod metric;
mod metrics_table;
mod monitor_picture;
mod ordered_runs;
mod page;
mod png;
mod run;
mod scenario_runs;
mod score_card;
mod simplified;
mod start;
#[cfg(test)]
mod svg_reader;
mod sweep_chart;
mod swept_value;
#[cfg(test)]
mod testing;
mod time_figure;
mod traces;
mod warm_up;

pub use capture_page::{CapturePage, CapturedFile};
pub use chart::palette::{ColourBy, LineKey};
pub use distribution::BoxSummary;
pub use error::Error;
pub use figure::{
    Bars, Figure, FigureForm, FigureQuery, Overlay, Panel as FigurePanel, Point as FigurePoint,
    suited_metric,
};
pub use growth_picture::{GrowthForm, MOST_GROUPS, growth_svg};
pub use link_figure::{LinkFigure, LinkFigureQuery, LinkPanel, LinkStatistics};
pub use metrics_table::{LongTable, MetricsTable};
pub use monitor_picture::{HistogramBar, MonitorPicture};
pub use png::png;
pub use score_card::{score_card_page, written_score};
pub use time_figure::{OverTime, TimeFigure, TimeFigureQuery, TimeLine, TimePanel};

use record::Record;
use std::{fs, path::Path};

/// What a page was made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrittenReport {
    /// Records read.
    pub runs: usize,
    /// Those that do not count.
    pub invalid: usize,
    /// Scenarios that they are of.
    pub scenarios: usize,
    /// The page's size in bytes.
    pub page_bytes: usize,
}

/// Reads all records at and below `dir` and writes one HTML page to `out`.
///
/// # Errors
/// There is no record, one cannot be read, or the page cannot be written.
pub fn write(dir: &Path, out: &Path) -> Result<WrittenReport, Error> {
    let folders = record::find_records(dir)?;
    let results = folders.iter().map(|folder| Record::results(folder));
    let results = results.collect::<Result<Vec<_>, _>>()?;
    let most_bins = traces::most_bins(results.iter().map(|of_run| &of_run.summary));
    let mut runs = Vec::new();
    for (folder, results) in folders.iter().zip(results) {
        // One record's series at a time: together they may not fit into memory.
        let series = Record::series(folder)?;
        runs.push(run::Run::new(results, &series, most_bins));
    }
    if runs.is_empty() {
        return Err(Error::Empty(dir.to_owned()));
    }
    let (count, invalid) = (runs.len(), runs.iter().filter(|run| !run.manifest.valid).count());
    let scenarios = scenario_runs::by_scenario(runs);
    let page = page::render(&scenarios);
    fs::write(out, &page).map_err(|source| Error::Write { path: out.to_owned(), source })?;
    let scenarios = scenarios.len();
    Ok(WrittenReport { runs: count, invalid, scenarios, page_bytes: page.len() })
}
